"""Who has used CPU time: the processes of a machine, from /proc/<pid>/stat, compared between two readings.

A process that has ended in between is not seen, and one that has begun counts with all it has used. Times are
in ticks of the kernel's clock (``USER_HZ``, 100 a second everywhere).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from corewise.kernel.host_files import HostFiles

PROC = "proc"
TICKS_PER_SECOND = 100
_PARENT, _USER, _SYSTEM = 1, 11, 12


@dataclass(frozen=True, slots=True)
class ProcessTime:
    """A process: its name as the kernel has it, who started it, and the CPU time it has used (ticks)."""

    name: str
    parent: int
    used: int


@dataclass(frozen=True, slots=True)
class Busy:
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
        raise ValueError("this is no process")
    used = int(fields[_USER]) + int(fields[_SYSTEM])
    return ProcessTime(head.partition("(")[2], int(fields[_PARENT]), used)


def busiest(
    before: Mapping[int, ProcessTime],
    after: Mapping[int, ProcessTime],
    *,
    own: Collection[int] = (),
    most: int = 3,
) -> list[Busy]:
    """Return who used CPU time between two readings, the busiest first; not ``own`` and their children."""
    used = [
        Busy(pid, time.name, time.used - (before[pid].used if pid in before else 0))
        for pid, time in after.items()
        if pid not in own and time.parent not in own
    ]
    return sorted((each for each in used if each.used > 0), key=lambda each: (-each.used, each.pid))[:most]
