"""``corewise explain interference``: the whole decision about a pod, offline, from three files.

:func:`decide` makes the decision; it is printed as a table with a row for each node, or as a document.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import numpy as np

from corewise.cli import output
from corewise.cli.errors import Failure
from corewise.cli.files import FILE, text_of
from corewise.cli.interference_inputs import (
    ExplainedPod,
    MeasuredNode,
    parse_nodes,
    parse_pod,
    read_interference,
)
from corewise.cli.options import examples
from corewise.cli.output import CellSeverity, Column, Form
from corewise.config.interference.metrics import RANKED, Metric
from corewise.config.interference.model import InterferenceConfiguration
from corewise.config.interference.reading import unplaceable_message
from corewise.config.json_text import path_text
from corewise.interference.filtering import (
    FilterVerdicts,
    Inequality,
    ProfileConflict,
    Selected,
    filter_nodes,
    select_profile,
    unplaceable,
)
from corewise.interference.outlook import Counterweights, Outlook, Weights, outlook
from corewise.interference.pressure import COLUMNS, Flags, Pressure
from corewise.interference.score import Ranked, node_record, plain, rank_nodes
from corewise.vocabulary.reasons import Reason

_OPTIONAL = frozenset({"llc_capacity", "llc_mpki_level", "memorylatency_idle", "memorylatency_slope"})
_GIGA = 10**9


@click.command(
    "interference",
    short_help="Show how well a pod's profile fits each node.",
    epilog=examples("corewise explain interference --config C.yaml --metrics M.json --pod P.yaml"),
)
@click.option(
    "--config", "config_file", type=FILE, required=True, help="The scheduler's file, with interference in it."
)
@click.option(
    "--metrics",
    "metrics_file",
    type=FILE,
    required=True,
    help="Measurements: JSON, node -> values in base units.",
)
@click.option("--pod", "pod_file", type=FILE, required=True, help="The Pod to be placed, YAML or JSON.")
@output.option((Form.TABLE, Form.WIDE, Form.JSON, Form.YAML))
def interference_command(config_file: Path, metrics_file: Path, pod_file: Path, form: Form) -> None:
    """Show for every node whether a pod's profile fits it, and how it scores: both sides of the filter,
    positions, points, raw and normalized score.

    Reads three files and nothing else. Values are in base units: bytes/s, bytes, seconds, ratios.

    Exit codes: 0 decided (also where no node passes), 2 wrong call, 5 a file cannot be used, or two
    profiles match the pod.
    """
    config = read_interference(config_file)
    parsed = parse_nodes(text_of(metrics_file), config)
    if parsed.value is None:
        hint = 'write {"NODE": {"memorybandwidth_used": 2e10, ...}, ...}'
        raise Failure("\n".join(f"{metrics_file}: {problem}" for problem in parsed.errors), hint=hint)
    pod = parse_pod(text_of(pod_file), str(pod_file))
    decision = decide(pod, parsed.value, config)
    if isinstance(decision, ProfileConflict):
        raise Failure(f"{config_file}: {decision}", hint=f"it is pod {pod.name} in {pod_file}")
    for each in unplaceable(config, decision.outlook.pressure.memorybandwidth_capacity):
        where = path_text(("interference", "profiles", each.name))
        message = unplaceable_message(each.needed, each.largest)
        output.say(f"{config_file}: line {each.line}: {where}: {message}")
    if form in {Form.JSON, Form.YAML}:
        click.echo(output.document_text(record_of(decision), form), nl=False)
    else:
        output.tell(heading_of(decision), "    ")
        click.echo(table_of(decision, wide=form is Form.WIDE), nl=False)


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
        raw = np.where(self.passes, self.ranked.scores.raw, -np.inf)
        return [self.nodes[row].name for row in np.flatnonzero(raw == raw.max()).tolist()]

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
    seen = outlook(_pressure(nodes, config), _weights(nodes, config), config)
    filtered = filter_nodes(seen, selected.profile, config)
    passes = np.ones(len(nodes), dtype=np.bool_) if pod.exempt else filtered.passes
    ranked = rank_nodes(seen, selected.affinity, config, passes)
    return InterferenceDecision(pod, config, nodes, selected, seen, filtered, passes, ranked)


def _pressure(nodes: Sequence[MeasuredNode], config: InterferenceConfiguration) -> Pressure:
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
    affinity = decision.selected.affinity
    exempt = "; of a DaemonSet, so not filtered" if decision.pod.exempt else ""
    weights = ", ".join(f"{metric} {affinity[metric]}" for metric in RANKED)
    return (
        f"{decision.pod.name}: profile {decision.selected.name}{exempt}\n"
        f"  {_needs(decision)}\n"
        f"  affinities {weights}\n"
        f"  a score of 100 is {plain(decision.ranked.scores.best)} raw\n"
    )


def _needs(decision: InterferenceDecision) -> str:
    """Return the demands of the filter; it checks only what the profile needs."""
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


def table_of(decision: InterferenceDecision, *, wide: bool) -> str:
    """Return the table; a position stands with its points in brackets."""

    def scored(row: int, value: float) -> str:
        return f"{value:.6g}" if decision.passes[row] else "-"

    scores = decision.ranked.scores
    columns: list[Column[int]] = [
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
        Column("SCORE", lambda row: scored(row, scores.normalized[row]), right=True),
        *(_value(decision, metric) for metric in RANKED),
        Column("MISSING", lambda row: ", ".join(missing_of(decision, row)), wide=True),
    ]
    rows = range(len(decision.nodes))
    return output.table(columns, rows, wide=wide, complete="-o wide")


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
        return f"{position} ({decision.ranked.points[metric][row]:.4g})" if position else "-"

    return Column(metric.spec.title, text, right=True, priority=4)


def _value(decision: InterferenceDecision, metric: Metric) -> Column[int]:
    relative = metric in decision.outlook.relative

    def text(row: int) -> str:
        value = float(decision.outlook.values[metric][row])
        return "-" if math.isnan(value) else metric.spec.text(value, relative=relative)

    return Column(f"{metric.spec.title} VALUE", text, right=True, wide=True)
