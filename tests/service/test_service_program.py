"""Loops outlive their bugs, and their silence is noticed."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from corewise.prometheus.exposition import Exposition
from corewise.service.program import Heartbeats, Supervisor
from corewise.vocabulary.metrics import LOOP_RESTARTS, METRICS
from virtual_time import VirtualLoop

NOW = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)


class LoopClock:
    """The running loop's time, virtual in these tests."""

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    def now(self) -> datetime:
        return NOW + timedelta(seconds=self.monotonic())

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def test_a_loop_that_crashes_is_restarted_later_each_time_and_counted() -> None:
    exposition, starts = Exposition(METRICS), []

    async def scenario() -> None:
        clock = LoopClock()

        async def loop() -> None:
            starts.append(clock.monotonic())
            if len(starts) < 4:
                raise ZeroDivisionError

        await Supervisor(clock, exposition).run("test", loop)

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(scenario())
    assert starts == pytest.approx([0, 1, 3, 7])
    assert exposition.value(LOOP_RESTARTS, "test") == 3


def test_a_silent_loop_is_stuck_until_it_beats_or_stops() -> None:
    async def scenario() -> None:
        heartbeats = Heartbeats(LoopClock())
        heartbeats.beat("a", 5)
        heartbeats.beat("b", 50)
        await asyncio.sleep(6)
        assert heartbeats.stuck() == {"a": pytest.approx(6)}
        heartbeats.stop("a")
        assert not heartbeats.stuck()

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(scenario())
