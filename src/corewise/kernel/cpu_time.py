"""CPU time that a machine has used, from /proc/stat, and how much memory is available.

/proc/stat counts in ticks since boot, for each CPU online: user, nice, system, idle, iowait, irq, softirq,
steal (guest time is part of user, and is not counted again). A CPU is busy in what is neither idle nor
iowait; steal is time that a hypervisor gave to others.

What the node itself has used is user + nice + system + irq + softirq of the line ``cpu``, so without steal.
That line has all CPUs that there ever were since boot: it only grows, whichever CPU goes offline.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from corewise.kernel.host_files import HostFiles
from corewise.topology import CPUSet

STAT = "proc/stat"
MEMINFO = "proc/meminfo"
_CPU = re.compile(r"^cpu([0-9]{1,9})((?: [0-9]{1,20}){4,12})$", re.MULTILINE)
_NODE = re.compile(r"^cpu ((?: [0-9]{1,20}){7,12})$", re.MULTILINE)
_USED = (0, 1, 2, 5, 6)
_IDLE = (3, 4)
_STEAL = 7
_COUNTED = 8
_TICK = 10_000_000
"""Nanoseconds: USER_HZ is 100 on every architecture that runs containers."""

_AVAILABLE = re.compile(r"^MemAvailable:\s*([0-9]{1,15}) kB$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class CPUTime:
    """Ticks of one CPU since boot; ``stolen`` is the part of ``busy`` that a hypervisor gave to others."""

    busy: int
    total: int
    stolen: int = 0


@dataclass(frozen=True, slots=True)
class BusyTime:
    """What all CPUs have used since boot, in nanoseconds (steps of 10 ms), and how many are online."""

    busy: int
    cpus: int


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
    return int(match[1]) * 1024 if match else None


def cpu_times(stat: str) -> Mapping[int, CPUTime]:
    """Return the time of every CPU in a text like /proc/stat.

    Raises:
        ValueError: if there is none.
    """
    times = {}
    for match in _CPU.finditer(stat):
        ticks = [int(each) for each in match[2].split()][:_COUNTED]
        times[int(match[1])] = CPUTime(
            sum(ticks) - sum(ticks[index] for index in _IDLE if index < len(ticks)),
            sum(ticks),
            sum(ticks[_STEAL:]),
        )
    if not times:
        raise ValueError("there is no line for any CPU")
    return times


def busy_time(stat: str) -> BusyTime:
    """Return the used CPU time of a text like /proc/stat.

    Raises:
        ValueError: if there is no line for all CPUs together, or none for any.
    """
    match = _NODE.search(stat)
    if match is None:
        raise ValueError("there is no line for all CPUs together")
    ticks = [int(each) for each in match[1].split()]
    return BusyTime(sum(ticks[index] for index in _USED) * _TICK, len(cpu_times(stat)))


def busy_share(before: Mapping[int, CPUTime], after: Mapping[int, CPUTime], cpus: CPUSet) -> int:
    """Return the share of time in which CPUs were busy between two readings, in hundredths of a percent."""
    between = list(_between(before, after, cpus))
    return _share(sum(time.busy for time in between), between)


def stolen_share(before: Mapping[int, CPUTime], after: Mapping[int, CPUTime], cpus: CPUSet) -> int:
    """Return the share of time that a hypervisor gave to others, in hundredths of a percent."""
    between = list(_between(before, after, cpus))
    return _share(sum(time.stolen for time in between), between)


def _between(before: Mapping[int, CPUTime], after: Mapping[int, CPUTime], cpus: CPUSet) -> Iterator[CPUTime]:
    """Yield what each CPU has counted between two readings."""
    for cpu in cpus:
        if cpu in before and cpu in after:
            first, last = before[cpu], after[cpu]
            yield CPUTime(last.busy - first.busy, last.total - first.total, last.stolen - first.stolen)


def _share(part: int, between: Iterable[CPUTime]) -> int:
    total = sum(time.total for time in between)
    return max(0, part) * 10_000 // total if total > 0 else 0
