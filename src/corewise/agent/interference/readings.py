"""What is known of a node at one moment: for each metric its value, or why there is none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from corewise.config.interference.model import Series
from corewise.kernel.absence import Absent
from corewise.kernel.cpu_time import BusyTime

MEASURED = (
    Series.MEMORY_BANDWIDTH,
    Series.MEMORY_BANDWIDTH_CAPACITY,
    Series.MEMORY_LATENCY,
    Series.LLC_OCCUPANCY,
    Series.LLC_CAPACITY,
    Series.LLC_MPKI,
    Series.CPU,
    Series.MEMORY_AVAILABLE,
)
"""What the agent measures, by the names that the scheduler's configuration has for it."""


@dataclass(frozen=True, slots=True)
class MissTotals:
    """Instructions, and reads that missed the cache ``level``, since the agent began to count."""

    instructions: int
    misses: int
    level: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReadings:
    """``traffic`` is in bytes since the agent began to count, ``capacity`` in bytes a second, ``latency`` in
    seconds by NUMA node; all else of memory and cache in bytes.
    """

    traffic: int | Absent
    capacity: int | Absent
    latency: Mapping[int, float] | Absent
    occupancy: int | Absent
    cache: int | Absent
    misses: MissTotals | Absent
    cpu: BusyTime | Absent
    memory_available: int | Absent

    @property
    def absent(self) -> Mapping[Series, Absent]:
        """Return what is not known."""
        values = {
            Series.MEMORY_BANDWIDTH: self.traffic,
            Series.MEMORY_BANDWIDTH_CAPACITY: self.capacity,
            Series.MEMORY_LATENCY: self.latency,
            Series.LLC_OCCUPANCY: self.occupancy,
            Series.LLC_CAPACITY: self.cache,
            Series.LLC_MPKI: self.misses,
            Series.CPU: self.cpu,
            Series.MEMORY_AVAILABLE: self.memory_available,
        }
        return {metric: value for metric, value in values.items() if isinstance(value, Absent)}
