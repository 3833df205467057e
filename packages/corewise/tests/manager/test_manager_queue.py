"""Nodes wait once, and are never in two hands."""

from __future__ import annotations

import asyncio

import pytest

from corewise.manager.queue import WorkQueue
from virtual_time import VirtualLoop


async def test_name_waits_once_and_has_only_one_worker() -> None:
    queue = WorkQueue()
    queue.add_all(["a", "b", "a"])
    assert len(queue) == 2
    assert await queue.take() == "a"
    queue.add("a")
    assert await queue.take() == "b"
    assert len(queue) == 0
    queue.done("a")
    assert await queue.take() == "a"


def test_timer_adds_a_name_and_the_earlier_wins() -> None:
    async def scenario() -> list[float]:
        queue, loop, taken = WorkQueue(), asyncio.get_running_loop(), []
        queue.add_later("a", 10)
        queue.add_later("a", 3)
        queue.add_later("a", 7)
        queue.add_later("b", 5)
        for _ in range(2):
            await queue.take()
            taken.append(loop.time())
        queue.clear()
        return taken

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        assert runner.run(scenario()) == pytest.approx([3, 5])


async def test_adding_a_name_replaces_its_timer() -> None:
    queue = WorkQueue()
    queue.add_later("a", 0.001)
    queue.add("a")
    assert await queue.take() == "a"
    queue.done("a")
    await asyncio.sleep(0.01)
    assert len(queue) == 0
