"""The table of a file of trials: each arm's tail relative to the service alone, and what offline work got."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

import numpy as np

from experiments.latency.arms import ALONE, ARMS
from experiments.latency.figures import mean, quantile, ratio, stacked
from experiments.latency.trials import Case, Trial

_FEWEST_FOR_P999 = 2000
_COLUMNS = (
    *("requests", "load (measured)", "beside", "arm", "pairs", "p99 ms"),
    *("p50, of alone", "p99, of alone", "p99.9, of alone", "of the rest"),
)


def relative(trials: Sequence[Trial]) -> str:
    """Return a table with a row for each case and arm.

    p50, p99 and p99.9 are relative to the service alone with the same arrivals, the median of the pairs;
    p99.9 only where each repetition has requests enough. *Of the rest*: the part of the CPU left by online
    work that offline work got.
    """
    lines = [f"| {' | '.join(_COLUMNS)} |", "|---" * len(_COLUMNS) + "|"]
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
                lines.append(_row(mine, [bases[each.repetition] for each in mine]))
    return "\n".join(lines)


def _row(mine: Sequence[Trial], bases: Sequence[Trial]) -> str:
    case, arm = mine[0].case, mine[0].arm
    counts, base = stacked([each.latencies for each in mine]), stacked([each.latencies for each in bases])
    enough = base.sum(axis=1).min() >= _FEWEST_FOR_P999
    cells = [str(ratio(counts, base, part)) for part in (0.5, 0.99)]
    cells.append(str(ratio(counts, base, 0.999)) if enough else "-")
    load = fmean(each.online / each.cpus for each in mine)
    rest = mean([each.offline / (each.cpus - each.online) for each in mine])
    shown = [
        f"{case.size:g} ms",
        f"{case.load:.0%} ({load:.0%})",
        case.antagonist if ARMS[arm].offline else "-",
        arm,
        str(len(mine)),
        f"{np.median(quantile(counts, 0.99)):.2f}",
        *cells,
        f"{rest.value:.0%}" if ARMS[arm].offline else "-",
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
