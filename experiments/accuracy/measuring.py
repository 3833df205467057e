"""A run: kernels of the mix and programs in turn, each on all CPUs at once, as ratios are measured.

One repetition has every kernel and every program once, in an order of its own, so that a machine that grows
slower or faster meanwhile does so for both. A sample in which the workers lost CPU time is taken again at a
quieter moment, a few times; then it is left out. A kernel or program of which too few samples are left ends
the run without data.
"""

from __future__ import annotations

import os
import platform
import random
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from corewise.agent.calibration import LARGEST_BUSY, LARGEST_LOST, Crew
from corewise.kernel.host_files import HostFiles
from corewise.kernel.machine import MachineReading
from corewise.kernel.usage import busy_share, read_cpu_times
from corewise.normalization.calibration import rate
from corewise.normalization.mix import KERNELS, Done
from corewise.topology import CPUSet
from experiments.accuracy.programs import ONE_THREAD, PROGRAMS, MissingProgramError, Program
from experiments.accuracy.records import Machine, MeasuredRun, Series, cpu_numbers, number_in

TRIES = 4
FEWEST = 5
"""Samples that a kernel or a program needs."""
_NANO = 10**9
_LOOKING_SECONDS = 0.5
_TEN_THOUSAND = 10_000

Run = Callable[[str, CPUSet, int], Mapping[int, Done]]
"""Runs a kernel or a program on CPUs for a number of nanoseconds."""


class TooDisturbedError(Exception):
    """Other work took too much of the CPUs' time; the message says of what too few samples are left."""


def installed(programs: Mapping[str, Program]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the versions of the programs that are here and do a pass, and why the others are skipped."""
    versions: dict[str, str] = {}
    skipped: dict[str, str] = {}
    for name, program in programs.items():
        try:
            versions[name] = program.version()
            program.prepare()()
        except MissingProgramError as error:
            skipped[name] = str(error)
        except (ImportError, AttributeError, OSError, subprocess.CalledProcessError) as error:
            versions.pop(name, None)
            skipped[name] = f"it does not run: {error}"
    return versions, skipped


@contextmanager
def workers(cpus: CPUSet, names: Sequence[str]) -> Iterator[Crew]:
    """Start a worker on each CPU, ready to run the kernels and these programs, and end them all.

    Raises:
        WorkerError: if one cannot be started.
    """
    started: dict[int, subprocess.Popen[str]] = {}
    try:
        for cpu in cpus:
            command = [sys.executable, "-m", "experiments.accuracy.worker", str(cpu), *names]
            started[cpu] = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=os.environ | ONE_THREAD,
            )
        crew = Crew(started)
        crew.await_ready()
        yield crew
    finally:
        for worker in started.values():
            worker.communicate()


class QuietWaiter:
    """Waits for moments in which nothing else uses the CPUs, for ``seconds`` in all."""

    def __init__(self, cpus: CPUSet, seconds: float) -> None:
        self._cpus, self._left, self._files = cpus, seconds, HostFiles()

    def __call__(self) -> None:
        """Return when the CPUs are idle, or the time is used up."""
        busy = _TEN_THOUSAND
        while busy > LARGEST_BUSY and self._left > 0:
            before = read_cpu_times(self._files) or {}
            time.sleep(_LOOKING_SECONDS)
            self._left -= _LOOKING_SECONDS
            busy = busy_share(before, read_cpu_times(self._files) or {}, self._cpus)


class Sampler:
    """Takes samples; ``wait`` is called before one is taken again. ``disturbed`` counts those not counted."""

    def __init__(
        self, run: Run, cpus: CPUSet, duration: int, wait: Callable[[], None] = lambda: None
    ) -> None:
        self._run, self._cpus, self._duration, self._wait = run, cpus, duration, wait
        self.disturbed = 0

    def sample(self, name: str) -> int | None:
        """Return the rate of one CPU, in passes in 1000 seconds; None if each try was disturbed."""
        for _ in range(TRIES):
            done = list(self._run(name, self._cpus, self._duration).values())
            lost = sum(
                max(0, each.elapsed - each.cpu) * _TEN_THOUSAND // max(1, each.elapsed) for each in done
            )
            if lost <= LARGEST_LOST * len(done):
                return rate(done)
            self.disturbed += 1
            self._wait()
        return None


def take(
    sampler: Sampler, names: Sequence[str], repetitions: int, progress: Callable[[int], None]
) -> dict[str, tuple[int, ...]]:
    """Return the rates of kernels and programs, by repetition.

    Raises:
        TooDisturbedError: if too few samples of one are left.
    """
    found: dict[str, list[int]] = {name: [] for name in names}
    for repetition in range(repetitions):
        progress(repetition)
        order = list(names)
        random.Random(repetition).shuffle(order)  # noqa: S311 - an order, no secret
        for name in order:
            rate_of_one = sampler.sample(name)
            found[name] += [] if rate_of_one is None else [rate_of_one]
        if sum(map(len, found.values())) * 2 < len(names) * (repetition + 1):
            raise TooDisturbedError("other work took the CPUs' time in more than half of all samples")
    few = sorted(name for name, rates in found.items() if len(rates) < min(FEWEST, repetitions))
    if few:
        raise TooDisturbedError(f"other work took the CPUs' time: too few samples of {', '.join(few)}")
    return {name: tuple(rates) for name, rates in found.items()}


def measure(
    reading: MachineReading,
    repetitions: int,
    seconds: float,
    taken: str,
    progress: Callable[[str], None],
    *,
    patience: float,
) -> MeasuredRun:
    """Measure this machine. ``taken`` is the day, ``patience`` the seconds to wait for quiet moments in all.

    Raises:
        TooDisturbedError: if other work took too much of the CPUs' time.
        WorkerError: if a worker cannot be started, or stops answering.
    """
    progress("looking for the programs")
    versions, skipped = installed(PROGRAMS)
    names = [*KERNELS, *versions]
    cpus = reading.host.topology.cpus
    with workers(cpus, list(versions)) as crew:
        wait = QuietWaiter(cpus, patience)
        wait()
        sampler = Sampler(crew.run, cpus, int(seconds * _NANO), wait)
        rates = take(
            sampler, names, repetitions, lambda done: progress(f"repetition {done + 1} of {repetitions}")
        )
    return MeasuredRun(
        taken=taken,
        machine=machine_of(reading, Path("/proc/cpuinfo").read_text()),
        python=platform.python_version(),
        zlib=zlib.ZLIB_RUNTIME_VERSION,
        seconds=seconds,
        kernels={name: rates[name] for name in KERNELS},
        programs={name: Series(version, rates[name]) for name, version in versions.items()},
        skipped=skipped,
        disturbed=sampler.disturbed,
    )


def machine_of(reading: MachineReading, cpuinfo: str) -> Machine:
    """Return the machine's entry in the data."""
    facts, fields = reading.cpu.facts, cpu_numbers(cpuinfo)
    return Machine(
        model=facts.model,
        vendor=facts.vendor,
        family=number_in(fields, "cpu family"),
        number=number_in(fields, "model"),
        stepping=number_in(fields, "stepping"),
        microcode=fields.get("microcode", ""),
        hypervisor="hypervisor" in fields.get("flags", "").split(),
        hyper_threading=facts.hyper_threading,
        turbo=facts.turbo,
        cpus=len(reading.host.topology.cpus),
        kernel=platform.release(),
    )
