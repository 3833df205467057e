"""One worker: ``python -m experiments.accuracy.worker CPU NAME...`` pins itself and does passes on command.

It speaks as :mod:`corewise.agent.calibration_worker` does, and knows the programs besides the mix's kernels.
The CPU time that it reports has that of the processes in it that a pass starts.
"""

from __future__ import annotations

import gc
import os
import resource
import sys
import time
from collections.abc import Mapping
from typing import TextIO

from corewise.agent.calibration_worker import READY, Command
from corewise.normalization.mix import KERNELS, Done, Pass
from experiments.accuracy.programs import PROGRAMS

_NANO = 10**9


def _cpu_time() -> int:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time_ns() + int((children.ru_utime + children.ru_stime) * _NANO)


def carry_out(command: Command, one_pass: Pass) -> Done:
    """Warm up, wait for the start, and do passes; the last one may end after the duration."""
    one_pass()
    time.sleep(max(0, command.start - time.monotonic_ns()) / _NANO)
    cpu, begun = _cpu_time(), time.monotonic_ns()
    end, now, passes = begun + command.duration, begun, 0
    while now < end:
        one_pass()
        passes += 1
        now = time.monotonic_ns()
    return Done(passes, now - begun, _cpu_time() - cpu)


def serve(commands: TextIO, answers: TextIO, passes: Mapping[str, Pass]) -> None:
    """Carry out commands until there are no more."""
    print(READY, file=answers, flush=True)
    for line in commands:
        command = Command.parse(line)
        print(carry_out(command, passes[command.kernel]), file=answers, flush=True)


def main(cpu: int, names: list[str]) -> None:
    """Pin this process, prepare the kernels and these programs, and serve."""
    os.sched_setaffinity(0, {cpu})
    gc.disable()
    passes = {name: kernel.prepare() for name, kernel in KERNELS.items()}
    passes |= {name: PROGRAMS[name].prepare() for name in names}
    serve(sys.stdin, sys.stdout, passes)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
