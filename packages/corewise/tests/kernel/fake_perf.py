"""A kernel that counts as it is told: what perf_event_open(2) and read(2) do, without a processor."""

from __future__ import annotations

import errno
import os
import struct
from dataclasses import dataclass, field

from corewise.kernel.perf import PerfEvent


@dataclass
class Counter:
    """One open event; ``counted`` while it ran. ``members``: itself and those that it leads."""

    event: PerfEvent
    cpu: int
    counted: int = 0
    enabled: int = 0
    running: int = 0
    members: list[Counter] = field(default_factory=list)


class FakePerf:
    """``refuse`` maps a CPU (None: all), or an event, to the errno that opening it there gives."""

    def __init__(self) -> None:
        self.open_counters: dict[int, Counter] = {}
        self.refuse: dict[int | PerfEvent | None, int] = {}
        self.dead: set[int] = set()
        self._next = 100

    def open(self, event: PerfEvent, cpu: int, leader: int = -1) -> int:
        code = self.refuse.get(event) or self.refuse.get(cpu) or self.refuse.get(None)
        if code:
            raise OSError(code, os.strerror(code))
        fd, self._next = self._next, self._next + 1
        counter = self.open_counters[fd] = Counter(event, cpu)
        (self.open_counters[leader] if leader >= 0 else counter).members.append(counter)
        return fd

    def read(self, fd: int, size: int) -> bytes:
        if fd not in self.open_counters:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        leader = self.open_counters[fd]
        if leader.cpu in self.dead:
            return b""
        values = [member.counted for member in leader.members]
        content = struct.pack(f"={3 + len(values)}Q", len(values), leader.enabled, leader.running, *values)
        if len(content) > size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return content

    def close(self, fd: int) -> None:
        del self.open_counters[fd]

    def run(
        self, cpu: int, *counts: int, enabled: int = 1000, running: int = 1000, unit: int | None = None
    ) -> None:
        """Let the groups of a CPU (of one unit) run: their events count so much meanwhile."""
        for leader in self.open_counters.values():
            if leader.cpu == cpu and leader.members and unit in {None, leader.event.type}:
                leader.enabled += enabled
                leader.running += running
                for member, count in zip(leader.members, counts, strict=True):
                    member.counted += count
