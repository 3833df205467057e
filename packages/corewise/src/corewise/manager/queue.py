"""The nodes waiting to be assessed: each at most once in the queue, and with one worker at most.

A name that is added while it is being worked on comes back when that work is done. ``add_later`` keeps one
timer per name, the earliest. An event only adds a name; what is computed is computed from the whole state.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable


class WorkQueue:
    """Names in the order in which they were added, timers, and the names that workers have taken."""

    def __init__(self) -> None:
        self._waiting: dict[str, None] = {}
        self._taken: set[str] = set()
        self._again: set[str] = set()
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._filled = asyncio.Event()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, name: str) -> None:
        """Queue the name now."""
        timer = self._timers.pop(name, None)
        if timer:
            timer.cancel()
        if name in self._taken:
            self._again.add(name)
        else:
            self._waiting[name] = None
            self._filled.set()

    def add_all(self, names: Iterable[str]) -> None:
        for name in names:
            self.add(name)

    def add_later(self, name: str, seconds: float) -> None:
        """Queue the name after so many seconds, or earlier if it is added before."""
        loop = asyncio.get_running_loop()
        due = loop.time() + seconds
        timer = self._timers.get(name)
        if timer and timer.when() <= due:
            return
        if timer:
            timer.cancel()
        self._timers[name] = loop.call_at(due, self.add, name)

    async def take(self) -> str:
        """Take the name that has waited longest; no other worker gets it until ``done``."""
        while not self._waiting:
            self._filled.clear()
            await self._filled.wait()
        name = next(iter(self._waiting))
        del self._waiting[name]
        self._taken.add(name)
        return name

    def done(self, name: str) -> None:
        """Say that the work on a name is finished."""
        self._taken.discard(name)
        if name in self._again:
            self._again.discard(name)
            self.add(name)

    def clear(self) -> None:
        """Forget everything, timers too."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._waiting.clear()
        self._taken.clear()
        self._again.clear()
