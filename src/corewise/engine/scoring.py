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
from numpy.typing import NDArray

from corewise.amplification import Column
from corewise.engine.amplified_cpu import needed_on, owned_on
from corewise.engine.framework import BEST_SCORE
from corewise.engine.nodes import CPU, MEMORY
from corewise.engine.pods import PodFacts
from corewise.engine.snapshot import ClusterSnapshot


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
        share = self._share(snapshot.cpu_room - needed, CPU, snapshot)
        share += self._share(snapshot.free[MEMORY] - pod.requests.get(MEMORY, 0), MEMORY, snapshot)
        return (share * 0.5).astype(np.int64)

    def _share(self, left: Column, resource: str, snapshot: ClusterSnapshot) -> NDArray[np.float64]:
        """Return the share that is left, or taken, in whole hundredths."""
        counted = left if self.allocation is Allocation.LEAST else snapshot.allocatable[resource] - left
        share: NDArray[np.float64] = np.multiply(counted, BEST_SCORE, dtype=np.float64)
        share /= snapshot.divisors[resource]
        np.maximum(share, 0.0, out=share)
        np.minimum(share, float(BEST_SCORE), out=share)
        np.floor(share, out=share)
        return share
