"""A small cluster for each test of the manager."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kubedouble import LocalAPIServer
from manager.world import World, small_cluster


@pytest.fixture
async def world(api_server: LocalAPIServer, tmp_path: Path) -> AsyncIterator[World]:
    """An API server with a namespace for the ConfigMap; managers are started by the tests."""
    async with small_cluster(api_server, tmp_path) as cluster:
        yield cluster
