"""Busy processes in cgroups, what they have done, and that each of them ends.

A process is put into its cgroup before its curve begins. It can be held for a while (SIGSTOP), which is how
online work is measured alone and beside offline work in one run. Processes are ended by their ids.
"""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from real_load import spinner

MOST = 64
_WORD = 8
_SPINNER = Path(spinner.__file__)
Curve = tuple[tuple[float, float], ...]
"""Seconds and load (0 to 1), joined by straight lines."""


@dataclass(frozen=True, slots=True)
class Worker:
    """One busy process."""

    index: int
    process: subprocess.Popen[bytes]


class Crew:
    """All busy processes of a run; leaving it ends them."""

    def __init__(self) -> None:
        descriptor, name = tempfile.mkstemp(prefix="corewise-load-")
        self._path = Path(name)
        os.ftruncate(descriptor, MOST * _WORD)
        self._memory = mmap.mmap(descriptor, 0)
        os.close(descriptor)
        self._counters = memoryview(self._memory).cast("Q")
        self._workers: list[Worker] = []

    def start(
        self, directories: Iterable[Path], curve: Curve, began: float, cpu: int | None = None
    ) -> Worker:
        """Start a process in the cgroup with these directories, confined to a CPU if one is named.

        Its curve begins at ``began``, on the monotonic clock.
        """
        index = len(self._workers)
        text = ",".join(f"{at:g}:{load:g}" for at, load in curve)
        arguments = [str(self._path), str(index), f"{began:.6f}", text]
        process = subprocess.Popen([sys.executable, "-I", "-S", str(_SPINNER), *arguments])
        worker = Worker(index, process)
        self._workers.append(worker)
        if cpu is not None:
            os.sched_setaffinity(process.pid, {cpu})
        for directory in directories:
            (directory / "cgroup.procs").write_text(str(process.pid))
        return worker

    def done(self, workers: Iterable[Worker]) -> int:
        """Return the work that some of them have done since their start."""
        return sum(self._counters[worker.index] for worker in workers)

    def end(self) -> None:
        """End all of them. A second call does nothing."""
        for worker in self._workers:
            worker.process.kill()
        for worker in self._workers:
            worker.process.wait()
        self._path.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()
