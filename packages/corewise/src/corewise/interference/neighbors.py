"""What a pod does to the caches of the pods on a node: what the score of that node loses by it.

A position counts what the pod suffers. A pod that streams through memory suffers little from losing its cache
and takes that of others, so without this it would go to those that mind most. The loss is theirs, in the
points that they would lose themselves:

    displaced = llc of the pod / LLC of the node, at most 1
    deduction = points[1] x displaced x sum over its pods of affinity to llc_occupancy and to llc_mpki

Its pods are those of known types: of others it is unknown what they mind. A node whose LLC is unknown counts
as one that its pods and this one fill. Bandwidth, memory and CPU need no such deduction: the filter and the
requests keep enough of these for the pods that are there, and nothing keeps cache.

Sums are whole numbers that follow each pod that comes or goes, so they are exact, and a decision reads two
columns however many pods there are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from corewise.config.interference.metrics import Metric
from corewise.config.interference.model import AffinityPoints, Profile
from corewise.interference.pressure import Flags, Values

Sums: TypeAlias = NDArray[np.int64]
_FIRST_ROOM = 64


class CacheStake(NamedTuple):
    """The bytes that a pod keeps in the cache, and how much it minds losing them: a sum of affinities."""

    llc: int
    affinity: int


def stake_of(profile: Profile, affinity: AffinityPoints) -> CacheStake | None:
    """Return the stake of a pod of a type; None if it has none."""
    stake = CacheStake(profile.llc, affinity[Metric.LLC_OCCUPANCY] + affinity[Metric.LLC_MPKI])
    return stake if any(stake) else None


@dataclass(frozen=True, slots=True, eq=False)
class CacheStakes:
    """Columns over nodes: the sums of their pods' stakes."""

    llc: Values
    affinity: Values

    @classmethod
    def none(cls, size: int) -> CacheStakes:
        return cls(*np.zeros((2, size)))


@dataclass(slots=True)
class Neighbors:
    """The stakes of the pods of nodes, by the caller's key and the row of their node.

    ``version`` changes when a pod with a stake comes or goes.
    """

    version: int = 0
    _pods: dict[str, tuple[int, CacheStake]] = field(default_factory=dict)
    _sums: Sums = field(default_factory=lambda: np.zeros((2, _FIRST_ROOM), dtype=np.int64))

    def put(self, pod: str, row: int, stake: CacheStake | None) -> None:
        """Count a pod on a node, as it is and no longer as it was; None: it has no stake."""
        if self._pods.get(pod) == (row, stake):
            return
        self.remove(pod)
        if stake is None:
            return
        room = self._sums.shape[1]
        if row >= room:
            more = max(row + 1 - room, room)
            self._sums = np.pad(self._sums, ((0, 0), (0, more)))
        self._pods[pod] = row, stake
        self._sums[:, row] += stake
        self.version += 1

    def remove(self, pod: str) -> None:
        """Count a pod no more."""
        found = self._pods.pop(pod, None)
        if found is not None:
            row, stake = found
            self._sums[:, row] -= stake
            self.version += 1

    def at(self, size: int) -> CacheStakes:
        """Return the sums of the first ``size`` nodes, unmoved by later changes."""
        sums = self._sums[:, :size].astype(np.float64)
        more = size - sums.shape[1]
        if more > 0:
            sums = np.pad(sums, ((0, 0), (0, more)))
        return CacheStakes(*sums)


def displaced(llc: int, there: CacheStakes, capacity: Values) -> Values:
    """Return the share of each node's cache that a pod takes, 0 to 1; of ``capacity`` NaN is unknown."""
    if not llc:
        return np.zeros(len(capacity))
    unknown = np.isnan(capacity)
    if unknown.any():
        filled = there.llc + llc
        capacity = filled if unknown.all() else np.where(unknown, filled, capacity)
    taken: Values = llc / capacity
    return np.minimum(taken, 1.0, out=taken)


def deductions(llc: int, there: CacheStakes, capacity: Values, first: float, among: Flags) -> Values:
    """Return the loss of the pods of each node ``among``; 0 for the others. ``first``: the first points."""
    lost = displaced(llc, there, capacity)
    if llc:
        lost *= there.affinity
        lost *= first
        lost *= among
    return lost
