"""Runs inside a virtual machine with one CPU and cgroup v2: trials on its kernel.

    python -m experiments.latency.guest FILE PLAN

PLAN is a :class:`Plan` in JSON. Before the trials the scheduler's times are set to those of a machine with 8
CPUs or more, so that a thread runs as long as on a node. Every trial is written to FILE at once. What this
module does not import does not have to be emulated.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

import msgspec

from corewise.kernel.cgroups.layout import Version
from experiments.latency import scheduler
from experiments.latency.arms import AGAIN, ALONE, ARMS, DEFAULT, WEIGHTS
from experiments.latency.programs import Programs, calibrate
from experiments.latency.trials import (
    MEMORY,
    Bench,
    Case,
    Header,
    before_all_others,
    run,
    with_request_ms,
)
from kernel.cgroup_writes import layout_here
from node.guest.records import Report
from tools.bench.table import machine

TRIAL = "trial/"
_WORK, _KIND = "compute", "spin"
_SETTLE = 10.0
"""Seconds for the kernel to finish what the trial before left; an idle CPU passes them at once."""

_OF_A_NODE = 4
"""The kernel multiplies its times by 1 + log2(CPUs), at most by this."""


COMPARED = (ALONE, AGAIN, WEIGHTS.name, "option 1", "option 1, unprotected", DEFAULT.name)
"""The arms that kernels are compared by."""


class Plan(msgspec.Struct, frozen=True):
    """What a guest measures, and where it finds the programs."""

    first: int
    repetitions: int
    seconds: float
    arms: Sequence[str] = COMPARED
    sizes: Sequence[float] = (0.1,)
    loads: Sequence[float] = (0.1,)
    service: str = ""
    antagonist: str = ""


def measure(report: Report, plan: Plan) -> None:
    """Measure all arms, repetition by repetition, each in an order of its own.

    Raises:
        SystemExit: if the guest has no cgroup v2.
    """
    report.add("begun", value=True)
    if not scheduler.DIRECTORY.exists():
        subprocess.run(["mount", "-t", "debugfs", "debugfs", str(scheduler.DIRECTORY.parent)], check=True)
    report.add("slices", scheduler.multiply_slices(_OF_A_NODE))
    report.add("features", (scheduler.DIRECTORY / "features").read_text().split())
    layout = layout_here(Version.V2)
    if layout is None:
        raise SystemExit("this machine has no writable cgroup v2")
    with tempfile.TemporaryDirectory(dir=MEMORY) as directory, before_all_others(layout):
        programs = _in_memory(plan, Path(directory))
        cpus = sorted(os.sched_getaffinity(0))
        bare = Bench(layout, cpus, programs, {_WORK: calibrate(programs, _WORK)}, {})
        bench = with_request_ms(bare, _WORK, 1, plan.sizes)
        report.add("header", Header(machine(), bench.round_ns, bench.request_ms))
        cases = [Case(size, load, _KIND) for size in plan.sizes for load in plan.loads]
        arms = [arm for arm in plan.arms if scheduler.has(ARMS[arm].scheduler)]
        for repetition in range(plan.first, plan.first + plan.repetitions):
            trials = [(case, arm) for case in cases for arm in arms]
            random.Random(repetition).shuffle(trials)  # noqa: S311 - an order, not a secret
            for case, arm in trials:
                name = f"{TRIAL}{repetition}/{case.size}/{case.load}/{arm}"
                time.sleep(_SETTLE)
                report.add(name, run(bench, case, arm, repetition, plan.seconds))


def _in_memory(plan: Plan, directory: Path) -> Programs:
    """Copy the programs where no page of them has to be waited for."""
    return Programs(*(Path(shutil.copy(path, directory)) for path in (plan.service, plan.antagonist)))


def main(file: str, plan: str) -> None:
    """Measure, and tell the host whatever comes of it."""
    report = Report(Path(file))
    try:
        measure(report, msgspec.json.decode(plan, type=Plan))
        report.add("end", value=True)
    except BaseException:
        report.add("failure", traceback.format_exc())
        raise


if __name__ == "__main__":
    main(*sys.argv[1:])
