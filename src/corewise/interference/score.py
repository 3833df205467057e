"""The score of a node: points of its positions, each times how heavily the metric weighs on the pod.

    raw        = sum over metrics of affinity x points[position]
    normalized = raw x 100 / (points[1] x sum of affinities), to the nearest whole number, 0..100

Only the nodes handed in are ranked: those that passed the filters. Of a metric that none of them has, the
affinity leaves the sum below; where that sum is 0, everything scores 0. In the seed's example positions 3, 2,
1, 4, 2 with affinities 60, 60, 0, 0, 50 and points 10, 5, 1 give 610 of 1700, which is 36.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corewise.config.interference import Affinity, InterferenceConfiguration, Metric
from corewise.config.interference.model import LINEAR_BEST
from corewise.interference.outlook import Outlook
from corewise.interference.pressure import Flags, Values
from corewise.interference.ranking import Positions, award, positions, worth

_HUNDRED = 100.0


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """For every node, those not handed in having 0. ``best`` is the raw score that 100 stands for."""

    raw: Values
    normalized: NDArray[np.int64]
    best: float


@dataclass(frozen=True, slots=True, eq=False)
class Ranked:
    """A score with all positions and points that made it."""

    positions: Mapping[Metric, Positions]
    points: Mapping[Metric, Values]
    scores: Scores


def score_nodes(
    nodes: Outlook, affinity: Affinity, config: InterferenceConfiguration, among: Flags
) -> Scores:
    """Return the scores of the nodes ``among``; metrics of affinity 0 are not looked at."""
    points = {
        metric: award(
            np.where(among, nodes.best_high[metric], np.nan),
            config.metrics.rankings[metric].tolerance,
            config.points,
        )
        for metric in Metric
        if affinity[metric]
    }
    return _scores(nodes, affinity, config, points, among)


def rank_nodes(nodes: Outlook, affinity: Affinity, config: InterferenceConfiguration, among: Flags) -> Ranked:
    """Return the same scores with every metric's positions and points."""
    found = {
        metric: positions(
            np.where(among, nodes.best_high[metric], np.nan), config.metrics.rankings[metric].tolerance
        )
        for metric in Metric
    }
    points = {metric: worth(each, config.points) for metric, each in found.items()}
    return Ranked(found, points, _scores(nodes, affinity, config, points, among))


def _scores(
    nodes: Outlook,
    affinity: Affinity,
    config: InterferenceConfiguration,
    points: Mapping[Metric, Values],
    among: Flags,
) -> Scores:
    raw = np.zeros(nodes.size)
    weight = 0
    for metric, column in points.items():
        raw += affinity[metric] * column
        if not np.isnan(nodes.best_high[metric][among]).all():
            weight += affinity[metric]
    best = weight * (LINEAR_BEST if config.points is None else config.points[0])
    share = np.rint(raw * _HUNDRED / best) if best > 0 else np.zeros(nodes.size)
    return Scores(raw, share.astype(np.int64), best)
