"""CPU time and memory that a machine has used, and which processes used CPU time.

/proc/stat counts in ticks since boot (``USER_HZ``, 100 a second everywhere), for each CPU online: user, nice,
system, idle, iowait, irq, softirq, steal (guest time is part of user, and is not counted again). A CPU is
busy in what is neither idle nor iowait; steal is time that a hypervisor gave to others.

What the node itself has used is user + nice + system + irq + softirq of the line ``cpu``, so without steal.
That line has all CPUs that there ever were since boot: it only grows, whichever CPU goes offline.

Processes are compared between two readings of /proc/<pid>/stat: one that has ended in between is not seen,
and one that has begun counts with all it has used.

Memory in use is the working set: all that is neither free nor in pages of files not used lately
(``Inactive(file)``), which the kernel gives back first. Hugepages (``Hugetlb``, since Linux 4.16) are not in
it, used or not: allocatable memory is without them already.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from corewise.kernel.host_files import HostFiles
from corewise.quantities import Bytes
from corewise.topology import CPUSet

STAT = "proc/stat"
MEMINFO = "proc/meminfo"
PROC = "proc"
TICKS_PER_SECOND = 100
_PARENT, _USER, _SYSTEM = 1, 11, 12
_CPU = re.compile(r"^cpu([0-9]{1,9})((?: [0-9]{1,20}){4,12})$", re.MULTILINE)
_NODE = re.compile(r"^cpu ((?: [0-9]{1,20}){7,12})$", re.MULTILINE)
_USED = (0, 1, 2, 5, 6)
_IDLE = (3, 4)
_STEAL = 7
_COUNTED = 8
_TICK = 10_000_000
"""Nanoseconds: USER_HZ is 100 on every architecture that runs containers."""

_KIBI = 1024
_MEMORY = re.compile(r"^(MemTotal|MemFree|Inactive\(file\)|Hugetlb):\s*([0-9]{1,15}) kB$", re.MULTILINE)
_AVAILABLE = re.compile(r"^MemAvailable:\s*([0-9]{1,15}) kB$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class CPUTime:
    """Ticks of one CPU since boot; ``stolen`` is the part of ``busy`` that a hypervisor gave to others."""

    busy: int
    total: int
    stolen: int = 0


@dataclass(frozen=True, slots=True)
class BusyTime:
    """The time all CPUs have used since boot, in nanoseconds (steps of 10 ms), and the number online.

    ``stolen``, in nanoseconds too, is not part of ``busy``.
    """

    busy: int
    cpus: int
    stolen: int = 0


def read_cpu_times(files: HostFiles) -> Mapping[int, CPUTime] | None:
    """Return the time of every CPU online, or None if the kernel's account cannot be read."""
    return files.parsed(STAT, cpu_times)


def read_busy_time(files: HostFiles) -> BusyTime | None:
    """Return the CPU time that the node has used since boot, or None if it cannot be read."""
    return files.parsed(STAT, busy_time)


def read_memory_available(files: HostFiles) -> int | None:
    """Return the bytes that new processes can have without swapping."""
    text = files.text(MEMINFO)
    match = _AVAILABLE.search(text) if text else None
    return int(match[1]) * _KIBI if match else None


def cpu_times(stat: str) -> Mapping[int, CPUTime]:
    """Return the time of every CPU in a text like /proc/stat.

    Raises:
        ValueError: if there is none.
    """
    times = {}
    for match in _CPU.finditer(stat):
        # What follows is guest time, which user and nice have already.
        ticks = [int(each) for each in match[2].split()][:_COUNTED]
        times[int(match[1])] = CPUTime(
            sum(ticks) - sum(ticks[index] for index in _IDLE if index < len(ticks)),
            sum(ticks),
            sum(ticks[_STEAL:]),
        )
    if not times:
        raise ValueError("has no line for any CPU")
    return times


def busy_time(stat: str) -> BusyTime:
    """Return the used CPU time of a text like /proc/stat.

    Raises:
        ValueError: if it has no line for all CPUs together, or none for any.
    """
    match, cpus = _NODE.search(stat), len(_CPU.findall(stat))
    if match is None:
        raise ValueError("has no line for all CPUs together")
    if not cpus:
        raise ValueError("has no line for any CPU")
    ticks = [int(each) for each in match[1].split()]
    used, stolen = sum(ticks[index] for index in _USED), sum(ticks[_STEAL:_COUNTED])
    return BusyTime(used * _TICK, cpus, stolen * _TICK)


def busy_share(before: Mapping[int, CPUTime], after: Mapping[int, CPUTime], cpus: CPUSet) -> int:
    """Return the share of time in which CPUs were busy between two readings, in hundredths of a percent."""
    return _share(before, after, cpus, lambda time: time.busy)


def stolen_share(before: Mapping[int, CPUTime], after: Mapping[int, CPUTime], cpus: CPUSet) -> int:
    """Return the share of time that a hypervisor gave to others, in hundredths of a percent."""
    return _share(before, after, cpus, lambda time: time.stolen)


def _share(
    before: Mapping[int, CPUTime],
    after: Mapping[int, CPUTime],
    cpus: CPUSet,
    part: Callable[[CPUTime], int],
) -> int:
    both = [(before[cpu], after[cpu]) for cpu in cpus if cpu in before and cpu in after]
    total = sum(last.total - first.total for first, last in both)
    used = sum(part(last) - part(first) for first, last in both)
    return max(0, used) * 10_000 // total if total > 0 else 0


@dataclass(frozen=True, slots=True)
class ProcessTime:
    """A process: its name as the kernel has it, who started it, and the CPU time it has used (ticks)."""

    name: str
    parent: int
    used: int


@dataclass(frozen=True, slots=True)
class ProcessUsage:
    """A process and the ticks that it used in a while."""

    pid: int
    name: str
    used: int


def read_processes(files: HostFiles) -> Mapping[int, ProcessTime]:
    """Return the processes that can be read, by their IDs."""
    found = ((pid, files.parsed(f"{PROC}/{pid}/stat", process_time)) for pid in files.numbered(PROC, ""))
    return {pid: time for pid, time in found if time is not None}


def process_time(stat: str) -> ProcessTime:
    """Return the process of a text like /proc/<pid>/stat; its name may contain anything.

    Raises:
        ValueError: if it is none.
    """
    head, _, rest = stat.rpartition(")")
    fields = rest.split()
    if len(fields) <= _SYSTEM:
        raise ValueError("not a process")
    used = int(fields[_USER]) + int(fields[_SYSTEM])
    return ProcessTime(head.partition("(")[2], int(fields[_PARENT]), used)


def busiest(
    before: Mapping[int, ProcessTime],
    after: Mapping[int, ProcessTime],
    *,
    own: Collection[int] = (),
    most: int = 3,
) -> list[ProcessUsage]:
    """Return the processes that used CPU time in between, busiest first; not ``own`` and their children."""
    used = [
        ProcessUsage(pid, time.name, time.used - (before[pid].used if pid in before else 0))
        for pid, time in after.items()
        if pid not in own and time.parent not in own
    ]
    return sorted((each for each in used if each.used > 0), key=lambda each: (-each.used, each.pid))[:most]


def read_node_memory(files: HostFiles) -> MemoryInUse | None:
    """Return the machine's total and used memory; None if the kernel's account cannot be read."""
    return files.parsed(MEMINFO, node_memory)


@dataclass(frozen=True, slots=True)
class MemoryInUse:
    """A machine's memory in bytes, without hugepages: the working set, and all there is."""

    used: Bytes
    total: Bytes


def node_memory(meminfo: str) -> MemoryInUse:
    """Return MemTotal - Hugetlb of a meminfo file, and that less MemFree and Inactive(file).

    Raises:
        ValueError: if another than Hugetlb is not there.
    """
    amounts = {"Hugetlb": 0} | {name: int(kibi) * _KIBI for name, kibi in _MEMORY.findall(meminfo)}
    try:
        total = amounts["MemTotal"] - amounts["Hugetlb"]
        used = total - amounts["MemFree"] - amounts["Inactive(file)"]
        return MemoryInUse(Bytes(max(0, used)), Bytes(max(0, total)))
    except KeyError as error:
        raise ValueError(f"has no line {error.args[0]}") from None
