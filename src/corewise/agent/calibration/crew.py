"""The workers of a measurement: one process for each CPU, started once, told together, ended at the end."""

from __future__ import annotations

import select
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress

from corewise.agent.calibration.worker import READY, Command, Done
from corewise.topology import CPUSet

_STARTING_SECONDS = 120.0
_ANSWERING_SECONDS = 60.0
_ENDING_SECONDS = 5.0
_LEAD = 20_000_000
_LEAD_PER_WORKER = 100_000
"""Nanoseconds between the command and the start: time to reach every worker, and to warm up."""

_NANO = 10**9


class WorkerError(Exception):
    """A worker could not be started, or stopped answering; the message says which."""


class Crew:
    """Workers that run. Commands go to some of them; the others sleep."""

    def __init__(self, workers: Mapping[int, subprocess.Popen[str]]) -> None:
        self._workers = workers

    def run(self, kernel: str, cpus: CPUSet, duration: int) -> Mapping[int, Done]:
        """Have one kernel run on these CPUs at the same time, for ``duration`` nanoseconds."""
        start = time.monotonic_ns() + _LEAD + _LEAD_PER_WORKER * len(cpus)
        command = Command(kernel, start, duration)
        for cpu in cpus:
            self._tell(cpu, str(command))
        return {cpu: Done.parse(self._answer(cpu, _ANSWERING_SECONDS + duration / _NANO)) for cpu in cpus}

    def await_ready(self) -> None:
        """Wait until every worker is pinned and has its data."""
        for cpu in self._workers:
            if self._answer(cpu, _STARTING_SECONDS) != READY:
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
        line = stdout.readline().strip() if stdout and poll.poll(seconds * 1000) else ""
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
            workers[cpu] = _start(cpu)
        started = Crew(workers)
        started.await_ready()
        yield started
    finally:
        _end(workers.values())


def _start(cpu: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "corewise.agent.calibration.worker", str(cpu)]
    try:
        return subprocess.Popen(  # noqa: S603 - our own interpreter and module
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
    except OSError as error:
        raise WorkerError(f"the worker of CPU {cpu} cannot be started: {error.strerror}") from error


def _end(workers: Iterable[subprocess.Popen[str]]) -> None:
    ending = list(workers)
    for worker in ending:
        with suppress(OSError):
            if worker.stdin:
                worker.stdin.close()
    for worker in ending:
        try:
            worker.wait(_ENDING_SECONDS)
        except subprocess.TimeoutExpired:
            worker.kill()
            worker.wait()
        if worker.stdout:
            worker.stdout.close()
