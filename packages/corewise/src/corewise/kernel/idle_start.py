"""Starts a program that gives way to all other work from its first instruction on.

A process inherits the policy, the CPUs and the cgroup of whoever starts it. An interpreter that changes its
own has competed with other work by then, for as long as it took to start. So the program ``idle_start`` goes
first: it has the policy SCHED_IDLE and its CPU in less than a millisecond, waits until it is in its cgroup,
tries whether the CPU is free, and only then becomes the program.

It is compiled from ``idle_start.c`` where the package is built (``hatch_build.py``). ``preexec_fn`` would run
Python between fork and exec, which can deadlock in a program that has threads; posix_spawn knows neither
SCHED_IDLE (glibc refuses it) nor CPUs nor cgroups.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

LAUNCHER = Path(__file__).with_name("idle_start")
RELEASE = "\n"
"""What the launcher reads from stdin before it goes on."""
BUSY = "busy"
"""The line that the launcher prints, and ends, if other work has the CPU."""


def idle_command(cpu: int, trial: int, tolerated: int, command: Sequence[str]) -> list[str]:
    """Return the command that starts ``command``, whose first word is a path, on one CPU.

    ``trial``: for how long the CPU is tried first, ``tolerated``: how long other work may have it
    meanwhile; both in nanoseconds.
    """
    return [str(LAUNCHER), str(cpu), str(trial), str(tolerated), *command]
