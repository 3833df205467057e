"""A small cluster around a scheduler: the local API server, nodes, pods, bindings, calls of the extender."""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import aiohttp
import pytest

from corewise.kube.client import Client, PatchType
from corewise.kube.config import load_config
from corewise.kube.resources import EVENTS, NODE_RESOURCE_TOPOLOGIES, NODES, PODS, SECRETS
from corewise.kube.transport import HTTPTransport, Request
from corewise.scheduler.binding import Wanted
from corewise.scheduler.installation import CLIENT_SECRET_NAME
from corewise.scheduler.options import SchedulerOptions
from corewise.scheduler.program import Scheduler, run_scheduler
from corewise.service.certificates import Lifetimes
from corewise.vocabulary.cpu_annotations import print_cpu_topology
from corewise.vocabulary.names import (
    AMPLIFICATION_RATIO,
    CONFIG_NAMESPACE,
    CPU_TOPOLOGY,
    QOS_CLASS,
    RESOURCE_STATUS,
)
from corewise.vocabulary.owned_cpus import read_owned_cpus
from corewise.vocabulary.reasons import Reason
from engine.scenes import arrangement
from identities import kubeconfig_of
from kubedouble import LocalAPIServer
from kubedouble.authentication import User
from manager.world import (
    LOOPBACK,
    PODS_NAMESPACE,
    QUICK_TERMS,
    MovableClock,
    eventually,
    program,
    small_cluster,
)

READER = "token-of-an-administrator"
PLAIN_NODES = NODES.typed(dict[str, Any])
PLAIN_PODS = PODS.typed(dict[str, Any])


def pod_document(
    name: str,
    *,
    cpu: str | None = "1",
    qos: str = "",
    annotations: dict[str, str] | None = None,
    memory: str | None = None,
) -> dict[str, Any]:
    """A pod as a user writes it."""
    amounts = {key: value for key, value in (("cpu", cpu), ("memory", memory)) if value is not None}
    container = {"name": "c", "image": "i", "resources": {"requests": amounts, "limits": amounts}}
    labels = {QOS_CLASS: qos} if qos else {}
    metadata = {"name": name, "labels": labels, "annotations": annotations or {}}
    return {"metadata": metadata, "spec": {"containers": [container]}}


class Interrupted:
    """Lets a test step in before or after requests whose label has a text, once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.before: dict[str, Any] = {}
        self.after: dict[str, Any] = {}
        send = HTTPTransport.send

        async def interrupted(transport: HTTPTransport, request: Request) -> bytes:
            await self._step(self.before, request)
            answer = await send(transport, request)
            await self._step(self.after, request)
            return answer

        monkeypatch.setattr(HTTPTransport, "send", interrupted)

    @staticmethod
    async def _step(steps: dict[str, Any], request: Request) -> None:
        for text in [each for each in steps if each in request.label]:
            await steps.pop(text)()


class NotBoundError(Exception):
    """A pod was not bound."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass
class SchedulerWorld:
    """The cluster, and what tests do to it."""

    server: LocalAPIServer
    client: Client
    administrator: Path
    """An administrator's kubeconfig."""
    clock: MovableClock = field(default_factory=MovableClock)
    running: list[Scheduler] = field(default_factory=list)
    namespace: str = PODS_NAMESPACE
    """Where pods are."""

    @asynccontextmanager
    async def scheduler(
        self, *, wait: bool = True, lifetimes: Lifetimes | None = None, **changes: Any
    ) -> AsyncIterator[Scheduler]:
        """Run a scheduler until the block ends."""
        defaults: dict[str, Any] = {
            "listen": LOOPBACK,
            "metrics_listen": LOOPBACK,
            "manage_webhooks": True,
            "leader_elect": False,
        }
        options = SchedulerOptions(**(defaults | changes))
        self.server.cluster.authenticator.tokens.add(READER, User("reader", ("system:masters",)))
        config = load_config(str(await kubeconfig_of("scheduler", self.administrator)))
        start = partial(
            run_scheduler, options, config, clock=self.clock, terms=QUICK_TERMS, lifetimes=lifetimes
        )
        async with program(Scheduler, start, wait=wait) as scheduler:
            self.running.append(scheduler)
            try:
                yield scheduler
            finally:
                self.running.remove(scheduler)

    async def add_node(self, name: str, cpus: int, ratio: str = "1.00", *, stated: bool = True) -> None:
        """Add a node of ``cpus`` physical CPUs; ``stated``: its CPUs are in its NodeResourceTopology."""
        annotations = {} if ratio == "1.00" else {AMPLIFICATION_RATIO: json.dumps({"cpu": float(ratio)})}
        metadata = {"name": name, "annotations": annotations}
        await self.client.create(PLAIN_NODES, {"metadata": metadata})
        amounts = {"cpu": f"{round(cpus * float(ratio) * 1000)}m", "memory": "64Gi", "pods": "500"}
        status = {"status": {"capacity": amounts, "allocatable": amounts}}
        await self.client.patch(PLAIN_NODES, name, status, subresource="status")
        if stated:
            await self.state_topology(name, {CPU_TOPOLOGY: print_cpu_topology(arrangement(cpus))})

    async def state_topology(
        self, name: str, annotations: dict[str, str], zones: Sequence[dict[str, Any]] = ()
    ) -> None:
        body = {
            "apiVersion": NODE_RESOURCE_TOPOLOGIES.api_version,
            "kind": NODE_RESOURCE_TOPOLOGIES.kind,
            "metadata": {"name": name, "annotations": annotations},
            "topologyPolicies": ["None"],
            "zones": list(zones),
        }
        await self.client.patch(
            NODE_RESOURCE_TOPOLOGIES, name, body, type=PatchType.APPLY, field_manager="agent", force=True
        )

    async def add_pod(self, name: str, **form: Any) -> dict[str, Any]:
        return await self.client.create(PLAIN_PODS, pod_document(name, **form), self.namespace)

    async def bind(self, name: str, node: str, *, uid: str = "", by: Scheduler | None = None) -> None:
        """Bind a pod by a scheduler, the last one that was started unless it is given.

        Raises:
            NotBoundError: if it is not bound.
        """
        refused = await (by or self.running[-1]).binder.bind(Wanted(self.namespace, name, node, uid))
        if refused is not None:
            raise NotBoundError(refused.reason, refused.message)

    async def bind_past(self, name: str, node: str) -> None:
        """Bind a pod as another scheduler does."""
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "namespace": self.namespace},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        path = f"/api/v1/namespaces/{self.namespace}/pods/{name}/binding"
        await self.client.request("POST", path, body=body)

    async def ledger(self, node: str) -> dict[str, str]:
        """The CPUs that pods own by a node's ledger, by the pods' names; both annotations agree."""
        annotations = (await self.client.get(PLAIN_NODES, node))["metadata"].get("annotations") or {}
        owned = read_owned_cpus(annotations)
        assert not owned.problem
        return {owner.name: str(owner.cpus) for owner in owned.owners.values()}

    async def pod(self, name: str) -> dict[str, Any]:
        return await self.client.get(PLAIN_PODS, name, self.namespace)

    async def cpus(self, name: str) -> str | None:
        """The CPUs that a pod's resource-status names; None if it has none."""
        annotations = (await self.pod(name))["metadata"].get("annotations") or {}
        text = annotations.get(RESOURCE_STATUS)
        return None if text is None else json.loads(text).get("cpuset", "")

    async def told(self, reason: str) -> str:
        """Wait for an Event about a pod; return its message."""
        found: list[str] = []

        async def there() -> bool:
            events = await self.client.list(EVENTS)
            found[:] = [event.message for event in events if event.reason == reason]
            return bool(found)

        await eventually(there)
        return found[0]


async def shown_by(client: Client, namespace: str = CONFIG_NAMESPACE) -> ssl.SSLContext:
    """Return kube-scheduler's TLS context: client certificate and authorities, out of their Secret."""

    data: dict[str, bytes] = {}

    async def there() -> bool:
        data.update((await client.get(SECRETS, CLIENT_SECRET_NAME, namespace)).data)
        return True

    await eventually(there)
    context = ssl.create_default_context(cadata=data["ca.crt"].decode())
    context.check_hostname = False
    with NamedTemporaryFile() as file:
        file.write(data["tls.crt"] + data["tls.key"])
        file.flush()
        context.load_cert_chain(file.name)
    return context


async def scheduler_world(api_server: LocalAPIServer, tmp_path: Path) -> AsyncIterator[SchedulerWorld]:
    """Yield an API server with NodeResourceTopology; tests start the schedulers."""
    async with small_cluster(api_server, tmp_path) as cluster:
        yield SchedulerWorld(cluster.server, cluster.client, cluster.administrator)


@asynccontextmanager
async def caller(scheduler: Scheduler, *, certified: bool = True) -> AsyncIterator[Any]:
    """Yield a caller of the extender like kube-scheduler: it returns the status and the decoded answer."""
    base = f"https://{scheduler.service.address}"
    async with aiohttp.ClientSession() as session:
        context = await shown_by(scheduler.client) if certified else False

        async def call(verb: str, body: Any = None) -> tuple[int, Any]:
            data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
            method = "GET" if data is None else "POST"
            async with session.request(
                method,
                f"{base}/{verb}",
                data=data,
                ssl=context,
                headers={"Authorization": f"Bearer {READER}"},
            ) as response:
                return response.status, json.loads(await response.read())

        yield call
