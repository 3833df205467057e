"""What a group of events has counted between two looks. Pure.

When more events are wanted than a processor has counters, the kernel lets groups take turns. What was counted
in the time that a group ran stands for the time it was enabled:

    growth = (value after - before) x (enabled after - before) / (running after - before)

Source: perf_event_open(2), "Reading results".
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

_HEADER = struct.Struct("=QQQ")
_VALUE = 8


@dataclass(frozen=True, slots=True)
class GroupReading:
    """Values since the group was opened, and the nanoseconds that it was enabled and that it ran."""

    enabled: int
    running: int
    values: tuple[int, ...]

    @classmethod
    def parse(cls, content: bytes) -> GroupReading:
        """Read what the kernel returns for a group.

        Raises:
            ValueError: if it is cut short, as that of a group whose CPU has gone offline.
        """
        if len(content) < _HEADER.size:
            raise ValueError("the group has no reading")
        count, enabled, running = _HEADER.unpack_from(content)
        if len(content) != _HEADER.size + count * _VALUE:
            raise ValueError(f"{count} values in {len(content)} bytes")
        return cls(enabled, running, struct.unpack_from(f"={count}Q", content, _HEADER.size))

    def is_reset_of(self, before: GroupReading) -> bool:
        """Say whether anything went back since, so that the two cannot be compared."""
        times = self.enabled < before.enabled or self.running < before.running
        return times or any(new < old for new, old in zip(self.values, before.values, strict=True))


def reading_size(events: int) -> int:
    """Return the bytes of a group's reading."""
    return _HEADER.size + events * _VALUE


def growth(before: GroupReading, after: GroupReading) -> tuple[int, ...] | None:
    """Return the scaled growth of each value; None if the group did not run in between.

    ``after`` is no reset of ``before``.
    """
    running = after.running - before.running
    if not running:
        return None
    enabled = after.enabled - before.enabled
    pairs = zip(before.values, after.values, strict=True)
    return tuple((new - old) * enabled // running for old, new in pairs)
