"""The offline table of ``corewise top``: a row for each node that offers CPU, one for all, and remarks.

CPU is raw: as the kernel counts it. Online, offline and idle add up to allocatable; what is used beyond it
leaves nothing idle. Offered and quota are raw too, before the normalization ratio that batch-cpu has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, TypeVar

import msgspec

from corewise.views.offline_reports import NodeReport, age_text, offer_problem, suppression_state
from corewise.views.tables import CellSeverity, Column, Listing, amount
from corewise.views.text import count, cpus, gibibytes, measured, number, percent, some
from corewise.vocabulary.names import CONFIG_NAME, OVERSUBSCRIPTION, SUPPRESSION_KEY
from corewise.vocabulary.offline_report import OfflineReport, SuppressionReport
from corewise.vocabulary.reasons import Reason

T = TypeVar("T")

TOTAL = "*"
"""The name of the row that adds up all others; no node can have it."""
_HISTORY_WIDTH = 14
BARS = "▁▂▃▄▅▆▇█"
PLAIN = "_.-=+*%#"
"""For terminals whose encoding has no bars."""


class Sums(msgspec.Struct, frozen=True, kw_only=True):
    """Amounts that add up over nodes: CPU in raw milli-CPU, memory in bytes; None is unknown or not there."""

    allocatable: int = msgspec.field(name="allocatableCPUMilli")
    online: int = msgspec.field(name="onlineCPUMilli")
    offline: int = msgspec.field(name="offlineCPUMilli")
    idle: int = msgspec.field(name="idleCPUMilli")
    offered: int = msgspec.field(name="offeredCPUMilli")
    quota: int | None = msgspec.field(name="quotaCPUMilli")
    target: int | None = msgspec.field(name="targetCPUMilli")
    offered_memory: int = msgspec.field(name="offeredMemoryBytes")
    offline_pods: int = msgspec.field(name="offlinePods")
    native_pods: int = msgspec.field(name="nativeBestEffortPods")
    repaired: int = msgspec.field(name="repairs")


class Details(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The facts about one node besides its amounts. ``age_seconds`` is that of the last sample."""

    ratio: str | None = None
    normalization_ratio: str | None = None
    mode: str | None = None
    state: str = ""
    limited_by: str = ""
    reason: str | None = None
    why: str | None = None
    sampled_at: str | None = None
    interval_seconds: int | None = None
    age_seconds: int | None = None
    stale: bool = False
    online_history: Sequence[int] = msgspec.field(name="onlineHistoryCPUMilli")
    offline_history: Sequence[int] = msgspec.field(name="offlineHistoryCPUMilli")


@dataclass(frozen=True, slots=True)
class TopRow:
    """One row. ``severity`` is that of its state."""

    name: str
    sums: Sums
    details: Details
    severity: CellSeverity | None = None

    @property
    def record(self) -> dict[str, Any]:
        """The machine form; every key of an amount names its unit."""
        return {"name": self.name, **msgspec.to_builtins(self.sums), **msgspec.to_builtins(self.details)}

    @property
    def totals(self) -> dict[str, Any]:
        """The amounts that add up, for programs."""
        sums: dict[str, Any] = msgspec.to_builtins(self.sums)
        return sums


def row_of(node: NodeReport) -> TopRow | None:
    """Return a node's row; None without a report."""
    report = node.report
    if report is None:
        return None
    suppression = report.suppression or SuppressionReport(mode="", reason="", why="")
    problem = offer_problem(report)
    sums = Sums(
        allocatable=report.allocatable_milli,
        online=report.online_milli,
        offline=report.offline_milli,
        idle=max(0, report.allocatable_milli - report.online_milli - report.offline_milli),
        offered=report.offered_milli,
        quota=suppression.quota_milli,
        target=suppression.target_milli,
        offered_memory=report.memory.offered,
        offline_pods=report.offline_pods,
        native_pods=report.native_best_effort,
        repaired=suppression.repaired,
    )
    details = Details(
        ratio=report.ratio,
        normalization_ratio=report.normalization_ratio,
        mode=suppression.mode or None,
        state=problem or suppression_state(report),
        limited_by=limit_of(report),
        reason=report.suppression.reason if report.suppression else report.limited_by or None,
        why=report.suppression.why if report.suppression else None,
        sampled_at=report.time,
        interval_seconds=report.interval_seconds,
        age_seconds=node.age,
        stale=node.stale,
        online_history=list(report.online),
        offline_history=list(report.offline),
    )
    return TopRow(node.name, sums, details, CellSeverity.WARNING if problem else None)


def total_of(rows: Sequence[TopRow]) -> TopRow:
    """Return the row that adds up all others; its age is that of the oldest data."""

    def add(amount: str) -> int | None:
        known = [each for each in (getattr(row.sums, amount) for row in rows) if each is not None]
        return sum(known) if known else None if amount in {"quota", "target"} else 0

    amounts: dict[str, Any] = {name: add(name) for name in Sums.__struct_fields__}
    amounts["idle"] = max(0, amounts["allocatable"] - amounts["online"] - amounts["offline"])
    details = Details(
        age_seconds=max((age for row in rows if (age := row.details.age_seconds) is not None), default=None),
        stale=any(row.details.stale for row in rows),
        online_history=added(row.details.online_history for row in rows),
        offline_history=added(row.details.offline_history for row in rows),
    )
    return TopRow(TOTAL, Sums(**amounts), details)


def added(histories: Iterable[Sequence[int]]) -> list[int]:
    """Add up histories, the newest samples to each other."""
    return [sum(samples) for samples in aligned(histories, 0)]


def aligned(histories: Iterable[Sequence[T]], absent: T) -> list[tuple[T, ...]]:
    """Return the samples of all histories by time, oldest first; ``absent`` before a history begins."""
    newest_first = (reversed(history) for history in histories)
    return [*zip_longest(*newest_first, fillvalue=absent)][::-1]


def columns(bars: str) -> list[Column[TopRow]]:
    """Return the columns; ``bars`` are the characters of sparklines."""

    def part(title: str, amount: Callable[[Sums], int], priority: int = 0) -> Column[TopRow]:
        def text(row: TopRow) -> str:
            return measured(amount(row.sums)) + percent(amount(row.sums), row.sums.allocatable)

        return Column(title, text, right=True, priority=priority, figure=lambda row: amount(row.sums))

    def history(samples: Callable[[Details], Sequence[int]]) -> Callable[[TopRow], str]:
        return lambda row: sparkline(samples(row.details), row.sums.allocatable, _HISTORY_WIDTH, bars)

    def age(row: TopRow) -> str:
        old = " OLD" if row.details.stale else ""
        return "" if row.name == TOTAL else age_text(row.details.age_seconds) + old

    def staleness(row: TopRow) -> CellSeverity | None:
        return CellSeverity.ERROR if row.details.stale and row.name != TOTAL else None

    return [
        Column("NODE", lambda row: row.name),
        amount("CPU", lambda row: row.sums.allocatable, cpus, priority=4),
        part("ONLINE", lambda sums: sums.online),
        part("OFFLINE", lambda sums: sums.offline),
        part("IDLE", lambda sums: sums.idle, priority=3),
        amount("OFFERED", lambda row: row.sums.offered, measured, priority=1),
        amount("QUOTA", lambda row: row.sums.quota, measured, priority=2),
        amount("TARGET", lambda row: row.sums.target, measured, wide=True),
        amount("PODS", lambda row: row.sums.offline_pods, number, wide=True),
        amount("NATIVE BE", lambda row: row.sums.native_pods, number, wide=True),
        amount("OFFERED MEM GiB", lambda row: row.sums.offered_memory, gibibytes, wide=True),
        amount("REPAIRED", lambda row: row.sums.repaired, number, wide=True),
        Column("MODE", lambda row: row.details.mode or "", wide=True),
        Column("STATE", lambda row: row.details.state, wide=True, severity=lambda row: row.severity),
        Column(
            "LIMITED BY", lambda row: row.details.limited_by, severity=lambda row: row.severity, shrink=18
        ),
        Column("AGE", age, right=True, severity=staleness, figure=lambda row: row.details.age_seconds),
        Column("ONLINE LATELY", history(lambda details: details.online_history), priority=6),
        Column("OFFLINE LATELY", history(lambda details: details.offline_history), priority=5),
    ]


def listing_of(rows: list[TopRow], bars: str) -> Listing[TopRow]:
    """Return the rows in every form, with their sum."""
    total, records = total_of(rows), [row.record for row in rows]
    return Listing(columns(bars), rows, records, lambda row: f"node/{row.name}", total.totals, [total])


_OF_THE_OFFER: dict[str, str] = {
    Reason.OFFER_FROM_IDLE: "{ratio} of idle",
    Reason.OFFER_LESS_PINNED: "{ratio} of idle, less CPUs owned",
    Reason.OFFER_NOTHING_IDLE: "online work takes all",
    Reason.OFFER_RATIO_ZERO: "ratio is 0",
    Reason.OFFER_FROZEN: "no samples: frozen",
    Reason.OFFER_WITHDRAWN: "no samples: withdrawn",
    Reason.SAMPLE_MISSED: "no samples yet",
}
_OF_THE_QUOTA: dict[str, str] = {
    Reason.SUPPRESSION_AT_FLOOR: "at the floor: {offer}",
    Reason.SUPPRESSION_STEPPED_DOWN: "going down to {target}: {offer}",
    Reason.SUPPRESSION_STEPPED_UP: "going up to {target}: {offer}",
    Reason.SLICE_MISSING: "nothing: no BestEffort cgroup",
    Reason.SLICE_UNREADABLE: "quota unreadable, as it was",
    Reason.UTILIZATION_HIGH: "utilization high: squeezing pods",
    Reason.UTILIZATION_LOW: "utilization low: raising pods",
    Reason.UTILIZATION_BETWEEN: "each pod's own quota",
    Reason.NOTHING_ADJUSTABLE: "each pod's own quota, all at their ends",
}
"""SuppressionAtTarget is not here: the quota is the offer then, and what limits the offer limits the pods."""


def limit_of(report: OfflineReport) -> str:
    """Return the limit on offline pods: the offer, the quota on its way to it, or nothing."""
    if report.suppression is None:
        return f"nothing: not suppressed (offer: {_offer(report)})"
    return _quota(report, report.suppression)


def _offer(report: OfflineReport) -> str:
    code = offer_problem(report) or report.limited_by or Reason.OFFER_FROM_IDLE
    words = _OF_THE_OFFER.get(code, code)
    return words.replace("{ratio}", report.ratio)


def _quota(report: OfflineReport, suppression: SuppressionReport) -> str:
    if suppression.reason == Reason.SUPPRESSION_AT_TARGET:
        return _offer(report)
    words = _OF_THE_QUOTA.get(suppression.reason, suppression.reason)
    return words.replace("{target}", cpus(suppression.target_milli)).replace("{offer}", _offer(report))


def remarks(nodes: Sequence[NodeReport], config_namespace: str) -> Iterable[str]:
    """Return one line for each thing that the table does not show, the most urgent first."""
    config = f"ConfigMap {config_namespace}/{CONFIG_NAME}"
    stale = _names(nodes, lambda node: node.stale)
    if stale:
        oldest = age_text(max((node.age or 0 for node in nodes if node.stale), default=0))
        yield (
            f"{_have(stale)} old data, up to {oldest}: {some(stale)} "
            f"(corewise explain suppression {stale[0]}; until its agent runs, quotas stay as they are)"
        )
    troubled = _names(nodes, lambda node: node.report is not None and bool(offer_problem(node.report)))
    if troubled:
        yield f"{_have(troubled)} no samples: {some(troubled)} (corewise explain suppression {troubled[0]})"
    unreadable = _names(nodes, lambda node: node.unreadable)
    if unreadable:
        yield f"{_have(unreadable)} a report that cannot be read: {some(unreadable)} (another version's?)"
    silent = _names(nodes, lambda node: node.labeled and node.report is None and not node.unreadable)
    if silent:
        yield (
            f"{_have(silent)} the label {OVERSUBSCRIPTION}=true and no report: {some(silent)} "
            f"(corewise explain suppression {silent[0]})"
        )
    free = _names(nodes, lambda node: node.report is not None and node.report.suppression is None)
    if free:
        yield (
            f"{_have(free)} no suppression: {some(free)} (turn it on: key {SUPPRESSION_KEY} of {config}, "
            "{} is enough)"
        )
    off = _names(nodes, lambda node: node.report is None and not node.labeled and not node.unreadable)
    if off:
        yield (
            f"{count(len(off), 'node')} not shown: oversubscription is off. Turn it on: "
            f"kubectl label node {off[0]} {OVERSUBSCRIPTION}=true, and key {SUPPRESSION_KEY} of {config}"
        )


def _names(nodes: Iterable[NodeReport], applies: Callable[[NodeReport], bool]) -> list[str]:
    return [node.name for node in nodes if applies(node)]


def _have(names: Sequence[str]) -> str:
    return f"{count(len(names), 'node')} {'has' if len(names) == 1 else 'have'}"


def ramp(encoding: str | None) -> str:
    """Return the characters that a stream of this encoding can show."""
    try:
        BARS.encode(encoding or "ascii")
    except (LookupError, UnicodeEncodeError):
        return PLAIN
    return BARS


def condensed(values: Sequence[int | None], width: int) -> list[int | None]:
    """Return at most ``width`` values, each the mean of as many neighbors as that takes; None if all are."""
    together = max(1, -(-len(values) // width))
    parts = [values[max(0, end - together) : end] for end in range(len(values), 0, -together)]
    known = ([each for each in part if each is not None] for part in reversed(parts))
    return [sum(part) // len(part) if part else None for part in known]


def sparkline(values: Sequence[int | None], full: int, width: int, bars: str = BARS) -> str:
    """Return the last ``width`` values as bars, oldest first; ``full`` is the height of the highest one.

    Values beyond the ends are shown as the ends are, None as a blank. Without a positive ``full`` there is
    nothing to show.
    """
    if full <= 0:
        return ""
    steps = len(bars)

    def bar(value: int | None) -> str:
        if value is None:
            return " "
        return bars[min(min(max(value, 0), full) * steps // full, steps - 1)]

    return "".join(map(bar, values[-width:] if width > 0 else ()))
