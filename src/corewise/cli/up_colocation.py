"""What ``corewise up`` prints of online and offline pods beside each other, with corewise off and on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from corewise.cli.output import Column, Listing, count
from corewise.simulation.agents import WINDOW
from corewise.simulation.measurement import Colocation, total
from corewise.simulation.report import Report


@dataclass(frozen=True, slots=True)
class Pair:
    """A node, or all of them, with corewise off and on."""

    name: str
    off: Colocation | None
    on: Colocation


def colocation_listing(report: Report, most: int) -> Listing[Pair]:
    """Return the sum and the first nodes."""
    off = report.colocation_off or {}
    pairs = [Pair(name, off.get(name), on) for name, on in report.colocation_on.items()]
    on = total(report.colocation_on.values())
    every = [] if on is None else [Pair("*", total(off.values()), on)]
    columns: tuple[Column[Pair], ...] = (
        Column("NODE", lambda pair: pair.name),
        Column("ONLINE CPU OFF", lambda pair: _cpus(pair.off.online if pair.off else None), right=True),
        Column("ON", lambda pair: _cpus(pair.on.online), right=True),
        Column("OFFLINE CPU OFF", lambda pair: _cpus(pair.off.offline if pair.off else None), right=True),
        Column("ON", lambda pair: _cpus(pair.on.offline), right=True),
        Column("OFFERED", lambda pair: _cpus(pair.on.offered), right=True),
        Column("BUSY OFF", lambda pair: _busy(pair.off), right=True),
        Column("ON", lambda pair: _busy(pair.on), right=True),
        Column("ONLINE SLOWDOWN OFF", lambda pair: _slowdown(pair.off), right=True),
        Column("ON", lambda pair: _slowdown(pair.on), right=True),
    )
    return Listing(columns, [*every, *pairs[:most]], (), name=lambda pair: f"node/{pair.name}")


def colocation_notes(report: Report) -> Iterator[str]:
    """Yield what has to be said of the table."""
    if report.colocation_on:
        yield f"offline pods: averages over {int(WINDOW)} simulated seconds on each node that has any"
        yield "online slowdown: throughput lost against online pods alone, mean (worst) of their containers"
    if report.nodes_not_simulated:
        yield f"{count(report.nodes_not_simulated, 'more node')} with offline pods not simulated"


def beside(of: Colocation) -> str:
    """Return in a line what online and offline pods got."""
    offered = "" if of.offered is None else f" of {of.offered:.1f} offered"
    text = f"offline pods get {of.offline:.1f} CPUs{offered}; nodes {of.utilization:.0%} busy"
    if of.mean_slowdown is None or of.worst_slowdown is None:
        return text
    return f"{text}; online pods slowed by {of.mean_slowdown:.1%}, at worst {of.worst_slowdown:.0%}"


def _cpus(amount: float | None) -> str:
    return "-" if amount is None else f"{amount:.1f}"


def _busy(of: Colocation | None) -> str:
    return "-" if of is None else f"{of.utilization:.0%}"


def _slowdown(of: Colocation | None) -> str:
    if of is None or of.mean_slowdown is None or of.worst_slowdown is None:
        return "-"
    return f"{of.mean_slowdown:.1%} ({of.worst_slowdown:.0%})"
