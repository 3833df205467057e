"""AllocationScore: nodes with much left (LeastAllocated) or little left (MostAllocated) suit a pod best.

    least(resource) = (left after the pod) x 100 / allocatable        0..100, rounded down
    most(resource)  = 100 - the same, before rounding: (allocatable - left) x 100 / allocatable
    score           = mean over cpu and memory, rounded down

Shares are divided as doubles, which is several times faster and rounds down like whole numbers do: of amounts
below 2**46 (64 TiB) no quotient is nearer to a whole number than a double can tell.
Of cpu it is the amplified amounts of AmplifiedCPU, with the pod's owned CPUs amplified.
Source: plugins/noderesources/{least,most}_allocated.go of kube-scheduler.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np

from corewise.amplification import Column
from corewise.scheduler.engine.amplified_cpu import needed_on, owned_on
from corewise.scheduler.engine.framework import BEST_SCORE
from corewise.scheduler.engine.nodes import CPU, MEMORY
from corewise.scheduler.engine.pods import PodFacts
from corewise.scheduler.engine.snapshot import ClusterSnapshot


class Allocation(Enum):
    """Which nodes suit best."""

    LEAST = "LeastAllocated"
    MOST = "MostAllocated"


@dataclass(frozen=True, slots=True)
class AllocationScore:
    """The Score plugin."""

    allocation: Allocation = Allocation.LEAST

    @property
    def name(self) -> str:
        return self.allocation.value

    def score(self, pod: PodFacts, snapshot: ClusterSnapshot, prepared: object) -> Column:
        """Return 0 to 100 for every node."""
        needed = needed_on(pod, owned_on(pod, snapshot), snapshot)
        cpu = self._part(snapshot.cpu_room - needed, snapshot.allocatable[CPU])
        left = snapshot.free[MEMORY] - pod.requests.get(MEMORY, 0)
        return (cpu + self._part(left, snapshot.allocatable[MEMORY])) >> 1

    def _part(self, left: Column, allocatable: Column) -> Column:
        """Return the share that is left, or taken, in hundredths; 0 where nothing is offered."""
        counted = left if self.allocation is Allocation.LEAST else allocatable - left
        share = np.maximum(counted, 0) * BEST_SCORE / np.maximum(allocatable, 1)
        return np.minimum(share, BEST_SCORE).astype(np.int64)
