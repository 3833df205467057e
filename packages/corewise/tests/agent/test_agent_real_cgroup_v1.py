"""The agent against real cgroups (v1), with containers that really run: what a request buys, and no EINVAL.

Needs root and a writable v1 cpu controller; skipped elsewhere. Everything happens below a cgroup of its own,
which is removed at the end, as are the processes in it.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from agent.agent_world import AgentWorld, agent_world, until
from agent.fake_node import container, manifest
from corewise.agent.objects import QuotaPod
from corewise.agent.quota_targets import targets_of
from corewise.kernel.cgroups.files import CgroupFiles
from corewise.kernel.cgroups.layout import Layout, Version, find_pod_cgroups
from corewise.kernel.cgroups.resources import read_bandwidth, read_usage
from corewise.quantities import ONE, Microseconds
from corewise.vocabulary import metrics
from kernel.cgroup_writes import layout_here, write_quota, write_weight
from kubedouble import LocalAPIServer

PERIOD = Microseconds(100_000)
NANO = 1_000_000_000
TWO_THIRDS = 66_667 / 100_000
WINDOWS = 4
HEAVIEST = 262_144
SPIN = "while True: pass"


LAYOUT = layout_here(Version.V1, needs=("cpu", "cpuacct"))
pytestmark = pytest.mark.skipif(LAYOUT is None, reason="needs root and a writable cgroup v1 cpu controller")


class RealNode:
    """kubelet's hand on the kernel: cgroups below one of our own, and busy loops in them."""

    def __init__(self, layout: Layout) -> None:
        self.root = f"/corewise-test-{os.getpid()}"
        self.mounts = sorted({layout.mounts["cpu"], layout.mounts["cpuacct"]})
        self.files = CgroupFiles(layout)
        self._made: list[str] = []
        self._loops: list[subprocess.Popen[bytes]] = []
        for cgroup in ("", "/kubepods.slice", "/kubepods.slice/kubepods-burstable.slice"):
            self._make(self.root + cgroup)
        self.names = find_pod_cgroups(self.files, self.root)

    def start(self, pod: QuotaPod) -> None:
        """Make a pod's cgroups with kubelet's quotas, the pod's first."""
        for target in targets_of(pod, pod.spec, self.names):
            self._make(target.cgroup)
            write_quota(self.files, target.cgroup, target.quota(PERIOD, ONE))

    def spin(self, cgroup: str, loops: int) -> None:
        """Have busy loops run in a cgroup."""
        for _ in range(loops):
            loop = subprocess.Popen([sys.executable, "-c", SPIN])
            self._loops.append(loop)
            for mount in self.mounts:
                (mount / cgroup[1:] / "cgroup.procs").write_text(str(loop.pid))

    def quotas(self, pod: QuotaPod) -> dict[str, int | None]:
        return {
            target.container: read_bandwidth(self.files, target.cgroup).quota
            for target in targets_of(pod, pod.spec, self.names)
        }

    def end(self) -> None:
        for loop in self._loops:
            loop.send_signal(signal.SIGKILL)
            loop.wait()
        self.files.close()
        for cgroup, mount in itertools.product(reversed(self._made), self.mounts):
            for _ in range(50):
                try:
                    (mount / cgroup[1:]).rmdir()
                except OSError:
                    time.sleep(0.02)
                else:
                    break

    def _make(self, cgroup: str) -> None:
        self._made.append(cgroup)
        for mount in self.mounts:
            (mount / cgroup[1:]).mkdir()


@pytest.fixture
def node() -> Iterator[RealNode]:
    assert LAYOUT
    node = RealNode(LAYOUT)
    try:
        yield node
    finally:
        node.end()


@pytest.fixture
async def world(api_server: LocalAPIServer, tmp_path: Path, node: RealNode) -> AsyncIterator[AgentWorld]:
    """The agent's cluster; its machine is this one, below a cgroup root of its own."""
    async with agent_world(api_server, tmp_path) as world:
        world.options = replace(
            world.options, root=Path("/"), cgroup_root=node.root, state_dir=tmp_path / "state"
        )
        yield world


def is_two_thirds(share: float) -> bool:
    return abs(share / TWO_THIRDS - 1) <= 0.02


async def comes_to(node: RealNode, pod: QuotaPod, **quotas: int) -> None:
    await until(lambda: node.quotas(pod) == {"" if name == "own" else name: q for name, q in quotas.items()})


async def test_ratio_added_and_removed_restores_quotas_without_refusal(
    world: AgentWorld, node: RealNode
) -> None:
    web = await world.start(manifest("web", *(container(name, "1") for name in "abc")))
    node.start(web)
    async with world.agent() as agent:
        for text, own, each in (
            ("1.00", 300_000, 100_000),
            ("2.00", 150_000, 50_000),
            ("1.20", 250_000, 83_334),
            ("5.00", 100_000, 20_000),
            (None, 300_000, 100_000),
        ):
            await world.ratio(text)
            await comes_to(node, web, own=own, a=each, b=each, c=each)
        agent.program.metrics_text()
        assert agent.metrics.value(metrics.QUOTA_REFUSALS) == 0
        assert agent.metrics.value(metrics.QUOTA_ERRORS) == 0


async def test_a_container_that_restarts_undivided_is_never_refused(
    world: AgentWorld, node: RealNode
) -> None:
    web = await world.start(manifest("web", container("a", "1"), container("b", "1")))
    node.start(web)
    await world.ratio("5.00")
    async with world.agent():
        await until(lambda: node.quotas(web)["a"] == 20_000)
    fresh = next(target for target in targets_of(web, web.spec, node.names) if target.container == "a")
    write_quota(node.files, fresh.cgroup, Microseconds(100_000))
    assert node.quotas(web)["a"] == 100_000


async def test_ratio_of_1_50_makes_cpus_two_thirds(world: AgentWorld, node: RealNode) -> None:
    web = await world.start(manifest("web", container("a", "1")))
    node.start(web)
    cgroup = next(target.cgroup for target in targets_of(web, web.spec, node.names) if target.container)
    write_weight(node.files, node.root, HEAVIEST)
    node.spin(cgroup, 2)
    await world.ratio("1.50")
    shares: list[float] = []
    async with world.agent():
        await until(lambda: node.quotas(web)["a"] == 66_667)
        await asyncio.sleep(0.3)
        while len(shares) < WINDOWS and not any(is_two_thirds(share) for share in shares):
            began, before = time.monotonic(), read_usage(node.files, cgroup)
            await asyncio.sleep(3.0)
            shares.append((read_usage(node.files, cgroup) - before) / NANO / (time.monotonic() - began))
    assert max(shares) <= TWO_THIRDS * 1.02, shares
    if not is_two_thirds(shares[-1]):
        pytest.skip(f"this machine is too busy to give a container its quota: {shares}")
