"""Runs on simulated nodes, in virtual time: the agent's own code, and formulas that it is compared with."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from experiments.suppression_proof.closed_loop import (
    COURSES,
    OPTION_1,
    OPTION_2,
    STEP,
    Bench,
    Course,
    run_loop,
)
from experiments.suppression_proof.holders import Begin, counting_offline, nobody, suppressed
from experiments.suppression_proof.run import COUNTING, COUNTING_AT_ONCE, NOBODY, OPTION_ONE, OPTION_TWO, Run

WAYS: Mapping[str, Begin] = {
    OPTION_ONE: suppressed(OPTION_1),
    OPTION_TWO: suppressed(OPTION_2),
    NOBODY: nobody,
}
FORMULAS: Mapping[str, Begin] = {
    COUNTING: counting_offline(gently=True),
    COUNTING_AT_ONCE: counting_offline(gently=False),
}


HYPER_THREADS = Bench(model="AMD EPYC 9654 96-Core Processor", hyper_threading=True)


def measure(*, quick: bool, told: Callable[[str], None]) -> list[Run]:
    """Run every course in every way, and the step with every formula, with and without hyper-threads."""
    runs = []
    for course in (STEP,) if quick else COURSES:
        ways = {**WAYS, **FORMULAS} if course is STEP else WAYS
        told(f"{course.name}: {', '.join(ways)}")
        runs += [_run(course, way, begin) for way, begin in ways.items()]
    threads, ways = replace(STEP, name="threads"), {OPTION_ONE: WAYS[OPTION_ONE], **FORMULAS}
    told(f"step on hyper-threads: {', '.join(ways)}")
    return runs + [_run(threads, way, begin, HYPER_THREADS) for way, begin in ways.items()]


def _run(course: Course, way: str, begin: Begin, bench: Bench | None = None) -> Run:
    with tempfile.TemporaryDirectory() as directory:
        return Run(course.name, way, run_loop(Path(directory) / "machine", course, begin, bench=bench))
