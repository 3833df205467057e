"""The pictures of a file of trials by load, and of a wave over time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import median

from experiments.chart import Curve, Panel, chart
from experiments.latency.arms import ALONE, PUBLISHED
from experiments.latency.figures import Interval
from experiments.latency.tables import Pairs, published
from experiments.latency.trials import Trial
from experiments.latency.wave import Wave

COMMAND = "python -m experiments.latency pictures"
GOAL = 0.95
"""The part of the CPU left by online work that offline work should get."""

STYLES = dict(zip(PUBLISHED, ("quota", "target", "online", "other"), strict=True))
_APART = 0.5
"""Percent of load between the bars of two arms, so that none hides another."""

_PERCENT = 100


def drawn(trials: Sequence[Trial], machine: str) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each picture."""
    shown = published(trials)
    sizes = sorted({each.case.size for each in shown})
    by_size = [(size, [each for each in shown if each.case.size == size]) for size in sizes]
    yield (
        "offline-cost-latency",
        chart(
            [_latency(size, group) for size, group in by_size],
            label="p99 of an online service beside offline work, relative to the service alone, by load",
            made_by=_made_by(machine),
        ),
    )
    yield (
        "offline-cost-work",
        chart(
            [_work(size, group) for size, group in by_size],
            label="the part of the CPU left by online work that offline work got, by load",
            made_by=_made_by(machine),
        ),
    )


def of_wave(found: Wave) -> str:
    """Return the picture of a wave: for each window the median of the repetitions' p99."""
    names = {arm: PUBLISHED.get(arm, arm) for arm in dict.fromkeys(each.arm for each in found.runs)}
    series = {arm: [each.p99 for each in found.runs if each.arm == arm] for arm in names}
    medians = {arm: list(map(median, zip(*each, strict=True))) for arm, each in series.items()}
    every = [p99 for each in medians.values() for p99 in each]
    low, high = found.loads
    seconds = len(every) // len(medians) * found.window
    panel = Panel(
        title=f"p99 of requests of {found.size:g} ms in windows of {found.window:g} s;"
        f" the load jumps between {low:.0%} and {high:.0%}",
        unit="ms",
        top=_rounded(max(every), up=True),
        curves=[
            Curve(
                names[arm],
                STYLES.get(arm, "idle"),
                [((number + 0.5) * found.window, p99) for number, p99 in enumerate(medians[arm])],
            )
            for arm in (ALONE, *PUBLISHED)
            if arm in medians
        ],
        jumps=[number * found.turn for number in range(1, math.ceil(seconds / found.turn))],
        bottom=_rounded(min(every), up=False),
    )
    label = "p99 of an online service over time while its load jumps"
    return chart([panel], label=label, made_by=_made_by(found.machine))


def _made_by(machine: str) -> str:
    return f"{COMMAND}; measured on {machine.partition(', Python')[0]}"


def _latency(size: float, group: Sequence[Pairs]) -> Panel:
    tails = {
        arm: [(each.case.load, each.relative(0.99)) for each in group if each.arm == arm] for arm in PUBLISHED
    }
    every = [tail for points in tails.values() for _, tail in points]
    return Panel(
        title=f"p99 relative to the service alone, requests of {size:g} ms",
        unit="times",
        top=_rounded(max(each.high for each in every), up=True),
        curves=[_level("alone", group, 1.0), *_curves(tails)],
        across="load, % of all CPUs",
        bottom=_rounded(min(1.0, *(each.low for each in every)), up=False),
    )


def _work(size: float, group: Sequence[Pairs]) -> Panel:
    parts = {arm: [(each.case.load, each.rest()) for each in group if each.arm == arm] for arm in PUBLISHED}
    return Panel(
        title=f"part of the CPU left by online work that offline work got, requests of {size:g} ms",
        unit="%",
        top=float(_PERCENT),
        curves=[_level(f"goal: {GOAL:.0%}", group, GOAL * _PERCENT), *_curves(parts, _PERCENT)],
        across="load, % of all CPUs",
    )


def _curves(by_arm: dict[str, list[tuple[float, Interval]]], factor: float = 1.0) -> Iterator[Curve]:
    for number, (arm, points) in enumerate(by_arm.items()):
        shift = _APART * (number - (len(by_arm) - 1) / 2)
        placed = [(load * _PERCENT + shift, found) for load, found in points]
        yield Curve(
            PUBLISHED[arm],
            STYLES[arm],
            [(at, found.value * factor) for at, found in placed],
            bars=[(at, found.low * factor, found.high * factor) for at, found in placed],
        )


def _level(name: str, group: Sequence[Pairs], amount: float) -> Curve:
    """Return a level line over all loads."""
    loads = [each.case.load * _PERCENT for each in group]
    return Curve(name, "idle", [(min(loads) - 1, amount), (max(loads) + 1, amount)])


def _rounded(amount: float, *, up: bool) -> float:
    """Return the nearest of 1, 2 and 5 of any power of ten, not below the amount or not above it."""
    rounds = sorted(digit * 10.0**power for power in range(-3, 6) for digit in (1, 2, 5))
    return (
        min(each for each in rounds if each >= amount)
        if up
        else max(each for each in rounds if each <= amount)
    )
