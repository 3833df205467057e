"""The decision about memory bandwidth and cache as a table: a row for each node, positions with points."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from corewise.cli.interference_decision import Decision, missing_of
from corewise.cli.output import Column, Listing, Severity
from corewise.config.interference import Metric
from corewise.interference import Inequality, plain

_TITLES = {
    Metric.MEMORY_BANDWIDTH: "BANDWIDTH",
    Metric.MEMORY_LATENCY: "LATENCY",
    Metric.LLC_OCCUPANCY: "OCCUPANCY",
    Metric.LLC_MPKI: "MPKI",
    Metric.CPU: "CPU",
}
_GIGA = 10**9
_MEGA = 10**6


def heading_of(decision: Decision) -> str:
    """Return what is decided about, in lines before the table."""
    affinity = decision.selected.affinity
    exempt = "; of a DaemonSet, so not filtered" if decision.pod.exempt else ""
    weights = ", ".join(f"{metric} {affinity[metric]}" for metric in Metric)
    return (
        f"{decision.pod.name}: profile {decision.selected.name}{exempt}\n"
        f"  {_needs(decision)}\n"
        f"  affinities {weights}\n"
        f"  a score of 100 is {plain(decision.ranked.scores.best)} raw\n"
    )


def _needs(decision: Decision) -> str:
    """Return what the filter asks for; of what the profile needs nothing of, it does not ask."""
    profile, filtered = decision.selected.profile, decision.filtered
    asked = [
        (inequality.right / _GIGA, amount / _GIGA, unit)
        for inequality, amount, unit in (
            (filtered.bandwidth, profile.memory_bandwidth, "GB/s"),
            (filtered.memory, profile.memory, "GB"),
        )
        if inequality.asked
    ]
    if not asked:
        return "needs neither memory bandwidth nor memory, so every node passes"
    needed = " and ".join(f"{right:g} {unit}" for right, _, unit in asked)
    used = ", ".join(f"{amount:g} {unit}" for _, amount, unit in asked)
    return f"needs more than {needed} free ({float(decision.config.overprovisioning):g} x {used})"


def listing_of(decision: Decision) -> Listing[int]:
    """Return the table; a position stands with its points in brackets."""
    columns: list[Column[int]] = [
        Column("NODE", lambda row: decision.nodes[row].name),
        Column("FILTER", lambda row: _verdict(decision, row), severity=lambda row: _severity(decision, row)),
        _side("GB/s FREE > NEEDED", decision.filtered.bandwidth),
        _side("GB FREE > NEEDED", decision.filtered.memory),
        *(Column(_TITLES[metric], _position(decision, metric), right=True) for metric in Metric),
        Column("RAW", lambda row: _scored(decision, row, decision.ranked.scores.raw[row]), right=True),
        Column(
            "SCORE", lambda row: _scored(decision, row, decision.ranked.scores.normalized[row]), right=True
        ),
        *(
            Column(f"{_TITLES[metric]} VALUE", _value(decision, metric), right=True, wide=True)
            for metric in Metric
        ),
        Column("MISSING", lambda row: _missing(decision, row), wide=True),
    ]
    rows = range(len(decision.nodes))
    return Listing(columns, rows, (), name=lambda row: decision.nodes[row].name)


def _verdict(decision: Decision, row: int) -> str:
    return ",".join(decision.reasons(row)) or "passes"


def _severity(decision: Decision, row: int) -> Severity | None:
    return None if decision.passes[row] else Severity.WARNING


def _side(title: str, inequality: Inequality) -> Column[int]:
    def text(row: int) -> str:
        if not inequality.asked:
            return "not asked"
        left = "?" if inequality.missing[row] else f"{inequality.left[row] / _GIGA:.6g}"
        sign = ">" if inequality.passes[row] else "<="
        return f"{left} {'?' if inequality.missing[row] else sign} {inequality.right / _GIGA:.6g}"

    return Column(title, text, right=True)


def _position(decision: Decision, metric: Metric) -> Callable[[int], str]:
    def text(row: int) -> str:
        position = int(decision.ranked.positions[metric][row])
        return f"{position} ({decision.ranked.points[metric][row]:.4g})" if position else "-"

    return text


def _scored(decision: Decision, row: int, value: float) -> str:
    return f"{value:.6g}" if decision.passes[row] else "-"


def _value(decision: Decision, metric: Metric) -> Callable[[int], str]:
    printed = _ratio if metric in decision.outlook.relative else _PRINTED[metric]

    def text(row: int) -> str:
        value = float(decision.outlook.values[metric][row])
        return "-" if math.isnan(value) else printed(value)

    return text


def _ratio(value: float) -> str:
    return f"{value:.3f}"


_PRINTED: Mapping[Metric, Callable[[float], str]] = {
    Metric.MEMORY_BANDWIDTH: lambda value: f"{value / _GIGA:.4g} GB/s free",
    Metric.MEMORY_LATENCY: lambda value: f"{value * _GIGA:.4g} ns",
    Metric.LLC_OCCUPANCY: lambda value: f"{value / _MEGA:.4g} MB",
    Metric.LLC_MPKI: lambda value: f"{value:.4g}",
    Metric.CPU: lambda value: f"{value * 100:.1f}%",
}


def _missing(decision: Decision, row: int) -> str:
    return ", ".join(missing_of(decision, row))
