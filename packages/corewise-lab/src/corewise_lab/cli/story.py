"""The end of ``corewise up``: a picture of a requested CPU's worth, and the run in a few lines.

The picture has a pair of bars for each kind of machine: a CPU model, with Hyper-Threading and turbo where
they tell two kinds of one model apart. A color stands for a model. The lines end with
what a CPU is worth now. They say "everywhere" only if every node was measured, has its ratio, and no two
nodes differ by more than a tenth. Otherwise they name the nodes that differ, and the command that says what
to do. Nodes whose ratios are all 1.00 are not normalized: then the lines end with what offline pods get.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from statistics import fmean

import click

from corewise.cli.output import Screen
from corewise.views.machine_kinds import Kind, kind_names
from corewise.views.tables import CellSeverity
from corewise.views.text import count, cpus, some
from corewise_lab.measurement import ClusterMeasurement, NodeMeasurement, spread, total
from corewise_lab.node_memory import CROWDED, summary
from corewise_lab.report import RunReport

_WIDTH = 80
_MOST_BARS = 12
_TOLERANCE = 0.1
"""How far from 1.00 a CPU may be worth before its number is yellow, and how far nodes count as alike."""
_MOST_REASONS = 3
_COLORS = ("cyan", "green", "magenta", "blue", "bright_cyan", "bright_green", "bright_magenta", "bright_blue")
"""Of the bars of CPU models, in turn. Yellow and red mean severity."""


def worths(report: RunReport) -> tuple[dict[str, float] | None, dict[str, float], Mapping[Kind, str]]:
    """Return the worth of a requested CPU off (None: not measured) and on by kind, and the kinds' names."""
    off = report.off.snapshot if report.off else None
    every = [*(off.nodes if off else ()), *report.on.snapshot.nodes]
    names = kind_names({kind for node in every if (kind := _kind(node))})
    return _worth(off, names) if off else None, _worth(report.on.snapshot, names), names


def picture(report: RunReport, screen: Screen) -> list[str]:
    """Return a line for each kind of machine: what a CPU in a request is worth there, off and on."""
    off, on, names = worths(report)
    panes = [("corewise off", off)] if off is not None else []
    panes.append(("corewise on", on))
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
    colors = _colors(names, kinds) if screen.color else {}
    for kind in kinds[:_MOST_BARS]:
        bars = [_bar(worth.get(kind), most, room, block, colors.get(kind)) for _, worth in panes]
        lines.append(f"{kind:<{label}}{''.join(bars)}".rstrip())
    if len(kinds) > _MOST_BARS:
        lines.append(f"{count(len(kinds) - _MOST_BARS, 'more kind')} of machine: -o json shows all nodes")
    return lines


def _colors(names: Mapping[Kind, str], kinds: Iterable[str]) -> Mapping[str, str]:
    """Return a color for each kind of machine; kinds of one CPU model have the same."""
    models = {name: kind[0] for kind, name in names.items()}
    in_order = list(dict.fromkeys(models[kind] for kind in kinds))
    return {name: _COLORS[in_order.index(models[name]) % len(_COLORS)] for name in kinds}


def _bar(value: float | None, most: float, room: int, block: str, color: str | None) -> str:
    """Return a bar in its color, and the number, yellow where a CPU is worth more or less than 1.00."""
    if value is None:
        return f"  {'-':<{room}}"
    number = f" {value:.2f}"
    bar = block * max(1, round(value / most * (room - len(number))))
    blanks = " " * (room - len(bar) - len(number))
    if color is not None:
        bar = click.style(bar, fg=color)
        fair = abs(value - 1) <= _TOLERANCE
        number = number if fair else click.style(number, fg=CellSeverity.WARNING.value)
    return f"  {bar}{number}{blanks}"


def _prints(text: str) -> bool:
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True


def _kind(node: NodeMeasurement) -> Kind | None:
    facts = node.facts or {}
    if not facts.get("cpuModel"):
        return None
    return str(facts["cpuModel"]), bool(facts.get("hyperThreadEnabled")), bool(facts.get("turboEnabled"))


def _worth(measurement: ClusterMeasurement, names: Mapping[Kind, str]) -> dict[str, float]:
    """Return the worth of a requested CPU on each kind of machine, the mean of its nodes."""
    values: dict[str, list[float]] = defaultdict(list)
    for node in measurement.nodes:
        kind, worth = _kind(node), _per_requested(node)
        if kind and worth is not None:
            values[names[kind]].append(worth)
    return {name: fmean(each) for name, each in values.items()}


def story(report: RunReport) -> Iterator[str]:
    """Yield the results of the run, the most important last."""
    off, on = report.off.snapshot if report.off else None, report.on.snapshot
    models = {str(node.facts["cpuModel"]) for node in on.nodes if node.facts and node.facts.get("cpuModel")}
    machines = count(len(on.nodes), "node") + (f", {count(len(models), 'CPU model')}" if models else "")
    offered, requested = f"{cpus(on.schedulable)} CPUs", cpus(on.requested)
    if off is None:
        yield f"{machines}: corewise was on from the start; there is nothing to compare with."
    else:
        if off.per_requested:
            yield f"{machines}: a requested CPU was worth {_range(off.per_requested)} baseline CPUs."
        else:
            yield f"{machines}."
        if off.schedulable != on.schedulable:
            more = f" ({on.schedulable / off.schedulable - 1:+.0%})" if off.schedulable else ""
            offered = f"{offered}, not {cpus(off.schedulable)}{more}"
        if off.requested != on.requested:
            requested = f"{requested}, not {cpus(off.requested)}"
    yield f"Nodes offer {offered}; pods request {requested}."
    if not _is_normalized(on) and (on.spread or 1.0) > 1 + _TOLERANCE:
        yield f"No node has a ratio above 1.00, so one CPU is still worth {_range(on.per_requested)}."
    yield from _offline(report)
    yield from _memory(report)
    yield from _worth_now(report)


def _is_normalized(of: ClusterMeasurement) -> bool:
    """Return whether any node has a ratio above 1.00, or should have one."""
    return any(node.verdict or node.normalization_ratio not in {None, "1.00"} for node in of.nodes)


def _offline(report: RunReport) -> Iterator[str]:
    off = total(report.off.colocation.values()) if report.off else None
    on = total(report.on.colocation.values())
    if on is None:
        return
    if on.mean_slowdown is not None:
        if off is not None and off.mean_slowdown is not None:
            yield (
                f"Online pods ran {off.mean_slowdown:.1%} slower beside offline pods; "
                f"with corewise, {on.mean_slowdown:.1%} slower."
            )
        else:
            yield f"Online pods run {on.mean_slowdown:.1%} slower beside offline pods."
    used, idle = round(on.offline, 1), round(on.idle_alone, 1)
    if used > idle:
        yield f"Offline pods use {used:.1f} CPUs, {used - idle:.1f} more than online pods leave idle."
    else:
        yield f"Offline pods use {used:.1f} of the {idle:.1f} CPUs that online pods leave idle."


def _worth_now(report: RunReport) -> Iterator[str]:
    """Yield the worth of one CPU on nodes at their ratios, and the reasons why other nodes are not."""
    on = report.on.snapshot
    if not _is_normalized(on):
        return
    others = {node.name for node in on.nodes if node.verdict} | set(report.unsettled)
    settled = [node for node in on.nodes if node.name not in others]
    worth = {node.name: value for node in settled if (value := _per_requested(node)) is not None}
    now = spread([*worth.values()])
    if now is not None:
        off = report.off.snapshot.nodes if report.off else ()
        before = spread([each for node in off if node.name in worth and (each := _per_requested(node))])
        where = "everywhere" if len(worth) == len(on.nodes) else f"on {len(worth)} of {len(on.nodes)} nodes"
        instead = f" instead of {before:.2f}" if before is not None else ""
        changed = before is None or f"{before:.2f}" != f"{now:.2f}"
        compared = f": a spread of {now:.2f}{instead}" if len(worth) > 1 and changed else ""
        alike = now <= 1 + _TOLERANCE
        yield f"Now one CPU is worth {_range(worth.values())}{f' {where}' if alike else ''}{compared}."
        if not alike:
            yield from _extremes(settled, worth)
    yield from _held_back(on)


def _extremes(nodes: list[NodeMeasurement], worth: Mapping[str, float]) -> Iterator[str]:
    ratios = {node.name: node.normalization_ratio or "none" for node in nodes}
    least, most = min(worth, key=worth.__getitem__), max(worth, key=worth.__getitem__)
    yield f"It is least on {least} (ratio {ratios[least]}) and most on {most} (ratio {ratios[most]}):"
    yield "their ratios do not match their speeds. Measure both with corewise calibrate."


def _held_back(on: ClusterMeasurement) -> Iterator[str]:
    """Yield the nodes that are not at their ratios, by reason, with a pointer to the explanation."""
    by_reason: dict[str, list[NodeMeasurement]] = defaultdict(list)
    for node in on.nodes:
        if node.verdict:
            by_reason[node.verdict.reason].append(node)
    for reason, nodes in sorted(by_reason.items(), key=lambda each: -len(each[1]))[:_MOST_REASONS]:
        names = some([node.name for node in nodes], 3)
        has, keeps = ("has", "keeps its ratio") if len(nodes) == 1 else ("have", "keep their ratios")
        state = f"{has} no ratio" if all(node.normalization_ratio is None for node in nodes) else keeps
        values = [value for node in nodes if (value := _per_requested(node)) is not None]
        there = f"; one CPU is worth {_range(values)} there" if values else ""
        yield f"{names} {state} ({reason}){there}. To fix it:"
        yield f"  corewise explain reason {reason}"


def _per_requested(node: NodeMeasurement) -> float | None:
    return node.delivered.per_requested if node.delivered else None


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


def _range(values: Iterable[float]) -> str:
    texts = [f"{value:.2f}" for value in sorted(values)]
    return texts[0] if texts[0] == texts[-1] else f"{texts[0]} to {texts[-1]}"
