"""Every program at work in one small cluster, and a real Prometheus that scrapes them.

Manager, scheduler and agent run against one local API server, the host agent of OpenStack against the real
Placement. ``work`` makes each of them do what it is for, and refuse what it has to. What takes another
machine, or hours, is on a page of its own: ``FAILURES``, and a recorded machine for bandwidth and cache.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from agent.agent_world import AgentWorld, agent_world
from agent.fake_node import container, manifest
from agent.offline_node import batch_container, offline_manifest
from agent.test_pinning_program import OWNER
from compute.agent_scene import Scene
from compute.compute_world import DOCUMENT
from compute.compute_world import World as Placement
from compute.ledger_agents import Certificates, agent_options
from corewise.agent.objects import QuotaPod
from corewise.kube.errors import KubeError
from corewise.kube.resources import CONFIG_MAPS, PODS
from corewise.prometheus.exposition import Exposition
from corewise.scheduler.configuration import parse_configuration
from corewise.scheduler.program import Scheduler
from corewise.service.options import Address
from corewise.vocabulary import metrics
from corewise.vocabulary.metrics import METRICS, ExportedMetric, MetricType
from corewise.vocabulary.names import (
    AMPLIFICATION_KEY,
    CONFIG_NAME,
    CONFIG_NAMESPACE,
    NORMALIZATION_KEY,
    OVERSUBSCRIPTION_KEY,
    RESOURCE_THRESHOLD_KEY,
    SUPPRESSION_KEY,
)
from corewise_lab.control_plane import reserve_port
from corewise_openstack.compute.program import HostAgent, Passed
from kubedouble import serve
from manager.world import FAST, MODELS, PODS_NAMESPACE, World, amplification, until
from placement_world import client_of_placement, emptied
from prometheus_binary import PrometheusServer, Target, running
from prometheus_server.exporters import Machines, Truth
from prometheus_server.exporters import serve as served
from prometheus_server.recorded_node import RecordedNode
from scheduler.program_world import PLAIN_NODES, NotBoundError, SchedulerWorld, caller

PATIENCE = 90.0
"""Seconds of a busy machine; some seconds do on a quiet one."""
WEB = manifest("web", container("a", "1", "500m"))
INTEL = {"Intel(R) Xeon(R) Gold 6252 CPU @ 2.10GHz": {"hyperThreadTurboEnabledRatio": 1.5}}
"""The model of the agent's machine."""
EVICTION = {
    "enable": True,
    "memoryEvictThresholdPercent": 1,
    "evictCooldownSeconds": 1,
    "evictDryRun": True,
}
CONFIGURATION = {
    NORMALIZATION_KEY: json.dumps({"enable": True, "ratioModel": {**MODELS, **INTEL}}),
    AMPLIFICATION_KEY: amplification(cpu=1.2),
    OVERSUBSCRIPTION_KEY: json.dumps({"intervalSeconds": 1}),
    SUPPRESSION_KEY: json.dumps({"adjustStep": 1}),
    RESOURCE_THRESHOLD_KEY: json.dumps({"clusterStrategy": EVICTION}),
}
INTERFERENCE = """\
interference:
  window: 10s
  metrics: {preset: corewise}
  profiles:
    stream:
      profile: {memoryBandwidth: 5GB/s}
"""
FAILURES: Mapping[ExportedMetric, tuple[str, ...]] = {
    metrics.NRI_REQUESTS: ("CreateContainer", "late"),
    metrics.NRI_DIVIDED: ("CreateContainer",),
    metrics.OVERSUBSCRIPTION_SAMPLES_MISSED: ("unreadable",),
    metrics.SUPPRESSION_TASK: ("suppressing",),
    metrics.SUPPRESSION_UTILIZATION: (),
    metrics.EXTENDER_REQUESTS: ("bind", "error"),
    metrics.INTERFERENCE_QUERIES: ("memorybandwidth", "failed"),
    metrics.WRITES: ("PatchNode", "error"),
    metrics.OVERSUBSCRIPTION_WRITES: ("error",),
    metrics.UNTRANSLATED_PODS: ("jobs",),
    metrics.WAITING_PODS: ("AntagonistNamed",),
    metrics.NODE_SPEED: ("n9",),
    metrics.MODEL_RATIO_OFF: ("Fast CPU", "baseRatio", ""),
    metrics.EVALUATION_RUNS: ("measured",),
    metrics.EVALUATION_SCORE: ("Xeon",),
}
"""Of what these programs have no series: a runtime that asks;
samples that fail; the other mode of suppression; what does not answer: API server, Prometheus, manager; a pod
that waits for CPUs; a node that measures itself; five nodes of a model that agents have measured."""
NODE_PROBLEMS = ("UnsafeDecreaseHeldBack", "NodeSlowerThanPeers")
"""Warnings that take pods which no longer fit, and days of scores."""


@dataclass
class WorkingCluster:
    """The programs, what they work on, and the Prometheus that scrapes them."""

    prometheus: PrometheusServer
    agents: AgentWorld
    scheduling: SchedulerWorld
    scheduler: Scheduler
    call: Any
    web: QuotaPod
    rounds: int = 0

    async def work(self) -> None:
        """Make every program do something."""
        self.rounds += 1
        nodes: World = self.agents.cluster
        await nodes.kubelet_writes("fast")
        with suppress(KubeError):
            other = {"status": {"allocatable": {"cpu": "9"}}}
            await nodes.client.patch(PLAIN_NODES, "fast", other, subresource="status")
        name = f"own-{self.rounds}"
        pod = await self.scheduling.add_pod(name, cpu="1", qos="LSR")
        await self.call("filter", {"Pod": pod, "Nodes": None, "NodeNames": ["s1"]})
        await self.call("prioritize", {"Pod": pod, "Nodes": None, "NodeNames": ["s1"]})
        names = {
            "PodName": name,
            "PodNamespace": PODS_NAMESPACE,
            "PodUID": pod["metadata"]["uid"],
            "Node": "s1",
        }
        await self.call("bind", names)
        with suppress(NotBoundError):
            await self.scheduling.bind(name, "nowhere")
        if self.rounds == 1:
            await self.scheduling.add_pod("late", cpu="1", qos="LSR")
            await self.scheduling.bind_past("late", "s1")
        else:
            await nodes.client.delete(PODS, f"own-{self.rounds - 1}", PODS_NAMESPACE, grace_period=0)
        async with caller(self.scheduler, certified=False) as stranger:
            with suppress(json.JSONDecodeError):  # it is refused in words
                await stranger("filter", {})
        self.agents.machine.write(self.web, "a", 70_000)
        used = self.agents.machine.path(self.web, "a").with_name("cpu.stat")
        used.write_text(f"usage_usec {self.rounds * 500_000}\n")
        self.agents.offline.pass_time(1.0, online=2000, offline=500, memory=8 << 30)
        await asyncio.sleep(1.0)


@asynccontextmanager
async def working_cluster(folder: Path, rules: list[Path]) -> AsyncIterator[WorkingCluster]:
    """Run all programs, and a Prometheus that scrapes them, until the block ends."""
    listen = {
        name: Address("127.0.0.1", reserve_port()) for name in ("manager", "scheduler", "agent", "compute")
    }
    machines = Machines()
    machines.pages["/recorded"] = RecordedNode(folder / "recorded", "n8", Truth()).page
    machines.say("/failures", _failures())
    async with AsyncExitStack() as stack:
        stack.enter_context(served(machines))
        targets = [Target(name, str(address), "/metrics", {}) for name, address in listen.items()]
        targets += [Target("pages", machines.address, page, {}) for page in machines.pages]
        prometheus = running(folder / "prometheus", targets, rules=rules)
        server = stack.enter_context(prometheus)
        api = await stack.enter_async_context(serve())
        (folder / "agent").mkdir()
        agents = await stack.enter_async_context(agent_world(api, folder / "agent"))
        await _set_up(agents)
        await stack.enter_async_context(agents.cluster.manager(metrics_listen=listen["manager"]))
        scheduling = SchedulerWorld(api, agents.client, agents.cluster.administrator, agents.cluster.clock)
        await scheduling.add_node("s1", 8)
        file = folder / "scheduler.yaml"
        file.write_text(INTERFERENCE)
        scheduler = await stack.enter_async_context(
            scheduling.scheduler(
                configuration=parse_configuration(INTERFERENCE),
                configuration_file=str(file),
                prometheus=server.url,
                metrics_listen=listen["scheduler"],
            )
        )
        web = await agents.start(WEB)
        await agents.start(OWNER)
        await agents.start(offline_manifest("job", batch_container("a", limit=2000)))
        await stack.enter_async_context(
            agents.agent(metrics_listen=listen["agent"], interval=1.0, latency_interval=None)
        )
        await agents.label("true")
        call = await stack.enter_async_context(caller(scheduler))
        await stack.enter_async_context(_host_agent(folder, listen["compute"]))
        yield WorkingCluster(server, agents, scheduling, scheduler, call, web)


async def _set_up(agents: AgentWorld) -> None:
    await agents.allocatable()
    await agents.cluster.add_node("fast", model=FAST)
    await agents.cluster.add_node("odd", model="Odd CPU")
    body = {"metadata": {"name": CONFIG_NAME}, "data": CONFIGURATION}
    await agents.client.create(CONFIG_MAPS, body, CONFIG_NAMESPACE)


def _failures() -> str:
    exposition = Exposition(METRICS, node="n9")
    for reason in NODE_PROBLEMS:
        exposition.set(metrics.NODE_PROBLEM, 1, "n9", reason)
    for metric, labels in FAILURES.items():
        if metric.type is MetricType.GAUGE:
            exposition.set(metric, 1, *labels)
        elif metric.tallied:
            exposition.replace(metric, {labels: 1})
        else:
            exposition.count(metric, *labels)
    lines = exposition.text().decode().splitlines()
    kept = tuple(metric.name for metric in (metrics.NODE_PROBLEM, *FAILURES))
    return "".join(f"{line}\n" for line in lines if line.startswith(kept))


@asynccontextmanager
async def _host_agent(folder: Path, listen: Address) -> AsyncIterator[None]:
    """A host agent whose second and later passes fail: its options have become wrong."""
    scene = Scene(folder / "host", Placement(folder, emptied(client_of_placement())))

    async def at_once(work: Callable[[], Passed]) -> Passed:
        return work()

    served = agent_options(Certificates(folder), "n1")
    options = replace(
        scene.options,
        metrics_listen=listen,
        interval=1.0,
        listen=served.listen,
        tls_cert=served.tls_cert,
        tls_key=served.tls_key,
        client_ca=served.client_ca,
    )
    agent = HostAgent(options, scene.client, claims=scene.client, blocking=at_once)
    task = asyncio.create_task(agent.run())
    await until(lambda: agent.metrics.value(metrics.COMPUTE_PASSES, "done") > 1 or task.done())
    scene.configure({**DOCUMENT, "cpu_dedicated_set": "x"})
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def answers(folder: Path, rules: list[Path], queries: Iterable[str]) -> dict[str, list[str]]:
    """Return the values of each query, once all of them have some, or patience is at its end."""
    found: dict[str, list[str]] = {}

    async def main() -> None:
        async with working_cluster(folder, rules) as cluster:
            deadline = time.monotonic() + PATIENCE
            while (
                missing := [each for each in queries if not found.get(each)]
            ) and time.monotonic() < deadline:
                await cluster.work()
                for query in missing:
                    series = await asyncio.to_thread(cluster.prometheus.query, query)
                    found[query] = [each["value"][1] for each in series if each["value"][1] != "NaN"]

    asyncio.run(main())
    return found
