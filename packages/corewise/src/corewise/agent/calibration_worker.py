"""One worker: ``python -m corewise.agent.calibration_worker CPU [idle]`` pins itself, and does passes.

It says ``ready`` on stdout, then answers each line ``KERNEL START DURATION`` (nanoseconds of the monotonic
clock, which all processes of a machine share) with ``PASSES ELAPSED CPU``: passes done, time they took, CPU
time this process got meanwhile. It ends when stdin closes, so it never outlives who started it.

An ``idle`` worker is started by :mod:`corewise.kernel.idle_start`, and gives way: as soon as others have
had its CPU for more than :func:`tolerated` it stops, and answers before the duration is over. It makes the
data of a kernel only when that is to run: a run that ends early has taken little.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TextIO

from corewise.normalization.mix import KERNELS, Done, Pass

READY, IDLE = "ready", "idle"
_NANO = 10**9
_LOOK = 1_000_000
"""Nanoseconds between two looks at the CPU time: one after each pass would slow down the short ones."""

_TOLERATED = 500_000
_INTERRUPTS = 50
"""Lost CPU time without giving way: nanoseconds (kernel threads), and one part in so many (interrupts)."""


@dataclass(frozen=True, slots=True)
class Command:
    """Do passes of a kernel from ``start`` on for ``duration``; both in nanoseconds."""

    kernel: str
    start: int
    duration: int

    def __str__(self) -> str:
        return f"{self.kernel} {self.start} {self.duration}"

    @classmethod
    def parse(cls, line: str) -> Command:
        kernel, start, duration = line.split()
        return cls(kernel, int(start), int(duration))


def tolerated(elapsed: int) -> int:
    """Return the nanoseconds that a worker may lose to others, of so many, without giving way."""
    return _TOLERATED + elapsed // _INTERRUPTS


def lost_too_much(elapsed: int, cpu: int) -> bool:
    """Say whether somebody else wants the CPU, by the time that a worker took and got; in nanoseconds."""
    return elapsed - cpu > tolerated(elapsed)


def carry_out(command: Command, prepare: Callable[[], Pass], *, idle: bool = False) -> Done:
    """Warm the kernel up, wait for the start, and do passes; the last one may end after the duration."""
    cpu, begun = time.process_time_ns(), time.monotonic_ns()
    one_pass = prepare()
    one_pass()
    warm = Done(0, time.monotonic_ns() - begun, time.process_time_ns() - cpu)
    if idle and lost_too_much(warm.elapsed, warm.cpu):
        return warm
    time.sleep(max(0, command.start - time.monotonic_ns()) / _NANO)
    cpu, begun = time.process_time_ns(), time.monotonic_ns()
    end, now, passes = begun + command.duration, begun, 0
    look = begun + _LOOK
    while now < end:
        one_pass()
        passes += 1
        now = time.monotonic_ns()
        if idle and now >= look:
            if lost_too_much(now - begun, time.process_time_ns() - cpu):
                break
            look = now + _LOOK
    return Done(passes, now - begun, time.process_time_ns() - cpu)


def serve(
    commands: Iterable[str], answers: TextIO, prepare: Mapping[str, Callable[[], Pass]], *, idle: bool = False
) -> None:
    """Carry out commands until there are no more; ``prepare`` returns the pass of each kernel."""
    prepared = {name: cache(each) for name, each in prepare.items()}
    if not idle:  # all workers of a crew begin at the same time
        for each in prepared.values():
            each()
    print(READY, file=answers, flush=True)
    for line in commands:
        command = Command.parse(line)
        print(carry_out(command, prepared[command.kernel], idle=idle), file=answers, flush=True)


def main(cpu: int, *, idle: bool) -> None:
    """Pin this process, prepare the work, and serve."""
    os.sched_setaffinity(0, {cpu})
    gc.disable()
    serve(sys.stdin, sys.stdout, {name: kernel.prepare for name, kernel in KERNELS.items()}, idle=idle)


if __name__ == "__main__":
    main(int(sys.argv[1]), idle=IDLE in sys.argv[2:])
    os._exit(0)
