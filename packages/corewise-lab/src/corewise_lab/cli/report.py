"""The output of ``corewise up``: lines as they become known, and tables at the end.

Three tables: every node; nodes with offline pods, side by side with online ones; memory bandwidth and cache.
A picture and the story (:mod:`corewise_lab.cli.story`) come last.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

import click

from corewise.cli.errors import ExitCode, Failure
from corewise.cli.output import Form, Screen, document_text, say, shortened_to, table, tell
from corewise.views.tables import CellSeverity, Column
from corewise.views.text import count, cpus, percent
from corewise_lab.agents import SPEED_UP, WINDOW
from corewise_lab.cli.story import picture, story
from corewise_lab.measurement import ClusterMeasurement, Colocation, NodeMeasurement, total
from corewise_lab.node_memory import CROWDED, MemoryState, MemorySummary, mean, summary
from corewise_lab.plan import Plan
from corewise_lab.report import Rest, RunReport, document

MOST_ROWS = 40
_MEBI = 1 << 20
_GIGA = 10**9
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Pair(Generic[T]):
    """The measurements of a node, or of all nodes, with corewise off and on."""

    name: str
    off: T | None
    on: T


def _both(
    _kind: type[T],
    heading: str,
    value: Callable[[T], str],
    severity: Callable[[T], CellSeverity | None] = lambda _: None,
    *,
    priority: int = 0,
) -> tuple[Column[Pair[T]], Column[Pair[T]]]:
    """Return the columns ``HEADING OFF`` and ``ON``."""
    return (
        Column(
            f"{heading} OFF",
            lambda pair: "-" if pair.off is None else value(pair.off),
            right=True,
            severity=lambda pair: None if pair.off is None else severity(pair.off),
            priority=priority,
        ),
        Column(
            "ON",
            lambda pair: value(pair.on),
            right=True,
            severity=lambda pair: severity(pair.on),
            priority=priority,
        ),
    )


def _pairs(off: Mapping[str, T], on: Mapping[str, T]) -> list[Pair[T]]:
    return [Pair(name, off.get(name), each) for name, each in on.items()]


def _fact(node: NodeMeasurement, key: str) -> str:
    return str(node.facts.get(key, "-")) if node.facts else "-"


def _switch(node: NodeMeasurement, key: str) -> str:
    if not node.facts or not node.facts.get("cpuModel"):
        return "-"
    return "on" if node.facts.get(key) else "off"


def _compute(node: NodeMeasurement) -> str:
    value = node.delivered.per_requested if node.delivered else None
    return "-" if value is None else f"{value:.2f}"


_NODE_COLUMNS: tuple[Column[Pair[NodeMeasurement]], ...] = (
    Column("NODE", lambda pair: pair.name),
    Column("CPU MODEL", lambda pair: _fact(pair.on, "cpuModel"), priority=5, shrink=16),
    Column("HT", lambda pair: _switch(pair.on, "hyperThreadEnabled"), priority=4),
    Column("TURBO", lambda pair: _switch(pair.on, "turboEnabled"), priority=4),
    Column("RATIO", lambda pair: pair.on.normalization_ratio or "-", right=True, priority=1),
    Column("RAW CPU", lambda pair: cpus(pair.on.raw_allocatable), right=True, priority=3),
    Column("SCHEDULABLE", lambda pair: cpus(pair.on.schedulable), right=True),
    Column("REQUESTED", lambda pair: cpus(pair.on.requested), right=True, priority=2),
    *_both(NodeMeasurement, "COMPUTE/CPU", _compute),
    Column(
        "VERDICT",
        lambda pair: pair.on.verdict.reason if pair.on.verdict else "",
        severity=lambda pair: CellSeverity.WARNING if pair.on.verdict else None,
        shrink=16,
    ),
)


def _slowdown(of: Colocation) -> str:
    if of.mean_slowdown is None or of.worst_slowdown is None:
        return "-"
    return f"{of.mean_slowdown:.1%} ({of.worst_slowdown:.0%})"


_COLOCATION_COLUMNS: tuple[Column[Pair[Colocation]], ...] = (
    Column("NODE", lambda pair: pair.name),
    *_both(Colocation, "ONLINE CPU", lambda of: f"{of.online:.1f}", priority=2),
    *_both(Colocation, "OFFLINE CPU", lambda of: f"{of.offline:.1f}"),
    Column(
        "OFFERED",
        lambda pair: "-" if pair.on.offered is None else f"{pair.on.offered:.1f}",
        right=True,
        priority=3,
    ),
    *_both(Colocation, "BUSY", lambda of: f"{of.utilization:.0%}", priority=1),
    *_both(Colocation, "ONLINE SLOWDOWN", _slowdown),
)


def _colocation_notes(report: RunReport) -> Iterator[str]:
    if report.on.colocation:
        yield f"offline pods: averages over {int(WINDOW)} simulated seconds on each node that has any"
        yield "idle CPUs: what online pods leave idle when there are no offline pods"
        yield "online slowdown: throughput that online containers lose beside offline pods, mean (worst)"
    if report.nodes_not_simulated:
        yield f"{count(report.nodes_not_simulated, 'more node')} with offline pods not simulated"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"


_MEMORY_COLUMNS: tuple[Column[Pair[MemoryState]], ...] = (
    Column("NODE", lambda pair: pair.name),
    Column("BANDWIDTH GB/s", lambda pair: f"{pair.on.bandwidth / _GIGA:.0f}", right=True, priority=2),
    *_both(
        MemoryState,
        "USED",
        lambda of: f"{of.utilization:.0%}",
        lambda of: CellSeverity.WARNING if of.is_crowded else None,
    ),
    *_both(MemoryState, "LATENCY", lambda of: f"{of.latency * _GIGA:.0f}ns", priority=1),
    *_both(MemoryState, "SLOWDOWN", lambda of: _percent(summary([of]).mean_slowdown)),
)


def memory_line(of: MemorySummary, pending: int) -> str:
    """Return one line about the contention for memory, and its cost."""
    text = f"{of.crowded} of {count(of.nodes, 'node')} above {CROWDED:.0%} of their memory bandwidth"
    text += "" if of.mean_slowdown is None else f"; pods slowed by {of.mean_slowdown:.1%}"
    return text + (f"; {count(pending, 'pod')} without a node" if pending else "")


def memory_notes(report: RunReport) -> Iterator[str]:
    """Yield notes that explain the table of memory."""
    if not report.on.memory:
        return
    yield "slowdown by memory: mean throughput that busy containers lose to others on that memory and cache"
    off = summary(report.off.memory.values()) if report.off else None
    on = summary(report.on.memory.values())
    for kind, lost in on.slowdowns.items():
        before = f"{_percent(mean(off.slowdowns.get(kind, ())))} off, " if off else ""
        yield f"  {kind or 'without a type'}: {before}{_percent(mean(lost))} on"


class Teller:
    """Prints the progress of a run: results on stdout (in table form only), messages on stderr."""

    def __init__(self, form: Form, kubeconfig: Path, *, open_ended: bool) -> None:
        self._table = form is Form.TABLE
        self._kubeconfig = kubeconfig
        self._open_ended = open_ended
        self._live = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._off: ClusterMeasurement | None = None
        self._colocated = False
        self.reportable = False
        """Whether enough has been measured for a report."""

    def progress(self, text: str) -> None:
        """Show a text in place of the last one, cut to the terminal: a line that wraps cannot be wiped."""
        if self._live:
            shown = shortened_to(f"{text} …", shutil.get_terminal_size().columns - 1)
            print(f"\r\033[K{shown}", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Wipe the progress line."""
        if self._live:
            print("\r\033[K", end="", file=sys.stderr, flush=True)

    def waiting(self, text: str) -> None:
        """Print a line that stays: a log of the run has it too."""
        self.clear()
        say(text)

    def started(self, plan: Plan) -> None:
        models = {machine.model.name for machine in plan.machines if machine.model}
        nodes = count(len(plan.machines), "node")
        known = f", {count(len(models), 'CPU model')}" if models else ""
        self._line(f"{plan.source}: {nodes}{known}")

    def loaded(self, pods: int, seconds: float) -> None:
        self._line(f"loaded, {count(pods, 'pod')} in place after {seconds:.1f} s")

    def measured(self, snapshot: ClusterMeasurement, *, on: bool) -> None:
        self._line(_headline(snapshot, self._off, on=on))
        if on:
            self.reportable = True
        else:
            self._off = snapshot

    def colocated(self, of: Mapping[str, Colocation], *, on: bool) -> None:
        summed = total(of.values())
        if summed is not None:
            self._colocated = True
            used, idle = f"{summed.offline:.1f}", f"{summed.idle_alone:.1f}"
            of_idle = f"{used} of {idle} idle CPUs"
            more = f"{used} CPUs, more than the {idle} idle ones"
            text = f"offline pods use {more if float(used) > float(idle) else of_idle}"
            if summed.mean_slowdown is not None and summed.worst_slowdown is not None:
                slower = f"online pods {summed.mean_slowdown:.1%} slower beside offline pods, at worst"
                text = f"{slower} {summed.worst_slowdown:.0%}; {text}"
            text += f"; nodes {summed.utilization:.0%} busy"
            self._line(f"corewise {'on ' if on else 'off'}  {text}")

    def crowded(self, of: MemorySummary, pending: int, *, on: bool) -> None:
        self._line(f"corewise {'on ' if on else 'off'}  {memory_line(of, pending)}")

    def at_rest(self, page: str) -> None:
        self.clear()
        if self._open_ended:
            say(f"The cluster is up until Ctrl-C. To look at it: {page}")
            say("To use it from another shell:")
            say(f"  export KUBECONFIG={shlex.quote(str(self._kubeconfig.absolute()))}")
            activate = Path(sys.prefix, "bin", "activate")
            if shutil.which("corewise") is None and activate.exists():
                say(f"  . {shlex.quote(str(activate))}")
            say("  kubectl get nodes")
            say("  corewise nodes")
            if self._colocated:
                say(f"  corewise top        (time on the nodes runs {SPEED_UP:g} times as fast as here)")
        else:
            self.progress("all nodes have their ratios: counting writes of nodes while nothing changes")

    def _line(self, text: str) -> None:
        self.clear()
        if self._table:
            tell(text)


def _headline(snapshot: ClusterMeasurement, off: ClusterMeasurement | None, *, on: bool) -> str:
    grown = on and off and off.schedulable not in {0, snapshot.schedulable}
    more = f" ({snapshot.schedulable / off.schedulable - 1:+.0%})" if off and grown else ""
    others = sum(node.verdict is not None for node in snapshot.nodes) if on else 0
    theirs = "its ratio" if others == 1 else "their ratios"
    return (
        f"corewise {'on ' if on else 'off'}  {_range(snapshot)}; "
        f"nodes offer {cpus(snapshot.schedulable)} CPUs{more}, "
        f"pods request {cpus(snapshot.requested)}{percent(snapshot.requested, snapshot.schedulable)}"
        + (f"; {count(snapshot.rejected, 'pod')} more do not fit" if snapshot.rejected else "")
        + (f"; {count(others, 'node')} not at {theirs}" if others else "")
    )


def _range(snapshot: ClusterMeasurement) -> str:
    values = snapshot.per_requested
    if not values or snapshot.spread is None:
        return "the worth of a requested CPU is not known: no pod reached its CPU limit"
    return f"one requested CPU is worth {min(values):.2f} to {max(values):.2f} baseline CPUs"


def print_report(report: RunReport, form: Form) -> None:
    """Print the report on stdout."""
    if form is Form.JSON:
        print(document_text(document(report), form), end="")
        return
    off, on = report.off, report.on
    nodes_off = {node.name: node for node in off.snapshot.nodes} if off else {}
    colocation_off = off.colocation if off else {}
    together = total(on.colocation.values())
    every = [] if together is None else [Pair("*", total(colocation_off.values()), together)]
    print()
    _print_table(_NODE_COLUMNS, _pairs(nodes_off, {node.name: node for node in on.snapshot.nodes}))
    _print_table(_COLOCATION_COLUMNS, _pairs(colocation_off, on.colocation), every)
    _print_table(_MEMORY_COLUMNS, _pairs(off.memory if off else {}, on.memory))
    for line in _closing_lines(report):
        tell(line)
    print()
    if shown := picture(report, Screen.of_stdout()):
        click.echo("\n".join([*shown, ""]))
    for line in story(report):
        tell(line)


def _print_table(
    columns: Sequence[Column[Pair[T]]], pairs: Sequence[Pair[T]], summary: Sequence[Pair[T]] = ()
) -> None:
    """Print the first nodes above ``summary``; nothing if there are none."""
    if not pairs:
        return
    print(table(columns, [*pairs[:MOST_ROWS], *summary]), end="")
    if len(pairs) > MOST_ROWS:
        print(f"{count(len(pairs) - MOST_ROWS, 'more node')}: -o json shows all")
    print()


def _closing_lines(report: RunReport) -> list[str]:
    lines = [
        "compute/CPU: baseline CPUs for one requested CPU (1 thread of a Xeon E5-2682 v4, HT on, turbo off)"
    ]
    lines += [*_colocation_notes(report), *memory_notes(report)]
    rests = {"off": report.off.rest if report.off else None, "on": report.on.rest}
    lines += [
        f"with corewise {name}, while nothing changed: {_rest(rest)}" for name, rest in rests.items() if rest
    ]
    if report.changed:
        lines.append(
            "pods changed after the measurement with corewise on: the tables show the nodes before that"
        )
    if report.unsettled:
        shown = ", ".join(report.unsettled[:5]) + (" …" if len(report.unsettled) > 5 else "")
        lines.append(f"WITHOUT THEIR RATIOS: {count(len(report.unsettled), 'node')}: {shown}")
    if report.on.pods_pending:
        why = "kubectl get events -A --field-selector reason=FailedScheduling"
        lines.append(f"{count(report.on.pods_pending, 'pod')} without a node; while the cluster is up: {why}")
    if report.failed_requests:
        lines.append(f"{count(report.failed_requests, 'request')} failed, the last: {report.last_failure}")
    seconds = report.seconds
    lines.append(
        f"time: loaded in {seconds.get('load', 0):.1f} s; "
        f"{_settled(report)} {seconds.get('settle', 0):.1f} s after the manager's start"
    )
    used = (f"{name} {size // _MEBI} MiB" for name, size in report.memory.items() if size is not None)
    lines.append(f"resident memory: {', '.join(used)}")
    return lines + [f"note: {note}" for note in report.notes]


def _settled(report: RunReport) -> str:
    nodes = report.on.snapshot.nodes
    others = {node.name for node in nodes if node.verdict} | set(report.unsettled)
    if not others:
        return "all nodes at their ratios"
    return f"{len(nodes) - len(others)} of {count(len(nodes), 'node')} at their ratios"


def _rest(rest: Rest) -> str:
    sent = f"{rest.status_patches} status patch{'' if rest.status_patches == 1 else 'es'}"
    told = f", {rest.publications} of them by agents (offers to offline pods)" if rest.publications else ""
    stored = f"the API server stored {count(rest.node_writes, 'write')} of nodes{told}"
    return f"kubelets sent {sent} in {rest.seconds:.0f} s, and {stored}"


def refuse_unsound(report: RunReport) -> None:
    """Raise a Failure for a run that did not do what it set out to do."""
    if not report.sound:
        raise Failure(
            f"{count(len(report.unsettled), 'node')} did not get their ratios: "
            f"{', '.join(report.unsettled[:5])}",
            hint="the manager's messages are in manager.log: keep it with --state DIR",
            exit_code=ExitCode.VERDICT,
        )
