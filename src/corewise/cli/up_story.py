"""How ``corewise up`` ends: a picture of what a CPU in a request is worth, and the run in five lines.

The picture has a pair of bars for each kind of machine: a CPU model, with Hyper-Threading and turbo where
they tell two kinds of one model apart. The headline is the last line.
"""

from __future__ import annotations

import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from statistics import fmean

import click

from corewise.cli.output import CellSeverity, Screen, count, cpus
from corewise.simulation.measurement import ClusterMeasurement, NodeMeasurement, total
from corewise.simulation.node_memory import CROWDED, summary
from corewise.simulation.report import RunReport

_WIDTH = 80
_MOST_BARS = 12
_TOLERANCE = 0.1
"""How far from 1.00 a CPU may be worth before its bar is coloured."""
_NOISE = re.compile(r"\((?:R|TM)\)|\bIntel\b|\bAMD\b|\bCPU\b|\bProcessor\b|\b\d+-Core\b|@.*")
_LONGEST_NAME = 30


def picture(report: RunReport, screen: Screen) -> list[str]:
    """Return a line for each kind of machine: what a CPU in a request is worth there, off and on."""
    off = report.off.snapshot if report.off else None
    names = _kinds([*(off.nodes if off else ()), *report.on.snapshot.nodes])
    panes = [("corewise off", _worth(off, names))] if off else []
    panes.append(("corewise on", _worth(report.on.snapshot, names)))
    kinds = sorted(
        {name for _, worth in panes for name in worth}, key=lambda name: panes[0][1].get(name, 0.0)
    )
    if not kinds:
        return []
    label = max(len(name) for name in kinds)
    room = (min(screen.width or _WIDTH, _WIDTH) - label) // len(panes) - 2
    most = max(value for _, worth in panes for value in worth.values())
    block = "█" if _prints("█") else "#"
    lines = ["What one CPU in a request is worth, in baseline CPUs:"]
    lines.append(f"{' ' * label}{''.join(f'  {title:<{room}}' for title, _ in panes)}".rstrip())
    for kind in kinds[:_MOST_BARS]:
        bars = [_bar(worth.get(kind), most, room, block, screen) for _, worth in panes]
        lines.append(f"{kind:<{label}}{''.join(bars)}".rstrip())
    if len(kinds) > _MOST_BARS:
        lines.append(f"{count(len(kinds) - _MOST_BARS, 'more kind')} of machine: -o json shows all nodes")
    return lines


def _bar(value: float | None, most: float, room: int, block: str, screen: Screen) -> str:
    if value is None:
        return f"  {'-':<{room}}"
    number = f" {value:.2f}"
    text = f"{block * max(1, round(value / most * (room - len(number))))}{number}"
    fair = abs(value - 1) <= _TOLERANCE
    shown = text if fair or not screen.colour else click.style(text, fg=CellSeverity.WARNING.value)
    return f"  {shown}{' ' * (room - len(text))}"


def _prints(text: str) -> bool:
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True


def _kinds(nodes: list[NodeMeasurement]) -> Mapping[tuple[str, bool, bool], str]:
    """Return a short name for each kind of machine."""
    found = {kind for node in nodes if (kind := _kind(node))}
    short = {kind: " ".join(_NOISE.sub(" ", kind[0]).split())[:_LONGEST_NAME] or kind[0] for kind in found}
    alike = Counter(short.values())

    told = {
        kind: f"{name}{'' if kind[1] else ', HT off'}{'' if kind[2] else ', turbo off'}"
        for kind, name in short.items()
    }
    return {kind: told[kind] if alike[name] > 1 else name for kind, name in short.items()}


def _kind(node: NodeMeasurement) -> tuple[str, bool, bool] | None:
    facts = node.facts or {}
    if not facts.get("cpuModel"):
        return None
    return str(facts["cpuModel"]), bool(facts.get("hyperThreadEnabled")), bool(facts.get("turboEnabled"))


def _worth(measurement: ClusterMeasurement, names: Mapping[tuple[str, bool, bool], str]) -> dict[str, float]:
    """Return what a requested CPU is worth on each kind of machine, the mean of its nodes."""
    values: dict[str, list[float]] = defaultdict(list)
    for node in measurement.nodes:
        kind, worth = _kind(node), node.delivered.per_requested if node.delivered else None
        if kind and worth is not None:
            values[names[kind]].append(worth)
    return {name: fmean(each) for name, each in values.items()}


def story(report: RunReport) -> Iterator[str]:
    """Yield what the run showed, the most important last."""
    off, on = report.off.snapshot if report.off else None, report.on.snapshot
    models = {str(node.facts["cpuModel"]) for node in on.nodes if node.facts and node.facts.get("cpuModel")}
    machines = f"{count(len(on.nodes), 'node')}, {count(len(models), 'CPU model')}"
    offered, requested = f"{cpus(on.schedulable)} CPUs", cpus(on.requested)
    if off is None:
        yield f"{machines}: corewise was on from the start; there is nothing to compare with."
    else:
        if off.per_requested:
            yield f"{machines}: a requested CPU was worth {_range(off)} baseline CPUs."
        else:
            yield f"{machines}."
        if off.schedulable != on.schedulable:
            more = f" ({on.schedulable / off.schedulable - 1:+.0%})" if off.schedulable else ""
            offered = f"{offered}, not {cpus(off.schedulable)}{more}"
        if off.requested != on.requested:
            requested = f"{requested}, not {cpus(off.requested)}"
    yield f"Nodes offer {offered}; pods request {requested}."
    yield from _offline(report)
    yield from _memory(report)
    if on.per_requested and on.spread is not None:
        instead = f" instead of {off.spread:.2f}" if off and off.spread is not None else ""
        yield f"Now one CPU is worth {_range(on)} everywhere: a spread of {on.spread:.2f}{instead}."


def _offline(report: RunReport) -> Iterator[str]:
    off = total(report.off.colocation.values()) if report.off else None
    on = total(report.on.colocation.values())
    if off is not None and off.mean_slowdown is not None:
        yield f"Offline pods used {off.offline:.1f} CPUs and slowed online pods by {off.mean_slowdown:.1%};"
    if on is not None and on.mean_slowdown is not None:
        yield f"with corewise they use {on.offline:.1f} CPUs and slow online pods by {on.mean_slowdown:.1%}."


def _memory(report: RunReport) -> Iterator[str]:
    if not report.on.memory:
        return
    limit = f"above {CROWDED:.0%} of their memory bandwidth"
    on = summary(report.on.memory.values())
    if report.off:
        off = summary(report.off.memory.values())
        lost = "" if off.mean_slowdown is None else f"; pods slowed by {off.mean_slowdown:.1%}"
        yield f"{off.crowded} of {count(off.nodes, 'node')} were {limit}{lost}."
    lost = "" if on.mean_slowdown is None else f"; pods slowed by {on.mean_slowdown:.1%}"
    now = "are" if report.off else f"are {limit}"
    yield f"With corewise {on.crowded} of {count(on.nodes, 'node')} {now}{lost}."


def _range(of: ClusterMeasurement) -> str:
    return f"{min(of.per_requested):.2f} to {max(of.per_requested):.2f}"
