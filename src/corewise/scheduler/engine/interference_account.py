"""What there is to tell of a decision about interference: both sides of the filter, values, ages, positions.

Nothing is computed before somebody asks; then all nodes are ranked once more, with their positions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from corewise.amplification import Flags
from corewise.interference import Filtered, Outlook, Ranked, Selected, filter_nodes, rank_nodes
from corewise.policy.interference import InterferenceConfiguration, LatencyModel, Metric
from corewise.scheduler.engine.pressure import COLUMN_OF_METRIC
from corewise.scheduler.engine.table import Measures

_PREFIXES = ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k"))
_UNITS = {
    Metric.MEMORY_BANDWIDTH: "bytes/s free",
    Metric.MEMORY_LATENCY: "seconds",
    Metric.LLC_OCCUPANCY: "bytes",
    Metric.LLC_MPKI: "misses per 1000 instructions",
    Metric.CPU: "share in use",
}
_RELATIVE_UNITS = {
    Metric.MEMORY_BANDWIDTH: "share free",
    Metric.MEMORY_LATENCY: "times idle",
    Metric.LLC_OCCUPANCY: "share in use",
}


def amount(number: float, per: str = "") -> str:
    """Return an amount of bytes with a decimal prefix: "9.95 GB", "10 GB/s"."""
    factor, prefix = next((each for each in _PREFIXES if abs(number) >= each[0]), (1, ""))
    return f"{number / factor:.4g} {prefix}B{per}"


class InterferenceAccount:
    """One decision about one pod. ``sampled`` are the Unix times of the values, by column of the pressure."""

    def __init__(
        self,
        selected: Selected,
        configuration: InterferenceConfiguration,
        nodes: Outlook,
        among: Flags,
        *,
        sampled: Mapping[str, Measures],
        now: float,
        filtered: bool,
    ) -> None:
        self._selected = selected
        self._configuration = configuration
        self._nodes = nodes
        self._among = among
        self._sampled = sampled
        self._now = now
        self._is_filtered = filtered
        self._ranked: Ranked | None = None
        self._both: Filtered | None = None

    def detached(self) -> InterferenceAccount:
        """Return itself: nothing that it was made from changes."""
        return self

    def of(self, row: int) -> dict[str, Any]:
        """Return what there is to tell of one node."""
        both = self._inequalities()
        ranked = self._ranking()
        passed = bool(self._among[row])
        return {
            "profile": self._selected.name,
            "filtered": self._is_filtered,
            "memoryBandwidth": self._side(row, "bandwidth", both),
            "memory": self._side(row, "memory", both),
            "metrics": {metric.value: self._metric(metric, row, ranked, passed=passed) for metric in Metric},
            "raw": float(ranked.scores.raw[row]) if passed else None,
            "best": ranked.scores.best,
            "normalized": int(ranked.scores.normalized[row]) if passed else None,
        }

    def lines(self, row: int) -> Iterator[tuple[str, str]]:
        """Yield the same for people: a heading and a text."""
        told = self.of(row)
        for name, title, per in (("memoryBandwidth", "bandwidth", "/s"), ("memory", "memory", "")):
            yield title, _inequality_text(told[name], per)
        for metric in Metric:
            yield metric.value, _metric_text(told["metrics"][metric.value])
        if told["raw"] is not None:
            best = f"{told['best']:g}"
            yield (
                "points",
                f"{told['raw']:g} of {best} by profile {told['profile']}: {told['normalized']} of 100",
            )

    def _inequalities(self) -> Filtered:
        if self._both is None:
            requirement = self._configuration.requirement(self._selected.profile)
            passes = self._configuration.missing_passes
            self._both = filter_nodes(self._nodes, requirement, missing_passes=passes)
        return self._both

    def _ranking(self) -> Ranked:
        if self._ranked is None:
            self._ranked = rank_nodes(self._nodes, self._selected.affinity, self._configuration, self._among)
        return self._ranked

    def _side(self, row: int, which: str, both: Filtered) -> dict[str, Any]:
        pressure, weights = self._nodes.pressure, self._nodes.weights
        each = both.bandwidth if which == "bandwidth" else both.memory
        made_of = (
            {
                "capacity": _known(pressure.memorybandwidth_capacity[row]),
                "used": _known(pressure.memorybandwidth_used[row]),
                "counterweights": float(weights.memory_bandwidth[row]),
                "ageSeconds": self._age("memorybandwidth_used", row),
            }
            if which == "bandwidth"
            else {
                "available": _known(pressure.memory_available[row]),
                "counterweights": float(weights.memory[row]),
                "ageSeconds": self._age("memory_available", row),
            }
        )
        passes = bool(each.passes[row]) or not self._is_filtered
        return {"left": _known(each.left[row]), "right": each.right, "passes": passes, **made_of}

    def _metric(self, metric: Metric, row: int, ranked: Ranked, *, passed: bool) -> dict[str, Any]:
        relative = metric in self._nodes.relative
        curve = metric is Metric.MEMORY_LATENCY and self._configuration.latency_model is LatencyModel.CURVE
        return {
            "value": _known(self._nodes.values[metric][row]),
            "unit": _RELATIVE_UNITS[metric] if relative else _UNITS[metric],
            **({"predicted": True} if curve else {}),
            "ageSeconds": self._age(COLUMN_OF_METRIC[metric], row),
            "position": int(ranked.positions[metric][row]) or None if passed else None,
            "points": float(ranked.points[metric][row]) if passed else None,
            "affinity": self._selected.affinity[metric],
        }

    def _age(self, column: str, row: int) -> float | None:
        sampled = self._sampled.get(column)
        if sampled is None or math.isnan(sampled[row]):
            return None
        return round(self._now - float(sampled[row]), 1)


def _known(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def _inequality_text(side: Mapping[str, Any], per: str) -> str:
    if not side["right"]:
        return "nothing is needed"
    left = "unknown" if side["left"] is None else amount(side["left"], per)
    verdict = "passes" if side["passes"] else "refused"
    known = [
        f"{name} {amount(side[name], per)}"
        for name in ("capacity", "used", "available", "counterweights")
        if side.get(name) is not None
    ]
    age = "" if side["ageSeconds"] is None else f", {side['ageSeconds']:g} s old"
    return f"{left} > {amount(side['right'], per)}: {verdict} ({', '.join(known)}{age})"


def _metric_text(told: Mapping[str, Any]) -> str:
    if told["value"] is None:
        value = "missing" if told["ageSeconds"] is None else f"too old ({told['ageSeconds']:g} s)"
    else:
        value = _value_text(told["value"], told["unit"])
        value += "" if told["ageSeconds"] is None else f", {told['ageSeconds']:g} s old"
    if told["position"] is None:
        return f"{value}; not ranked"
    return f"{value}; position {told['position']}: {told['points']:g} points x affinity {told['affinity']}"


def _value_text(value: float, unit: str) -> str:
    if unit.startswith("bytes"):
        return amount(value, unit.removeprefix("bytes"))
    if unit == "seconds":
        return f"{value * 1e9:.4g} ns"
    return f"{value:.4g} {unit}"
