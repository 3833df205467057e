"""What is told of one node: a document whose names are the same wherever a decision is explained.

Amounts are in base units, those of metrics that are relative are shares or ratios; null is missing. A node
that was not handed in to the score has neither positions nor points.
"""

from __future__ import annotations

import math
from typing import Any

from corewise.config.interference import Metric
from corewise.interference.filtering import Filtered, Inequality
from corewise.interference.outlook import Outlook
from corewise.interference.score import Ranked

_MILLI = 1000


def node_record(
    nodes: Outlook, filtered: Filtered, ranked: Ranked, row: int, *, scored: bool
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
        "values": {metric.value: plain(nodes.values[metric][row]) for metric in Metric},
        "positions": {metric.value: int(ranked.positions[metric][row]) or None for metric in Metric},
        "points": {metric.value: plain(ranked.points[metric][row]) if scored else None for metric in Metric},
        "raw": plain(ranked.scores.raw[row]) if scored else None,
        "normalized": int(ranked.scores.normalized[row]) if scored else None,
        "counterweights": {"cpu": plain(weights.cpu[row] / _MILLI), "llc": plain(weights.llc[row])},
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
