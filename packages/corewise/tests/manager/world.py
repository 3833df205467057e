"""A small cluster around a manager: the local API server, kubelets that write raw status, a clock to move.

Time is the machine's, plus what a test has skipped: nothing waits for minutes, and nothing is mocked.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

from corewise.kube.client import Client, PatchType
from corewise.kube.config import load_config
from corewise.kube.election import Terms
from corewise.kube.errors import KubeError
from corewise.kube.resources import (
    CONFIG_MAPS,
    EVENTS,
    NAMESPACES,
    NODE_RESOURCE_TOPOLOGIES,
    NODES,
    PODS,
    VALIDATING_WEBHOOKS,
    Resource,
)
from corewise.manager.options import VALIDATING_NAME, AmplifyBy, ManagerOptions
from corewise.manager.program import Manager, run_manager
from corewise.service.certificates import Lifetimes
from corewise.service.options import Address
from corewise.service.program import Program
from corewise.vocabulary.names import (
    AMPLIFICATION_KEY,
    AMPLIFICATION_RATIO,
    CONFIG_NAME,
    CONFIG_NAMESPACE,
    CPU_BASIC_INFO,
    NORMALIZATION_KEY,
)
from identities import kubeconfig_of, nothing_refused
from kubedouble import LocalAPIServer


class Started(Protocol):
    """A program that has been started."""

    program: Program


P = TypeVar("P", bound=Started)
LOOPBACK = Address("127.0.0.1", 0)
QUICK_TERMS = Terms(lease_duration=60.0, renew_deadline=40.0, retry_period=0.2)
"""Quick to take over a lease that is released; on a busy machine no one loses one for being slow."""
PLAIN_NODES: Resource[dict[str, Any]] = NODES.typed(dict)
PODS_NAMESPACE = "apps"
"""Where pods are: neither default nor the manager's own, in which it has more permissions."""
FAST = "Fast CPU"
SLOW = "Slow CPU"
MODELS = {
    FAST: {"baseRatio": 2, "turboEnabledRatio": 2.5},
    SLOW: {"baseRatio": 1, "turboEnabledRatio": 1.2},
}


class MovableClock:
    """The machine's clock, ahead by what was skipped. Sleeps are cut short where a test says so."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def skip(self, seconds: float) -> None:
        self.ahead += seconds

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time() + self.ahead

    def now(self) -> datetime:
        return datetime.now(UTC) + timedelta(seconds=self.ahead)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(min(seconds, 0.2))


def normalization(enable: bool = True, models: Mapping[str, Any] = MODELS, **more: Any) -> str:
    return json.dumps({"enable": enable, "ratioModel": models, **more})


def amplification(**ratios: float) -> str:
    return json.dumps({"enable": True, "resourceAmplificationRatio": ratios})


@dataclass
class World:
    """The cluster, and what tests do to it."""

    server: LocalAPIServer
    client: Client
    administrator: Path
    """An administrator's kubeconfig."""
    clock: MovableClock = field(default_factory=MovableClock)
    refused: list[str] = field(default_factory=list)
    """What Roles did not grant to programs; the test fails unless it clears what it expects."""

    def options(self, **changes: Any) -> ManagerOptions:
        """Return a manager's options: it amplifies by the webhook, unless a test says otherwise."""
        defaults: dict[str, Any] = {
            "webhook_listen": LOOPBACK,
            "metrics_listen": LOOPBACK,
            "manage_webhooks": True,
            "leader_elect": False,
            "amplify_by": AmplifyBy.WEBHOOK,
        }
        return ManagerOptions(**(defaults | changes))

    @asynccontextmanager
    async def manager(
        self, *, lifetimes: Lifetimes | None = None, write: Any = None, wait: bool = True, **changes: Any
    ) -> AsyncIterator[Manager]:
        """Run a manager until the block ends."""
        kubeconfig = await kubeconfig_of("manager", self.administrator)
        start = partial(
            run_manager,
            self.options(**changes),
            load_config(str(kubeconfig)),
            clock=self.clock,
            terms=QUICK_TERMS,
            lifetimes=lifetimes,
            **({"write": write} if write else {}),
        )
        async with program(Manager, start, wait=wait) as manager:
            yield manager

    async def installed(self) -> None:
        """Wait until the policy or the webhook is installed, and after it the webhooks that validate."""

        async def there() -> bool:
            await self.client.get(VALIDATING_WEBHOOKS, VALIDATING_NAME)
            return True

        await eventually(there)

    async def add_node(
        self, name: str, *, model: str = FAST, cpu: str = "8", turbo: bool = False, **labels: str
    ) -> None:
        await self.client.create(PLAIN_NODES, {"metadata": {"name": name, "labels": labels}})
        await self.kubelet_writes(name, cpu=cpu)
        await self.report(name, model=model, turbo=turbo)

    async def report(self, name: str, *, model: str, turbo: bool = False) -> None:
        """State a node's CPU facts, as its agent does."""
        info = json.dumps({"cpuModel": model, "turboEnabled": turbo})
        body = {
            "apiVersion": NODE_RESOURCE_TOPOLOGIES.api_version,
            "kind": NODE_RESOURCE_TOPOLOGIES.kind,
            "metadata": {"name": name, "annotations": {CPU_BASIC_INFO: info}},
            "topologyPolicies": ["None"],
            "zones": [],
        }
        await self.client.patch(
            NODE_RESOURCE_TOPOLOGIES, name, body, type=PatchType.APPLY, field_manager="agent", force=True
        )

    async def kubelet_writes(
        self,
        name: str,
        *,
        cpu: str = "8",
        allocatable: str = "",
        memory: str = "16Gi",
        beat: datetime | None = None,
        ready: str = "True",
    ) -> dict[str, Any]:
        """Write a node's raw status as its kubelet does; without ``allocatable`` all of ``cpu`` is."""
        amounts = {"cpu": cpu, "memory": memory, "pods": "110"}
        time = (beat or self.clock.now()).strftime("%Y-%m-%dT%H:%M:%SZ")
        condition = {
            "type": "Ready",
            "status": ready,
            "lastHeartbeatTime": time,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        left = amounts | {"cpu": allocatable or cpu}
        status = {"capacity": amounts, "allocatable": left, "conditions": [condition]}
        kubelet = self.client.as_user(f"system:node:{name}", ["system:nodes", "system:authenticated"])
        return await kubelet.patch(
            PLAIN_NODES, name, {"status": status}, type=PatchType.STRATEGIC, subresource="status"
        )

    async def kubelet_gets(self, name: str, cpu: str) -> None:
        """Wait until raw amounts that the kubelet writes are amplified to so much cpu."""

        async def amplified() -> bool:
            answer = await self.kubelet_writes(name)
            return bool(answer["status"]["allocatable"]["cpu"] == cpu)

        await eventually(amplified)

    async def configure(self, **keys: str) -> None:
        """Set keys of the ConfigMap: ``normalization`` and ``amplification``."""
        names = {"normalization": NORMALIZATION_KEY, "amplification": AMPLIFICATION_KEY}
        data = {names[key]: text for key, text in keys.items()}
        await apply_config(self.client, data)

    async def annotate(self, name: str, annotations: Mapping[str, str | None]) -> dict[str, Any]:
        return await self.client.patch(PLAIN_NODES, name, {"metadata": {"annotations": dict(annotations)}})

    async def label(self, name: str, labels: Mapping[str, str | None]) -> dict[str, Any]:
        return await self.client.patch(PLAIN_NODES, name, {"metadata": {"labels": dict(labels)}})

    async def add_pod(self, name: str, node: str, *, cpu: str) -> None:
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
        body = {"metadata": {"name": name}, "spec": {"nodeName": node, "containers": [container]}}
        await self.client.create(PODS, body, PODS_NAMESPACE)

    async def node(self, name: str) -> dict[str, Any]:
        return await self.client.get(PLAIN_NODES, name)

    async def cpu(self, name: str) -> tuple[str, str]:
        """The node's cpu in capacity and allocatable."""
        status = (await self.node(name))["status"]
        return status["capacity"]["cpu"], status["allocatable"]["cpu"]

    async def ratio(self, name: str) -> str | None:
        annotations = (await self.node(name))["metadata"].get("annotations", {})
        text: str | None = annotations.get(AMPLIFICATION_RATIO)
        return text

    async def shows_cpu(self, name: str, cpu: str) -> None:
        """Wait until the node offers so much cpu."""

        async def shows() -> bool:
            return await self.cpu(name) == (cpu, cpu)

        await eventually(shows)

    async def reasons(self, kind: str = "Node") -> set[str]:
        """The reasons of all Events about objects of a kind."""
        events = await self.client.list(EVENTS)
        return {event.reason for event in events if event.involved_object.kind == kind}

    async def told(self, reason: str, kind: str = "Node") -> None:
        """Wait for an Event."""

        async def there() -> bool:
            return reason in await self.reasons(kind)

        await eventually(there)


CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "noderesourcetopologies.topology.node.k8s.io"},
    "spec": {
        "group": "topology.node.k8s.io",
        "names": {
            "kind": "NodeResourceTopology",
            "listKind": "NodeResourceTopologyList",
            "plural": "noderesourcetopologies",
            "singular": "noderesourcetopology",
        },
        "scope": "Cluster",
        "versions": [
            {
                "name": "v1alpha1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                },
            }
        ],
    },
}


@asynccontextmanager
async def program(
    _kind: type[P], start: Callable[..., Coroutine[Any, Any, None]], *, wait: bool
) -> AsyncIterator[P]:
    """Run a program until the block ends. ``wait``: until it is ready, or has ended."""
    running: list[P] = []
    task = asyncio.create_task(start(started=running.append))
    try:
        await until(lambda: bool(running) or task.done())
        if task.done():
            await task
        if wait:
            await until(lambda: not list(running[0].program.problems()) or task.done())
        yield running[0]
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@asynccontextmanager
async def small_cluster(server: LocalAPIServer, directory: Path) -> AsyncIterator[World]:
    """The server with NodeResourceTopology and the two namespaces, and an administrator's client."""
    administrator = directory / "kubeconfig"
    server.write_kubeconfig(administrator)
    with nothing_refused(server) as refused:
        async with Client(load_config(str(administrator))) as client:
            await client.request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body=CRD)
            for name in (CONFIG_NAMESPACE, PODS_NAMESPACE):
                await client.create(NAMESPACES, {"metadata": {"name": name}})

            async def served() -> bool:
                await client.list(NODE_RESOURCE_TOPOLOGIES)
                return True

            await eventually(served)
            yield World(server, client, administrator, refused=refused)


async def apply_config(client: Client, data: Mapping[str, str]) -> None:
    """Apply corewise's ConfigMap as an administrator."""
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": CONFIG_NAME, "namespace": CONFIG_NAMESPACE},
        "data": data,
    }
    await client.patch(
        CONFIG_MAPS,
        CONFIG_NAME,
        body,
        namespace=CONFIG_NAMESPACE,
        type=PatchType.APPLY,
        field_manager="somebody",
        force=True,
    )


async def until(condition: Callable[[], bool], within: float = 90.0) -> None:
    """Wait for something that needs no asking."""

    async def check() -> bool:
        return condition()

    await eventually(check, within)


async def eventually(condition: Callable[[], Any], within: float = 90.0) -> None:
    """Wait until a condition holds; an error of the API counts as not yet."""
    try:
        async with asyncio.timeout(within):
            while True:
                with suppress(KubeError):
                    if await condition():
                        return
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError("it did not happen in time") from None
