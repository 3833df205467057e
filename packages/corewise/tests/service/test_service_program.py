"""Loops outlive their bugs, and their silence is noticed."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import corewise
from corewise.kube.cache import Cache, Caches
from corewise.kube.client import Client
from corewise.kube.config import load_config
from corewise.kube.resources import NODES
from corewise.prometheus.exposition import Exposition
from corewise.service.program import Heartbeats, Program, Supervisor
from corewise.vocabulary import metrics
from corewise.vocabulary.metrics import LOOP_RESTARTS, METRICS
from kubedouble import LocalAPIServer
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


def test_crashing_loop_restarts_with_growing_delay_and_count() -> None:
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


def test_silent_loop_stays_stuck_until_beating_or_stopping() -> None:
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


async def test_metrics_report_program_identity_start_and_cache_silence(
    api_server: LocalAPIServer, tmp_path: Path
) -> None:
    api_server.write_kubeconfig(tmp_path / "kubeconfig")
    clock = LoopClock()
    program = Program("manager", clock)
    async with Client(load_config(str(tmp_path / "kubeconfig"))) as client:
        cache = Cache(client, NODES, clock=clock)
        program.expose(None, ready=tuple, caches=Caches(cache))
        program.metrics_text()
        assert metrics.CACHE_SILENCE.name + "{" not in program.metrics_text().decode()
        following = asyncio.create_task(cache.run())
        await cache.synced.wait()
        text = program.metrics_text().decode()
        assert program.metrics.value(metrics.CACHE_STALE, "nodes") == 0
        assert metrics.CACHE_SILENCE.name + "{" in text
        following.cancel()
        await asyncio.wait([following])
    program.metrics_text()
    assert program.metrics.value(metrics.CACHE_STALE, "nodes") == 1
    assert program.metrics.value(metrics.BUILD_INFO, "manager", corewise.__version__) == 1
    assert program.metrics.value(metrics.START_TIME) >= NOW.timestamp()
