"""Oversubscription and suppression in the agent as a program, against the local API server.

The counters of the machine stand still unless a test moves them: its usage is nothing, at any speed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent.agent_world import AgentWorld, agent_world, until
from corewise.local.apiserver import LocalAPIServer

QUICK = {"intervalSeconds": 1}
ALL_AT_ONCE = {"adjustStep": 1}


@pytest.fixture
async def world(api_server: LocalAPIServer, tmp_path: Path) -> AsyncIterator[AgentWorld]:
    async with agent_world(api_server, tmp_path) as world:
        await world.allocatable()
        yield world


async def test_a_label_makes_the_node_offer_what_is_idle_and_its_end_takes_it_back(world: AgentWorld) -> None:
    await world.configure(oversubscription=QUICK)
    async with world.agent():
        await world.label("true")
        await world.offers("4800", "20615843020")
        await world.label(None)
        await world.offers(None, None)
        assert await world.report() is None


async def test_the_best_effort_cgroup_is_bounded_by_the_offer_until_suppression_is_off(
    world: AgentWorld,
) -> None:
    await world.configure(oversubscription=QUICK, suppression=ALL_AT_ONCE)
    await world.label("true")
    async with world.agent():
        await until(lambda: world.offline.quota().quota == 480_000)
        await world.configure(suppression={"enabled": False})
        await until(lambda: world.offline.quota().quota is None)
        await world.offers("4800", "20615843020")
