"""Fixtures that tests of several packages share."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from kubedouble import LocalAPIServer

# Timings are never asserted, so a busy machine fails no test. Examples are the same in every run, so that a
# change is judged by what it changed; COREWISE_EXPLORE=1 draws new ones, and the seed alone decides which.
settings.register_profile(
    "corewise",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=not os.environ.get("COREWISE_EXPLORE"),
    database=None,
    print_blob=True,
)
settings.load_profile("corewise")

_ON_THIS_KERNEL = "_real_"


@pytest.fixture(scope="module", autouse=True)
def kernel_to_itself(request: pytest.FixtureRequest) -> Iterator[None]:
    """Tests of this machine's kernel run in one process at a time, out of each other's way."""
    if _ON_THIS_KERNEL not in request.path.name:
        yield
        return
    with (Path(tempfile.gettempdir()) / "corewise-tests-kernel").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture
async def api_server() -> AsyncIterator[LocalAPIServer]:
    """A running API server of its own, with RBAC enforced; ``kubeconfig()`` is an administrator's."""
    from kubedouble import serve  # noqa: PLC0415 - not every distribution is tested with it

    async with serve() as server:
        yield server
