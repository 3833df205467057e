"""Oversubscription and suppression in the agent as a program, against the local API server.

The counters of the machine stand still, so that its usage is nothing however fast or slowly time passes.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.agent_world import NODE, AgentWorld, agent_world, eventually, until
from agent.fake_node import container, manifest
from agent.offline_node import batch_container, offline_manifest
from corewise.agent.cgroups import restore
from corewise.agent.program import run_agent
from corewise.kube.errors import Forbidden
from corewise.kube.resources import NODES, PODS, Resource
from corewise.vocabulary import metrics
from corewise.vocabulary.metrics import AGENT, CONFIG_VALID, exported_by
from corewise.vocabulary.names import (
    AMPLIFICATION_RATIO,
    BATCH_CPU,
    OFFLINE_REPORT,
    OFFLINE_SHORTFALL,
    RAW_ALLOCATABLE,
    SUPPRESSION_KEY,
)
from kubedouble import LocalAPIServer
from loop_steps import FEW, counted

QUICK = {"intervalSeconds": 1}
AT_ONCE = {"adjustStep": 1}
OFFERED_MEMORY = "20615843020"
OFFERED = 4800
"""Milli-CPU: 60 % of 8 idle CPUs."""
ROLES: Resource[dict[str, Any]] = Resource(
    "rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding", namespaced=True, type=dict[str, Any]
)


@pytest.fixture
async def world(api_server: LocalAPIServer, tmp_path: Path) -> AsyncIterator[AgentWorld]:
    async with agent_world(api_server, tmp_path) as world:
        await world.allocatable()
        yield world


async def bounded(world: AgentWorld, quota: int | None = OFFERED) -> None:
    """Wait until the BestEffort cgroup has a quota."""
    await until(lambda: world.offline.milli() == quota)


async def test_label_makes_node_offer_idle_cpu_until_removed(world: AgentWorld) -> None:
    await world.configure(oversubscription=QUICK)
    async with world.agent():
        await world.label("true")
        await world.offers("4800", OFFERED_MEMORY)
        await world.label(None)
        await world.offers(None, None)
        assert await world.report() is None


async def test_requests_of_running_offline_pods_stay_on_node(
    world: AgentWorld,
) -> None:
    async def short() -> bool:
        conditions = (await world.node())["status"].get("conditions", [])
        return [each["status"] for each in conditions if each["type"] == OFFLINE_SHORTFALL] == ["True"]

    await world.configure(oversubscription=QUICK)
    async with world.agent():
        await world.label("true")
        await world.offers("4800", OFFERED_MEMORY)
        assert not await short()
        pod = await world.start(offline_manifest("job", batch_container("a", request=6100, limit=6100)))
        await world.offers("6100", OFFERED_MEMORY)
        assert await short()
        report = await world.report()
        assert report is not None
        assert report.shortfall is not None
        await world.label(None)
        await world.offers("6100", "0")
        assert await short()
        await world.client.delete(PODS, pod.metadata.name, pod.metadata.namespace, grace_period=0)
        await world.offers(None, None)
        assert not await short()


async def test_pod_ending_in_shortfall_frees_nothing_until_sampled(
    world: AgentWorld,
) -> None:
    await world.configure(oversubscription={"intervalSeconds": 60})
    pod = await world.start(offline_manifest("job", batch_container("a", request=6100, limit=6100)))
    await world.label("true")
    async with world.agent():
        await world.offers("6100", OFFERED_MEMORY)
        before = await world.report()
        await world.client.delete(PODS, pod.metadata.name, pod.metadata.namespace, grace_period=0)
        await world.offers("4800", OFFERED_MEMORY)
        after = await world.report()
        assert before is not None
        assert after is not None
        assert (before.time, before.samples) == (after.time, after.samples)


async def test_agent_logs_how_it_read_a_suppression_block(
    world: AgentWorld, caplog: pytest.LogCaptureFixture
) -> None:
    await world.configure(oversubscription=QUICK, suppression={"cpuSuppression": AT_ONCE})
    async with world.agent():
        await world.label("true")
        await bounded(world)
    read = [each for each in caplog.messages if "read as cpuSuppression" in each]
    assert len(read) == 1
    assert read[0].endswith("read as cpuSuppression without mode: mode is besteffort-quota")


async def test_agent_without_label_removes_what_its_predecessor_offered(world: AgentWorld) -> None:
    await world.configure(oversubscription=QUICK)
    await world.label("true")
    async with world.agent():
        await world.offers("4800", OFFERED_MEMORY)
    await world.label("false")
    assert (await world.offered())[0] == "4800"
    async with world.agent():
        await world.offers(None, None)


async def test_offer_bounds_best_effort_cgroup_until_switched_off(
    world: AgentWorld,
) -> None:
    await world.configure(oversubscription=QUICK, suppression=AT_ONCE)
    await world.label("true")
    async with world.agent():
        await bounded(world)
        await world.configure(oversubscription=QUICK, suppression={"enabled": False})
        await bounded(world, None)
        await world.offers("4800", OFFERED_MEMORY)


async def test_offline_pod_gets_its_limits_once_it_runs(world: AgentWorld) -> None:
    async with world.agent():
        job = await world.start(offline_manifest("job", batch_container("a", limit=2000)))
        await world.has(job, "a", 200_000)
        await world.has(job, "", 200_000)


@pytest.mark.parametrize(("on_stop", "left"), [("hold", OFFERED), ("restore", None)])
async def test_agent_stop_holds_or_restores_and_uninstall_cleans(
    world: AgentWorld, on_stop: str, left: int | None
) -> None:
    await world.configure(oversubscription=QUICK, suppression={**AT_ONCE, "onAgentStop": on_stop})
    await world.label("true")
    async with world.agent():
        job = await world.start(offline_manifest("job", batch_container("a", limit=2000)))
        await world.has(job, "a", 2_000_000)
        await bounded(world)
    assert world.offline.milli() == left
    assert world.machine.quota(job, "a") == (2_000_000 if on_stop == "hold" else 200_000)
    assert not restore(world.options.root, world.options.journal).failed
    assert {str(each) for each in world.offline.bandwidths([job]).values()} == {"max 100000"}


async def test_bad_configmap_key_changes_nothing_and_is_reported(world: AgentWorld) -> None:
    await world.configure(oversubscription=QUICK, suppression=AT_ONCE)
    await world.label("true")
    async with world.agent() as agent:
        await bounded(world)
        await world.configure(oversubscription=QUICK, suppression={"adjustStep": 1.5})
        await until(lambda: bool(agent.offline.configuration.problems))
        agent.program.metrics_text()
        assert agent.metrics.value(CONFIG_VALID, SUPPRESSION_KEY) == 0
        settings = agent.offline.controller.node.suppression
        assert settings is not None
        assert settings.enabled
        assert world.offline.milli() == OFFERED


async def test_the_largest_configmap_is_a_short_step(world: AgentWorld) -> None:
    entries = [{"nodeSelector": {"matchLabels": {"pool": f"{at}"}}, "enable": True} for at in range(1000)]
    async with world.agent() as agent:
        with counted() as steps:
            await world.configure(oversubscription={"nodeConfigs": entries}, suppression={"adjustStep": 1.5})
            await until(lambda: bool(agent.offline.configuration.problems))
    assert 0 < steps.most < FEW, steps.where


async def test_quotas_are_divided_without_permission_for_the_configmap(world: AgentWorld) -> None:
    await world.client.delete(ROLES, "corewise-agent", "corewise-system")
    await world.label("true")
    await world.ratio("1.50")
    web = await world.start(manifest("web", container("a", "1")))
    async with world.agent(ready=False) as agent:
        await world.has(web, "a", 66_667)
        await until(
            lambda: isinstance(dict(agent.watched.caches.items())["configmaps"].last_error, Forbidden)
        )
        assert any("configmaps" in problem for problem in agent.program.problems())
        assert await world.report() is None
    assert world.cluster.refused
    world.cluster.refused.clear()


async def test_single_run_takes_a_sample_and_acts(world: AgentWorld) -> None:
    await world.configure(suppression=AT_ONCE)
    await world.label("true")
    assert await run_agent(replace(world.options, once=True), world.config)
    assert world.offline.milli() == OFFERED
    assert (await world.offered())[0] == "4800"


async def test_single_run_steps_per_pod_without_label(world: AgentWorld) -> None:
    thresholds = {"recoverThreshold": 0.1, "lowThreshold": 0.2, "highThreshold": 0.3}
    await world.configure(suppression={"mode": "per-pod-quota", "adjustQuotaStep": 0.5, **thresholds})
    job = await world.start(offline_manifest("job", batch_container("a", limit=4000)))

    loop = asyncio.get_running_loop()

    async def online_load() -> None:
        before = loop.time()
        while True:
            await asyncio.sleep(0.02)
            now = loop.time()
            world.offline.pass_time(now - before, online=7900)
            before = now

    async with asyncio.TaskGroup() as tasks:
        load = tasks.create_task(online_load())
        assert await run_agent(replace(world.options, once=True), world.config)
        load.cancel()
    assert world.offline.machine.files.read(world.machine.cgroup(job), "cpu.max") == "2000000 1000000"


async def test_dry_run_prints_quota_and_patch_without_writing(world: AgentWorld) -> None:
    await world.configure(oversubscription=QUICK, suppression=AT_ONCE)
    await world.label("true")
    job = await world.start(offline_manifest("job", batch_container("a", limit=2000)))
    async with world.agent(dry_run=True, ready=False):
        await until(lambda: any("PatchNodeStatus" in line for line in world.printed))
        await until(lambda: any('"480000"' in line for line in world.printed))
    lines = [json.loads(line) for line in world.printed]
    patch = next(line for line in lines if line["action"] == "PatchNodeStatus")
    assert patch["object"] == NODE
    assert patch["body"]["status"]["allocatable"][BATCH_CPU] == "4800"
    actions = {line["file"]: line["action"] for line in lines if "cgroup" in line}
    settings = dict.fromkeys(("cpu.weight", "cpu.idle"), "WriteSetting")
    assert actions == {"cpu.max": "WriteQuota", **settings}
    assert {str(each) for each in world.offline.bandwidths([job]).values()} == {"max 100000"}
    assert await world.offered() == (None,) * 4


async def test_amounts_that_others_remove_from_node_come_back(world: AgentWorld) -> None:
    await world.configure(oversubscription=QUICK)
    await world.label("true")
    async with world.agent():
        await world.offers("4800", OFFERED_MEMORY)
        await world.client.patch(NODES, NODE, {"metadata": {"annotations": {OFFLINE_REPORT: None}}})
        await eventually(world.report)


async def test_silent_api_server_leaves_no_offline_pod_unsqueezed(
    world: AgentWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.configure(oversubscription=QUICK, suppression={"adjustStep": 0.2})
    await world.label("true")
    answers = asyncio.Event()

    async def silence(*_arguments: object) -> None:
        await answers.wait()

    monkeypatch.setattr("corewise.agent.executor.write_publication", silence)
    async with world.agent():
        await bounded(world)
        assert (await world.offered())[0] is None


async def test_every_metric_of_oversubscription_is_exported(world: AgentWorld) -> None:
    await world.configure(oversubscription=QUICK, suppression=AT_ONCE)
    await world.label("true")
    async with world.agent() as agent:
        await bounded(world)
        await until(lambda: agent.metrics.value(metrics.OVERSUBSCRIPTION_WRITES, "ok") > 0)
        text = agent.program.metrics_text().decode()
    of_node = [each for each in exported_by(AGENT) if each.name.startswith("corewise_oversubscription_")]
    missing = [
        each.name for each in of_node if f"\n{each.name}{{" not in text and f"\n{each.name} " not in text
    ]
    assert missing == [metrics.OVERSUBSCRIPTION_SAMPLES_MISSED.name]
    assert '\ncorewise_suppression_quota_cpu_cores{node="n1"} 4.8' in text
    assert '\ncorewise_suppression_enabled{mode="besteffort-quota",node="n1"} 1' in text
    assert agent.metrics.value(metrics.OVERSUBSCRIPTION_USED_CPU, "online") == 0


async def test_amplifying_webhook_and_offer_leave_each_other_alone(world: AgentWorld) -> None:
    await world.configure(oversubscription=QUICK)
    async with world.cluster.manager(), world.agent():
        await world.cluster.installed()
        await world.cluster.annotate(NODE, {AMPLIFICATION_RATIO: '{"cpu":1.50}'})
        await world.cluster.kubelet_gets(NODE, "12")
        await world.label("true")
        await world.offers("4800", "10307921510")
        for _ in range(3):
            assert await world.cluster.cpu(NODE) == ("12", "12")
            await world.cluster.kubelet_writes(NODE)
            await asyncio.sleep(0)
        assert (await world.offered())[0] == "4800"
        annotations = (await world.node())["metadata"]["annotations"]
        assert json.loads(annotations[RAW_ALLOCATABLE]) == {"cpu": "8"}
        await world.label(None)
        await world.offers(None, None)
        assert await world.cluster.cpu(NODE) == ("12", "12")
