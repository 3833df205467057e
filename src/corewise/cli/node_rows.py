"""One line of ``corewise nodes`` about each node: columns for people, a record for programs (pure).

Amounts are of allocatable, what is left for pods, so that a reader can multiply along a line:
raw x NORM = normalized, raw x AMP = schedulable, schedulable - requested = free. Capacity, the whole machine,
is named so wherever it is shown. What is offered to offline pods is raw, and beside all that.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from corewise.amplification import NodeDemand, ResourceList
from corewise.cli import output
from corewise.cli.node_listing import ListedNode
from corewise.cli.node_state import offline_state_of, state_of
from corewise.cli.offline_reports import node_report
from corewise.cli.output import Column, Severity
from corewise.config.facts import CPUFacts
from corewise.quantities import ONE, Ratio, RatioError, amplify
from corewise.vocabulary.names import NORMALIZATION_RATIO

TOTAL = "*"
"""The name of the line that adds up all others; no node can have it."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line: CPU amounts in milli-CPU, memory in bytes, of allocatable unless named; None is unknown."""

    name: str
    model: str
    threads: str
    turbo: str
    normalization: Ratio | None
    amplification: Ratio | None
    raw: int | None
    normalized: int | None
    schedulable: int | None
    requested: int | None
    raw_capacity: int | None
    capacity: int | None
    raw_memory: int | None
    schedulable_memory: int | None
    requested_memory: int | None
    offline_offered: int | None
    native_best_effort: int | None
    state: str = ""
    problem: str = ""

    @property
    def free(self) -> int | None:
        if self.schedulable is None or self.requested is None:
            return None
        return self.schedulable - self.requested


def row_of(listed: ListedNode, now: datetime, *, pods_known: bool = True) -> Row:
    """Return a node's line. ``now`` tells how old the report on its offline pods is."""
    assessment = listed.assessment
    offline = node_report(assessment.node.name, assessment.node.labels, assessment.node.annotations, now)
    node, raw = assessment.node, assessment.status.raw
    facts = node.facts if isinstance(node.facts, CPUFacts) else None
    demand = node.demand().requests if pods_known else NodeDemand({}).requests
    normalization = _annotated(node.annotations.get(NORMALIZATION_RATIO))
    raw_cpu = _milli(raw.allocatable)
    states = (state_of(assessment), offline_state_of(offline))
    state = next((each for each in states if each.problem), states[0] if states[0].text else states[1])
    return Row(
        name=node.name,
        model=facts.model if facts else "-",
        threads=_on(facts.hyper_threading if facts else None),
        turbo=_on(facts.turbo if facts else None),
        normalization=normalization,
        amplification=assessment.effective.get("cpu", ONE),
        raw=raw_cpu,
        normalized=None if raw_cpu is None else amplify(raw_cpu, normalization or ONE),
        schedulable=_milli(node.amounts.allocatable),
        requested=demand.get("cpu", 0) if pods_known else None,
        raw_capacity=_milli(raw.capacity),
        capacity=_milli(node.amounts.capacity),
        raw_memory=_bytes(raw.allocatable),
        schedulable_memory=_bytes(node.amounts.allocatable),
        requested_memory=demand.get("memory", 0) if pods_known else None,
        offline_offered=offline.report.offered_milli if offline.report else None,
        native_best_effort=offline.report.native_best_effort if offline.report else None,
        state=state.text,
        problem=state.problem,
    )


def _milli(amounts: ResourceList) -> int | None:
    return amounts["cpu"].milli if "cpu" in amounts else None


def _bytes(amounts: ResourceList) -> int | None:
    return amounts["memory"].units if "memory" in amounts else None


def _annotated(text: str | None) -> Ratio | None:
    try:
        return Ratio.parse(text or "")
    except RatioError:
        return None


def _on(flag: bool | None) -> str:
    return "-" if flag is None else "on" if flag else "off"


def _ratio(row: Row, ratio: Ratio | None) -> str:
    return "" if row.name == TOTAL else "-" if ratio is None else str(ratio)


def _requested(row: Row) -> str:
    return output.cpus(row.requested) + output.percent(row.requested or 0, row.schedulable or 0)


def _plain(number: int | None) -> str:
    return "-" if number is None else str(number)


COLUMNS: list[Column[Row]] = [
    Column("NODE", lambda row: row.name),
    Column("MODEL", lambda row: row.model),
    Column("HT", lambda row: row.threads, wide=True),
    Column("TURBO", lambda row: row.turbo, wide=True),
    Column("RAW CPU", lambda row: output.cpus(row.raw), right=True),
    Column("NORM", lambda row: _ratio(row, row.normalization), right=True),
    Column("NORMALIZED", lambda row: output.cpus(row.normalized), right=True),
    Column("AMP", lambda row: _ratio(row, row.amplification), right=True),
    Column("SCHEDULABLE", lambda row: output.cpus(row.schedulable), right=True),
    Column("REQUESTED", _requested, right=True),
    Column("FREE", lambda row: output.cpus(row.free), right=True),
    Column("OFFLINE OFFERED", lambda row: output.measured(row.offline_offered), right=True),
    Column("NATIVE BE", lambda row: _plain(row.native_best_effort), right=True, wide=True),
    Column("RAW CAPACITY", lambda row: output.cpus(row.raw_capacity), right=True, wide=True),
    Column("CAPACITY", lambda row: output.cpus(row.capacity), right=True, wide=True),
    Column("RAW MEM GiB", lambda row: output.gibibytes(row.raw_memory), right=True, wide=True),
    Column(
        "SCHEDULABLE MEM GiB", lambda row: output.gibibytes(row.schedulable_memory), right=True, wide=True
    ),
    Column("REQUESTED MEM GiB", lambda row: output.gibibytes(row.requested_memory), right=True, wide=True),
    Column("STATE", lambda row: row.state, severity=lambda row: Severity.ERROR if row.problem else None),
]


def total_of(rows: list[Row]) -> Row:
    """Return the line that adds up all others."""
    models = len({row.model for row in rows if row.model != "-"})

    def add(amounts: Iterable[int | None]) -> int | None:
        known = [amount for amount in amounts if amount is not None]
        return sum(known) if known else None

    return Row(
        name=TOTAL,
        model=output.count(models, "model"),
        threads="",
        turbo="",
        normalization=None,
        amplification=None,
        raw=add(row.raw for row in rows),
        normalized=add(row.normalized for row in rows),
        schedulable=add(row.schedulable for row in rows),
        requested=add(row.requested for row in rows),
        raw_capacity=add(row.raw_capacity for row in rows),
        capacity=add(row.capacity for row in rows),
        raw_memory=add(row.raw_memory for row in rows),
        schedulable_memory=add(row.schedulable_memory for row in rows),
        requested_memory=add(row.requested_memory for row in rows),
        offline_offered=add(row.offline_offered for row in rows),
        native_best_effort=add(row.native_best_effort for row in rows),
    )


def record_of(row: Row) -> dict[str, Any]:
    """Return the machine form of a line; every key of an amount names its unit."""
    known = row.model != "-"
    return {
        "name": row.name,
        "cpuModel": row.model if known else None,
        "hyperThreading": row.threads == "on" if known else None,
        "turbo": row.turbo == "on" if known else None,
        "normalizationRatio": None if row.normalization is None else str(row.normalization),
        "amplificationRatio": None if row.amplification is None else str(row.amplification),
        **sums_of(row),
        "state": row.state,
        "problem": row.problem or None,
    }


def sums_of(row: Row) -> dict[str, Any]:
    """Return the amounts, which add up over nodes."""
    return {
        "rawCapacityCPUMilli": row.raw_capacity,
        "capacityCPUMilli": row.capacity,
        "rawAllocatableCPUMilli": row.raw,
        "normalizedCPUMilli": row.normalized,
        "schedulableCPUMilli": row.schedulable,
        "requestedCPUMilli": row.requested,
        "freeCPUMilli": row.free,
        "rawAllocatableMemoryBytes": row.raw_memory,
        "schedulableMemoryBytes": row.schedulable_memory,
        "requestedMemoryBytes": row.requested_memory,
        "offlineOfferedCPUMilli": row.offline_offered,
        "nativeBestEffortPods": row.native_best_effort,
    }
