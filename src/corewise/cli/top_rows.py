"""One line of ``corewise top`` about each node that offers CPU to offline pods, and one about all (pure).

CPU is raw: as the kernel counts it. Online, offline and idle add up to allocatable; what is used beyond it
leaves nothing idle. Offered and quota are raw too, before the normalization ratio that batch-cpu has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from corewise.cli import output
from corewise.cli.offline_reports import NodeReport, age_text, offer_problem, suppression_state
from corewise.cli.output import Column, Severity
from corewise.cli.sparkline import sparkline
from corewise.cli.top_words import limit_of
from corewise.vocabulary.offline_report import OfflineReport, SuppressionReport

TOTAL = "*"
"""The name of the line that adds up all others; no node can have it."""
_SHORT = 14


@dataclass(frozen=True, slots=True)
class Row:
    """One line: CPU in raw milli-CPU, memory in bytes; None is unknown or not there. ``age`` in seconds."""

    name: str
    allocatable: int
    online: int
    offline: int
    offered: int
    quota: int | None
    target: int | None
    offered_memory: int
    offline_pods: int
    native_pods: int
    repaired: int
    online_history: Sequence[int]
    offline_history: Sequence[int]
    limit: str = ""
    mode: str = ""
    state: str = ""
    age: int | None = None
    stale: bool = False
    report: OfflineReport | None = None

    @property
    def idle(self) -> int:
        return max(0, self.allocatable - self.online - self.offline)


def row_of(node: NodeReport) -> Row | None:
    """Return a node's line; None without a report."""
    report = node.report
    if report is None:
        return None
    suppression = report.suppression or SuppressionReport(mode="", reason="", why="")
    return Row(
        name=node.name,
        allocatable=report.allocatable_milli,
        online=report.online_milli,
        offline=report.offline_milli,
        offered=report.offered_milli,
        quota=suppression.quota_milli,
        target=suppression.target_milli,
        offered_memory=report.memory.offered,
        offline_pods=report.offline_pods,
        native_pods=report.native_best_effort,
        repaired=suppression.repaired,
        online_history=report.online,
        offline_history=report.offline,
        limit=limit_of(report),
        mode=suppression.mode,
        state=offer_problem(report) or suppression_state(report),
        age=node.age,
        stale=node.stale,
        report=report,
    )


def total_of(rows: Sequence[Row]) -> Row:
    """Return the line that adds up all others; its age is that of the oldest data."""
    quotas = [row.quota for row in rows if row.quota is not None]
    targets = [row.target for row in rows if row.target is not None]
    return Row(
        name=TOTAL,
        allocatable=sum(row.allocatable for row in rows),
        online=sum(row.online for row in rows),
        offline=sum(row.offline for row in rows),
        offered=sum(row.offered for row in rows),
        quota=sum(quotas) if quotas else None,
        target=sum(targets) if targets else None,
        offered_memory=sum(row.offered_memory for row in rows),
        offline_pods=sum(row.offline_pods for row in rows),
        native_pods=sum(row.native_pods for row in rows),
        repaired=sum(row.repaired for row in rows),
        online_history=_added(row.online_history for row in rows),
        offline_history=_added(row.offline_history for row in rows),
        age=max((row.age for row in rows if row.age is not None), default=None),
        stale=any(row.stale for row in rows),
    )


def _added(histories: Iterable[Sequence[int]]) -> list[int]:
    """Add up histories, the newest samples to each other."""
    newest_first = (reversed(history) for history in histories)
    return [sum(samples) for samples in zip_longest(*newest_first, fillvalue=0)][::-1]


SORTS: dict[str, Callable[[Row], Any]] = {
    "name": lambda row: row.name,
    "online": lambda row: (-row.online, row.name),
    "offline": lambda row: (-row.offline, row.name),
    "idle": lambda row: (-row.idle, row.name),
    "offered": lambda row: (-row.offered, row.name),
    "quota": lambda row: (-1 if row.quota is None else -row.quota, row.name),
    "age": lambda row: (-(row.age or 0), row.name),
}
"""What ``--sort`` may be: names ascend, figures descend."""


def _part(amount: Callable[[Row], int]) -> Callable[[Row], str]:
    return lambda row: output.measured(amount(row)) + output.percent(amount(row), row.allocatable)


def _age(row: Row) -> str:
    if row.name == TOTAL:
        return ""
    return age_text(row.age) + (" STALE" if row.stale else "")


def _severity(row: Row) -> Severity | None:
    return Severity.WARNING if row.report and offer_problem(row.report) else None


def _staleness(row: Row) -> Severity | None:
    return Severity.ERROR if row.stale and row.name != TOTAL else None


def columns(bars: str) -> list[Column[Row]]:
    """Return the columns; ``bars`` are the characters of sparklines."""

    def history(samples: Callable[[Row], Sequence[int]], width: int) -> Callable[[Row], str]:
        return lambda row: sparkline(samples(row), row.allocatable, width, bars)

    return [
        Column("NODE", lambda row: row.name),
        Column("CPU", lambda row: output.cpus(row.allocatable), right=True),
        Column("ONLINE", _part(lambda row: row.online), right=True),
        Column("OFFLINE", _part(lambda row: row.offline), right=True),
        Column("IDLE", _part(lambda row: row.idle), right=True),
        Column("OFFERED", lambda row: output.measured(row.offered), right=True),
        Column("QUOTA", lambda row: output.measured(row.quota), right=True),
        Column("TARGET", lambda row: output.measured(row.target), right=True, wide=True),
        Column("PODS", lambda row: str(row.offline_pods), right=True, wide=True),
        Column("NATIVE BE", lambda row: str(row.native_pods), right=True, wide=True),
        Column("OFFERED MEM GiB", lambda row: output.gibibytes(row.offered_memory), right=True, wide=True),
        Column("REPAIRED", lambda row: str(row.repaired), right=True, wide=True),
        Column("MODE", lambda row: row.mode, wide=True),
        Column("STATE", lambda row: row.state, wide=True, severity=_severity),
        Column("LIMITED BY", lambda row: row.limit, severity=_severity),
        Column("AGE", _age, right=True, severity=_staleness),
        Column("ONLINE LATELY", history(lambda row: row.online_history, _SHORT)),
        Column("OFFLINE LATELY", history(lambda row: row.offline_history, _SHORT)),
    ]


def record_of(row: Row) -> dict[str, Any]:
    """Return the machine form of a line; every key of an amount names its unit."""
    report = row.report
    return {
        "name": row.name,
        **sums_of(row),
        "ratio": report.ratio if report else None,
        "normalizationRatio": report.normalization_ratio if report else None,
        "mode": row.mode or None,
        "state": row.state,
        "limitedBy": row.limit,
        "reason": _reason(report),
        "why": report.suppression.why if report and report.suppression else None,
        "sampledAt": report.time if report else None,
        "intervalSeconds": report.interval_seconds if report else None,
        "ageSeconds": row.age,
        "stale": row.stale,
        "onlineHistoryCPUMilli": list(row.online_history),
        "offlineHistoryCPUMilli": list(row.offline_history),
    }


def _reason(report: OfflineReport | None) -> str | None:
    if report is None:
        return None
    return report.suppression.reason if report.suppression else report.limited_by or None


def sums_of(row: Row) -> dict[str, Any]:
    """Return the amounts, which add up over nodes."""
    return {
        "allocatableCPUMilli": row.allocatable,
        "onlineCPUMilli": row.online,
        "offlineCPUMilli": row.offline,
        "idleCPUMilli": row.idle,
        "offeredCPUMilli": row.offered,
        "quotaCPUMilli": row.quota,
        "targetCPUMilli": row.target,
        "offeredMemoryBytes": row.offered_memory,
        "offlinePods": row.offline_pods,
        "nativeBestEffortPods": row.native_pods,
        "repairs": row.repaired,
    }
