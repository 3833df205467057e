"""The score of a node: the points of its positions, each times the pod's affinity to the metric.

Only the nodes that passed the filter are ranked. Sorted best first they fall into groups: the best node not
yet in a group starts one, and those within the tolerance of it, relative to its value, join. A position is 1
+ the number of nodes in better groups, so ties share the better points, and the order of the nodes does not
matter. A tolerance of 2 % takes in 102 ns beside 100 ns: the bound is widened by 10^-9 of itself, since
binary fractions do not hold such numbers exactly. A tolerance of 0 takes in equal values only.

    raw        = sum over metrics of affinity x points[position]
    best       = points[1] x sum of affinities
    normalized = (raw - deduction) x 100 / best, to the nearest whole number, 0..100

A deduction is what the pods there would lose of their cache (neighbors.py); a node that loses more than it
has scores 0. So what a node loses changes the score of no other. The affinity to a metric that none of these
nodes has leaves the sum. Where best is 0, the pod suffers nowhere: every score is 0, or, if a node loses
points, raw = best = points[1] x 400 on each.
In the seed's example positions 3, 2, 1, 4, 2 with affinities 60, 60, 0, 0, 50 and points 10, 5, 1 give 610 of
1700, which is 36. MPKI is ranked for each level of cache by itself: each has its own positions from 1 on.

:func:`node_record` is one node's decision as a document, under the names used wherever one is explained.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from corewise.config.interference.metrics import RANKED, Metric
from corewise.config.interference.model import LINEAR_BEST, AffinityPoints, InterferenceConfiguration
from corewise.interference.filtering import FilterVerdicts, Inequality
from corewise.interference.neighbors import MOST_MINDED, deductions, displaced
from corewise.interference.outlook import Outlook
from corewise.interference.pressure import Flags, Values
from corewise.quantities import MILLI

RankPositions: TypeAlias = NDArray[np.int64]
"""1 is best; 0 is not ranked."""

_SLACK = 1 + 1e-9
_LONGEST_PEELED = 16
"""With more points than this, sorting once is faster than looking for the best again and again."""


def positions(best_high: Values, tolerance: float) -> RankPositions:
    """Return the position of every node that has a value; more is better."""
    best_first = np.argsort(-best_high)[: np.count_nonzero(~np.isnan(best_high))]
    found = np.zeros(len(best_high), dtype=np.int64)
    if not len(best_first):
        return found
    ascending = -best_high[best_first]
    after = np.searchsorted(ascending, -_bound(-ascending, tolerance), side="right").tolist()
    starts = [0]  # the index of each group's first node
    while after[starts[-1]] < len(after):
        starts.append(after[starts[-1]])
    first = np.array(starts)
    found[best_first] = np.repeat(first + 1, np.diff(first, append=len(after)))
    return found


def _bound(leader: Values, tolerance: float) -> Values:
    """Return the least value that joins a leader's group."""
    bound: Values = leader - np.abs(leader) * (tolerance * _SLACK)
    return bound


def award(best_high: Values, tolerance: float, points: tuple[float, ...] | None) -> Values:
    """Return the points of every node: those of its position, 0 beyond the list and where it is not ranked.

    ``points`` None is linear: 10 x (N - position) / (N - 1) over the N nodes ranked.
    """
    if points is not None and len(points) <= _LONGEST_PEELED:
        return _peeled(best_high, tolerance, points)
    found = positions(best_high, tolerance)
    return worth(found, points)


def worth(found: RankPositions, points: tuple[float, ...] | None) -> Values:
    """Return the points that positions are worth."""
    if points is None:
        ranked = int((found > 0).sum())
        linear = LINEAR_BEST * (ranked - found) / max(ranked - 1, 1) if ranked > 1 else LINEAR_BEST
        return np.where(found > 0, linear, 0.0)
    padded = np.array([0.0, *points, 0.0])
    return padded[np.minimum(found, len(points) + 1)]


def _peeled(best_high: Values, tolerance: float, points: tuple[float, ...]) -> Values:
    """Take away one group after the other from the best on, until points run out."""
    left = np.where(np.isnan(best_high), -np.inf, best_high)
    won = np.zeros(len(left))
    position = 1
    while len(left) and position <= len(points):
        leader = left.max()
        if leader == -np.inf:
            break
        group = left >= _bound(leader, tolerance)
        won[group] = points[position - 1]
        left[group] = -np.inf
        position += int(group.sum())
    return won


_HUNDRED = 100.0


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """For every node, those not handed in having 0. ``best`` is what 100 stands for, ``-worst`` what 0 does.

    ``deduction``: the points that a node loses, since its pods would lose cache.
    """

    raw: Values
    deduction: Values
    normalized: NDArray[np.int64]
    best: float


@dataclass(frozen=True, slots=True, eq=False)
class Ranked:
    """A score with its positions and points, and the share of each node's cache that the pod takes."""

    positions: Mapping[Metric, RankPositions]
    points: Mapping[Metric, Values]
    displaced: Values
    scores: Scores


def score_nodes(
    nodes: Outlook,
    affinity: AffinityPoints,
    config: InterferenceConfiguration,
    among: Flags,
    llc: int = 0,
) -> Scores:
    """Return the scores of the nodes ``among``; metrics of affinity 0 are not looked at.

    ``llc``: the bytes of cache that the pod takes.
    """
    points = {
        metric: reduce(
            np.add,
            (
                award(column, config.metrics.rankings[metric].tolerance, config.points)
                for column in nodes.ranked_together(metric, among)
            ),
        )
        for metric in RANKED
        if affinity[metric]
    }
    return _scores(nodes, affinity, config, points, among, llc=llc)


def rank_nodes(
    nodes: Outlook,
    affinity: AffinityPoints,
    config: InterferenceConfiguration,
    among: Flags,
    llc: int = 0,
) -> Ranked:
    """Return the same scores with every metric's positions and points."""
    found: dict[Metric, RankPositions] = {}
    points: dict[Metric, Values] = {}
    for metric in RANKED:
        tolerance = config.metrics.rankings[metric].tolerance
        each = [positions(column, tolerance) for column in nodes.ranked_together(metric, among)]
        found[metric] = np.sum(each, axis=0)
        points[metric] = np.sum([worth(one, config.points) for one in each], axis=0)
    taken = displaced(llc, nodes.pressure.llc_capacity)
    return Ranked(found, points, taken, _scores(nodes, affinity, config, points, among, llc=llc))


def _scores(
    nodes: Outlook,
    affinity: AffinityPoints,
    config: InterferenceConfiguration,
    points: Mapping[Metric, Values],
    among: Flags,
    *,
    llc: int,
) -> Scores:
    raw = np.zeros(nodes.size)
    weight = 0
    for metric, column in points.items():
        if column.any():  # the best of the nodes that have a value has points
            raw += affinity[metric] * column
            weight += affinity[metric]
    first = LINEAR_BEST if config.points is None else config.points[0]
    best = weight * first
    net, deduction = raw, np.zeros(nodes.size)
    if llc:
        deduction = deductions(llc, nodes.neighbors, nodes.pressure.llc_capacity, first) * among
    if deduction.any():
        if not best:
            best = first * MOST_MINDED
            raw = np.where(among, best, 0.0)
        net = np.maximum(raw - deduction, 0.0)
    share = np.rint(net * _HUNDRED / best) if best > 0 else np.zeros(nodes.size)
    return Scores(raw, deduction, share.astype(np.int64), best)


def node_record(
    nodes: Outlook, filtered: FilterVerdicts, ranked: Ranked, row: int, *, scored: bool
) -> dict[str, Any]:
    """Return both sides of the filter and what they are made of, values, positions, points and scores."""
    pressure, weights = nodes.pressure, nodes.weights
    return {
        "filter": {
            "memorybandwidth": {
                **_sides(filtered.bandwidth, row),
                "capacity": plain(pressure.memorybandwidth_capacity[row]),
                "used": plain(pressure.memorybandwidth_used[row]),
                "counterweights": plain(weights.memory_bandwidth[row]),
            },
            "memory": {
                **_sides(filtered.memory, row),
                "available": plain(pressure.memory_available[row]),
                "counterweights": plain(weights.memory[row]),
            },
        },
        "values": {metric.value: plain(nodes.values[metric][row]) for metric in RANKED},
        "positions": {metric.value: int(ranked.positions[metric][row]) or None for metric in RANKED},
        "points": {metric.value: plain(ranked.points[metric][row]) if scored else None for metric in RANKED},
        "raw": plain(ranked.scores.raw[row]) if scored else None,
        "neighbors": {
            "minded": int(nodes.neighbors[row]),
            "displaced": plain(ranked.displaced[row]) if scored else None,
            "deduction": plain(ranked.scores.deduction[row]) if scored else None,
        },
        "normalized": int(ranked.scores.normalized[row]) if scored else None,
        "counterweights": {"cpu": plain(weights.cpu[row] / MILLI), "llc": plain(weights.llc[row])},
    }


def _sides(inequality: Inequality, row: int) -> dict[str, Any]:
    return {
        "left": plain(inequality.left[row]),
        "right": plain(inequality.right),
        "missing": bool(inequality.missing[row]),
        "passes": bool(inequality.passes[row]),
    }


def plain(value: float) -> float | int | None:
    """Return a number as JSON has it: whole where it is whole, null where it is missing."""
    number = float(value)
    if math.isnan(number):
        return None
    return int(number) if number.is_integer() else number


def points_text(value: float) -> str:
    """Return points as people read them: to two decimals, and never with an exponent."""
    return str(plain(round(value, 2)))
