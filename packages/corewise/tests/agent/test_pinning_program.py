"""Owned CPUs in the whole agent, against the local API server: claims, the report, dry and single runs."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.agent_world import NODE, AgentWorld, agent_world, eventually, until
from agent.fake_node import container, manifest
from agent.pinning_node import claim
from corewise.agent.objects import QuotaPod
from corewise.agent.program import run_agent
from corewise.kernel.cgroups.layout import Version
from corewise.kube.errors import NotFound
from corewise.kube.resources import NODE_RESOURCE_TOPOLOGIES, PODS
from corewise.vocabulary.names import POD_CPUS, QOS_CLASS, RESOURCE_STATUS
from kubedouble import LocalAPIServer
from manager.world import PODS_NAMESPACE

OWNER = manifest(
    "owner",
    container("a", "2"),
    qos="Guaranteed",
    labels={QOS_CLASS: "LSR"},
    annotations={RESOURCE_STATUS: claim("0-1")},
)
WEB = manifest("web", container("a", "1", "500m"))


@pytest.fixture(params=Version)
async def world(
    request: pytest.FixtureRequest, api_server: LocalAPIServer, tmp_path: Path
) -> AsyncIterator[AgentWorld]:
    async with agent_world(api_server, tmp_path, request.param) as world:
        yield world


def cpus(world: AgentWorld, pod: QuotaPod) -> list[str]:
    machine = world.machine
    return [machine.files.read(machine.cgroup(pod, name), "cpuset.cpus") for name in ("", "a")]


async def ledger(world: AgentWorld) -> list[dict[str, Any]] | None:
    """The report of owners; None if there is none."""
    try:
        found = await world.client.get(NODE_RESOURCE_TOPOLOGIES.typed(dict), NODE)
    except NotFound:
        return None
    text = found["metadata"]["annotations"].get(POD_CPUS)
    return json.loads(text) if text else None


async def test_cpus_follow_annotations_and_the_report_follows_them(world: AgentWorld) -> None:
    web = await world.start(WEB)
    before = cpus(world, web)
    async with world.agent(interval=1.0):
        owner = await world.start(OWNER)
        await until(lambda: cpus(world, owner) == ["0-1"] * 2)
        await until(lambda: "0" not in cpus(world, web)[0] and cpus(world, web)[0] == cpus(world, web)[1])

        async def told(*names: str) -> bool:
            rows = await ledger(world)
            return rows is not None and [row["name"] for row in rows] == list(names)

        await eventually(lambda: told("owner"))
        rows = await ledger(world)
        assert rows == [
            {"namespace": PODS_NAMESPACE, "name": "owner", "uid": owner.metadata.uid, "cpuset": "0-1"}
        ]
        gone = {"metadata": {"annotations": {RESOURCE_STATUS: None}}}
        await world.client.patch(PODS, "owner", gone, namespace=PODS_NAMESPACE)
        await until(lambda: cpus(world, web) == cpus(world, owner) == before)
        await eventually(told)


async def test_dry_run_names_the_sets_it_would_write(world: AgentWorld) -> None:
    web, owner = await world.start(WEB), await world.start(OWNER)
    before = cpus(world, web) + cpus(world, owner)
    async with world.agent(dry_run=True):
        await until(lambda: sum("WriteCPUSet" in line for line in world.printed) == 4)
    lines = [json.loads(line) for line in world.printed]
    written = [line for line in lines if line["action"] == "WriteCPUSet"]
    assert {line["file"] for line in written} == {"cpuset.cpus"}
    assert {line["new"] for line in written if "owner" in line["cgroup"] or "0-1" in line["new"]} == {"0-1"}
    assert cpus(world, web) + cpus(world, owner) == before


async def test_single_run_tells_whether_every_claim_is_fulfilled(world: AgentWorld) -> None:
    await world.start(
        manifest("bad", container("a"), annotations={RESOURCE_STATUS: claim("6000")}, qos="BestEffort")
    )
    owner = await world.start(OWNER)
    once = replace(world.options, once=True)
    assert not await run_agent(once, world.config)
    assert cpus(world, owner) == ["0-1"] * 2
    gone = {"metadata": {"annotations": {RESOURCE_STATUS: None}}}
    await world.client.patch(PODS, "bad", gone, namespace=PODS_NAMESPACE)
    assert await run_agent(once, world.config)
