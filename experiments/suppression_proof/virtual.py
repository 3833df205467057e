"""Runs on a kernel with cgroup v2: busy processes in an emulated machine, a step of online load."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from experiments.suppression_proof.run import Run
from node.suppression_machine import LOADED, OPTIONS
from node.unpacking import Unavailable
from node.virtual_machines import observed, tools
from real_load.agents import OPTION_1
from real_load.runs import Second, series
from real_load.scenarios import STEP


def measure(*, told: Callable[[str], None]) -> list[Run]:
    """Boot the machine, and return what was seen in it; nothing if it cannot be booted here."""
    told("step in a virtual machine: alone, " + ", ".join(OPTIONS))
    try:
        with tempfile.TemporaryDirectory() as directory:
            seen = observed(LOADED, tools(), Path(directory))
    except Unavailable as reason:
        told(f"left out: {reason}")
        return []
    alone = seen.get("processes/alone", list[Second])
    step = OPTION_1.adjust_step.of(LOADED.cpus * 1000)
    by_way = {way: seen.get(f"processes/{way}", list[Second]) for way in OPTIONS}
    return [Run(STEP.name, way, series(LOADED.cpus, STEP, rows, alone, step)) for way, rows in by_way.items()]
