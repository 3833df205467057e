"""The clock, as an argument: what waits or stamps a time takes one, so that tests need not wait.

``monotonic`` and ``sleep`` are the event loop's own, so a loop with virtual time moves them too; ``now`` is
the wall clock, used for what is written into objects and for expiry dates, never to measure.
"""

from __future__ import annotations

import asyncio
import math
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Seconds that only grow, the date, and a way to wait."""

    def monotonic(self) -> float: ...

    def now(self) -> datetime: ...

    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """The running event loop's time and the machine's date."""

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    def now(self) -> datetime:
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


SYSTEM_CLOCK = SystemClock()


def rfc3339(moment: datetime) -> str:
    """metav1.Time as text: whole seconds, UTC."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def rfc3339_micro(moment: datetime) -> str:
    """metav1.MicroTime as text: six decimals, UTC."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def next_beat(now: float, period: float) -> float:
    """Return the next multiple of a period, in seconds, that is 0.1 to 1.1 periods away.

    Loops that wait for it wake together. A program that has rested for a second finds its caches cold, so
    that each waking by itself costs up to a millisecond of CPU time more.
    """
    return period * (math.floor(now / period + 0.1) + 1)


def to_beat(clock: Clock, period: float) -> float:
    """Return the seconds until the next beat of a period."""
    now = clock.monotonic()
    return next_beat(now, period) - now


async def sleep_unless(woken: asyncio.Event, clock: Clock, seconds: float) -> None:
    """Wait so long, or until somebody sets the event."""
    waiting = [asyncio.create_task(each) for each in (woken.wait(), clock.sleep(seconds))]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in waiting:
            task.cancel()


async def sleep_between(shortest: float, longest: float, woken: asyncio.Event, clock: Clock) -> None:
    """Wait until somebody sets the event, at least ``shortest`` and at most ``longest`` seconds."""
    began = clock.monotonic()
    await sleep_unless(woken, clock, longest)
    left = began + shortest - clock.monotonic()
    if left > 0:
        await clock.sleep(left)
