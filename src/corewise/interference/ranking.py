"""Positions of nodes by one metric, and the points that positions are worth.

Nodes sorted best first fall into groups: the best node that is in none yet starts one, and those within the
tolerance of it, relative to its value, join. A position is 1 + the number of nodes in better groups, so that
ties share the better points. The order in which nodes are given makes no difference.

A tolerance of 2 % takes in 102 ns beside 100 ns: the bound is widened by one part in 10^9 of itself, since
binary fractions don't hold such numbers exactly. A tolerance of 0 takes in equal values only.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from corewise.config.interference.model import LINEAR_BEST
from corewise.interference.pressure import Values

Positions: TypeAlias = NDArray[np.int64]
"""1 is best; 0 is not ranked."""

_SLACK = 1 + 1e-9
_LONGEST_PEELED = 16
"""With more points than this, sorting once is faster than looking for the best again and again."""


def positions(best_high: Values, tolerance: float) -> Positions:
    """Return the position of every node that has a value; more is better."""
    best_first = np.argsort(-best_high)[: np.count_nonzero(~np.isnan(best_high))]
    found = np.zeros(len(best_high), dtype=np.int64)
    if len(best_first):
        starts = np.array(_group_starts(-best_high[best_first], tolerance))
        found[best_first] = np.repeat(starts + 1, np.diff(starts, append=len(best_first)))
    return found


def _group_starts(ascending: Values, tolerance: float) -> list[int]:
    """Return the index of each group's first node, in values sorted best (least) first."""
    after = np.searchsorted(ascending, -_bound(-ascending, tolerance), side="right").tolist()
    starts = [0]
    while after[starts[-1]] < len(after):
        starts.append(after[starts[-1]])
    return starts


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


def worth(found: Positions, points: tuple[float, ...] | None) -> Values:
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
