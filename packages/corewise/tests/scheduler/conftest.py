"""A small cluster for each test of the scheduler's program."""

from __future__ import annotations

import pytest

from scheduler.program_world import Interrupted, scheduler_world

world = pytest.fixture(scheduler_world, name="world")


@pytest.fixture
def interrupted(monkeypatch: pytest.MonkeyPatch) -> Interrupted:
    return Interrupted(monkeypatch)
