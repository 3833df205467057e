"""An agent against the local API server, on a machine made of files, with the identity of its manifest."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import machine_trees
from agent.fake_node import FakeNode
from agent.offline_node import OfflineNode
from corewise.agent.objects import QuotaPod
from corewise.agent.options import AgentOptions
from corewise.agent.program import Agent, run_agent
from corewise.kernel.cgroups.layout import Version
from corewise.kube.client import Client, PatchType
from corewise.kube.config import ClusterConfig, load_config
from corewise.kube.resources import NODES, PODS
from corewise.vocabulary.names import (
    AMPLIFICATION_RATIO,
    BATCH_CPU,
    BATCH_MEMORY,
    NORMALIZATION_RATIO,
    OFFLINE_REPORT,
    OVERSUBSCRIPTION,
    OVERSUBSCRIPTION_KEY,
    RESOURCE_THRESHOLD_KEY,
    SUPPRESSION_KEY,
)
from corewise.vocabulary.offline_report import OfflineReport, decode
from identities import account, kubeconfig_of
from kubedouble import LocalAPIServer
from manager.world import PODS_NAMESPACE, World, apply_config, eventually, small_cluster, until

ACCOUNT = account("agent")
NODE = "n1"
BOOT = "11111111-2222-3333-4444-555555555555"
CPUS = 8
MEMORY = 395_000_000 * 1024
ALLOCATABLE = {"cpu": str(CPUS), "memory": "32Gi", "pods": "110"}


@dataclass
class AgentWorld:
    """The cluster, the machine, and what tests do to both."""

    server: LocalAPIServer
    client: Client
    config: ClusterConfig
    machine: FakeNode
    options: AgentOptions
    offline: OfflineNode
    cluster: World
    printed: list[str] = field(default_factory=list)

    @asynccontextmanager
    async def agent(self, *, ready: bool = True, **changes: Any) -> AsyncIterator[Agent]:
        """Run an agent until the block ends."""
        running: list[Agent] = []
        options = replace(self.options, **changes)
        task = asyncio.create_task(
            run_agent(options, self.config, started=running.append, write=self.printed.append)
        )
        try:
            await until(lambda: bool(running) or task.done())
            if task.done():
                await task
            if ready:
                await until(lambda: not list(running[0].program.problems()) or task.done())
            yield running[0]
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def ratio(self, text: str | None, *, amplified: str | None = None) -> None:
        """Annotate the node as the manager does."""
        in_json = None if text is None else f'{{"cpu":{amplified or text}}}'
        annotations = {NORMALIZATION_RATIO: text, AMPLIFICATION_RATIO: in_json}
        await self.client.patch(NODES, NODE, {"metadata": {"annotations": annotations}})

    async def start(self, manifest: dict[str, Any]) -> QuotaPod:
        """Create a pod that runs: in the API, and its cgroups as kubelet makes them."""
        body = {"metadata": {**manifest["metadata"]}, "spec": manifest["spec"]}
        body["metadata"].pop("uid")
        body["metadata"]["namespace"], name = PODS_NAMESPACE, manifest["metadata"]["name"]
        await self.client.create(PODS.typed(dict), body, PODS_NAMESPACE)
        status = {key: value for key, value in manifest["status"].items() if key != "qosClass"}
        pod = await self.client.patch(
            PODS.typed(QuotaPod),
            name,
            {"status": status},
            namespace=PODS_NAMESPACE,
            subresource="status",
            type=PatchType.MERGE,
        )
        self.machine.start(pod)
        return pod

    async def label(self, oversubscription: str | None) -> None:
        """Label the node as somebody does who turns oversubscription on or off."""
        await self.client.patch(NODES, NODE, {"metadata": {"labels": {OVERSUBSCRIPTION: oversubscription}}})

    async def allocatable(self, **amounts: str) -> None:
        """Write what the node offers, as its kubelet does."""
        stated = {**ALLOCATABLE, **amounts}
        body = {"status": {"capacity": stated, "allocatable": stated}}
        await self.client.patch(NODES, NODE, body, subresource="status")

    async def configure(self, **keys: object) -> None:
        """Set keys of the ConfigMap (``oversubscription``, ``suppression``, ``threshold``), to JSON."""
        names = {
            "oversubscription": OVERSUBSCRIPTION_KEY,
            "suppression": SUPPRESSION_KEY,
            "threshold": RESOURCE_THRESHOLD_KEY,
        }
        data = {names[key]: text if isinstance(text, str) else json.dumps(text) for key, text in keys.items()}
        await apply_config(self.client, data)

    async def node(self) -> dict[str, Any]:
        return await self.client.get(NODES.typed(dict), NODE)

    async def offered(self) -> tuple[str | None, ...]:
        """The batch-cpu and batch-memory of capacity and of allocatable."""
        status = (await self.node()).get("status", {})
        amounts = [status.get(field, {}) for field in ("capacity", "allocatable")]
        return tuple(each.get(name) for each in amounts for name in (BATCH_CPU, BATCH_MEMORY))

    async def offers(self, cpu: str | None, memory: str | None) -> None:
        """Wait until the node offers so much."""

        async def does() -> bool:
            return await self.offered() == (cpu, memory, cpu, memory)

        await eventually(does)

    async def report(self) -> OfflineReport | None:
        """The offline report on the Node."""
        text = (await self.node())["metadata"].get("annotations", {}).get(OFFLINE_REPORT)
        return decode(text) if text else None

    def resize(self, pod: QuotaPod, container: str, limit: str) -> None:
        """Change a container's limit in the API, as its resize subresource does."""
        stored = self.server.store.get("pods", pod.metadata.namespace, pod.metadata.name)
        assert stored
        changed = copy.deepcopy(stored.object)
        for each in changed["spec"]["containers"]:
            if each["name"] == container:
                each["resources"]["limits"]["cpu"] = limit
        self.server.store.put("pods", stored.key, changed)

    async def has(self, pod: QuotaPod, container: str, quota: int | None) -> None:
        """Wait until a cgroup has a quota."""
        await until(lambda: self.machine.quota(pod, container) == quota)


@asynccontextmanager
async def agent_world(
    server: LocalAPIServer, directory: Path, version: Version = Version.V2
) -> AsyncIterator[AgentWorld]:
    """A cluster with one node, and the machine behind it: 2 sockets with 4 threads each."""
    root = directory / "machine"
    machine_trees.intel(root).put("proc/sys/kernel/random/boot_id", BOOT)
    offline = OfflineNode(root, version, cpus=CPUS, memory=MEMORY)
    async with small_cluster(server, directory) as world:
        await world.client.create(NODES.typed(dict), {"metadata": {"name": NODE}})
        config = load_config(str(await kubeconfig_of("agent", world.administrator)))
        options = AgentOptions(node=NODE, root=root)
        yield AgentWorld(server, world.client, config, offline.machine, options, offline, world)


__all__ = ["ACCOUNT", "BOOT", "NODE", "AgentWorld", "agent_world", "eventually", "until"]
