"""The figures that the rig measures at one size, and their growth from size to size."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from corewise_lab.control_plane import MANAGER, SCHEDULER, ClusterError
from experiments.scale import filling
from experiments.scale.filling import RigPod
from experiments.scale.rig import (
    EXPECTED,
    Reading,
    Rig,
    kubelet_counters,
    kubelets,
    read_process,
    rig,
    start_all,
)
from tools.bench.processes import peak_rss_mib
from tools.bench.table import exponent, quantile

_SETTLED = 45.0
"""Seconds after the ratios have changed: a manager looks again after half a minute at nodes that it wrote."""
_REST = 60.0
"""Seconds: the scheduler checks all ledgers once a minute."""
_EVENTS_A_SECOND, _EVENTS_FOR = 500.0, 10.0
_DECISIONS, _BINDS = 200, 40
_EVENTS_ARRIVE_WITHIN = 5.0
_KUBELET_WRITES_EVERY = 5.0
"""Seconds: on an amplified node it writes its status and its lease, each every ten."""
_LEAST_WRITTEN = 0.8
"""Of what kubelets should write at rest: below, something is wrong with them."""
Figures = dict[str, float]


async def measure(
    size: dict[str, Any], path: Path, say: Callable[[str], None], keep: Callable[[], None], *, churn: float
) -> bool:
    """Measure one size, and add figures and notes to it; ``keep`` is called whenever some have been added.

    Whether all phases went well: one that fails costs its own figures, and a note says why.
    """
    figures: Figures = size["figures"]
    notes: list[str] = size["notes"]
    went_well = True
    async with rig(size["nodes"], size["pods"], path, say) as made:
        size["pods"] = len(made.shapes)
        await start_all(made, size["replicas"])
        figures["start to ready, manager [s]"] = max(each.ready_after for each in made.of(MANAGER))
        figures["start to ready, scheduler [s]"] = max(each.ready_after for each in made.of(SCHEDULER))
        keep()
        await _ratios(made, figures, notes, "first ratios, ConfigMap to last node [s]", 0.0)
        keep()
        await made.connect()
        async with kubelets(made):
            changed = "ConfigMap change to last node, under kubelets' writes [s]"
            for phase in (
                partial(_at_rest, made, figures, notes),
                partial(_events, made, figures),
                partial(_decisions, made, figures),
                partial(_churn, made, figures, notes, churn),
                partial(_disturbed, made, figures, notes),
                partial(_ratios, made, figures, notes, changed, 0.1),
            ):
                made.check_programs()
                try:
                    await phase()
                except EXPECTED as error:
                    went_well = False
                    notes.append(f"failed: {type(error).__name__}: {error}")
                keep()
        made.check_programs()
    return went_well


async def _ratios(made: Rig, figures: Figures, notes: list[str], what: str, more: float) -> None:
    """Change the ratios of all nodes."""
    before, programs = read_process(made.api), _readings(made)
    figures[what] = seconds = await made.change_ratios(more)
    share, after = (read_process(made.api).cpu - before.cpu) / seconds, _readings(made)
    for kind in (MANAGER, SCHEDULER):
        spent = max(after[each].cpu - programs[each].cpu for each in after if each.startswith(kind))
        figures[f"{kind} CPU per node whose ratio changes [ms]"] = spent / made.nodes * 1000
    notes.append(f"{what.removesuffix(' [s]')}: the local API server used {share:.0%} of a core")


def _readings(made: Rig) -> dict[str, Reading]:
    return {each.made.name: read_process(each.child.process) for each in made.programs}


def _cores(before: dict[str, Reading], after: dict[str, Reading], kind: str) -> float:
    """Return the largest share of a core, in per cent, that a replica of a program has used meanwhile."""
    return max(
        (after[name].cpu - before[name].cpu) / (after[name].at - before[name].at) * 100
        for name in after
        if name.startswith(kind)
    )


def _memory(figures: Figures, readings: dict[str, Reading], when: str) -> None:
    for kind in (MANAGER, SCHEDULER):
        mine = [each for name, each in readings.items() if name.startswith(kind)]
        figures[f"{kind} RSS {when} [MiB]"] = max(each.rss for each in mine)


async def _at_rest(made: Rig, figures: Figures, notes: list[str]) -> None:
    """Only kubelets write."""
    await asyncio.sleep(_SETTLED)
    made.say(f"at rest for {_REST:g} s")
    api, before = read_process(made.api), _readings(made)
    counted = kubelet_counters(made.folder)
    await asyncio.sleep(_REST)
    server, after = read_process(made.api), _readings(made)
    for kind in (MANAGER, SCHEDULER):
        figures[f"{kind} CPU at rest [% of a core]"] = _cores(before, after, kind)
    _memory(figures, after, "at rest")
    for kind in (MANAGER, SCHEDULER):
        figures[f"objects in caches, {kind}"] = (await made.of(kind)[0].read()).objects
    now = kubelet_counters(made.folder)
    writes = sum(now.get(each, 0) - counted.get(each, 0) for each in ("status_patches", "lease_renewals"))
    wanted = made.writers * _REST / _KUBELET_WRITES_EVERY
    if writes < wanted * _LEAST_WRITTEN:
        raise ClusterError(f"kubelets wrote {writes} times at rest, {wanted:.0f} were expected")
    each = (server.cpu - api.cpu) / writes
    notes.append(
        f"{made.writers} kubelets wrote {writes / _REST:.0f} times a second, {now['failures']} failed. "
        f"The local API server spent {each * 1000:.1f} ms on each write, so one core of it serves the "
        f"kubelets of {_KUBELET_WRITES_EVERY / each:,.0f} nodes"
    )


async def _events(made: Rig, figures: Figures) -> None:
    """Store heartbeats faster than kubelets write them, to see what one costs."""
    made.say(f"{_EVENTS_A_SECOND:g} heartbeats a second")
    (stored, _), before, begin = await made.server_counts(), _readings(made), time.monotonic()
    with made.replaying(_EVENTS_A_SECOND):
        await asyncio.sleep(_EVENTS_FOR)
    await asyncio.sleep(_EVENTS_ARRIVE_WITHIN)
    after, (now, _) = _readings(made), await made.server_counts()
    more = now - stored - made.replayed * (time.monotonic() - begin)
    for kind in (MANAGER, SCHEDULER):
        seconds = after[f"{kind}-a"].at - before[f"{kind}-a"].at
        rest = figures.get(f"{kind} CPU at rest [% of a core]", 0.0)
        figures[f"{kind} CPU per heartbeat of a node [ms]"] = event_cost(
            _cores(before, after, kind), rest, seconds, more
        )


def event_cost(cores: float, rest: float, seconds: float, events: float) -> float:
    """Return the milliseconds that one event costs; what the program uses at rest is not the events'."""
    return (cores - rest) / 100 * seconds / events * 1000


async def _decisions(made: Rig, figures: Figures) -> None:
    """Ask about one pod again and again, each time about another sample; then bind pods that own CPUs."""
    made.say(f"{_DECISIONS} decisions, {_BINDS} bindings of pods that own CPUs")
    raw = filling.new_pod(RigPod(made.next_pod(), "", 4000, owned=True))
    created, before = await made.create(raw), _readings(made)
    for _ in range(_DECISIONS):
        await made.decide(created)
    after = _readings(made)
    await made.delete(raw["metadata"]["name"])
    figures["scheduler CPU per decision [ms]"] = event_cost(
        _cores(before, after, SCHEDULER),
        figures.get("scheduler CPU at rest [% of a core]", 0.0),
        after["scheduler-a"].at - before["scheduler-a"].at,
        _DECISIONS,
    )
    figures["decision of one pod, /filter and /prioritize, p50 [ms]"] = quantile(made.decisions, 0.5) * 1000
    figures["decision of one pod, /filter and /prioritize, p99 [ms]"] = quantile(made.decisions, 0.99) * 1000
    bound = [await made.run_pod(RigPod(made.next_pod(), "", 4000, owned=True)) for _ in range(_BINDS)]
    figures["bind of a pod that owns CPUs, p50 [ms]"] = quantile(made.binds, 0.5) * 1000
    figures["bind of a pod that owns CPUs, p99 [ms]"] = quantile(made.binds, 0.99) * 1000
    for pod in bound:
        await made.delete(pod.name)


async def _churn(made: Rig, figures: Figures, notes: list[str], seconds: float) -> None:
    """Replace 1 % of the pods a minute."""
    made.say(f"churn for {seconds:g} s")
    replaced, wanted = made.replaced, made.churn_rate * len(made.shapes) * 60
    async with made.churning():
        before, api = _readings(made), read_process(made.api)
        await asyncio.sleep(seconds)
        after, server = _readings(made), read_process(made.api)
        replaced = made.replaced - replaced
    figures["pods replaced a minute"] = replaced / seconds * 60
    for kind in (MANAGER, SCHEDULER):
        figures[f"{kind} CPU under churn [% of a core]"] = cores = _cores(before, after, kind)
        rest = figures.get(f"{kind} CPU at rest [% of a core]", 0.0)
        figures[f"{kind} CPU per pod replaced [ms]"] = event_cost(cores, rest, seconds, max(1, replaced))
    _memory(figures, after, "after churn")
    share = (server.cpu - api.cpu) / (server.at - api.at)
    notes.append(
        f"churn: {figures['pods replaced a minute']:.0f} pods a minute, {wanted:.0f} wanted; "
        f"{_counted(made.failures)} failed, {made.retries} bindings tried again; "
        f"the local API server used {share:.0%} of a core"
    )


async def _disturbed(made: Rig, figures: Figures, notes: list[str]) -> None:
    """Under churn, lose watches, change ratios of nodes and restart all; then relist all caches."""
    replaced, failed = made.replaced, made.failures.copy()
    async with made.churning():
        for program in made.programs:
            await made.lose_watch()
            await made.annotate()
            await made.restart(program)
    figures["restart under churn, to ready, slowest [s]"] = max(each.ready_after for each in made.programs)
    for kind in (MANAGER, SCHEDULER):
        figures[f"{kind} RSS peak, restarts under churn included [MiB]"] = max(
            each.peak_rss() for each in made.of(kind)
        )
    begin = time.monotonic()
    await made.expire_watches()
    figures["all caches relisted at once [s]"] = time.monotonic() - begin
    for kind in (MANAGER, SCHEDULER):
        peaks = [peak_rss_mib(each.child.process) for each in made.of(kind)]
        figures[f"{kind} RSS peak, all caches relisted [MiB]"] = max(peaks)
    notes.append(
        f"rolling restart of all {len(made.programs)}, and as many lost watches, under churn: "
        f"{made.replaced - replaced} pods replaced, {_counted(made.failures - failed)} failed"
        + (f"; the last answer that was asked for again: {made.last_refusal}" if made.last_refusal else "")
    )


def _counted(failures: Counter[str]) -> str:
    reasons = "; ".join(f"{number}: {why}" for why, number in failures.most_common())
    return f"{failures.total()}" + (f" ({reasons})" if reasons else "")


def table(sizes: list[dict[str, Any]]) -> str:
    """Show figures by size, with the exponent of growth between one size and the next."""
    names = list(dict.fromkeys(name for each in sizes for name in each["figures"]))
    heads = ["measured"]
    for at, each in enumerate(sizes):
        heads += [f"{each['nodes']:,} nodes, {each['pods']:,} pods", *(["exponent"] if at else [])]
    lines = [f"| {' | '.join(heads)} |", "|---|" + "---:|" * (len(heads) - 1)]
    for name in names:
        cells = [name]
        for at, each in enumerate(sizes):
            value = each["figures"].get(name)
            cells.append("" if value is None else f"{value:,.3g}" if value < 100 else f"{value:,.0f}")
            if at:
                cells.append(_grown(sizes[at - 1], each, name))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def remarks(sizes: list[dict[str, Any]]) -> str:
    """Print the notes beside the figures."""
    return "\n".join(f"- {each['nodes']:,} nodes: {note}" for each in sizes for note in each["notes"])


def _grown(small: dict[str, Any], large: dict[str, Any], name: str) -> str:
    before, after = small["figures"].get(name), large["figures"].get(name)
    if before is None or after is None:
        return ""
    slope = exponent((small["nodes"], before), (large["nodes"], after))
    return "" if slope is None else f"{slope:.2f}"
