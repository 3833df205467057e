"""Waits of a local cluster, in virtual time.

without progress for    and                                what happens
8 s                     nothing went wrong                 it says that it still waits; again every 8 s
8 s                     a program complained once          it says so, with the complaint
8 s                     a program complained repeatedly    the wait ends with the complaint and the log
8 s                     two requests failed                the wait ends with the answer
60 s                                                       the wait ends, and names the logs
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from corewise_lab.control_plane import ClusterError
from corewise_lab.waiting import GIVE_UP, STUCK, Failures, Waits
from virtual_time import run_virtual

SLACK = 1.0
"""Seconds between two looks at a wait."""


class World:
    """Waits for something that never comes, while a manager may complain."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "manager.log"
        self.log.write_text("2026-01-01T00:00:00.000Z info    begins\n")
        self.failures, self.said, self.count = Failures(), list[str](), 0
        self.waits = Waits((self.failures,), lambda: {"manager": self.log}, self.said.append)

    def complain(self, times: int = 1) -> None:
        with self.log.open("a") as log:
            for number in range(times):
                log.write(f'2026-01-01T00:00:0{number}.000Z warning not installed attempt="{number}"\n')

    def ends(self) -> tuple[float, str]:
        """Seconds until the wait ends, and what it says then."""

        async def wait() -> float:
            with pytest.raises(ClusterError) as ended:
                await self.waits.until("pods", lambda: False, progress=lambda: self.count)
            self.said.append(str(ended.value))
            return asyncio.get_running_loop().time()

        return run_virtual(wait()), self.said[-1]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_stuck_wait_says_so_and_gives_up(world: World) -> None:
    seconds, said = world.ends()
    assert GIVE_UP <= seconds <= GIVE_UP + SLACK
    assert f"waiting for pods\n  no log says why: {world.log}" in said
    assert all(line.startswith("still waiting for pods (") for line in world.said[:-1])
    assert len(world.said) > GIVE_UP / (STUCK + SLACK)


def test_one_complaint_is_told_and_ends_nothing(world: World) -> None:
    world.complain()
    seconds, _ = world.ends()
    assert seconds >= GIVE_UP
    assert f'the manager logged: not installed attempt="0"\n  (in {world.log})' in world.said[0]


def test_a_repeated_complaint_ends_a_stuck_wait(world: World) -> None:
    world.complain(2)
    seconds, said = world.ends()
    assert STUCK <= seconds <= STUCK + SLACK
    assert f'the manager logged: not installed attempt="1"\n  (in {world.log})' in said


def test_requests_that_fail_end_a_stuck_wait(world: World) -> None:
    async def ends() -> None:
        async def fail() -> None:
            for _ in range(2):
                await asyncio.sleep(1.0)
                world.failures.note(ClusterError("PATCH nodes/a/status: forbidden"))

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(fail())
            with pytest.raises(ClusterError, match="a request failed: PATCH nodes/a/status: forbidden"):
                await world.waits.until("pods", lambda: False)

    run_virtual(ends())


def test_what_was_logged_before_progress_is_no_reason(world: World) -> None:
    async def ends() -> None:
        async def progress() -> None:
            await asyncio.sleep(STUCK / 2)
            world.complain(2)
            world.count += 1

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(progress())
            with pytest.raises(ClusterError, match="no log says why"):
                await world.waits.until("pods", lambda: False, progress=lambda: world.count)

    run_virtual(ends())


def test_a_wait_returns_what_its_work_returns(world: World) -> None:
    async def work() -> str:
        await asyncio.sleep(STUCK * 2)
        return "done"

    assert run_virtual(world.waits.ending("work", work())) == "done"
    assert len(world.said) == 1


def test_a_wait_shows_its_object_and_how_long(world: World) -> None:
    shown = list[str]()
    world.waits.show = shown.append
    run_virtual(world.waits.ending("the scheduler to see the nodes", asyncio.sleep(2.5)))
    assert shown == [f"waiting for the scheduler to see the nodes ({seconds} s)" for seconds in (1, 2)]
