"""The table of a file of trials: each arm's tail relative to the service alone, and what offline work got."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

import numpy as np

from experiments.latency.arms import ALONE, ARMS, CHANGES, DEFAULT, TABLED, WEIGHTS, changed
from experiments.latency.figures import Interval, above, mean, quantile, ratio, stacked
from experiments.latency.trials import Case, Trial

_FEWEST_FOR_P999 = 2000
_COREWISE, _NO_QUOTA = DEFAULT.name, "idle pods"
_CHANGEABLE = (WEIGHTS.name, DEFAULT.name)
_CHANGED = {changed(arm, change) for arm in _CHANGEABLE for change in CHANGES}
_COLUMNS = (
    *("requests", "load (measured)", "beside", "arm", "pairs", "p99 ms"),
    *("p50, of alone", "p99, of alone", "p99.9, of alone", "of the rest"),
)


@dataclass(frozen=True, slots=True)
class Pairs:
    """The trials of an arm in one case, each with that of the service alone under the same arrivals."""

    case: Case
    arm: str
    trials: Sequence[Trial]
    alone: Sequence[Trial]

    def relative(self, part: float) -> Interval:
        """Return a quantile of latency relative to the service alone: the median of the pairs."""
        own, alone = (stacked([each.latencies for each in side]) for side in (self.trials, self.alone))
        return ratio(own, alone, part)

    def rest(self) -> Interval:
        """Return the part of the CPU left by online work that offline work got."""
        return mean([each.offline / (each.cpus - each.online) for each in self.trials])

    def load(self) -> float:
        """Return the part of the CPUs that the service used."""
        return fmean(each.online / each.cpus for each in self.trials)


def pairs(trials: Sequence[Trial]) -> Iterator[Pairs]:
    """Yield the pairs of each case and arm, by size, load and antagonist."""
    alone = [each for each in trials if each.arm == ALONE]
    for case in sorted(
        {each.case for each in trials}, key=lambda each: (each.size, each.load, each.antagonist)
    ):
        bases = {each.repetition: each for each in alone if _same_service(each.case, case)}
        for arm in ARMS:
            mine = [
                each for each in trials if each.case == case and each.arm == arm and each.repetition in bases
            ]
            if mine:
                yield Pairs(case, arm, mine, [bases[each.repetition] for each in mine])


def published(trials: Sequence[Trial]) -> list[Pairs]:
    """Return the pairs that the docs show: with a thread of the service for each CPU."""
    return [
        each
        for each in pairs([each for each in trials if each.arm in (ALONE, *TABLED)])
        if each.arm != ALONE
        and each.case == Case(each.case.size, each.case.load, each.case.antagonist, each.case.work)
    ]


def summary(trials: Sequence[Trial]) -> str:
    """Return the docs' table: p99 relative to the service alone, and offline work's part of the rest.

    The last column compares corewise with no quota in the repetitions that have both, if there are any.
    """
    arms = [arm for arm in TABLED if any(each.arm == arm for each in trials)]
    both = {_COREWISE, _NO_QUOTA} <= {*arms}
    last = [f"{TABLED[_COREWISE]} / no quota"] if both else []
    head = ["requests", "load (measured)", *(TABLED[arm] for arm in arms), *last]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for case, group in itertools.groupby(published(trials), key=lambda each: each.case):
        found = {each.arm: each for each in group}
        load = fmean(each.load() for each in found.values())
        shown = [
            f"{found[arm].relative(0.99)}; {found[arm].rest().value:.0%}" if arm in found else "-"
            for arm in arms
        ]
        if both:
            shown.append(_between(found))
        beside = "" if case.antagonist == "spin" and case.work == "compute" else f", {case.antagonist}"
        cells = [f"{case.size:g} ms{beside}", f"{case.load:.0%} ({load:.0%})", *shown]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _between(found: Mapping[str, Pairs]) -> str:
    """Return corewise's p99 relative to that without a quota, under the same arrivals."""
    one, other = (
        {each.repetition: each.latencies for each in found[arm].trials} if arm in found else {}
        for arm in (_COREWISE, _NO_QUOTA)
    )
    both = sorted(one.keys() & other.keys())
    own, base = (stacked([side[each] for each in both]) for side in (one, other))
    return str(ratio(own, base, 0.99)) if both else "-"


def relative(trials: Sequence[Trial]) -> str:
    """Return a table with a row for each case and arm.

    p50, p99 and p99.9 are relative to the service alone with the same arrivals, the median of the pairs;
    p99.9 only where each repetition has requests enough. *Of the rest*: the part of the CPU left by online
    work that offline work got.
    """
    return "\n".join([f"| {' | '.join(_COLUMNS)} |", "|---" * len(_COLUMNS) + "|", *map(_row, pairs(trials))])


def _row(found: Pairs) -> str:
    case, offline = found.case, ARMS[found.arm].offline
    enough = min(sum(each.latencies.values()) for each in found.alone) >= _FEWEST_FOR_P999
    shown = [
        f"{case.size:g} ms",
        f"{case.load:.0%} ({found.load():.0%})",
        case.antagonist if offline else "-",
        found.arm,
        str(len(found.trials)),
        f"{np.median(quantile(stacked([each.latencies for each in found.trials]), 0.99)):.2f}",
        *(str(found.relative(part)) for part in (0.5, 0.99)),
        str(found.relative(0.999)) if enough else "-",
        f"{found.rest().value:.0%}" if offline else "-",
    ]
    return f"| {' | '.join(shown)} |"


def _same_service(one: Case, other: Case) -> bool:
    """Whether two cases differ by what runs beside the service alone."""
    return (one.size, one.load, one.work, one.threads, one.pinned) == (
        other.size,
        other.load,
        other.work,
        other.threads,
        other.pinned,
    )


def kernels(found: Mapping[str, Sequence[Trial]]) -> str:
    """Return a table with a row for each kernel, by its version.

    A cell has p99 of the median trial, of the best and the worst, and the part of requests that took longer
    than ten times their own CPU time in the median trial. Arms with a change are in :func:`changes`.
    """
    had = {each.arm for trials in found.values() for each in trials} - _CHANGED
    arms = [arm for arm in ARMS if arm in had]
    head = ["Linux", *(TABLED.get(arm, arm) for arm in arms)]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for release in sorted(found, key=lambda each: [int(number) for number in re.findall(r"\d+", each)]):
        cells = [_tails([each for each in found[release] if each.arm == arm]) for arm in arms]
        lines.append(f"| {' | '.join([release, *cells])} |")
    return "\n".join(lines)


def _tails(trials: Sequence[Trial]) -> str:
    if not trials:
        return "-"
    counts = stacked([each.latencies for each in trials])
    tails = quantile(counts, 0.99)
    late = median(above(row, 10 * each.case.size) for row, each in zip(counts, trials, strict=True))
    return f"{np.median(tails):.2f} ms ({min(tails):.2f}-{max(tails):.2f}); {late:.1%}"


def changes(trials: Sequence[Trial]) -> str:
    """Return a table with a row for each change: the tail, and the part of the rest that offline work got.

    It is empty if no trial has a change.
    """
    had = {each.arm for each in trials}
    if not had & _CHANGED:
        return ""
    lines = [f"| changed | {' | '.join(TABLED[arm] for arm in _CHANGEABLE)} |", "|---|---|---|"]
    for change in ("", *CHANGES):
        arms = [changed(arm, change) if change else arm for arm in _CHANGEABLE]
        if had & {*arms}:
            cells = (_tails_and_rest([each for each in trials if each.arm == arm]) for arm in arms)
            lines.append(f"| {change or 'nothing'} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _tails_and_rest(trials: Sequence[Trial]) -> str:
    if not trials:
        return "-"
    rest = fmean(each.offline / (each.cpus - each.online) for each in trials)
    return f"{_tails(trials)}; {rest:.0%}"
