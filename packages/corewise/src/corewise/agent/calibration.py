"""Measures how fast the CPUs of this machine are: what, in which order, and when the result is worth nothing.

Each repeat measures three situations, one kernel after the other: one CPU busy and the rest idle; all CPUs
busy; all threads of one core busy. Ratios come from the second: with all CPUs busy, hyper-threads shared and
turbo at what it gives to all cores, a CPU does what a request of one CPU can rely on.

A repeat in which the workers lost CPU time is not counted but done again, and repeats that differ too much
are followed by more, up to three times as many in all. Refused, because a wrong ratio costs more than none:
other work takes CPU time before or in most repeats (that covers steal of a hypervisor and the quota of a
container too), or the middle half of the repeats stays too wide.

The workers (:mod:`corewise.agent.calibration_worker`) are one process for each CPU, started once, given each
command together, and ended at the end.
"""

from __future__ import annotations

import platform
import select
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from statistics import median_high

from corewise.agent.calibration_worker import IDLE, READY, Command, tolerated
from corewise.kernel.idle_start import BUSY, RELEASE, idle_command
from corewise.kernel.machine import MachineReading
from corewise.normalization.calibration import Calibration, CalibrationScore, percent, rate, scored
from corewise.normalization.mix import KERNELS, MEMORY_PER_WORKER, Done
from corewise.topology import CPUSet, Topology

LARGEST_BUSY = 500
LARGEST_LOST = 300
LARGEST_SPREAD = 500
"""Basis points: CPU time of others before measuring, CPU time lost while measuring, spread of the repeats."""

KernelRunner = Callable[[str, CPUSet, int], Mapping[int, Done]]
"""Runs a kernel on CPUs for a number of nanoseconds: :meth:`corewise.agent.calibration.Crew.run`."""


class Unmeasurable(Exception):  # noqa: N818 - it is what the machine is
    """A good measurement is not possible now; ``hint`` says what would help."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Situation:
    """CPUs that are busy at the same time."""

    name: str
    cpus: CPUSet


@dataclass(frozen=True, slots=True)
class MeasurementPlan:
    """The number of repeats, and the time of one kernel in one situation (``duration``), in nanoseconds."""

    repeats: int = 5
    duration: int = 200_000_000

    @property
    def most(self) -> int:
        """The most repeats that may run, counted or not."""
        return 3 * self.repeats


def situations(topology: Topology) -> dict[str, Situation]:
    """Return the situations to measure. The last core is the quiet one: CPU 0 serves interrupts."""
    cores = list(topology.cores.values())
    threaded = [core for core in cores if len(core) > 1]
    single = CPUSet.of(list(cores[-1])[:1])
    found = {"single": Situation("one CPU", single), "all": Situation("all CPUs", topology.cpus)}
    if threaded:
        found["core"] = Situation("the threads of a core", threaded[-1])
    return found


def check_idle(busy: int) -> None:
    """Refuse to begin on a busy machine; ``busy`` is the CPU time that others took, in basis points."""
    if busy > LARGEST_BUSY:
        raise Unmeasurable(
            f"the machine is busy: other work took {percent(busy)} of its CPU time at the quietest moment",
            f"measure on a drained node; up to {percent(LARGEST_BUSY)} is tolerated",
        )


def check_memory(available: int | None, workers: int) -> None:
    """Refuse to begin without the memory that the workers need."""
    needed = workers * MEMORY_PER_WORKER
    if available is not None and available < needed:
        raise Unmeasurable(
            f"{workers} workers need {needed >> 20} MiB of memory, {available >> 20} MiB are available",
            "measure on a drained node",
        )


def measure(
    machine: MachineReading,
    topology: Topology,
    run: KernelRunner,
    plan: MeasurementPlan,
    progress: Callable[[int], None],
) -> Calibration:
    """Measure the CPUs of ``topology``, a part of the machine. ``progress`` gets the number that count.

    Raises:
        Unmeasurable: if the result would be good for nothing.
    """
    measured = situations(topology)
    kept: list[Repeat] = []
    lost: list[int] = []
    while len(lost) < plan.most and (len(kept) < plan.repeats or _widest(measured, kept) > LARGEST_SPREAD):
        progress(len(kept))
        repeat = _repeated(measured, run, plan.duration)
        lost.append(repeat.lost)
        kept += [repeat] if repeat.lost <= LARGEST_LOST else []
    if len(kept) < plan.repeats:
        raise _too_much_lost(lost)
    return _calibration(machine, measured, kept)


@dataclass(frozen=True, slots=True)
class Repeat:
    """The rate of each kernel in each situation, and the CPU time that the workers lost, in basis points."""

    rates: Mapping[str, Mapping[str, int]]
    lost: int


def _repeated(measured: Mapping[str, Situation], run: KernelRunner, duration: int) -> Repeat:
    rates: dict[str, dict[str, int]] = {}
    lost: list[int] = []
    for key, situation in measured.items():
        done = {name: run(name, situation.cpus, duration) for name in KERNELS}
        rates[key] = {name: rate(each.values()) for name, each in done.items()}
        each_done = [each for of in done.values() for each in of.values()]
        lost += [max(0, each.elapsed - each.cpu) * 10_000 // max(1, each.elapsed) for each in each_done]
    return Repeat(rates, sum(lost) // max(1, len(lost)))


def _score(key: str, situation: Situation, kept: Sequence[Repeat]) -> CalibrationScore:
    return scored(len(situation.cpus), [repeat.rates[key] for repeat in kept])


def _widest(measured: Mapping[str, Situation], kept: Sequence[Repeat]) -> int:
    return max(_score(key, situation, kept).spread for key, situation in measured.items())


def _calibration(
    machine: MachineReading, measured: Mapping[str, Situation], kept: Sequence[Repeat]
) -> Calibration:
    scores = {key: _score(key, situation, kept) for key, situation in measured.items()}
    for key, score in scores.items():
        if score.spread > LARGEST_SPREAD:
            name = measured[key].name
            raise Unmeasurable(
                f"the repeats differ by {percent(score.spread)} with {name} busy: too much for a ratio",
                f"drain the node and let it cool down; up to {percent(LARGEST_SPREAD)} is tolerated",
            )
    facts = machine.cpu.facts
    return Calibration(
        cpu_model=facts.model,
        vendor_id=facts.vendor,
        hyper_thread_enabled=facts.hyper_threading,
        turbo_enabled=facts.turbo,
        online_cpus=len(machine.host.topology.cpus),
        cores_alike=not machine.host.kinds,
        single_thread=scores["single"],
        all_cpus=scores["all"],
        core_threads=scores.get("core"),
        repeats=len(kept),
        python=platform.python_version(),
        zlib=zlib.ZLIB_RUNTIME_VERSION,
        architecture=platform.machine(),
    )


def _too_much_lost(lost: Sequence[int]) -> Unmeasurable:
    disturbed = sum(each > LARGEST_LOST for each in lost)
    return Unmeasurable(
        f"the workers lost {percent(median_high(lost))} of their CPUs' time in the median of {len(lost)} "
        f"repeats, and too much in {disturbed} of them: "
        "other work, a hypervisor, or a CPU quota took it",
        f"measure on a drained node, outside of containers; up to {percent(LARGEST_LOST)} is tolerated",
    )


_STARTING_SECONDS = 120.0
_ANSWERING_SECONDS = 60.0
_ENDING_SECONDS = 5.0
_GIVING_UP_SECONDS = 0.5
_LEAD = 20_000_000
_LEAD_PER_WORKER = 100_000
"""Nanoseconds between the command and the start: time to reach every worker, and to warm up."""

_TRIAL = 20_000_000
"""Nanoseconds for which a CPU is tried before an idle worker starts on it."""

_NANO = 10**9


class WorkerError(Exception):
    """A worker could not be started, or stopped answering; the message says which."""


class WorkerStarvedError(WorkerError):
    """A worker got no CPU time, or too little."""


class Crew:
    """Workers that run. Commands go to some of them; the others sleep.

    ``patience``: the seconds within which a worker has to answer after its work is done.
    """

    def __init__(
        self, workers: Mapping[int, subprocess.Popen[str]], patience: float = _ANSWERING_SECONDS
    ) -> None:
        self._workers = workers
        self._patience = patience

    def run(self, kernel: str, cpus: CPUSet, duration: int) -> Mapping[int, Done]:
        """Have one kernel run on these CPUs at the same time, for ``duration`` nanoseconds."""
        start = time.monotonic_ns() + _LEAD + _LEAD_PER_WORKER * len(cpus)
        command = Command(kernel, start, duration)
        for cpu in cpus:
            self._tell(cpu, str(command))
        return {cpu: Done.parse(self._answer(cpu, self._patience + duration / _NANO)) for cpu in cpus}

    def await_ready(self, within: float = _STARTING_SECONDS) -> None:
        """Wait until every worker is pinned and has its data."""
        for cpu in self._workers:
            answer = self._answer(cpu, within)
            if answer == BUSY:
                raise WorkerStarvedError(f"the worker of CPU {cpu} lost it before it began")
            if answer != READY:
                raise WorkerError(f"the worker of CPU {cpu} did not start")

    def _tell(self, cpu: int, line: str) -> None:
        stdin = self._workers[cpu].stdin
        try:
            print(line, file=stdin, flush=True)
        except OSError as error:
            raise WorkerError(f"the worker of CPU {cpu} has ended: {error.strerror}") from error

    def _answer(self, cpu: int, seconds: float) -> str:
        stdout = self._workers[cpu].stdout
        poll = select.poll()
        poll.register(stdout or 1, select.POLLIN)
        if not poll.poll(seconds * 1000):
            raise WorkerStarvedError(f"the worker of CPU {cpu} has not answered for {seconds:.0f} s")
        line = stdout.readline().strip() if stdout else ""
        if not line:
            raise WorkerError(
                f"the worker of CPU {cpu} does not answer: it may not be pinned there, or was killed"
            )
        return line


@contextmanager
def crew(cpus: CPUSet) -> Iterator[Crew]:
    """Start a worker on each CPU, and end them all.

    Raises:
        WorkerError: if one cannot be started.
    """
    workers: dict[int, subprocess.Popen[str]] = {}
    try:
        for cpu in cpus:
            workers[cpu] = _start(_worker(cpu))
        started = Crew(workers)
        started.await_ready()
        yield started
    finally:
        _end(workers.values())


@contextmanager
def idle_worker(
    cpu: int, isolate: Callable[[int], object], patience: float, trial: int = _TRIAL
) -> Iterator[Crew]:
    """Start one worker that gives way to all other work, and end it.

    ``isolate`` is called with its process ID before its interpreter starts; within ``patience`` seconds
    after that it has to be ready. For ``trial`` nanoseconds the CPU is tried first.

    Raises:
        WorkerStarvedError: if other work has the CPU.
        WorkerError: if it cannot be started.
    """
    worker = _start(idle_command(cpu, trial, tolerated(trial), _worker(cpu, IDLE)))
    try:
        isolate(worker.pid)
        with suppress(OSError):  # it has ended: it does not answer either
            print(RELEASE, end="", file=worker.stdin, flush=True)
        one = Crew({cpu: worker}, patience)
        one.await_ready(patience)
        yield one
    finally:
        _end([worker], within=_GIVING_UP_SECONDS)


def _worker(cpu: int, *options: str) -> list[str]:
    return [sys.executable, "-P", "-m", "corewise.agent.calibration_worker", str(cpu), *options]


def _start(command: Sequence[str]) -> subprocess.Popen[str]:
    try:
        return subprocess.Popen(  # noqa: S603 - our own programs
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
    except OSError as error:
        raise WorkerError(f"{command[0]} cannot be started: {error.strerror}") from error


def _end(workers: Iterable[subprocess.Popen[str]], within: float = _ENDING_SECONDS) -> None:
    ending = list(workers)
    for worker in ending:
        with suppress(OSError):
            if worker.stdin:
                worker.stdin.close()
    for worker in ending:
        try:
            worker.wait(within)
        except subprocess.TimeoutExpired:
            worker.kill()
            worker.wait()
        if worker.stdout:
            worker.stdout.close()
