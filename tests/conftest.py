"""Fixtures that tests of several packages share."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator

import pytest
from hypothesis import HealthCheck, settings

from corewise.local.apiserver import LocalAPIServer, serve

# Timings are never asserted, so a busy machine fails no test. Examples are the same in every run, so that a
# change is judged by what it changed; COREWISE_EXPLORE=1 draws new ones.
settings.register_profile(
    "corewise",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=not os.environ.get("COREWISE_EXPLORE"),
)
settings.load_profile("corewise")

_ON_THIS_KERNEL = "_real_"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep a file's tests in one process, and tests of this machine's kernel out of each other's way."""
    for item in items:
        group = "kernel" if _ON_THIS_KERNEL in item.path.name else item.path.as_posix()
        item.add_marker(pytest.mark.xdist_group(group))


@pytest.fixture
async def api_server() -> AsyncIterator[LocalAPIServer]:
    """A running API server of its own, with RBAC enforced; ``kubeconfig()`` is an administrator's."""
    async with serve() as server:
        yield server
