"""Which event to count, as perf_event_open(2) is told.

Source: include/uapi/linux/perf_event.h (struct perf_event_attr, PERF_ATTR_SIZE_VER1).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

_ATTRIBUTES = struct.Struct("=IIQQQQQIIQQ")
"""type, size, config, sample_period, sample_type, read_format, flags, wakeup_events, bp_type, config1, -2."""

_TOTAL_TIME_ENABLED, _TOTAL_TIME_RUNNING, _GROUP = 1 << 0, 1 << 1, 1 << 3
_READ_FORMAT = _TOTAL_TIME_ENABLED | _TOTAL_TIME_RUNNING | _GROUP

_HARDWARE, _HARDWARE_CACHE = 0, 3
_LAST_LEVEL, _READ, _MISS = 2, 0, 1


@dataclass(frozen=True, slots=True)
class PerfEvent:
    """One event of the performance unit that ``type`` names."""

    type: int
    config: int
    config1: int = 0
    config2: int = 0

    def attributes(self) -> bytes:
        """Return the struct that the kernel takes: counting from the start on, in user and kernel space."""
        fields = (self.type, _ATTRIBUTES.size, self.config, 0, 0, _READ_FORMAT, 0, 0, 0)
        return _ATTRIBUTES.pack(*fields, self.config1, self.config2)


INSTRUCTIONS = PerfEvent(_HARDWARE, 1)
CACHE_MISSES = PerfEvent(_HARDWARE, 3)
"""What that counts is the processor's affair: on AMD's Zen it is misses of the second level."""
LAST_LEVEL_READ_MISSES = PerfEvent(_HARDWARE_CACHE, _LAST_LEVEL | _READ << 8 | _MISS << 16)
