"""Eviction of offline pods by the agent as a program, against the local API server and its budgets.

The node's counters of CPU stand still; its memory is what a test says. Pods that are evicted stay, as with a
kubelet, until somebody ends them.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from agent.agent_world import MEMORY, AgentWorld, agent_world, eventually, until
from agent.fake_node import container, manifest
from agent.offline_node import batch_container, offline_manifest
from corewise.agent.eviction import EvictionResult, evict, protection_of
from corewise.agent.executor import APIExecutor
from corewise.agent.objects import QuotaPod
from corewise.agent.program import Agent
from corewise.kernel.errors import JournalHeld
from corewise.kube.client import Client
from corewise.kube.resources import EVENTS, PODS, Resource
from corewise.suppression.eviction import OfflineCandidate, Shortage
from corewise.vocabulary.metrics import OFFLINE_EVICTION_SHORTAGE, OFFLINE_EVICTIONS
from corewise.vocabulary.offline_report import EvictionReport
from corewise.vocabulary.reasons import Reason
from corewise_lab.control_plane import apply
from kubedouble import LocalAPIServer
from manager.world import PODS_NAMESPACE
from tools import chart

BUDGETS: Resource[dict[str, Any]] = Resource(
    "policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", namespaced=True, type=dict[str, Any]
)


@pytest.fixture
async def world(api_server: LocalAPIServer, tmp_path: Path) -> AsyncIterator[AgentWorld]:
    """A node whose memory is used to 90 %, with offline pods of two priorities and an online pod."""
    async with agent_world(api_server, tmp_path) as world:
        await world.allocatable()
        await world.label("true")
        world.offline.pass_time(0, memory=MEMORY // 10 * 9)
        for name, value in (("low", 5000), ("high", 5999)):
            job = batch_container("a", limit=1000)
            await world.start(offline_manifest(name, job, labels={"app": name}, priority=value))
        await world.start(manifest("web", container("a", "1")))
        yield world


async def may_evict(world: AgentWorld) -> None:
    """Install what the chart adds where eviction is switched on."""
    rendered = chart.render({"agent": {"eviction": {"enabled": True}}})["agent/rbac.yaml"]
    for each in yaml.safe_load_all(rendered):
        if each["metadata"]["name"] == "corewise-agent-eviction":
            await apply(world.client, each)


async def configure(
    world: AgentWorld, cooldown: int = 1, *, interval: int = 1, dry_run: bool = False
) -> None:
    strategy = {"enable": True, "memoryEvictThresholdPercent": 80, "memoryEvictLowerPercent": 70}
    strategy |= {"evictCooldownSeconds": cooldown, "evictDryRun": dry_run}
    await world.configure(
        oversubscription={"intervalSeconds": interval}, threshold={"clusterStrategy": strategy}
    )


async def leaving(world: AgentWorld) -> set[str]:
    """The pods that are being deleted."""
    pods = await world.client.list(PODS, PODS_NAMESPACE)
    return {each.metadata.name for each in pods if each.metadata.deletion_timestamp}


async def end(world: AgentWorld, name: str) -> None:
    """End a pod as kubelet does."""
    await world.client.delete(PODS, name, PODS_NAMESPACE, grace_period=0)


async def reported(world: AgentWorld, reason: Reason) -> EvictionReport:
    """Wait until the Node shows the reason."""
    found: list[EvictionReport] = []

    async def is_shown() -> bool:
        report = await world.report()
        if report is None or report.eviction is None or report.eviction.reason != reason:
            return False
        found.append(report.eviction)
        return True

    await eventually(is_shown)
    return found[0]


def decided(agent: Agent, reason: Reason) -> bool:
    verdict = agent.offline.controller.evictor.verdict
    return verdict is not None and verdict.reason is reason


def count(agent: Agent, result: EvictionResult) -> float:
    return agent.metrics.value(OFFLINE_EVICTIONS, Shortage.MEMORY, result)


async def test_lowest_priority_offline_pods_go_one_by_one(
    world: AgentWorld,
) -> None:
    await may_evict(world)
    await configure(world)
    async with world.agent() as agent:
        await until(lambda: count(agent, EvictionResult.EVICTED) == 1)
        assert await leaving(world) == {"low"}
        await until(lambda: decided(agent, Reason.EVICTION_POD_TERMINATING))
        assert await leaving(world) == {"low"}
        await end(world, "low")
        await until(lambda: count(agent, EvictionResult.EVICTED) == 2)
        assert await leaving(world) == {"high"}
        await end(world, "high")
        await until(lambda: decided(agent, Reason.EVICTION_NO_CANDIDATE))
        agent.program.metrics_text()
        assert agent.metrics.value(OFFLINE_EVICTION_SHORTAGE, Shortage.MEMORY) == 1
        assert isinstance(agent.executor, APIExecutor)
        await agent.executor.events.flush()
        events = await world.client.list(EVENTS, PODS_NAMESPACE)
        told = {
            each.involved_object.name: each for each in events if each.reason == Reason.EVICTED_FOR_MEMORY
        }
        assert set(told) == {"low", "high"}
        assert "memory in use is 90 %" in told["low"].message
        assert "priority 5000" in told["low"].message
        world.offline.pass_time(0, memory=MEMORY // 10 * 6)
        await until(lambda: decided(agent, Reason.EVICTION_NOT_NEEDED))
    assert (await world.client.get(PODS, "web", PODS_NAMESPACE)).metadata.deletion_timestamp is None


async def test_pod_kept_by_a_budget_is_skipped_immediately(
    world: AgentWorld,
) -> None:
    budget = {
        "metadata": {"name": "keep"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "low"}}},
    }
    await world.client.create(BUDGETS, budget, PODS_NAMESPACE)
    await may_evict(world)
    await configure(world, interval=60)
    async with world.agent() as agent:
        await until(lambda: count(agent, EvictionResult.EVICTED) == 1)
        assert await leaving(world) == {"high"}
        assert count(agent, EvictionResult.BLOCKED) == 1
        report = agent.offline.controller.last.report
        assert report is not None
        assert report.samples == 1
    await end(world, "high")
    await configure(world)
    async with world.agent() as agent:
        await until(lambda: decided(agent, Reason.EVICTION_REFUSED))
        verdict = agent.offline.controller.evictor.verdict
        assert verdict is not None
        assert "apps/low: The disruption budget keep needs 1 healthy pods" in verdict.why
        assert count(agent, EvictionResult.BLOCKED) == 1


async def test_agent_restart_begins_a_cooldown_without_evictions(world: AgentWorld) -> None:
    await may_evict(world)
    await configure(world, cooldown=3600)
    for _ in range(2):
        async with world.agent() as agent:
            await until(lambda: decided(agent, Reason.EVICTION_COOLING_DOWN))
            report = await reported(world, Reason.EVICTION_COOLING_DOWN)
            assert (report.pressure, report.next) == ("memory", "apps/low")
            assert report.order.startswith("priority 5000, created ")
    assert await leaving(world) == set()


async def test_a_second_agent_of_a_node_evicts_nobody(world: AgentWorld) -> None:
    """As in a rollout by surge: it cannot start while the first one runs, and then the cooldown holds."""
    await may_evict(world)
    await configure(world)
    async with world.agent() as agent:
        await until(lambda: count(agent, EvictionResult.EVICTED) == 1)
        with pytest.raises(JournalHeld):
            async with world.agent():
                pass
    await end(world, "low")
    await configure(world, cooldown=3600)
    async with world.agent() as agent:
        await until(lambda: decided(agent, Reason.EVICTION_COOLING_DOWN))
    assert await leaving(world) == set()


async def test_pods_with_two_budgets_are_skipped_at_once(world: AgentWorld) -> None:
    for name in ("one", "two"):
        spec = {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "low"}}}
        await world.client.create(BUDGETS, {"metadata": {"name": name}, "spec": spec}, "apps")
    await may_evict(world)
    await configure(world, interval=60)
    async with world.agent() as agent:
        await until(lambda: count(agent, EvictionResult.EVICTED) == 1)
        assert await leaving(world) == {"high"}
        assert count(agent, EvictionResult.BLOCKED) == 1


async def test_dry_run_names_candidates_and_evicts_no_pod(world: AgentWorld) -> None:
    await may_evict(world)
    await configure(world, dry_run=True)
    async with world.agent() as agent:
        await until(lambda: count(agent, EvictionResult.DRY_RUN) == 1)
        report = await reported(world, Reason.EVICTED_FOR_MEMORY)
        assert (report.next, report.dry_run) == ("apps/low", True)
        assert await leaving(world) == set()
        assert not [each for each in await world.client.list(EVENTS) if each.reason == report.reason]


async def test_dry_run_of_the_agent_prints_the_eviction(world: AgentWorld) -> None:
    await may_evict(world)
    await configure(world)
    async with world.agent(dry_run=True, ready=False):
        await until(lambda: any("EvictPod" in line for line in world.printed))
    line = next(json.loads(each) for each in world.printed if "EvictPod" in each)
    assert (line["object"], line["reason"]) == ("apps/low", Reason.EVICTED_FOR_MEMORY)
    assert await leaving(world) == set()


async def test_agent_without_eviction_permission_says_what_to_do(world: AgentWorld) -> None:
    await configure(world)
    async with world.agent() as agent:
        await until(lambda: decided(agent, Reason.EVICTION_REFUSED))
        assert count(agent, EvictionResult.FAILED) == 2
        verdict = agent.offline.controller.evictor.verdict
        assert verdict is not None
        assert "pods/eviction" in verdict.why or "eviction" in verdict.why
    assert world.cluster.refused
    world.cluster.refused.clear()
    assert await leaving(world) == set()
    assert "agent.eviction.enabled=true" in Reason.EVICTION_REFUSED.fix


async def test_pod_that_reuses_the_chosen_name_is_kept(world: AgentWorld) -> None:
    await may_evict(world)
    async with Client(world.config) as client:
        earlier = OfflineCandidate(PODS_NAMESPACE, "low", "00000000-0000-0000-0000-000000000000")
        assert (await evict(client, earlier))[0] is EvictionResult.GONE
        assert (await evict(client, OfflineCandidate(PODS_NAMESPACE, "nobody", "u")))[
            0
        ] is EvictionResult.GONE
    assert await leaving(world) == set()


NEVER: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "static": (
        {"annotations": {"kubernetes.io/config.mirror": "x"}},
        {},
        "the mirror of a static pod",
    ),
    "daemon": (
        {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u"}]},
        {},
        "of DaemonSet d",
    ),
    "critical": ({}, {"priority": 2_000_000_000}, "of class system-critical"),
    "job": (
        {"ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u"}]},
        {"priority": 5500},
        "",
    ),
}


@pytest.mark.parametrize(("metadata", "spec", "why"), NEVER.values(), ids=NEVER)
def test_static_daemon_and_system_critical_pods_never_go(
    metadata: dict[str, Any], spec: dict[str, Any], why: str
) -> None:
    pod = msgspec.convert({"metadata": {"name": "a", **metadata}, "spec": spec}, QuotaPod)
    assert protection_of(pod) == why
