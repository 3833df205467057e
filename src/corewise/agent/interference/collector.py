"""Looks at everything the kernel counts of a node, below any root.

Synchronous and quick: two files for each resctrl group and cache, one reading for each CPU that is counted,
two files of /proc. What only the running kernel can tell (hardware counters) is asked only if the files below
the root are this kernel's: a recorded or simulated machine has nothing but its files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from corewise.agent.interference.counting import CacheMisses, MemoryTraffic
from corewise.agent.interference.readings import MissTotals, NodeReadings
from corewise.kernel.absence import Absent
from corewise.kernel.boot import read_boot_id
from corewise.kernel.cpu_time import MEMINFO, STAT, read_busy_time, read_memory_available
from corewise.kernel.cpu_topology import read_arrangement
from corewise.kernel.dimms.peak import read_peak_bandwidth
from corewise.kernel.host_files import HostFiles
from corewise.kernel.perf.system import Perf
from corewise.kernel.resctrl.monitoring import MonitoringEvent, read_counts
from corewise.vocabulary.reasons import Reason

T = TypeVar("T")

OTHER_KERNEL = Absent(Reason.OTHER_KERNEL, "the files below --root have another boot ID than this kernel")


def is_own_kernel(root: Path) -> bool:
    """Say whether the files below a root are those of the kernel that this process runs on."""
    boot = read_boot_id(root)
    return bool(boot) and boot == read_boot_id()


class Collector:
    """The counters of one node. ``perf`` is None where the node's kernel is not this one."""

    def __init__(self, root: Path, perf: Perf | None) -> None:
        self._files = HostFiles(root)
        self._traffic = MemoryTraffic(self._files, perf)
        self._misses = None if perf is None else CacheMisses(self._files, perf)
        self._capacity: int | Absent | None = None

    def look(self, latency: Mapping[int, float] | Absent) -> NodeReadings:
        """Return what is known now; the latency is somebody else's to probe."""
        self._files.problems.clear()
        return NodeReadings(
            traffic=self._traffic.look(),
            capacity=self._read_capacity(),
            latency=latency,
            occupancy=self._read_occupancy(),
            cache=self._cache,
            misses=self._read_misses(),
            cpu=self._read(STAT, read_busy_time),
            memory_available=self._read(MEMINFO, read_memory_available),
        )

    def close(self) -> None:
        """Stop counting."""
        self._traffic.close()
        if self._misses is not None:
            self._misses.close()

    def _read_capacity(self) -> int | Absent:
        """Return the capacity, worked out once; until a driver tells of the channels, asked for each time."""
        if self._capacity is None or isinstance(self._capacity, Absent):
            self._capacity = read_peak_bandwidth(self._files)
        return self._capacity

    @cached_property
    def _cache(self) -> int | Absent:
        return read_cache_size(self._files)

    def _read_occupancy(self) -> int | Absent:
        counts = read_counts(self._files, MonitoringEvent.OCCUPANCY)
        return counts if isinstance(counts, Absent) else sum(counts.values())

    def _read_misses(self) -> MissTotals | Absent:
        return OTHER_KERNEL if self._misses is None else self._misses.look()

    def _read(self, path: str, read: Callable[[HostFiles], T | None]) -> T | Absent:
        value = read(self._files)
        if value is not None:
            return value
        problems = [str(problem) for problem in self._files.problems if problem.path.endswith(path)]
        return Absent(Reason.HOST_FILE_UNREADABLE, "; ".join(problems) or f"{path} does not tell it")


def read_cache_size(files: HostFiles) -> int | Absent:
    """Return the size of all last-level caches together."""
    sizes = [cache.size for cache in read_arrangement(files).caches.values()]
    known = [size for size in sizes if size is not None]
    if not known or len(known) < len(sizes):
        return Absent(
            Reason.CACHE_SIZE_UNKNOWN, f"{len(known)} of {len(sizes)} last-level caches have a size"
        )
    return sum(known)
