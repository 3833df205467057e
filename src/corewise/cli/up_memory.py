"""What ``corewise up`` prints of memory bandwidth and cache, with corewise off and on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from corewise.cli.output import Column, Listing, Severity, count
from corewise.simulation.node_memory import CROWDED, MemoryState, MemorySummary, mean, summary
from corewise.simulation.report import Report

_GIGA = 10**9


@dataclass(frozen=True, slots=True)
class Pair:
    """A node with corewise off and on."""

    name: str
    off: MemoryState | None
    on: MemoryState


def memory_listing(report: Report, most: int) -> Listing[Pair]:
    """Return the first nodes."""
    off = report.memory_off or {}
    pairs = [Pair(name, off.get(name), on) for name, on in report.memory_on.items()]
    columns: tuple[Column[Pair], ...] = (
        Column("NODE", lambda pair: pair.name),
        Column("BANDWIDTH GB/s", lambda pair: f"{pair.on.bandwidth / _GIGA:.0f}", right=True),
        Column(
            "USED OFF", lambda pair: _used(pair.off), right=True, severity=lambda pair: _crowded(pair.off)
        ),
        Column("ON", lambda pair: _used(pair.on), right=True, severity=lambda pair: _crowded(pair.on)),
        Column("LATENCY OFF", lambda pair: _latency(pair.off), right=True),
        Column("ON", lambda pair: _latency(pair.on), right=True),
        Column("SLOWDOWN OFF", lambda pair: _slowdown(pair.off), right=True),
        Column("ON", lambda pair: _slowdown(pair.on), right=True),
    )
    return Listing(columns, pairs[:most], (), name=lambda pair: f"node/{pair.name}")


def memory_notes(report: Report) -> Iterator[str]:
    """Yield what has to be said of the table."""
    if not report.memory_on:
        return
    yield "slowdown by memory: throughput that busy containers lose to idle memory and all their cache, mean"
    off, on = summary((report.memory_off or {}).values()), summary(report.memory_on.values())
    for kind, lost in on.slowdowns.items():
        before = f"{_percent(mean(off.slowdowns.get(kind, ())))} off, " if report.memory_off else ""
        yield f"  {kind or 'without a type'}: {before}{_percent(mean(lost))} on"


def memory_line(of: MemorySummary, pending: int) -> str:
    """Return in a line how crowded memory is, and what that costs."""
    text = f"{of.crowded} of {count(of.nodes, 'node')} above {CROWDED:.0%} of their memory bandwidth"
    if of.mean_slowdown is not None:
        text += f"; pods slowed by {of.mean_slowdown:.1%}"
    return text + (f"; {count(pending, 'pod')} without a node" if pending else "")


def _used(of: MemoryState | None) -> str:
    return "-" if of is None else f"{of.utilization:.0%}"


def _crowded(of: MemoryState | None) -> Severity | None:
    return Severity.WARNING if of is not None and of.is_crowded else None


def _latency(of: MemoryState | None) -> str:
    return "-" if of is None else f"{of.latency * _GIGA:.0f}ns"


def _slowdown(of: MemoryState | None) -> str:
    return "-" if of is None else _percent(summary([of]).mean_slowdown)


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"
