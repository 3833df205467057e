"""A small cluster for each test of the scheduler's program."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kubedouble import LocalAPIServer
from manager.world import small_cluster
from scheduler.program_world import Interrupted, SchedulerWorld


@pytest.fixture
async def world(api_server: LocalAPIServer, tmp_path: Path) -> AsyncIterator[SchedulerWorld]:
    """An API server with NodeResourceTopology; schedulers are started by the tests."""
    async with small_cluster(api_server, tmp_path) as cluster:
        yield SchedulerWorld(cluster.server, cluster.client, cluster.administrator)


@pytest.fixture
def interrupted(monkeypatch: pytest.MonkeyPatch) -> Interrupted:
    return Interrupted(monkeypatch)
