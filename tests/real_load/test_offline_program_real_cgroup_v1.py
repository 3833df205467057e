"""The agent as a program keeps the best-effort cgroup of a real kernel (v1): begins, repairs, gives back.

A ratio of 0 offers nothing, whatever this machine does meanwhile, so the quota goes to the floor. Needs root
and a writable v1 hierarchy; skipped elsewhere.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from agent.agent_world import AgentWorld, agent_world, until
from corewise.kernel.cgroups.layout import Version
from kernel.cgroup_writes import layout_here
from kubedouble import LocalAPIServer
from real_load.kubelet_tree import KubeletTree

LAYOUT = layout_here(Version.V1)
pytestmark = pytest.mark.skipif(LAYOUT is None, reason="needs root and a writable cgroup v1 cpu controller")
NOTHING = {"ratio": 0.0, "intervalSeconds": 1}
AT_ONCE = {"adjustStep": 1}
FLOOR = 10
"""Milli-CPU."""
PATIENCE = 90.0


@pytest.fixture
def tree() -> Iterator[KubeletTree]:
    assert LAYOUT is not None
    with KubeletTree(LAYOUT) as tree:
        yield tree


@pytest.fixture
async def world(api_server: LocalAPIServer, tmp_path: Path, tree: KubeletTree) -> AsyncIterator[AgentWorld]:
    async with agent_world(api_server, tmp_path) as world:
        await world.allocatable()
        await world.configure(oversubscription=NOTHING, suppression=AT_ONCE)
        await world.label("true")
        world.options = replace(
            world.options, root=Path("/"), cgroup_root=tree.root, state_dir=tmp_path / "state"
        )
        yield world


async def comes_to(tree: KubeletTree, milli: int | None) -> None:
    await until(lambda: tree.milli(tree.best_effort) == milli, PATIENCE)


async def test_the_slice_is_bounded_repaired_and_given_back(world: AgentWorld, tree: KubeletTree) -> None:
    async with world.agent():
        await comes_to(tree, FLOOR)
        tree.file(tree.best_effort, "cpu.cfs_quota_us").write_text("-1")
        await comes_to(tree, FLOOR)
        await world.label("false")
        await comes_to(tree, None)


async def test_returning_agent_restores_from_what_its_journal_holds(
    world: AgentWorld, tree: KubeletTree
) -> None:
    async with world.agent():
        await comes_to(tree, FLOOR)
    assert tree.milli(tree.best_effort) == FLOOR
    await world.configure(suppression={"enabled": False})
    async with world.agent():
        await comes_to(tree, None)
