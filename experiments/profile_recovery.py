"""Measure how well ``corewise profile`` recovers planted affinities.

Histories are those of the tests (``interference.simulated_history``). Fills its part of
docs/guides/profile.md.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from corewise.config.interference.metrics import RANKED
from corewise.interference.analysis import analyze
from interference.simulated_history import DEFAULT, USE, Planted, planted_history
from tools.bench import table

PAGE = "docs/guides/profile.md"
_HISTORIES = 60


@dataclass(frozen=True, slots=True)
class Case:
    """So many runs, whose times scatter by so much (0.03 is 3 %), by durations or cycles per instruction."""

    runs: int
    noise: float
    cpi: bool = False


CASES = (
    *(Case(20, 0.03), Case(50, 0.03), Case(200, 0.03), Case(1000, 0.03)),
    *(Case(200, 0.10), Case(1000, 0.10), Case(200, 0.03, cpi=True)),
)


def main(arguments: Sequence[str]) -> None:
    """Measure, print, and write unless told not to."""
    parser = argparse.ArgumentParser(prog="python -m experiments.profile_recovery", description=__doc__)
    parser.add_argument("--print", action="store_true", help=f"do not write the table into {PAGE}")
    given = parser.parse_args(arguments)
    text = "\n".join(_table())
    print(text)
    if not given.print:
        table.fill("recovery", text, PAGE)


def _table() -> Iterator[str]:
    yield "| runs | scatter of times | by | error, mean | 19 of 20 within | largest | use, largest error |"
    yield "|---|---|---|---|---|---|---|"
    for case in CASES:
        points, used = _errors(case)
        by = "cycles per instruction" if case.cpi else "run time"
        yield (
            f"| {case.runs} | {case.noise:.0%} | {by} | {points.mean():.1f} "
            f"| {np.percentile(points, 95):.0f} | {points.max():.0f} | {used:.1%} |"
        )


def _errors(case: Case) -> tuple[np.ndarray[tuple[int], np.dtype[np.float64]], float]:
    """Return the errors of affinities in points, and the largest relative error of the pods' use."""
    drawn = np.random.default_rng(7)
    points, used = [], []
    for seed in range(_HISTORIES):
        planted = dict(zip(RANKED, drawn.integers(0, 101, len(RANKED)).tolist(), strict=True))
        history = planted_history(
            Planted({"type": planted}, seed=seed, runs=case.runs, noise=case.noise, cpi=case.cpi)
        )
        (finding,) = analyze(history, DEFAULT)
        points += [abs(finding.affinity[metric].value - value) for metric, value in planted.items()]
        used += [abs(finding.use[what].mean / amount - 1) for what, amount in USE.items()]
    return np.array(points, dtype=np.float64), max(used)


if __name__ == "__main__":
    main(sys.argv[1:])
