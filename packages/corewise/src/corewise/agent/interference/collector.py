"""Reads everything the kernel counts of a node, below any root.

Synchronous and quick: two files for each resctrl group and cache, one reading for each CPU that is counted,
two files of /proc. What only the running kernel has (hardware counters) is read only if the files below
the root are this kernel's: a recorded or simulated machine has nothing but its files.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Generic, TypeAlias, TypeVar

from corewise.config.interference.metrics import Metric
from corewise.kernel.host_files import HostFiles, read_boot_id
from corewise.kernel.machine import read_arrangement
from corewise.kernel.memory_bandwidth import read_peak_bandwidth
from corewise.kernel.memory_controllers import MemoryControllers, has_controllers
from corewise.kernel.perf import MissCounters, Perf
from corewise.kernel.resctrl import GroupCache, MonitoringEvent, read_counts
from corewise.kernel.usage import MEMINFO, STAT, read_busy_time, read_memory_available
from corewise.vocabulary.findings import Finding
from corewise.vocabulary.reasons import Reason

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

FROM_MODULES = "dimm"
_NANO = 1e9

CollectedSeries: TypeAlias = tuple[Mapping[tuple[str, ...], float], ...] | Finding
"""Of each metric that the agent exports for one of the table, in its order: values by labels; or why none."""

OTHER_KERNEL = Finding(Reason.OTHER_KERNEL, "the files below --root have another boot ID than this kernel")


class Tally(Generic[K]):
    """One counter that only grows, made of many that come, go and start again.

    The growth of each counter between two readings is added up. A counter that is new, or has gone back (its
    group was removed and made again, resctrl was mounted again), adds nothing this time: when it counted that
    is unknown. So the total never falls and never exceeds what was counted, and Prometheus' rate() of it is
    right; a plain sum of the counters would show a reset as one huge jump.
    """

    def __init__(self) -> None:
        self.total = 0
        self._before: Mapping[K, int] = {}

    def take(self, counts: Mapping[K, int]) -> None:
        for key, count in counts.items():
            self.total += max(0, count - self._before.get(key, count))
        self._before = dict(counts)

    def forget(self) -> None:
        """Start again at the next reading: until then something else counts."""
        self._before = {}


class MemoryTraffic:
    """Bytes moved from and to memory: from resctrl where it monitors bandwidth, else from memory controllers.

    Only one of the two counts at a time. Where resctrl monitors and has no value just now, there is none: it
    counts on meanwhile, and the next value has the traffic since the last one.
    """

    def __init__(self, files: HostFiles, perf: Perf | None) -> None:
        self._files = files
        self._resctrl: Tally[GroupCache] = Tally()
        self._controllers = None if perf is None else MemoryControllers(perf, files)
        self._at_controllers = 0

    def read(self) -> int | Finding:
        """Return the total, or why it is not known now."""
        counts = read_counts(self._files, MonitoringEvent.TRAFFIC)
        if not isinstance(counts, Finding):
            self._resctrl.take(counts)
            self.close()
            return self._total
        if counts.reason is Reason.RESCTRL_NO_VALUE:
            return counts
        self._resctrl.forget()
        return self._ask_controllers(counts)

    def close(self) -> None:
        if self._controllers is not None:
            self._controllers.close()

    @property
    def _total(self) -> int:
        return self._resctrl.total + self._at_controllers

    def _ask_controllers(self, no_resctrl: Finding) -> int | Finding:
        """Return the total by the controllers; where there are none, why resctrl has none either."""
        if self._controllers is None or not has_controllers(self._files):
            return no_resctrl
        traffic = self._controllers.read()
        if isinstance(traffic, Finding):
            return Finding(traffic.reason, f"{traffic.message}; {no_resctrl.message}")
        self._at_controllers += traffic.moved
        if traffic.behind:
            unit, cpu = traffic.behind[0]
            return Finding(Reason.UNCORE_NO_VALUE, f"{unit} on CPU {cpu} did not count")
        return self._total


def is_own_kernel(root: Path) -> bool:
    """Say whether the files below a root are those of the kernel that this process runs on."""
    boot = read_boot_id(root)
    return bool(boot) and boot == read_boot_id()


class Collector:
    """The counters of one node. ``perf`` is None where the node's kernel is not this one."""

    def __init__(self, root: Path, perf: Perf | None) -> None:
        self._files = HostFiles(root)
        self._traffic = MemoryTraffic(self._files, perf)
        self._misses = None if perf is None else MissCounters(perf, self._files)
        self._capacity: int | Finding | None = None

    def read(self, latency: Mapping[int, float] | Finding) -> dict[Metric, CollectedSeries]:
        """Return the current value of each metric measured here; the latency comes from its own prober."""
        self._files.problems.clear()
        if not isinstance(self._capacity, int):  # the memory channels' driver may be loaded later
            self._capacity = read_peak_bandwidth(self._files)
        cpu = self._read(STAT, read_busy_time)
        return {
            Metric.MEMORY_BANDWIDTH: _reading(self._traffic.read()),
            Metric.MEMORY_BANDWIDTH_CAPACITY: _reading(self._capacity, FROM_MODULES),
            Metric.MEMORY_LATENCY: (
                latency
                if isinstance(latency, Finding)
                else ({(str(numa),): seconds for numa, seconds in latency.items()},)
            ),
            Metric.LLC_OCCUPANCY: self._read_occupancy(),
            Metric.LLC_CAPACITY: _reading(self._cache),
            Metric.LLC_MPKI: self._read_misses(),
            Metric.CPU: (
                cpu if isinstance(cpu, Finding) else ({(): cpu.busy / _NANO}, {(): float(cpu.cpus)})
            ),
            Metric.MEMORY_AVAILABLE: _reading(self._read(MEMINFO, read_memory_available)),
        }

    def close(self) -> None:
        self._traffic.close()
        if self._misses is not None:
            self._misses.close()

    @cached_property
    def _cache(self) -> int | Finding:
        return read_cache_size(self._files)

    def _read_occupancy(self) -> CollectedSeries:
        counts = read_counts(self._files, MonitoringEvent.OCCUPANCY)
        return counts if isinstance(counts, Finding) else _reading(sum(counts.values()))

    def _read_misses(self) -> CollectedSeries:
        misses = OTHER_KERNEL if self._misses is None else self._misses.read()
        if isinstance(misses, Finding):
            return misses
        return {(): float(misses.instructions)}, {(misses.level,): float(misses.misses)}

    def _read(self, path: str, read: Callable[[HostFiles], T | None]) -> T | Finding:
        value = read(self._files)
        if value is not None:
            return value
        problems = [str(problem) for problem in self._files.problems if problem.path.endswith(path)]
        return Finding(Reason.HOST_FILE_UNREADABLE, "; ".join(problems) or f"{path} does not state it")


def _reading(value: int | Finding, *labels: str) -> CollectedSeries:
    return value if isinstance(value, Finding) else ({labels: float(value)},)


def read_cache_size(files: HostFiles) -> int | Finding:
    """Return the size of all last-level caches together."""
    sizes = [cache.size for cache in read_arrangement(files).caches.values()]
    known = [size for size in sizes if size is not None]
    if not known or len(known) < len(sizes):
        return Finding(
            Reason.CACHE_SIZE_UNKNOWN, f"{len(known)} of {len(sizes)} last-level caches have a size"
        )
    return sum(known)
