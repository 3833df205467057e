"""The rig for an hour: does anything grow beyond what objects explain?

All the time pods are replaced, a watch is lost each minute, and one node's ratio is changed by hand; at most
nine times the ratios of all nodes are raised. Every program is restarted once, one after the other, in the
first half, so that in the second half each is one process.

Growth is judged over the second half: the median of the slopes between any two samples (Theil and Sen), which
a few high samples do not move, times the length of that half. What more objects explain is taken off: as much
memory for each as the program has for one now. Cached objects themselves are judged too: the cluster has as
many pods at the end as at the beginning, so a cache that grows keeps what was deleted. At the end no cache
may be stale, and replicas of a program must have the same objects: a watch that was lost is followed again.

A soak proves nothing of a program that answered too seldom, or not at the end.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field, fields
from itertools import combinations, pairwise
from pathlib import Path
from statistics import median
from typing import Any

from corewise.kube.errors import KubeError
from corewise_lab.control_plane import ClusterError
from experiments.scale.rig import (
    CHURN,
    EXPECTED,
    Reading,
    Rig,
    RunningProgram,
    is_set_within,
    kubelets,
    rig,
    start_all,
)
from tools.bench.table import machine

SAMPLED_EVERY = 10.0
_WATCH_LOST_EVERY = 60.0
_RATIO_CHANGES = 10
_RESTARTS_AT = 0.2
_SAID_EVERY = 60.0
_FEWEST = 6
_LEAST_CHURN, _LEAST_JUDGED, _LEAST_READ = 0.9, 0.5, 0.9
_SILENT = 6
"""Samples that a program may have missed before the end."""
_FOLLOWED_WITHIN = 60.0
MEMORY_SHARE, MEMORY_LEAST = 0.03, 4.0
"""Of the memory that a program has, and in MiB: what it may grow by in the second half."""
COUNT_SHARE, COUNT_LEAST = 0.05, 5.0
"""The same of descriptors, threads and tasks."""
OBJECTS_SHARE, OBJECTS_LEAST = 0.01, 20.0


_NAMES = {
    "rss": "MiB of memory (RSS)",
    "objects": "objects in caches",
    "descriptors": "descriptors",
    "threads": "threads",
    "tasks": "tasks",
}


@dataclass(frozen=True, slots=True)
class Growth:
    """One quantity of one program over the time judged: median, growth, the part explained by objects."""

    program: str
    seconds: float
    what: str
    usual: float
    growth: float
    explained: float
    allowed: float

    @property
    def is_leak(self) -> bool:
        return self.growth - self.explained > self.allowed


def judge(program: str, readings: list[Reading]) -> list[Growth]:
    """Judge the readings of one process, since it began or ceased to lead: a leader does more work.

    Raises:
        ValueError: if there are too few.
    """
    turns = [at for at, (one, two) in enumerate(pairwise(readings), 1) if one.leads != two.leads]
    readings = readings[turns[-1] :] if turns else readings
    if len(readings) < _FEWEST:
        raise ValueError(f"{program}: {len(readings)} samples are too few to judge growth")
    seconds = readings[-1].at - readings[0].at
    times = [each.at for each in readings]
    objects = [float(each.objects) for each in readings]
    more = max(0.0, _slope(times, objects) * seconds / max(1.0, median(objects)))
    found = []
    limits = {"rss": (MEMORY_SHARE, MEMORY_LEAST), "objects": (OBJECTS_SHARE, OBJECTS_LEAST)}
    for what in _NAMES:
        values = [float(getattr(each, what)) for each in readings]
        usual = median(values)
        share, least = limits.get(what, (COUNT_SHARE, COUNT_LEAST))
        explained = usual * more if what == "rss" else 0.0
        growth, allowed = _slope(times, values) * seconds, max(least, usual * share)
        found.append(Growth(program, seconds, what, usual, growth, explained, allowed))
    return found


def _slope(times: list[float], values: list[float]) -> float:
    points = zip(times, values, strict=True)
    return median((v - u) / (t - s) for (s, u), (t, v) in combinations(points, 2) if t > s)


@dataclass
class SoakResult:
    """The events and the readings; ``problems`` is empty if the soak is passed."""

    nodes: int
    pods: int
    seconds: float
    ended: float = 0.0
    readings: dict[str, list[Reading]] = field(default_factory=dict)
    """By replica, those of its present process."""
    growth: list[Growth] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    failures: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

    @property
    def period(self) -> float:
        """Seconds between two readings."""
        return min(SAMPLED_EVERY, self.seconds / 40)

    def write(self, path: Path) -> None:
        """Write everything as JSON."""
        path.write_text(json.dumps({"machine": machine(), **asdict(self)}, indent=1) + "\n")

    @classmethod
    def of(cls, written: dict[str, Any]) -> SoakResult:
        """Return the result from the output of ``write``, without its readings."""
        named = {each.name: written[each.name] for each in fields(cls) if each.name != "readings"}
        return cls(**named | {"growth": [Growth(**each) for each in written["growth"]]})

    def table(self) -> str:
        """Show growth by program, for a page."""
        lines = [
            "| program | minutes judged | quantity | median | growth | explained by objects | allowed |",
            "|---|---:|---|---:|---:|---:|---:|",
        ]
        lines += [
            f"| {each.program} | {each.seconds / 60:.1f} | {_NAMES[each.what]} | {each.usual:.1f} | "
            f"{each.growth:+.1f} | {each.explained:.1f} | {each.allowed:.1f} |"
            for each in self.growth
        ]
        happened = ", ".join(f"{number:,} {what}" for what, number in self.counts.items())
        failed = [f"failed {number:,} times: {why}" for why, number in self.failures.items()]
        verdict = [*failed, *(self.problems or ["nothing grew by more than allowed"])]
        head = f"{self.nodes:,} nodes, {self.pods:,} pods, {self.seconds / 60:.0f} minutes: {happened}."
        return "\n".join([head, "", *lines, "", *(f"- {each}" for each in verdict)])


async def soak(
    size: tuple[int, int], seconds: float, path: Path, say: Callable[[str], None], out: Path | None
) -> SoakResult:
    """Run the rig for so long and judge it; the result is written even if it fails."""
    result = SoakResult(*size, seconds)
    try:
        async with rig(*size, path, say) as made:
            await start_all(made)
            await made.change_ratios(0.0)
            await made.connect()
            async with kubelets(made):
                await _run(made, result, say)
        judge_all(result)
    except BaseException as error:
        cause = cause_of(error)
        why = (
            "interrupted" if isinstance(cause, asyncio.CancelledError) else f"{type(cause).__name__}: {cause}"
        )
        result.problems.append(f"the soak ended early: {why}")
        if not isinstance(cause, EXPECTED):
            raise
    finally:
        if out:
            result.write(out)
    return result


def cause_of(error: BaseException) -> BaseException:
    """Return the first error of a group of groups, or the error itself."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def judge_all(result: SoakResult) -> None:
    """Judge every program's readings, and whether enough happened for that."""
    for name, readings in result.readings.items():
        late = [each for each in readings if each.at >= result.ended - result.seconds / 2]
        missed = _missed(late, result)
        if missed:
            result.problems.append(f"{name}: {missed}")
        try:
            found = judge(name, late)
        except ValueError as error:
            result.problems.append(str(error))
            continue
        result.growth += found
        if found[0].seconds < result.seconds / 2 * _LEAST_JUDGED:
            result.problems.append(
                f"{name}: only {found[0].seconds / 60:.1f} of {result.seconds / 120:.1f} minutes could be "
                "judged (a late restart, or a new leader): run longer"
            )
        result.problems += [
            f"{each.program}: {_NAMES[each.what]} grew by {each.growth:.1f}; objects explain "
            f"{each.explained:.1f}, and {each.allowed:.1f} more are allowed"
            for each in found
            if each.is_leak
        ]
    wanted = CHURN * result.pods * result.seconds
    done = result.counts.get("pods replaced", 0)
    if done < wanted * _LEAST_CHURN:
        result.problems.append(f"churn replaced {done} of {wanted:.0f} pods: too few to judge growth")


def _missed(late: list[Reading], result: SoakResult) -> str:
    """Describe what is missing from the readings of a program in the second half."""
    if not late:
        return "it was not read in the second half"
    if result.ended - late[-1].at > _SILENT * result.period:
        return f"it did not answer in the last {result.ended - late[-1].at:.0f} s"
    most = (late[-1].at - late[0].at) / result.period
    if len(late) < most * _LEAST_READ:
        return f"it answered {len(late)} of {most:.0f} times"
    return ""


async def _run(made: Rig, result: SoakResult, say: Callable[[str], None]) -> None:
    stop, seconds, raised = asyncio.Event(), result.seconds, 0.0

    async def raise_ratios() -> None:
        nonlocal raised
        raised += 0.01
        await made.change_ratios(raised)

    async def every(period: float, what: str, act: Callable[[], Awaitable[None]]) -> None:
        while not await is_set_within(stop, period):
            try:
                await act()
                if what:
                    result.count(what)
            except (KubeError, OSError, TimeoutError) as error:
                result.problems.append(f"{what}: {type(error).__name__}: {error}")

    async with asyncio.TaskGroup() as tasks:
        begin = time.monotonic()
        tasks.create_task(made.churn(stop))
        tasks.create_task(_sample(made, result, say, stop))
        often = min(_WATCH_LOST_EVERY, seconds / 6)
        tasks.create_task(every(often, "", made.lose_watch))
        tasks.create_task(every(often, "ratios of single nodes changed", made.annotate))
        tasks.create_task(every(seconds / _RATIO_CHANGES, "ratios of all nodes raised", raise_ratios))
        await asyncio.sleep(seconds * _RESTARTS_AT)
        for program in made.programs:
            await made.restart(program)
            result.readings[program.made.name] = []
            result.count("programs restarted")
        await asyncio.sleep(begin + seconds - time.monotonic())
        result.ended = time.monotonic()
        stop.set()
    if result.counts["watches lost"] < seconds / often * _LEAST_CHURN - 1:
        result.problems.append(f"only {result.counts['watches lost']} watches were lost")
    await _until_followed(made)


async def _sample(made: Rig, result: SoakResult, say: Callable[[str], None], stop: asyncio.Event) -> None:
    """Read all programs, and count what has happened, until told to stop."""
    said = float("-inf")
    while not await is_set_within(stop, result.period):
        made.check_programs()
        for program in made.programs:
            await _read(program, result)
        result.counts |= {"pods replaced": made.replaced, "replacements failed": made.failures.total()}
        result.counts["watches lost"] = len(made.server_said("lost"))
        result.failures = dict(made.failures.most_common())
        if time.monotonic() - said >= _SAID_EVERY:
            said = time.monotonic()
            say("; ".join(_line(name, each[-1]) for name, each in result.readings.items() if each))


async def _read(program: RunningProgram, result: SoakResult) -> None:
    process = program.child.process
    try:
        reading = await program.read()
    except OSError:  # it does not answer now; how often that may be is judged at the end
        return
    if process is program.child.process and not program.restarting:
        result.readings.setdefault(program.made.name, []).append(reading)


async def _until_followed(made: Rig) -> None:
    """Wait until the caches of all replicas agree, and none is stale.

    Raises:
        ClusterError: if they do not.
    """
    begin = time.monotonic()
    while True:
        readings = {each.made.name: await each.read() for each in made.programs}
        stale = [name for name, each in readings.items() if each.stale]
        counts = {name: each.objects for name, each in readings.items()}
        apart = [
            f"{one.made.name} has {counts[one.made.name]} objects, {two.made.name} {counts[two.made.name]}"
            for one, two in pairwise(made.programs)
            if one.kind == two.kind and counts[one.made.name] != counts[two.made.name]
        ]
        if not stale and not apart:
            return
        if time.monotonic() - begin > _FOLLOWED_WITHIN:
            raise ClusterError("; ".join([*apart, *(f"a cache of {name} is stale" for name in stale)]))
        await asyncio.sleep(1.0)


def _line(name: str, reading: Reading) -> str:
    counts = f"{reading.descriptors} descriptors, {reading.tasks} tasks, {reading.objects} objects"
    return f"{name} {reading.rss:.0f} MiB, {counts}"
