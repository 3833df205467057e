"""The pods in ``corewise top`` that have not finished: their nodes, requests and owned CPUs.

Requests are counted as the scheduler counts them, so ``corewise explain pod`` names the same amounts. CPU is
what nodes offer: amplified where a node is. BATCH CPU is what an offline pod requests, in normalized CPU.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from corewise.engine.reading import placement, pod_facts
from corewise.views.tables import CellSeverity, Column, Listing, amount
from corewise.views.text import cpus, gibibytes, number
from corewise.vocabulary.names import BATCH_CPU, BATCH_MEMORY
from corewise.vocabulary.qos import QoSRules
from corewise.workload.pods import Pod

TOTAL = "*"
"""The name of the row that adds up all others; no pod can have it."""
OFFLINE = "offline"
_CPU, _MEMORY = "cpu", "memory"


class PodAmounts(msgspec.Struct, frozen=True, kw_only=True):
    """The requests of a pod, or of all pods together."""

    cpu: int = msgspec.field(name="requestedCPUMilli")
    memory: int = msgspec.field(name="requestedMemoryBytes")
    owned: int = msgspec.field(name="ownedCPUs")
    batch_cpu: int = msgspec.field(name="batchCPUNormalizedMilli")
    batch_memory: int = msgspec.field(name="batchMemoryBytes")


@dataclass(frozen=True, slots=True)
class PodRow:
    """One pod, ``name`` is NAMESPACE/NAME. ``qos``: offline, its QoS class, or that of Kubernetes.

    ``problem`` is the reason code of what is wrong with what it states.
    """

    name: str
    node: str
    qos: str
    cpus: str
    phase: str
    amounts: PodAmounts
    problem: str = ""

    @property
    def record(self) -> dict[str, Any]:
        """The machine form; every key of an amount names its unit."""
        return {
            "name": self.name,
            "node": self.node or None,
            "qosClass": self.qos or None,
            "phase": self.phase,
            "cpus": self.cpus,
            **msgspec.to_builtins(self.amounts),
            "problem": self.problem or None,
        }

    @property
    def totals(self) -> dict[str, Any]:
        """The amounts that add up, for programs."""
        sums: dict[str, Any] = msgspec.to_builtins(self.amounts)
        return sums


def row_of(pod: Pod, rules: QoSRules) -> PodRow:
    """Return a pod's row."""
    facts = pod_facts(pod, rules)
    where, finding = placement(pod, rules)
    batch = facts.requests.get(BATCH_CPU, 0)
    stated = rules.class_of(pod.metadata.labels, pod.metadata.namespace)
    wrong = facts.problem or finding
    return PodRow(
        name=facts.key,
        node=pod.spec.node_name,
        qos=OFFLINE if batch else stated or pod.status.qos_class,
        cpus=str(where.cpus),
        phase=pod.status.phase,
        amounts=PodAmounts(
            cpu=facts.cpu,
            memory=facts.requests.get(_MEMORY, 0),
            owned=len(where.cpus),
            batch_cpu=batch,
            batch_memory=facts.requests.get(BATCH_MEMORY, 0),
        ),
        problem=wrong.reason if wrong else "",
    )


def total_of(rows: Iterable[PodRow]) -> PodRow:
    """Return the row that adds up all others."""
    amounts = [row.amounts for row in rows]
    sums = {name: sum(getattr(each, name) for each in amounts) for name in PodAmounts.__struct_fields__}
    return PodRow(TOTAL, "", "", "", "", PodAmounts(**sums))


def _state_severity(row: PodRow) -> CellSeverity | None:
    if row.problem:
        return CellSeverity.ERROR
    return CellSeverity.WARNING if row.name != TOTAL and not row.node else None


COLUMNS: list[Column[PodRow]] = [
    Column("POD", lambda row: row.name, shrink=24),
    Column("NODE", lambda row: row.node or ("" if row.name == TOTAL else "-"), shrink=12),
    Column("CLASS", lambda row: row.qos, priority=2),
    amount("CPU", lambda row: row.amounts.cpu or None, cpus),
    amount("MEM GiB", lambda row: row.amounts.memory or None, gibibytes, wide=True),
    amount("BATCH CPU", lambda row: row.amounts.batch_cpu or None, cpus, priority=1),
    amount("BATCH MEM GiB", lambda row: row.amounts.batch_memory or None, gibibytes, wide=True),
    amount("OWNED", lambda row: row.amounts.owned or None, number, wide=True),
    Column("OWNED CPUS", lambda row: row.cpus or ("" if row.name == TOTAL else "-"), shrink=10, priority=3),
    Column("STATE", lambda row: row.problem or row.phase, severity=_state_severity),
]


def listing_of(rows: list[PodRow]) -> Listing[PodRow]:
    """Return the rows in every form, with their sum."""
    total, records = total_of(rows), [row.record for row in rows]
    return Listing(
        COLUMNS, rows, records, lambda row: f"pod/{row.name}", total.totals, [total] if rows else []
    )
