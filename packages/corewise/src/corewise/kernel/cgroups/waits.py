"""The time that a cgroup's tasks waited for a CPU while others had it, from whatever this kernel counts.

Three sources, the best one first:

==============  ============================================================================================
cpu.pressure    ``full``: per CPU, the time in which tasks of the cgroup could run and none of them did; the
                mean of the CPUs that the cgroup uses, weighted by its use. Since Linux 5.13; with v1 only
                where the runtime puts processes into the unified hierarchy, too. It has throttled time in it
cpu.stat        ``wait_sum`` on v1: the time that the group waited, the sum over CPUs. Without throttled time.
                Only while the sysctl kernel.sched_schedstats is 1
schedstat       of each task: the time it ran and waited. It has throttled time in it, and time in which other
                tasks of the same cgroup ran. Needs the process IDs of the node; what a task that has ended
                waited after the last reading is lost
==============  ============================================================================================

``some`` of cpu.pressure also counts the time in which a cgroup's own tasks waited for one another; the
difference is that time. ``wait_sum`` knows nothing of it.

Source: Linux Documentation/accounting/psi.rst, kernel/sched/psi.c (PSI_CPU_FULL),
Documentation/scheduler/sched-stats.rst.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from corewise.kernel.cgroups.files import Files, ReadableFiles
from corewise.kernel.cgroups.layout import Version
from corewise.kernel.errors import KernelError, Missing, Vanished
from corewise.kernel.host_files import HostFiles
from corewise.vocabulary.findings import Finding
from corewise.vocabulary.reasons import Reason

MOST_TASKS = 256
"""Tasks of one cgroup whose schedstat is read; the time of a cgroup with more is not known."""
_NANO_PER_MICRO = 1000
_PRESSURE = re.compile(r"some .*\btotal=([0-9]{1,20})\nfull .*\btotal=([0-9]{1,20})")
_POPULATED = re.compile(r"^populated 1$", re.MULTILINE)
_RUN_AND_WAITED = re.compile(r"([0-9]{1,20}) ([0-9]{1,20}) [0-9]+")


class WaitSource(StrEnum):
    """The kernel's count that a wait was read from."""

    PRESSURE = "cpu.pressure"
    GROUP = "wait_sum"
    TASKS = "schedstat"


@dataclass(frozen=True, slots=True)
class WaitCounters:
    """Nanoseconds that a cgroup waited for others, and for its own tasks or others.

    Of the source ``TASKS``, only the time that each task ran and waited.
    """

    source: WaitSource
    waited: int = 0
    any_waited: int = 0
    tasks: Mapping[int, tuple[int, int]] = field(default_factory=dict)


class WaitReader:
    """Reads the waits of cgroups of one node.

    ``pressure`` are the files of the unified hierarchy, None if there is none. ``only`` restricts the reader
    to one source.
    """

    def __init__(
        self, files: Files, pressure: Files | None, host: HostFiles, only: WaitSource | None = None
    ) -> None:
        self._files = files
        self._pressure = pressure
        self._host = host
        self._only = only
        self._chosen: dict[str, WaitSource] = {}

    def read(self, cgroup: str) -> WaitCounters | Finding:
        """Return the wait of a cgroup since it was made, or why it is not known.

        Raises:
            KernelError: if there is no such cgroup, or it cannot be read.
        """
        chosen = self._chosen.get(cgroup)
        if chosen is not None:
            found = self._read(cgroup, chosen)
            if found is not None:
                return found
        for source in WaitSource if self._only is None else (self._only,):
            if (source is WaitSource.PRESSURE and not self._is_populated(cgroup)) or source is chosen:
                continue
            found = self._read(cgroup, source)
            if found is not None:
                self._chosen[cgroup] = source
                return found
        self._chosen.pop(cgroup, None)
        return Finding(Reason.CPU_WAIT_UNKNOWN, f"neither {', '.join(WaitSource)} is known of it", cgroup)

    def keep(self, cgroups: frozenset[str]) -> None:
        """Forget the sources of all other cgroups."""
        self._chosen = {each: source for each, source in self._chosen.items() if each in cgroups}

    def _read(self, cgroup: str, source: WaitSource) -> WaitCounters | None:
        match source:
            case WaitSource.PRESSURE:
                return self._read_pressure(cgroup)
            case WaitSource.GROUP:
                waited = _stat_field(self._files, cgroup, "wait_sum")
                return None if waited is None else WaitCounters(source, waited, waited)
            case WaitSource.TASKS:
                return self._read_tasks(cgroup)

    def _is_populated(self, cgroup: str) -> bool:
        """Whether the cgroup's processes are in the unified hierarchy; with v1 they need not be."""
        if self._pressure is None or self._files.version is Version.V2:
            return self._pressure is not None
        try:
            return _POPULATED.search(self._pressure.read(cgroup, "cgroup.events")) is not None
        except KernelError:
            return False

    def _read_pressure(self, cgroup: str) -> WaitCounters | None:
        if self._pressure is None:
            return None
        try:
            match = _PRESSURE.fullmatch(self._pressure.read(cgroup, "cpu.pressure"))
        except Vanished:
            raise
        except KernelError:  # psi=0 on the kernel's command line, or cgroup.pressure is 0
            return None
        if match is None:
            return None
        any_waited, waited = (int(each) * _NANO_PER_MICRO for each in match.groups())
        return WaitCounters(WaitSource.PRESSURE, waited, any_waited)

    def _read_tasks(self, cgroup: str) -> WaitCounters | None:
        tasks = list(self._tasks(cgroup))
        if not tasks or "0" in tasks or len(tasks) > MOST_TASKS:  # 0: a task of another PID namespace
            return None
        counts = {}
        for task in tasks:
            match = _RUN_AND_WAITED.fullmatch(self._host.text(f"proc/{task}/schedstat") or "")
            if match:
                counts[int(task)] = int(match[1]), int(match[2])
        return WaitCounters(WaitSource.TASKS, tasks=counts) if counts else None

    def _tasks(self, cgroup: str) -> Iterator[str]:
        """Yield the IDs of tasks in a cgroup and those below it."""
        file = "cgroup.threads" if self._files.version is Version.V2 else "tasks"
        yield from self._files.read(cgroup, file).split()
        for child in self._files.children(cgroup):
            try:
                yield from self._tasks(child)
            except Missing:  # it has just ended
                continue


def read_throttled(files: ReadableFiles, cgroup: str) -> int:
    """Return the time that a quota has kept a cgroup's tasks from running, in ns: the sum over CPUs.

    Raises:
        KernelError: among them Missing, Unreadable and Malformed.
    """
    if files.version is Version.V1:
        return _stat_field(files, cgroup, "throttled_time") or 0
    return (_stat_field(files, cgroup, "throttled_usec") or 0) * _NANO_PER_MICRO


def _stat_field(files: ReadableFiles, cgroup: str, name: str) -> int | None:
    match = re.search(rf"^{name} ([0-9]{{1,20}})$", files.read(cgroup, "cpu.stat"), re.MULTILINE)
    return int(match[1]) if match else None
