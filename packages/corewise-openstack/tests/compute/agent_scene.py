"""A host on disk with its agent, in front of the real Placement."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from compute.compute_world import DOCUMENT, IMPATIENT, World, configured
from compute.faults import Faulty
from corewise_openstack.compute.options import ComputeOptions
from corewise_openstack.compute.program import HostAgent, Passed, run_pass
from machine_trees import Tree
from virtual_time import VirtualClock, run_virtual

HOST = "n1"


class Scene:
    """A host below a root directory, its nova.conf, and its directory."""

    def __init__(self, folder: Path, world: World) -> None:
        self.root = folder / "root"
        self.conf = folder / "nova.conf"
        self.hosts = folder / "hosts"
        self.state = self.hosts / HOST
        self.state.mkdir(parents=True)
        self.client = world.client
        self.transport = Faulty()
        self.options = ComputeOptions(HOST, (self.conf,), self.root, state_dir=self.state)
        self.machine("0-47")
        self.configure(DOCUMENT)

    def machine(self, online: str) -> None:
        tree = Tree(self.root).cpulists(online, "0-47").meminfo(64 << 20)
        for cpu in range(48):
            first = cpu // 2 * 2
            tree.cpu(cpu, siblings=f"{first}-{first + 1}", package=0)
        tree.node(0, online, kib=64 << 20)

    def configure(self, options: dict[str, str]) -> None:
        self.conf.write_text(configured(options))

    def run(self) -> Passed:
        return run_pass(self.options, self.transport.client(), patience=IMPATIENT)

    @property
    def uuid(self) -> str:
        return self.client.providers(HOST)[0].uuid

    def totals(self) -> dict[str, int]:
        return {name: each.total for name, each in self.client.provider(self.uuid).inventories.items()}


async def _inline(work: Callable[[], Passed]) -> Passed:
    return work()


def run_for(
    scene: Scene,
    seconds: float,
    *steps: tuple[float, Callable[[], object]],
    options: ComputeOptions | None = None,
) -> HostAgent:
    """Run the agent for some virtual seconds; each step happens at its time."""

    async def main() -> HostAgent:
        agent = HostAgent(
            options or scene.options,
            scene.transport.client(),
            clock=VirtualClock(),
            patience=IMPATIENT,
            blocking=_inline,
        )
        loop = asyncio.get_running_loop()
        for at, step in steps:
            loop.call_at(at, step)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(seconds):
                await agent.run()
        return agent

    return run_virtual(main())
