"""The table of ``corewise nodes``: a row for each node, one for all, and what the table does not show.

Amounts are of allocatable, what is left for pods, so that a reader can multiply along a row:
raw x NORM = normalized, raw x AMP = schedulable, schedulable - requested = free. CPUs that pods own take
their ratio: what that is beyond their requests is folded into schedulable where the node's ledger has them,
and counts in free alone elsewhere. Capacity, the whole machine, is named so wherever it is shown. What
runs (used) and what is offered to offline pods is raw, and beside all that.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import msgspec

from corewise.amplification import ResourceList
from corewise.config.facts import CPUFacts
from corewise.quantities import ONE, Ratio, RatioError, amplify
from corewise.views.machine_kinds import short_model
from corewise.views.node_listing import (
    ListedCluster,
    ListedNode,
    NodeState,
    amplified_by,
    offline_state_of,
    state_of,
)
from corewise.views.offline_reports import NodeReport, node_report
from corewise.views.offline_table import BARS, added, aligned, condensed, sparkline
from corewise.views.stored_config import keys_with_errors
from corewise.views.tables import CellSeverity, Column, Listing, amount
from corewise.views.text import count, cpus, gibibytes, measured, number, percent, some
from corewise.vocabulary.findings import Finding
from corewise.vocabulary.names import NORMALIZATION_RATIO
from corewise.vocabulary.reasons import Reason

_CONDITION_TAINTS = "node.kubernetes.io/"
_EXPLAINED: dict[str, str] = dict.fromkeys((Reason.OFFER_FROZEN, Reason.OFFER_WITHDRAWN), "suppression")
"""What explains a problem, where it is not ``corewise explain node``."""
_BARS_WIDE = 8
_KEEPS_PODS_AWAY = frozenset({"NoSchedule", "NoExecute"})


def hidden(listed: ListedNode) -> bool:
    """Whether pods without tolerations are kept away; conditions such as not-ready do not hide a node."""
    spec = listed.node.spec
    return spec.unschedulable or any(
        taint.effect in _KEEPS_PODS_AWAY and not taint.key.startswith(_CONDITION_TAINTS)
        for taint in spec.taints
    )


def remarks(listed: ListedCluster, rows: list[NodeRow], config_namespace: str) -> Iterable[str]:
    """Yield remarks about what the table does not show: hidden rows, problems, and unreadable objects."""
    if not listed.nodes:
        yield "No nodes found."
    left_out = len(listed.nodes) - len(rows)
    if left_out:
        pronoun = "it" if left_out == 1 else "them"
        yield f"{count(left_out, 'node')} hidden by taint or cordon (--all shows {pronoun})."
    yield from problems(rows)
    if listed.amplified_by is not None and any(each.assessment.effective for each in listed.nodes):
        yield f"Nodes are amplified by {amplified_by(listed.amplified_by)}."
    yield from keys_with_errors(listed.reading, config_namespace)
    yield from listed.missing


def problems(rows: Iterable[NodeRow]) -> Iterable[str]:
    """Yield one line per reason, with the first nodes of each."""
    named: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        if row.state.problem:
            named[row.state.problem].append(row.name)
    for reason, nodes in named.items():
        verb = "has" if len(nodes) == 1 else "have"
        yield (
            f"{count(len(nodes), 'node')} {verb} a problem: {some(nodes)} {reason} "
            f"(corewise explain {_EXPLAINED.get(reason, 'node')} {nodes[0]})"
        )


TOTAL = "*"
"""The name of the row that adds up all others; no node can have it."""


class Facts(msgspec.Struct, frozen=True, rename="camel"):
    """The CPUs of a node and the ratios (decimal texts) annotated on it; None is unknown."""

    cpu_model: str | None = None
    hyper_threading: bool | None = None
    turbo: bool | None = None
    normalization_ratio: str | None = None
    amplification_ratio: str | None = None


class SummedAmounts(msgspec.Struct, frozen=True, kw_only=True):
    """Amounts that add up over nodes, of allocatable unless named; None is unknown."""

    raw_capacity: int | None = msgspec.field(name="rawCapacityCPUMilli")
    capacity: int | None = msgspec.field(name="capacityCPUMilli")
    raw: int | None = msgspec.field(name="rawAllocatableCPUMilli")
    normalized: int | None = msgspec.field(name="normalizedCPUMilli")
    schedulable: int | None = msgspec.field(name="schedulableCPUMilli")
    requested: int | None = msgspec.field(name="requestedCPUMilli")
    free: int | None = msgspec.field(name="freeCPUMilli")
    used: int | None = msgspec.field(default=None, name="usedCPUMilli")
    raw_memory: int | None = msgspec.field(name="rawAllocatableMemoryBytes")
    schedulable_memory: int | None = msgspec.field(name="schedulableMemoryBytes")
    requested_memory: int | None = msgspec.field(name="requestedMemoryBytes")
    offline_offered: int | None = msgspec.field(name="offlineOfferedCPUMilli")
    native_best_effort: int | None = msgspec.field(name="nativeBestEffortPods")


@dataclass(frozen=True, slots=True)
class NodeRow:
    """One row: a node, or the sum of all. ``model`` is what the column shows.

    ``problems`` are the warnings of the node's assessment, of which ``state`` names the first. ``lately``:
    the raw CPU used in the last minutes, oldest first, None where it is unknown. ``used_of`` and
    ``lately_of``: the raw CPU of the nodes that the usage and ``lately`` count.
    """

    name: str
    model: str
    facts: Facts
    amounts: SummedAmounts
    state: NodeState
    problems: tuple[Finding, ...] = ()
    lately: tuple[int | None, ...] = ()
    used_of: int = 0
    lately_of: int = 0

    @property
    def record(self) -> dict[str, Any]:
        """The machine form; every key of an amount names its unit."""
        return {
            "name": self.name,
            **msgspec.to_builtins(self.facts),
            **msgspec.to_builtins(self.amounts),
            "state": self.state.text,
            "problem": self.state.problem or None,
        }

    @property
    def totals(self) -> dict[str, Any]:
        """The amounts that add up, for programs."""
        sums: dict[str, Any] = msgspec.to_builtins(self.amounts)
        return sums


def row_of(
    listed: ListedNode, now: datetime, *, pods_known: bool = True, usage: Sequence[int | None] = ()
) -> NodeRow:
    """Return a node's row. ``now`` tells how old the report on its offline pods is.

    ``usage``: samples of the raw CPU it uses, which count where no agent reports.
    """
    assessment = listed.assessment
    node, raw = assessment.node, assessment.status.raw
    offline = node_report(node.name, node.labels, node.annotations, now)
    facts = node.facts if isinstance(node.facts, CPUFacts) else None
    requests = node.demand().requests if pods_known else {}
    normalization = _annotated(node.annotations.get(NORMALIZATION_RATIO))
    raw_cpu, schedulable = _milli(raw.allocatable), _milli(node.amounts.allocatable)
    requested = requests.get("cpu", 0) if pods_known else None
    states = (state_of(assessment), offline_state_of(offline))
    row = NodeRow(
        name=node.name,
        model=facts.model if facts else "-",
        facts=Facts(
            facts.model if facts else None,
            facts.hyper_threading if facts else None,
            facts.turbo if facts else None,
            None if normalization is None else str(normalization),
            str(assessment.effective.get("cpu", ONE)),
        ),
        amounts=SummedAmounts(
            raw_capacity=_milli(raw.capacity),
            capacity=_milli(node.amounts.capacity),
            raw=raw_cpu,
            normalized=None if raw_cpu is None else amplify(raw_cpu, normalization or ONE),
            schedulable=schedulable,
            requested=requested,
            free=node.free_cpu() if pods_known else None,
            raw_memory=_bytes(raw.allocatable),
            schedulable_memory=_bytes(node.amounts.allocatable),
            requested_memory=requests.get("memory", 0) if pods_known else None,
            offline_offered=offline.report.offered_milli if offline.report else None,
            native_best_effort=offline.report.native_best_effort if offline.report else None,
        ),
        state=next((each for each in states if each.problem), states[0] if states[0].text else states[1]),
        problems=assessment.problems,
    )
    return with_usage(row, _used_lately(offline) or usage)


def with_usage(row: NodeRow, samples: Sequence[int | None]) -> NodeRow:
    """Return a node's row with these samples of the raw CPU that it uses, the last one last."""
    used, raw = samples[-1] if samples else None, row.amounts.raw or 0
    return replace(
        row,
        amounts=msgspec.structs.replace(row.amounts, used=used),
        lately=tuple(samples),
        used_of=0 if used is None else raw,
        lately_of=raw if samples else 0,
    )


def _used_lately(node: NodeReport) -> tuple[int, ...]:
    """Return an agent's samples, oldest first; nothing if its report is old."""
    report = node.report
    if report is None or node.stale:
        return ()
    before = added([report.online, report.offline])[:-1]
    return (*before, report.online_milli + report.offline_milli)


def total_of(rows: list[NodeRow]) -> NodeRow:
    """Return the row that adds up all others."""
    fields = SummedAmounts.__struct_fields__
    columns = zip(*(msgspec.structs.astuple(row.amounts) for row in rows), strict=True)
    amounts = dict.fromkeys(fields) | dict(zip(fields, map(_sum, columns), strict=False))
    models = count(len({row.facts.cpu_model for row in rows} - {None}), "model")
    return NodeRow(
        TOTAL,
        models,
        Facts(),
        SummedAmounts(**amounts),
        NodeState(""),
        lately=tuple(_lately(rows)),
        used_of=sum(row.used_of for row in rows),
        lately_of=sum(row.lately_of for row in rows),
    )


def _lately(rows: Sequence[NodeRow]) -> Iterator[int | None]:
    """Yield the raw CPU that all nodes used, oldest first.

    Nodes that were not measured at a time count as if they had used as large a share as the others: one that
    misses a read is not idle.
    """
    raw = [row.lately_of for row in rows]
    total = sum(raw)
    for samples in aligned((row.lately for row in rows), None):
        used = _sum(samples)
        of = sum(each for each, sample in zip(raw, samples, strict=True) if sample is not None)
        yield used * total // of if used is not None and of else used


def _sum(amounts: Iterable[int | None]) -> int | None:
    """Return the sum of what is known; None if nothing is."""
    known = [each for each in amounts if each is not None]
    return sum(known) if known else None


def _milli(amounts: ResourceList) -> int | None:
    return amounts["cpu"].milli if "cpu" in amounts else None


def _bytes(amounts: ResourceList) -> int | None:
    return amounts["memory"].units if "memory" in amounts else None


def _annotated(text: str | None) -> Ratio | None:
    try:
        return Ratio.parse(text or "")
    except RatioError:
        return None


def listing_of(rows: list[NodeRow], bars: str = BARS) -> Listing[NodeRow]:
    """Return the rows in every form, led by their sum; ``bars`` are the characters of sparklines."""
    total, records = total_of(rows), [row.record for row in rows]
    return Listing(
        columns(bars), rows, records, lambda row: f"node/{row.name}", total.totals, [total] if rows else []
    )


def _flag(flag: Callable[[Facts], bool | None]) -> Callable[[NodeRow], str]:
    words = {None: "-", True: "on", False: "off"}
    return lambda row: "" if row.name == TOTAL else words[flag(row.facts)]


def _ratio(title: str, ratio: Callable[[Facts], str | None], priority: int) -> Column[NodeRow]:
    def text(row: NodeRow) -> str:
        return "" if row.name == TOTAL else ratio(row.facts) or "-"

    def hundredths(row: NodeRow) -> int | None:
        known = _annotated(ratio(row.facts))
        return known.hundredths if known else None

    return Column(title, text, right=True, priority=priority, figure=hundredths)


def _requested(row: NodeRow) -> str:
    requested = row.amounts.requested
    return "-" if requested is None else cpus(requested) + percent(requested, row.amounts.schedulable or 0)


def _used(row: NodeRow) -> str:
    used = row.amounts.used
    return "-" if used is None else measured(used) + percent(used, row.used_of)


def columns(bars: str = BARS) -> list[Column[NodeRow]]:
    """Return the columns; ``bars`` are the characters of sparklines."""

    def lately(row: NodeRow) -> str:
        return sparkline(condensed(row.lately, _BARS_WIDE), row.lately_of, _BARS_WIDE, bars)

    return [
        Column("NODE", lambda row: row.name),
        Column("MODEL", lambda row: row.model, priority=3, shrink=12, shorter=short_model),
        Column("HT", _flag(lambda facts: facts.hyper_threading), wide=True),
        Column("TURBO", _flag(lambda facts: facts.turbo), wide=True),
        amount("RAW CPU", lambda row: row.amounts.raw, cpus, priority=5),
        _ratio("NORM", lambda facts: facts.normalization_ratio, priority=4),
        amount("NORMALIZED", lambda row: row.amounts.normalized, cpus, priority=8),
        _ratio("AMP", lambda facts: facts.amplification_ratio, priority=2),
        amount("SCHEDULABLE", lambda row: row.amounts.schedulable, cpus),
        Column("REQUESTED", _requested, right=True, figure=lambda row: row.amounts.requested),
        amount("FREE", lambda row: row.amounts.free, cpus),
        Column("USED", _used, right=True, priority=1, figure=lambda row: row.amounts.used),
        Column("LATELY", lately, priority=6),
        amount("OFFLINE OFFERED", lambda row: row.amounts.offline_offered, measured, priority=7),
        amount("NATIVE BE", lambda row: row.amounts.native_best_effort, number, wide=True),
        amount("RAW CAPACITY", lambda row: row.amounts.raw_capacity, cpus, wide=True),
        amount("CAPACITY", lambda row: row.amounts.capacity, cpus, wide=True),
        amount("RAW MEM GiB", lambda row: row.amounts.raw_memory, gibibytes, wide=True),
        amount("SCHEDULABLE MEM GiB", lambda row: row.amounts.schedulable_memory, gibibytes, wide=True),
        amount("REQUESTED MEM GiB", lambda row: row.amounts.requested_memory, gibibytes, wide=True),
        Column(
            "STATE",
            lambda row: row.state.text,
            severity=lambda row: CellSeverity.ERROR if row.state.problem else None,
            shrink=16,
        ),
    ]


COLUMNS = columns()
