"""The whole decision about a pod's memory and cache, for ``corewise explain interference`` (pure).

:func:`decide` makes the decision; it is shown as a table with a row for each node, or as a document.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from corewise.config.interference.amounts import bytes_text
from corewise.config.interference.metrics import DIVISORS, RANKED, Metric
from corewise.config.interference.model import InterferenceConfiguration
from corewise.interference.filtering import (
    FilterVerdicts,
    Inequality,
    PodRequests,
    ProfileConflict,
    Selected,
    filter_nodes,
    select_profile,
)
from corewise.interference.neighbors import Neighbors, cache_affinity
from corewise.interference.outlook import Counterweights, Outlook, Weights, outlook
from corewise.interference.pressure import COLUMNS, LARGEST, LEAST, ZERO_IS_MISSING, Flags, Pressure, Values
from corewise.interference.score import Ranked, node_record, plain, points_text, rank_nodes
from corewise.views.tables import CellSeverity, Column
from corewise.vocabulary.reasons import Reason

_OPTIONAL = {each.column for each in DIVISORS} | set(COLUMNS).difference(each.column for each in Metric)
"""Columns that few nodes state: divisors, and what belongs to another metric."""
_GIGA = 10**9


@dataclass(frozen=True, slots=True)
class PlacedPod:
    """A pod on a node: the name of its profile, and the seconds since it was placed."""

    profile: str
    age: float


@dataclass(frozen=True, slots=True)
class MeasuredNode:
    """The measured values of one node; ``values`` has only what is stated, as stated."""

    name: str
    values: Mapping[str, float]
    labels: Mapping[str, str] = field(default_factory=dict)
    placed: tuple[PlacedPod, ...] = ()

    def missing(self) -> dict[str, str]:
        """Return the missing columns, each with a reason."""
        found = ((column, why_missing(column, self.values.get(column))) for column in COLUMNS)
        return {column: why for column, why in found if why}


def why_missing(column: str, value: float | None) -> str:
    """Return the reason why a value counts as missing; "" if it does not."""
    if value is None:
        return "not given"
    reasons = (
        (math.isnan(value), "not a number"),
        (math.isinf(value), "infinite"),
        (value < 0, f"{value:g} is negative"),
        (value > LARGEST, f"{value:g} is more than any machine has"),
        (
            value < LEAST and column in ZERO_IS_MISSING,
            f"{value:g}, which exporters print for what they do not support",
        ),
    )
    return next((reason for holds, reason in reasons if holds), "")


@dataclass(frozen=True, slots=True)
class ExplainedPod:
    """``exempt``: it belongs to a DaemonSet, so the filter does not ask."""

    name: str
    labels: Mapping[str, str]
    requests: PodRequests
    exempt: bool


@dataclass(frozen=True, slots=True, eq=False)
class InterferenceDecision:
    """The decision about every node, with everything that led to it."""

    pod: ExplainedPod
    config: InterferenceConfiguration
    nodes: Sequence[MeasuredNode]
    selected: Selected
    outlook: Outlook
    filtered: FilterVerdicts
    passes: Flags
    ranked: Ranked

    @property
    def best(self) -> list[str]:
        """The names of the nodes with the best score."""
        if not self.passes.any():
            return []
        net = np.where(self.passes, self.ranked.scores.raw - self.ranked.scores.deduction, -np.inf)
        return [self.nodes[row].name for row in np.flatnonzero(net == net.max()).tolist()]

    def reasons(self, row: int) -> list[Reason]:
        """Return the reasons why the filter refuses a node; none if it passes."""
        if self.passes[row]:
            return []
        asked = (
            (self.filtered.bandwidth, Reason.MEMORY_BANDWIDTH_INSUFFICIENT),
            (self.filtered.memory, Reason.MEMORY_AVAILABLE_INSUFFICIENT),
        )
        refusing = [(each, reason) for each, reason in asked if not each.passes[row]]
        found = [Reason.PRESSURE_UNKNOWN if each.missing[row] else reason for each, reason in refusing]
        return list(dict.fromkeys(found))


def decide(
    pod: ExplainedPod, nodes: Sequence[MeasuredNode], config: InterferenceConfiguration
) -> InterferenceDecision | ProfileConflict:
    """Return the decision; a Conflict if two profiles match the pod."""
    selected = select_profile(pod.labels, pod.requests, config)
    if isinstance(selected, ProfileConflict):
        return selected
    seen = outlook(_pressure(nodes, config), _weights(nodes, config), config, _neighbors(nodes, config))
    filtered = filter_nodes(seen, selected, config)
    passes = np.ones(len(nodes), dtype=np.bool_) if pod.exempt else filtered.passes
    ranked = rank_nodes(seen, selected.affinity, config, passes, selected.profile.llc)
    return InterferenceDecision(pod, config, nodes, selected, seen, filtered, passes, ranked)


def _pressure(nodes: Sequence[MeasuredNode], config: InterferenceConfiguration) -> Pressure:
    """Return the cleaned columns, as in the cluster.

    There series that no decision reads are not queried, and a rule's capacity counts before a measured one.
    """
    unread = {each.column for each in config.unread}
    values = {
        name: [each.values.get(name, math.nan) for each in nodes] for name in COLUMNS if name not in unread
    }
    pressure = Pressure.of(len(nodes), values).cleaned()
    rules = [config.capacity_by_rule(each.labels) for each in nodes]
    by_rule = np.array([math.nan if rule is None else float(rule) for rule in rules], dtype=np.float64)
    measured = pressure.memorybandwidth_capacity
    return replace(pressure, memorybandwidth_capacity=np.where(np.isnan(by_rule), measured, by_rule))


def _weights(nodes: Sequence[MeasuredNode], config: InterferenceConfiguration) -> Weights:
    placed = Counterweights(config.counterweight)
    for row, node in enumerate(nodes):
        for number, each in enumerate(node.placed):
            placed.put(f"{node.name}/{number}", row, config.profiles[each.profile].profile, -each.age)
    return placed.at(0.0, len(nodes))


def _neighbors(nodes: Sequence[MeasuredNode], config: InterferenceConfiguration) -> Values:
    there = Neighbors()
    for row, node in enumerate(nodes):
        for number, each in enumerate(node.placed):
            affinity = config.profiles[each.profile].affinity
            there.put(f"{node.name}/{number}", row, cache_affinity(affinity))
    return there.at(len(nodes))


def record_of(decision: InterferenceDecision) -> dict[str, Any]:
    """Return the whole decision as a document; amounts are in base units, null is missing."""
    config, selected = decision.config, decision.selected
    points = "linear" if config.points is None else [plain(each) for each in config.points]
    return {
        "pod": decision.pod.name,
        "profile": {
            "name": selected.name,
            "memoryBandwidth": selected.profile.memory_bandwidth,
            "memory": selected.profile.memory,
            "cpu": plain(selected.profile.cpu / 1000),
            "llc": selected.profile.llc,
        },
        "affinity": {metric.value: selected.affinity[metric] for metric in RANKED},
        "overprovisioning": plain(float(config.overprovisioning)),
        "points": points,
        "exempt": decision.pod.exempt,
        "relative": sorted(decision.outlook.relative),
        "predicted": sorted(config.predicted),
        "normalizer": plain(decision.ranked.scores.best),
        "best": decision.best,
        "nodes": {
            node.name: {
                "passes": bool(decision.passes[row]),
                "reasons": [reason.value for reason in decision.reasons(row)],
                **node_record(
                    decision.outlook,
                    decision.filtered,
                    decision.ranked,
                    row,
                    scored=bool(decision.passes[row]),
                ),
                "missing": missing_of(decision, row),
            }
            for row, node in enumerate(decision.nodes)
        },
    }


def missing_of(decision: InterferenceDecision, row: int) -> dict[str, str]:
    """Return the missing values of a node, each with a reason; not those that few nodes state."""
    missing = decision.nodes[row].missing()
    if not np.isnan(decision.outlook.pressure.memorybandwidth_capacity[row]):
        missing.pop("memorybandwidth_capacity", None)
    return {name: why for name, why in missing.items() if name not in _OPTIONAL or why != "not given"}


def heading_of(decision: InterferenceDecision) -> str:
    """Return the heading: the pod, its profile and its needs, in lines before the table."""
    selected, config, scores = decision.selected, decision.config, decision.ranked.scores
    exempt = "; of a DaemonSet, so not filtered" if decision.pod.exempt else ""
    weights = ", ".join(f"{metric} {selected.affinity[metric]}" for metric in RANKED)
    asked = ""
    if selected.profile.llc and selected.name in config.profiles.keys() - {
        each.name for each in config.at_stake
    }:
        least = f"no affinity, and no more than {bytes_text(config.ask_above, '/s')} (askAbove)"
        asked = f"  without --pods all corewise is asked about such pods only if they own CPUs: {least}\n"
    return (
        f"{decision.pod.name}: profile {selected.name}{exempt}\n"
        f"  {_needs(decision)}\n"
        f"  affinities {weights}\n"
        f"  a score of 100 is {plain(scores.best)} raw\n"
        f"{asked}"
    )


def _needs(decision: InterferenceDecision) -> str:
    """Return the demands of the filter; it checks only what the profile needs."""
    selected, filtered = decision.selected, decision.filtered
    needed, multiplied, sources = [], [], []
    if filtered.bandwidth.asked:
        needed.append(f"{filtered.bandwidth.right / _GIGA:g} GB/s")
        multiplied.append(f"{selected.profile.memory_bandwidth / _GIGA:g} GB/s")
    if filtered.memory.asked:
        needed.append(f"{filtered.memory.right / _GIGA:g} GB")
        if selected.requested_memory:
            sources.append("the memory it requests")
        else:
            multiplied.append(f"{selected.profile.memory / _GIGA:g} GB")
    if not needed:
        return "needs neither memory bandwidth nor memory, so every node passes"
    if multiplied:
        sources.insert(0, f"{float(decision.config.overprovisioning):g} x {', '.join(multiplied)}")
    return f"needs more than {' and '.join(needed)} free ({', and '.join(sources)})"


def columns_of(decision: InterferenceDecision) -> list[Column[int]]:
    """Return the columns of the table, whose rows are the places of nodes; points stand in brackets."""

    def scored(row: int, value: float) -> str:
        return points_text(value) if decision.passes[row] else "-"

    scores = decision.ranked.scores
    return [
        Column("NODE", lambda row: decision.nodes[row].name),
        Column(
            "FILTER",
            lambda row: ",".join(decision.reasons(row)) or "passes",
            severity=lambda row: None if decision.passes[row] else CellSeverity.WARNING,
            shrink=16,
        ),
        _side("GB/s FREE > NEEDED", decision.filtered.bandwidth, 2),
        _side("GB FREE > NEEDED", decision.filtered.memory, 3),
        *(_position(decision, metric) for metric in RANKED),
        Column("RAW", lambda row: scored(row, scores.raw[row]), right=True, priority=1),
        *([_deduction(decision)] if scores.deduction.any() else []),
        Column("SCORE", lambda row: scored(row, scores.normalized[row]), right=True),
        *(_value(decision, metric) for metric in RANKED),
        Column("MISSING", lambda row: ", ".join(missing_of(decision, row)), wide=True),
    ]


def _side(title: str, inequality: Inequality, priority: int) -> Column[int]:
    def text(row: int) -> str:
        if not inequality.asked:
            return "not asked"
        left = "?" if inequality.missing[row] else f"{inequality.left[row] / _GIGA:.6g}"
        sign = ">" if inequality.passes[row] else "<="
        return f"{left} {'?' if inequality.missing[row] else sign} {inequality.right / _GIGA:.6g}"

    return Column(title, text, right=True, priority=priority)


def _position(decision: InterferenceDecision, metric: Metric) -> Column[int]:
    def text(row: int) -> str:
        position = int(decision.ranked.positions[metric][row])
        return f"{position} ({points_text(decision.ranked.points[metric][row])})" if position else "-"

    return Column(metric.spec.title, text, right=True, priority=4)


def _deduction(decision: InterferenceDecision) -> Column[int]:
    def text(row: int) -> str:
        return points_text(-decision.ranked.scores.deduction[row]) if decision.passes[row] else "-"

    return Column("NEIGHBORS", text, right=True, priority=1)


def _value(decision: InterferenceDecision, metric: Metric) -> Column[int]:
    relative = metric in decision.outlook.relative

    def text(row: int) -> str:
        value = float(decision.outlook.values[metric][row])
        return "-" if math.isnan(value) else metric.spec.text(value, relative=relative)

    return Column(f"{metric.spec.title} VALUE", text, right=True, wide=True)
