"""Loops that outlive their bugs, and the heartbeats by which /livez knows them.

A loop is a coroutine function that runs until cancelled. An operational error is the loop's own business; a
bug crashes it, and the supervisor logs the traceback, counts, waits a little longer each time, and starts it
anew. What the program was told wrongly (an address that is taken) ends it. This is the only place of the
program that catches every exception.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from corewise.kube.clock import Clock
from corewise.prometheus.exposition import Exposition
from corewise.service.logs import fields
from corewise.service.options import OptionsError
from corewise.vocabulary.metrics.service import LOOP_RESTARTS

log = logging.getLogger(__name__)

_FIRST_WAIT = 1.0
_LONGEST_WAIT = 60.0


@dataclass(slots=True)
class Pulses:
    """When each named loop last showed that it lives, and after how long silence it counts as stuck."""

    clock: Clock
    _beats: dict[str, tuple[float, float]] = field(default_factory=dict)

    def beat(self, name: str, limit: float) -> None:
        """Note that the loop lives and will beat again within ``limit`` seconds."""
        self._beats[name] = (self.clock.monotonic(), limit)

    def stop(self, name: str) -> None:
        """Expect no more beats: the loop has ended in order."""
        self._beats.pop(name, None)

    def stuck(self) -> dict[str, float]:
        """Return the loops that have been silent for too long, with the seconds of their silence."""
        now = self.clock.monotonic()
        return {name: now - beat for name, (beat, limit) in self._beats.items() if now - beat > limit}

    def problems(self) -> Iterator[str]:
        """Say which loops are stuck."""
        return (f"loop {name} has been silent for {age:.0f} s" for name, age in self.stuck().items())


async def run_together(tasks: Iterable[tuple[str, Coroutine[Any, Any, None]]]) -> None:
    """Run tasks, each by its name, until cancelled, or until one of them fails.

    Raises:
        OptionsError: if one of them was told something wrong.
    """
    try:
        async with asyncio.TaskGroup() as group:
            for name, task in tasks:
                group.create_task(task, name=name)
    except ExceptionGroup as errors:
        wrong = errors.subgroup(OptionsError)
        if wrong is None:
            raise
        raise OptionsError(str(wrong.exceptions[0])) from errors


@dataclass(frozen=True, slots=True)
class Supervisor:
    """Runs loops, restarting those that crash."""

    clock: Clock
    metrics: Exposition

    async def run(self, name: str, loop: Callable[[], Awaitable[None]]) -> None:
        """Run the loop until it returns or is cancelled."""
        wait = _FIRST_WAIT
        while True:
            started = self.clock.monotonic()
            try:
                await loop()
            except OptionsError:
                raise
            except Exception:
                log.exception("loop crashed: this is a bug", extra=fields(loop=name, restart_in=wait))
                self.metrics.count(LOOP_RESTARTS, name)
            else:
                return
            await self.clock.sleep(wait)
            lived = self.clock.monotonic() - started - wait
            wait = _FIRST_WAIT if lived > _LONGEST_WAIT else min(wait * 2, _LONGEST_WAIT)
