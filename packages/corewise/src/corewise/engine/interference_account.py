"""Explanation of a decision about interference: both sides of the filter, values, ages, positions.

Nothing is computed before somebody asks; then all nodes are ranked once more, with their positions. At the
end: the causes of refusals, in words with their numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from corewise.amplification.numa import BoolColumn
from corewise.config.interference.amounts import bytes_text
from corewise.config.interference.metrics import RANKED, Metric
from corewise.config.interference.model import InterferenceConfiguration
from corewise.engine.framework import Cause, Inputs
from corewise.engine.table import Measures
from corewise.interference.filtering import FilterVerdicts, Selected, filter_nodes
from corewise.interference.outlook import Outlook
from corewise.interference.score import Ranked, node_record, plain, points_text, rank_nodes
from corewise.vocabulary.reasons import Reason

_SIDES = (
    ("memorybandwidth", "bandwidth", "/s", "memorybandwidth_used"),
    ("memory", "memory", "", "memory_available"),
)
_AGED = dict.fromkeys((*(metric.column for metric in RANKED), *(column for *_, column in _SIDES)))


class InterferenceAccount:
    """One decision about one pod. ``sampled`` are the Unix times of the values, by column of the pressure."""

    def __init__(
        self,
        selected: Selected,
        configuration: InterferenceConfiguration,
        nodes: Outlook,
        among: BoolColumn,
        *,
        sampled: Mapping[str, Measures],
        now: float,
        exempt: bool,
    ) -> None:
        self._selected = selected
        self._configuration = configuration
        self._nodes = nodes
        self._among = among
        self._sampled = sampled
        self._now = now
        self._is_exempt = exempt
        self._ranked: Ranked | None = None
        self._both: FilterVerdicts | None = None

    def detached(self) -> InterferenceAccount:
        """Return itself: nothing that it was made from changes."""
        return self

    def of(self, row: int) -> dict[str, Any]:
        """Return the explanation of one node, by the names of ``corewise explain interference``.

        ``ages`` are those of the values in seconds, by column of the pressure.
        """
        configuration, ranked = self._configuration, self._ranking()
        scored = bool(self._among[row])
        return {
            "profile": self._selected.name,
            "affinity": {metric.value: self._selected.affinity[metric] for metric in RANKED},
            "exempt": self._is_exempt,
            "relative": sorted(self._nodes.relative),
            "predicted": sorted(configuration.predicted),
            "normalizer": plain(ranked.scores.best),
            **node_record(self._nodes, self._inequalities(), ranked, row, scored=scored),
            "ages": {column: self._age(column, row) for column in _AGED},
        }

    def lines(self, row: int) -> Iterator[tuple[str, str]]:
        """Yield the same for people: a heading and a text."""
        record = self.of(row)
        for name, title, per, column in _SIDES:
            side, age = record["filter"][name], record["ages"][column]
            yield title, _inequality_text(side, age, per, exempt=record["exempt"])
        for metric in RANKED:
            yield metric.value, _metric_text(metric, record)
        if record["raw"] is not None:
            if record["neighbors"]["minded"] and self._selected.profile.llc:
                yield "neighbors", _neighbors_text(record["neighbors"])
            yield "points", _points_text(record)

    def _inequalities(self) -> FilterVerdicts:
        if self._both is None:
            self._both = filter_nodes(self._nodes, self._selected, self._configuration)
        return self._both

    def _ranking(self) -> Ranked:
        if self._ranked is None:
            self._ranked = rank_nodes(
                self._nodes,
                self._selected.affinity,
                self._configuration,
                self._among,
                self._selected.profile.llc,
            )
        return self._ranked

    def _age(self, column: str, row: int) -> float | None:
        sampled = self._sampled.get(column)
        if sampled is None or math.isnan(sampled[row]):
            return None
        return round(self._now - float(sampled[row]), 1)


def _inequality_text(side: Mapping[str, Any], age: float | None, per: str, *, exempt: bool) -> str:
    if not side["right"]:
        return "nothing is needed"
    left = "unknown" if side["left"] is None else bytes_text(side["left"], per)
    verdict = "not checked for a pod of a DaemonSet" if exempt else "passes" if side["passes"] else "refused"
    known = [
        f"{name} {bytes_text(side[name], per)}"
        for name in ("capacity", "used", "available", "counterweights")
        if side.get(name) is not None
    ]
    old = "" if age is None else f", {age:g} s old"
    return f"{left} > {bytes_text(side['right'], per)}: {verdict} ({', '.join(known)}{old})"


def _metric_text(metric: Metric, record: Mapping[str, Any]) -> str:
    found, age = record["values"][metric], record["ages"][metric.column]
    position, points = record["positions"][metric], record["points"][metric]
    if found is None:
        value = "missing" if age is None else f"too old ({age:g} s)"
    else:
        value = metric.spec.text(found, relative=metric in record["relative"])
        value += "" if age is None else f", {age:g} s old"
    if position is None:
        return f"{value}; not ranked"
    return f"{value}; position {position}: {points:g} points x affinity {record['affinity'][metric]}"


def _neighbors_text(neighbors: Mapping[str, Any]) -> str:
    if neighbors["displaced"] is None:
        return "the size of the cache is unknown: no points less"
    taken = f"takes {neighbors['displaced']:.1%} of the cache"
    minded = f"the pods there have affinities of {neighbors['minded']} to it"
    return f"{taken}, {minded}: {points_text(neighbors['deduction'])} points less"


def _points_text(record: Mapping[str, Any]) -> str:
    net, best = points_text(record["raw"]), points_text(record["normalizer"])
    if record["neighbors"]["deduction"]:
        net += f" - {points_text(record['neighbors']['deduction'])}"
    return f"{net} of {best} by profile {record['profile']}: {record['normalized']} of 100"


def _short_of_bandwidth(numbers: Inputs) -> str:
    free, needed = bytes_text(numbers["free_bandwidth"], "/s"), bytes_text(numbers["needed_bandwidth"], "/s")
    parts = ", ".join(
        f"{name.replace('_', ' ')} {bytes_text(numbers[key], '/s')}"
        for name, key in (
            ("capacity", "bandwidth_capacity"),
            ("used", "bandwidth_used"),
            ("pods just placed", "bandwidth_counterweights"),
        )
    )
    return f"needs more than {needed} of free memory bandwidth, {free} is free ({parts})"


def _short_of_memory(numbers: Inputs) -> str:
    free, needed = bytes_text(numbers["free_memory"]), bytes_text(numbers["needed_memory"])
    placed = bytes_text(numbers["memory_counterweights"])
    return f"needs more than {needed} of available memory, {free} is left ({placed} for pods just placed)"


def _unknown_bandwidth(numbers: Inputs) -> str:
    missing = [
        name
        for name, key in (("its capacity", "bandwidth_capacity"), ("what is used", "bandwidth_used"))
        if key not in numbers
    ]
    return f"its free memory bandwidth is unknown: {' and '.join(missing)} is missing or too old"


SHORT_OF_BANDWIDTH = Cause(
    Reason.MEMORY_BANDWIDTH_INSUFFICIENT, "Insufficient free memory bandwidth", message=_short_of_bandwidth
)
SHORT_OF_MEMORY = Cause(
    Reason.MEMORY_AVAILABLE_INSUFFICIENT, "Insufficient available memory", message=_short_of_memory
)
UNKNOWN_BANDWIDTH = Cause(
    Reason.PRESSURE_UNKNOWN, "free memory bandwidth unknown", unresolvable=True, message=_unknown_bandwidth
)
UNKNOWN_MEMORY = Cause(
    Reason.PRESSURE_UNKNOWN, "its available memory is unknown: missing or too old", unresolvable=True
)
