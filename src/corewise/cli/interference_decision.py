"""The whole decision about one pod, by a file of measurements: what ``explain interference`` prints."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from corewise.cli.interference_nodes import MeasuredNode
from corewise.cli.interference_pod import ExplainedPod
from corewise.config.interference import InterferenceConfiguration, Metric
from corewise.interference import (
    COLUMNS,
    Conflict,
    Counterweights,
    Filtered,
    Flags,
    Outlook,
    Pressure,
    Ranked,
    Selected,
    Weights,
    filter_nodes,
    node_record,
    outlook,
    plain,
    rank_nodes,
    select_profile,
)
from corewise.vocabulary.reasons import Reason

_CAPACITY = "memorybandwidth_capacity"
_OPTIONAL = frozenset({"llc_capacity", "memorylatency_idle", "memorylatency_slope"})


@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    """Everything there is to tell of every node."""

    pod: ExplainedPod
    config: InterferenceConfiguration
    nodes: Sequence[MeasuredNode]
    selected: Selected
    outlook: Outlook
    filtered: Filtered
    passes: Flags
    ranked: Ranked

    @property
    def best(self) -> list[str]:
        """The names of the nodes with the best score."""
        if not self.passes.any():
            return []
        raw = np.where(self.passes, self.ranked.scores.raw, -np.inf)
        return [self.nodes[row].name for row in np.flatnonzero(raw == raw.max()).tolist()]

    def reasons(self, row: int) -> list[Reason]:
        """Return why the filter refuses a node; nothing if it passes."""
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
) -> Decision | Conflict:
    """Return the decision; a Conflict if two profiles match the pod."""
    selected = select_profile(pod.labels, pod.requests, config)
    if isinstance(selected, Conflict):
        return selected
    seen = outlook(pressure_of(nodes, config), _weights(nodes, config), config)
    requirement = config.requirement(selected.profile)
    filtered = filter_nodes(seen, requirement, missing_passes=config.missing_passes)
    passes = np.ones(len(nodes), dtype=np.bool_) if pod.exempt else filtered.passes
    ranked = rank_nodes(seen, selected.affinity, config, passes)
    return Decision(pod, config, nodes, selected, seen, filtered, passes, ranked)


def pressure_of(nodes: Sequence[MeasuredNode], config: InterferenceConfiguration) -> Pressure:
    """Return the cleaned columns; a capacity rule counts before what was measured, as in the cluster."""
    values = {name: [each.values.get(name, math.nan) for each in nodes] for name in COLUMNS}
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


def record_of(decision: Decision) -> dict[str, Any]:
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
        "affinity": {metric.value: selected.affinity[metric] for metric in Metric},
        "overprovisioning": plain(float(config.overprovisioning)),
        "points": points,
        "exempt": decision.pod.exempt,
        "relative": sorted(decision.outlook.relative),
        "predicted": sorted(config.predicted),
        "normalizer": plain(decision.ranked.scores.best),
        "best": decision.best,
        "nodes": {node.name: _node(decision, row) for row, node in enumerate(decision.nodes)},
    }


def _node(decision: Decision, row: int) -> dict[str, Any]:
    passes = bool(decision.passes[row])
    told = node_record(decision.outlook, decision.filtered, decision.ranked, row, scored=passes)
    return {
        "passes": passes,
        "reasons": [reason.value for reason in decision.reasons(row)],
        **told,
        "missing": missing_of(decision, row),
    }


def missing_of(decision: Decision, row: int) -> dict[str, str]:
    """Return which values of a node the decision goes without, and why; not those that few nodes state."""
    missing = decision.nodes[row].missing()
    if not np.isnan(decision.outlook.pressure.memorybandwidth_capacity[row]):
        missing.pop(_CAPACITY, None)
    return {name: why for name, why in missing.items() if name not in _OPTIONAL or why != "not given"}
