"""The cache that a pod takes from the pods on a node: how many points of its score that node loses by it.

A position counts what the pod suffers. A pod that streams through memory suffers little from losing its cache
and takes that of others, so without this it would go to those that mind most. What these lose is counted in
the points that they would lose themselves:

    displaced = LLC of the pod's profile / LLC of the node, at most 1
    minded    = sum over the pods there of affinity to llc_occupancy and to llc_mpki, at most 400
    deduction = points[1] x displaced x minded

| nothing is lost where                 | since                                                  |
|---------------------------------------|--------------------------------------------------------|
| the pod's profile has no ``llc``      | it takes no cache                                      |
| the LLC of the node is unknown        | it is unknown how much of that the pod takes           |
| no pod of a known type has affinities | of pods without a profile it is unknown what they mind |

400 is what two pods mind that depend on their cache as much as pods can. Bandwidth, memory and CPU need no
deduction: filter and requests keep these for the pods that are there, and nothing keeps cache.

Sums of affinities are whole numbers that follow each pod that comes or goes, so they are exact, and a
decision reads one column however many pods there are.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from corewise.config.interference.metrics import Metric
from corewise.config.interference.model import AffinityPoints
from corewise.interference.pressure import Values

MOST_MINDED = 400.0
"""Affinities of 100 to both metrics of the cache, of two pods."""
_FIRST_ROOM = 64


def cache_affinity(affinity: AffinityPoints) -> int:
    """Return the sum of a pod's affinities to its cache."""
    return affinity[Metric.LLC_OCCUPANCY] + affinity[Metric.LLC_MPKI]


@dataclass(slots=True)
class Neighbors:
    """The cache affinities of pods, by the caller's key and the row of their node.

    ``version`` changes when a pod comes or goes that has any.
    """

    version: int = 0
    _pods: dict[str, tuple[int, int]] = field(default_factory=dict)
    _sums: Values = field(default_factory=lambda: np.zeros(_FIRST_ROOM))

    def put(self, pod: str, row: int, affinity: int) -> None:
        """Count a pod on a node, as it is and no longer as it was."""
        if self._pods.get(pod) == (row, affinity):
            return
        self.remove(pod)
        if not affinity:
            return
        if row >= len(self._sums):
            self._sums = np.pad(self._sums, (0, max(row + 1 - len(self._sums), len(self._sums))))
        self._pods[pod] = row, affinity
        self._sums[row] += affinity
        self.version += 1

    def remove(self, pod: str) -> None:
        """Count a pod no more."""
        found = self._pods.pop(pod, None)
        if found is not None:
            row, affinity = found
            self._sums[row] -= affinity
            self.version += 1

    def at(self, size: int) -> Values:
        """Return the sum on each of the first ``size`` nodes, at most 400; it is unmoved by later changes."""
        minded = np.zeros(size)
        known = self._sums[:size]
        np.minimum(known, MOST_MINDED, out=minded[: len(known)])
        return minded


def displaced(llc: int, capacity: Values) -> Values:
    """Return the share of each node's cache that a pod takes, 0 to 1; NaN where ``capacity`` is, unknown."""
    taken: Values = llc / capacity
    return np.minimum(taken, 1.0, out=taken)


def deductions(llc: int, minded: Values, capacity: Values, first: float) -> Values:
    """Return the points that each node loses; ``first``: those of the first position."""
    lost = displaced(llc, capacity)
    lost *= minded
    lost *= first
    return np.fmax(lost, 0.0, out=lost)  # NaN becomes 0: nothing is deducted where it is unknown
