"""NodePreferences: preferred node affinity, and taints that only prefer that a pod stays away.

    affinity = 100 x weights of the preferred terms that match / the largest sum of any feasible node
    taints   = 100 - 100 x taints PreferNoSchedule that are not tolerated / the largest number of any
    score    = (2 x affinity + 3 x taints) / 5, rounded down: as kube-scheduler weighs the two by default

Source: plugins nodeaffinity and tainttoleration of kube-scheduler.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from corewise.amplification import Column, Flags
from corewise.engine.framework import BEST_SCORE
from corewise.engine.labels import Selection
from corewise.engine.pods import PodFacts
from corewise.engine.snapshot import ClusterSnapshot

PREFERS_NOT = "PreferNoSchedule"
_AFFINITY, _TAINTS = 2, 3
WEIGHT = _AFFINITY + _TAINTS


@dataclass(frozen=True, slots=True)
class NodePreferences:
    """The Score plugin, and what prepares it: both parts are in proportion to the feasible nodes."""

    name: str = "NodePreferences"

    def pre_score(self, pod: PodFacts, snapshot: ClusterSnapshot, feasible: Flags) -> Column:
        """Return the score of every node."""
        affinity, taints = _matching(pod, snapshot), _untolerated(pod, snapshot)
        most, worst = (int(column[feasible].max(initial=0)) for column in (affinity, taints))
        liked = affinity * BEST_SCORE // max(1, most)
        left = BEST_SCORE - taints * BEST_SCORE // max(1, worst)
        score: Column = np.clip((_AFFINITY * liked + _TAINTS * left) // WEIGHT, 0, BEST_SCORE)
        return score

    def score(self, pod: PodFacts, snapshot: ClusterSnapshot, prepared: object) -> Column:
        """Return what was prepared."""
        return prepared if isinstance(prepared, np.ndarray) else snapshot.nowhere()


def _matching(pod: PodFacts, snapshot: ClusterSnapshot) -> Column:
    """Return the weights of the preferred terms that match each node."""
    sums = snapshot.nowhere()
    nodes = Selection(snapshot.labels, snapshot.index, snapshot.size)
    for weight, term in pod.constraints.preferred:
        if term:
            sums += weight * nodes.all_of(term)
    return sums


def _untolerated(pod: PodFacts, snapshot: ClusterSnapshot) -> Column:
    """Return how many taints of each node would rather not have the pod."""
    tolerations = pod.constraints.tolerations
    counts = [
        sum(
            taint.effect == PREFERS_NOT
            and not any(each.tolerates(taint.key, taint.value, taint.effect) for each in tolerations)
            for taint in taints
        )
        for taints in snapshot.taint_sets
    ]
    return np.array(counts, dtype=np.int64)[snapshot.taint_set]
