"""The workloads: what 19 benchmark applications used of CPU, memory and memory bandwidth.

Figures measured by the authors of intel/workload-collocation-agent (WCA), from its test fixtures, Apache-2.0.
"""

from __future__ import annotations

from dataclasses import dataclass

from corewise_lab.contention import IDLE_LATENCY, Memory, MemoryUse

_GIGA = 1e9
_STEEP = 1.6
"""How much latency grows from idle to 95 % of the bandwidth (corewise_lab.contention)."""


@dataclass(frozen=True, slots=True)
class Workload:
    """One application. CPUs, GB, and GB/s read and written."""

    name: str
    cpus: int
    memory: int
    read: float
    write: float

    @property
    def bandwidth(self) -> float:
        """Bytes per second undisturbed."""
        return (self.read + self.write) * _GIGA

    @property
    def use(self) -> MemoryUse:
        """The memory use of each of its CPUs; its work's need of the cache was not measured."""
        return MemoryUse(bandwidth=self.bandwidth / self.cpus)

    @property
    def affinity(self) -> int:
        """The extra time its work takes at 95 % of the bandwidth, over an idle machine, in hundredths."""
        bound = self.use.bound(Memory(bandwidth=1.0, llc=0.0, latency=IDLE_LATENCY))
        return min(100, round(100 * bound * _STEEP))


WORKLOADS = (
    Workload("memcached-mutilate-big", 10, 91, 2.11, 1.86),
    Workload("memcached-mutilate-big-wss", 10, 91, 3.04, 2.32),
    Workload("memcached-mutilate-medium", 10, 51, 2.89, 2.04),
    Workload("memcached-mutilate-small", 10, 26, 1.99, 1.41),
    Workload("mysql-hammerdb-small", 4, 52, 0.47, 0.22),
    Workload("redis-memtier-big", 3, 70, 2.19, 1.43),
    Workload("redis-memtier-big-wss", 3, 75, 1.64, 2.29),
    Workload("redis-memtier-medium", 3, 11, 1.77, 1.10),
    Workload("redis-memtier-small", 3, 10, 0.99, 0.52),
    Workload("specjbb-preset-big-120", 12, 126, 2.93, 0.90),
    Workload("specjbb-preset-big-60", 24, 66, 12.30, 3.97),
    Workload("specjbb-preset-medium", 9, 26, 3.50, 1.09),
    Workload("specjbb-preset-small", 4, 12, 0.63, 0.19),
    Workload("stress-stream-big", 4, 13, 1.21, 6.24),
    Workload("stress-stream-medium", 2, 13, 0.90, 2.05),
    Workload("stress-stream-small", 2, 7, 0.38, 1.90),
    Workload("sysbench-memory-big", 4, 10, 0.06, 14.32),
    Workload("sysbench-memory-medium", 3, 4, 0.03, 8.61),
    Workload("sysbench-memory-small", 2, 2, 0.01, 4.64),
)
