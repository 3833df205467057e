"""The agent as a program, against the local API server, on a machine made of files."""

from __future__ import annotations

import asyncio
import json
import resource
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from agent.agent_world import BOOT, NODE, AgentWorld, agent_world, eventually, until
from agent.fake_node import container, manifest
from agent.pinning_node import claim
from corewise.agent.kubelet import STATE_FILE
from corewise.agent.program import Agent, run_agent
from corewise.kernel.cgroups.layout import Version
from corewise.kernel.errors import JournalHeld
from corewise.kube.resources import NODE_RESOURCE_TOPOLOGIES, NODES
from corewise.nri import codec
from corewise.service.options import Address
from corewise.vocabulary import metrics
from corewise.vocabulary.names import (
    CPU_BASIC_INFO,
    CPU_MANAGER_POLICY,
    CPU_RATIO_APPLIED,
    MACHINE_RAW_CAPACITY,
    QOS_CLASS,
    RESOURCE_STATUS,
)
from kubedouble import LocalAPIServer, serve
from nri.fake_runtime import FakeRuntime

LOOPBACK = Address("127.0.0.1", 0)
TOPOLOGIES = NODE_RESOURCE_TOPOLOGIES.typed(dict)
WEB = manifest("web", container("a", "1"), container("b", "500m"))


@pytest.fixture
async def world(api_server: LocalAPIServer, tmp_path: Path) -> AsyncIterator[AgentWorld]:
    async with agent_world(api_server, tmp_path) as world:
        yield world


async def reported(world: AgentWorld) -> dict[str, Any]:
    return await world.client.get(TOPOLOGIES, NODE)


async def test_quotas_follow_the_ratio_and_pods_at_once(world: AgentWorld) -> None:
    web = await world.start(WEB)
    async with world.agent(interval=600.0):
        await world.ratio("1.50")
        await world.has(web, "a", 66_667)
        await world.has(web, "b", 33_334)
        await world.has(web, "", 100_000)
        late = await world.start(manifest("late", container("a", "2")))
        await world.has(late, "a", 133_334)
        for text, quota in (("2.00", 50_000), ("1.20", 83_334), ("1.00", 100_000), (None, 100_000)):
            await world.ratio(text)
            await world.has(web, "a", quota)


@pytest.mark.parametrize("version", Version)
async def test_stopped_agent_changes_nothing_and_its_successor_continues(
    api_server: LocalAPIServer, tmp_path: Path, version: Version
) -> None:
    async with agent_world(api_server, tmp_path, version) as world:
        web = await world.start(WEB)
        await world.ratio("1.50")
        async with world.agent():
            await world.has(web, "a", 66_667)
        assert world.machine.quota(web, "a") == 66_667
        async with world.agent() as agent:
            await until(lambda: agent.cycles > 0)
            assert world.machine.quota(web, "a") == 66_667
            await world.ratio(None)
            await world.has(web, "a", 100_000)


async def test_unreadable_ratio_keeps_the_last_good_one(world: AgentWorld) -> None:
    web = await world.start(WEB)
    await world.ratio("1.50")
    async with world.agent() as agent:
        await world.has(web, "a", 66_667)
        await world.ratio("much", amplified="1.50")
        await until(lambda: agent.metrics.value(metrics.RATIO_UNREADABLE) == 1)
        agent.wake()
        await asyncio.sleep(0.3)
        assert world.machine.quota(web, "a") == 66_667


async def test_a_resize_in_place_is_followed(world: AgentWorld) -> None:
    web = await world.start(WEB)
    await world.ratio("2.00")
    async with world.agent():
        await world.has(web, "a", 50_000)
        world.resize(web, "a", "3")
        await world.has(web, "a", 150_000)
        await world.has(web, "", 175_000)


async def test_a_pinned_pod_keeps_its_quota(world: AgentWorld) -> None:
    pinned = await world.start(manifest("pinned", container("a", "2"), qos="Guaranteed"))
    path = world.machine.root / STATE_FILE
    path.parent.mkdir(parents=True)
    path.write_text(
        json.dumps({"policyName": "static", "entries": {pinned.uid: {"a": "1-2"}}, "defaultCpuSet": "0"})
    )
    web = await world.start(WEB)
    await world.ratio("1.50")
    async with world.agent():
        await world.has(web, "a", 66_667)
        assert world.machine.quota(pinned, "a") == 200_000
        await eventually(lambda: reported(world))
        annotations = (await reported(world))["metadata"]["annotations"]
        assert json.loads(annotations[CPU_MANAGER_POLICY]) == {"policy": "static"}


async def test_machine_is_reported_and_zones_follow_amplification(world: AgentWorld) -> None:
    await world.ratio("1.50", amplified="3.00")
    async with world.agent():
        await eventually(lambda: reported(world))
        report = await reported(world)
        annotations = report["metadata"]["annotations"]
        assert json.loads(annotations[CPU_BASIC_INFO])["hyperThreadEnabled"] is True
        assert json.loads(annotations[MACHINE_RAW_CAPACITY])["bootID"] == BOOT
        assert annotations[CPU_RATIO_APPLIED] == "3.00"
        owner = (await world.client.get(NODES, NODE)).metadata.uid
        assert [each["uid"] for each in report["metadata"]["ownerReferences"]] == [owner]
        await world.ratio("1.20")

        async def follows() -> bool:
            after = await reported(world)
            return bool(after["metadata"]["annotations"][CPU_RATIO_APPLIED] == "1.20")

        await eventually(follows)


async def test_metrics_tell_of_both_views(world: AgentWorld) -> None:
    web = await world.start(WEB)
    batch = await world.start(manifest("batch", container("a", "1"), labels={QOS_CLASS: "BE"}))
    free = await world.start(manifest("free", container("a", "", "1")))
    claims: dict[str, Any] = {"labels": {QOS_CLASS: "LSR"}, "annotations": {RESOURCE_STATUS: claim("0-1")}}
    owner = await world.start(manifest("owner", container("a", "2"), qos="Guaranteed", **claims))
    for pod, name in ((web, "a"), (web, "b"), (batch, "a"), (free, "a"), (owner, "a")):
        stat = world.machine.path(pod, name).with_name("cpu.stat")
        stat.write_text("usage_usec 2500000\nuser_usec 1\n")
    await world.ratio("1.50")
    async with world.agent(metrics_listen=LOOPBACK) as agent:
        await world.has(web, "a", 66_667)
        assert agent.program.health
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://{agent.program.health.address}/metrics") as response,
        ):
            text = await response.text()
        of_web = 'container="a",namespace="apps",node="n1",pod="web"'
        assert f"corewise_container_cpu_seconds_total{{{of_web}}} 2.5" in text
        assert f"corewise_container_cpu_request_cores{{{of_web}}} 1.0" in text
        assert f"corewise_container_cpu_normalization_ratio{{{of_web}}} 1.5" in text
        for each, its_ratio in (("batch", "1.0"), ("free", "1.5"), ("owner", "1.0")):
            of_pod = f'container="a",namespace="apps",node="n1",pod="{each}"'
            assert f"corewise_container_cpu_normalization_ratio{{{of_pod}}} {its_ratio}" in text
        assert 'corewise_quota_writes_total{node="n1"} 5.0' in text
        world.machine.write(web, "a", 70_000)
        agent.wake()
        await world.has(web, "a", 66_667)
        agent.program.metrics_text()
        assert agent.metrics.value(metrics.QUOTA_DRIFTS) == 1


async def test_once_brings_everything_in_order_and_ends(world: AgentWorld) -> None:
    web = await world.start(WEB)
    await world.ratio("1.50")
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, before[1]))
    try:
        assert await run_agent(replace(world.options, once=True), world.config)
        # A node with 250 pods of three containers has 1,000 cgroups, each with a descriptor.
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == before[1]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert world.machine.quota(web, "a") == 66_667
    assert await reported(world)


async def test_dry_run_writes_nothing_and_reports_everything_once(world: AgentWorld) -> None:
    web = await world.start(WEB)
    await world.ratio("1.50")
    async with world.agent(dry_run=True) as agent:
        await until(lambda: len(world.printed) >= 5)
        agent.wake()
        cycles = agent.cycles
        await until(lambda: agent.cycles > cycles)
    actions = [json.loads(line) for line in world.printed]
    assert sorted(action["action"] for action in actions) == [
        "AnnotateNodeResourceTopology",
        "CreateNodeResourceTopology",
        *["WriteQuota"] * 3,
    ]
    assert {action["new"] for action in actions if "new" in action} == {"66667", "33334", "100000"}
    assert world.machine.quota(web, "a") == 100_000
    assert not (world.machine.root / "var").exists()


async def test_two_agents_do_not_write_one_machine(world: AgentWorld) -> None:
    async with world.agent():
        with pytest.raises(JournalHeld):
            async with world.agent():
                pass


async def test_quotas_are_kept_while_api_server_is_down(tmp_path: Path) -> None:
    async with AsyncExitStack() as serving:
        server = await serving.enter_async_context(serve())
        async with agent_world(server, tmp_path) as world:
            web = await world.start(WEB)
            await world.ratio("1.50")
            async with world.agent() as agent:
                await world.has(web, "a", 66_667)
                await serving.aclose()
                world.machine.write(web, "a", 100_000)
                agent.wake()
                await world.has(web, "a", 66_667)


async def test_runtime_is_answered_with_the_ratio_in_force(world: AgentWorld, tmp_path: Path) -> None:
    await world.ratio("1.50")
    runtime = FakeRuntime(tmp_path / "nri.sock")
    async with runtime.listening(), world.agent(nri_socket=runtime.socket) as agent:
        side = await runtime.accepted()
        await side.start()
        await until(lambda: agent.metrics.value(metrics.NRI_CONNECTED) == 1)
        answer = codec.decode(
            "CreateContainerResponse", (await side.create(quota=100_000, allowed=60.0)).payload
        )
        assert answer.adjust.linux.resources.cpu.quota.value == 66_667
        assert agent.metrics.value(metrics.NRI_DIVIDED, "CREATE_CONTAINER") == 1
        await side.close()
        await (await runtime.accepted()).start()


async def test_damaged_journal_is_reported_once_and_agent_continues(
    world: AgentWorld, caplog: pytest.LogCaptureFixture
) -> None:
    web = await world.start(WEB)
    await world.ratio("1.50")
    async with world.agent():
        await world.has(web, "a", 66_667)
    journal = world.options.journal / "journal"
    journal.write_bytes(journal.read_bytes() + b'{"kind":"opened","time":1,"boot":"\xff"}\n')
    async with world.agent():
        await world.ratio(None)
        await world.has(web, "a", 100_000)
    told = [record.message for record in caplog.records if "cannot be read" in record.message]
    number = journal.read_bytes().splitlines().index(b'{"kind":"opened","time":1,"boot":"\xff"}') + 1
    assert told == [
        f"1 line of the journal cannot be read and is skipped: {journal}, line {number}: not UTF-8"
    ]


async def test_pod_that_crashes_the_view_makes_agent_unready(
    world: AgentWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    poison = True
    wake = Agent.wake

    def woken(agent: Agent) -> None:
        if poison and any(pod.metadata.name == "poison" for pod in agent.watched.pods):
            raise ZeroDivisionError
        wake(agent)

    monkeypatch.setattr(Agent, "wake", woken)
    async with world.agent(interval=600.0, metrics_listen=LOOPBACK) as agent:
        await world.ratio("1.50")
        poisoned = await world.start(manifest("poison", container("a", "1")))
        stale = "the view of pods is stale: a change of apps/poison could not be taken in (see the log)"
        await until(lambda: list(agent.program.problems()) == [stale])
        assert agent.program.health
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://{agent.program.health.address}/readyz") as response,
        ):
            assert (response.status, await response.text()) == (503, f"{stale}\n")
        poison = False
        await until(lambda: not list(agent.program.problems()))
        await world.has(poisoned, "a", 66_667)


def test_agent_loads_no_modules_of_other_programs() -> None:
    program = """
import importlib, pkgutil, sys
import corewise.agent, corewise.cli.agent
for module in pkgutil.walk_packages(corewise.agent.__path__, "corewise.agent."):
    importlib.import_module(module.name)
print(*{name.partition(".")[0] for name in sys.modules})
print(*[name for name in sys.modules if name.startswith("corewise.pinning.")])
"""
    loaded = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    libraries = set(loaded.stdout.split())
    assert {"corewise", "aiohttp", "prometheus_client", "corewise.pinning.ledger"} <= libraries
    assert not libraries & {
        "numpy",
        "cryptography",
        "rich",
        "textual",
        "openstack",
        "keystoneauth1",
        "libvirt",
        "corewise.pinning.choice",
        "corewise_openstack.guest_pinning.placement",
    }
