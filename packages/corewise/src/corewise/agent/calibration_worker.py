"""One worker: ``python -m corewise.agent.calibration_worker CPU`` pins itself and does passes on command.

It says ``ready`` on stdout, then answers each line ``KERNEL START DURATION`` (nanoseconds of the monotonic
clock, which all processes of a machine share) with ``PASSES ELAPSED CPU``: passes done, time they took, CPU
time this process got meanwhile. It ends when stdin closes, so it never outlives who started it.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TextIO

from corewise.normalization.mix import KERNELS, Done, Pass

READY = "ready"
_NANO = 10**9


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


def carry_out(command: Command, one_pass: Pass) -> Done:
    """Warm the kernel up, wait for the start, and do passes; the last one may end after the duration."""
    one_pass()
    time.sleep(max(0, command.start - time.monotonic_ns()) / _NANO)
    cpu, begun = time.process_time_ns(), time.monotonic_ns()
    end, now, passes = begun + command.duration, begun, 0
    while now < end:
        one_pass()
        passes += 1
        now = time.monotonic_ns()
    return Done(passes, now - begun, time.process_time_ns() - cpu)


def serve(commands: Iterable[str], answers: TextIO, passes: Mapping[str, Pass]) -> None:
    """Carry out commands until there are no more."""
    print(READY, file=answers, flush=True)
    for line in commands:
        command = Command.parse(line)
        print(carry_out(command, passes[command.kernel]), file=answers, flush=True)


def main(cpu: int) -> None:
    """Pin this process, prepare the work, and serve."""
    os.sched_setaffinity(0, {cpu})
    gc.disable()
    serve(sys.stdin, sys.stdout, {name: kernel.prepare() for name, kernel in KERNELS.items()})


if __name__ == "__main__":
    main(int(sys.argv[1]))
