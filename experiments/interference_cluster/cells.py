"""Cells on a cluster: simulated nodes, pods that arrive there, and the kubelet that runs them.

A cell is a few nodes and the pods that may run there alone (a label and a taint), so many cells share one
control plane and do not meet otherwise. Cells of one mix and seed have the same arrivals; in the arm STOCK
their pods carry no type, so corewise is not asked about them.

Nodes are API objects whose leases are renewed here, and pods are real ones that kube-scheduler binds. What a
pod does afterwards is simulated (:mod:`nodes`): it is marked Running, and Succeeded when its work is done. A
stand-in of Prometheus answers what corewise asks about the memory of nodes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

import msgspec
import numpy as np

from corewise.kube.cache import Cache
from corewise.kube.client import Client, PatchType
from corewise.kube.clock import SYSTEM_CLOCK, rfc3339, rfc3339_micro
from corewise.kube.resources import LEASES, NODES, PODS, Resource
from corewise.workload.pods import WORKLOAD_PODS, Pod
from corewise_lab.control_plane import running
from corewise_lab.metrics_server import metrics_server
from experiments.interference_cluster.mixes import ALL, MIXES, Arrival, arrivals, configuration, machines
from experiments.interference_cluster.nodes import Ended, Node
from experiments.interference_wca.experiment import Machine

STOCK, OWN, COREWISE = "stock", "own", "corewise"
"""kube-scheduler alone; corewise with a score of what a pod itself suffers alone; corewise as it is."""
NAMESPACE = "default"
MARK = "corewise-experiment"
"""The label of all objects; on nodes, pods and the taint its value is the cell's name."""
_TYPE = "type"
_LEASES = "kube-node-lease"
_RENEW_EVERY = 15.0
_LOOK_EVERY = 1.0
_SETTLED = 5.0
_READY_WITHIN = 120.0
_REMOVED_WITHIN = 300.0
_LONGEST_DRAIN = 1200.0
_NOT_READY = "node.kubernetes.io/not-ready"
_SERVICES: Resource[dict[str, Any]] = Resource("", "v1", "services", "Service", namespaced=True, type=dict)
_PLAIN_NODES = NODES.typed(dict[str, Any])


class Outcome(msgspec.Struct, frozen=True):
    """The results of a cell. Times in seconds; slowdowns are parts of one, ``nodes`` a mean over time."""

    mix: str
    seed: int
    arm: str
    pods: int
    slowdown: float
    p99: float
    makespan: float
    nodes: float
    wait: float
    longest_wait: float


@dataclass
class Cell:
    """One cell; ``scheduler`` is the schedulerName of its pods."""

    mix: str
    seed: int
    arm: str
    scheduler: str
    to_come: Sequence[Arrival]
    nodes: dict[str, Node] = field(init=False)
    waits: list[float] = field(default_factory=list)
    ended: list[Ended] = field(default_factory=list)
    first: float = 0.0

    def __post_init__(self) -> None:
        self.nodes = {machine.name: Node(machine) for machine in machines(self.name)}

    @property
    def name(self) -> str:
        return f"{self.mix}-{self.seed}-{self.arm}"

    def outcome(self) -> Outcome:
        slowdowns = [each.slowdown for each in self.ended]
        makespan = max(each.at for each in self.ended) - self.first
        return Outcome(
            self.mix,
            self.seed,
            self.arm,
            pods=len(slowdowns),
            slowdown=fmean(slowdowns),
            p99=float(np.quantile(slowdowns, 0.99)),
            makespan=makespan,
            nodes=sum(node.busy for node in self.nodes.values()) / makespan,
            wait=fmean(self.waits),
            longest_wait=max(self.waits),
        )


@dataclass
class _Awaited:
    """A pod that has been created; ``done`` is set when its work is."""

    cell: Cell
    arrival: Arrival
    created: float
    done: asyncio.Event = field(default_factory=asyncio.Event)
    bound: bool = False


class Run:
    """Several cells at once on one control plane."""

    def __init__(self, client: Client, cells: Sequence[Cell]) -> None:
        self._client = client
        self._cells = cells
        self._nodes = {name: (cell, node) for cell in cells for name, node in cell.nodes.items()}
        self._pods: dict[str, _Awaited] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._left = sum(len(cell.to_come) for cell in cells)
        self._all_ended = asyncio.Event()
        self._tasks: asyncio.TaskGroup

    async def take(self, prometheus_port: int = 0) -> list[Outcome]:
        """Let all pods arrive and end; return the cells' results."""
        cache = Cache(self._client, WORKLOAD_PODS, label_selector=MARK, on_change=self._changed)
        states = {name: node.state for name, (_, node) in self._nodes.items()}
        serving = metrics_server(
            configuration(),
            lambda: {name: state() for name, state in states.items()},
            every=_LOOK_EVERY,
            port=prometheus_port,
        )
        nodes = {cell.name: [node.machine for node in cell.nodes.values()] for cell in self._cells}
        beside = simulated_nodes(self._client, nodes), serving, running(cache.run)
        async with AsyncExitStack() as stack:
            for each in beside:
                await stack.enter_async_context(each)
            self._tasks = await stack.enter_async_context(asyncio.TaskGroup())
            await self._create_services()
            await asyncio.sleep(_SETTLED)
            await self._arrive()
            async with asyncio.timeout(_LONGEST_DRAIN):
                await self._all_ended.wait()
        return [cell.outcome() for cell in self._cells]

    async def _create_services(self) -> None:
        for cell in self._cells:
            for each in filter(lambda name: ALL[name].is_service, MIXES[cell.mix]):
                await self._client.create(_SERVICES, _service(cell, each), NAMESPACE)

    async def _arrive(self) -> None:
        begin = asyncio.get_running_loop().time()
        every = [
            (arrival.at, f"{cell.name}-{number}", cell, arrival)
            for cell in self._cells
            for number, arrival in enumerate(cell.to_come)
        ]
        for cell in self._cells:
            cell.first = begin + cell.to_come[0].at
        for at, name, cell, arrival in sorted(every, key=lambda each: each[:2]):
            await asyncio.sleep(begin + at - asyncio.get_running_loop().time())
            self._pods[name] = _Awaited(cell, arrival, created=begin + at)
            self._tasks.create_task(self._create(name, cell, arrival.workload.name))

    async def _create(self, name: str, cell: Cell, kind: str) -> None:
        labels = {} if cell.arm == STOCK else {"app": kind}
        pod = simulated_pod(name, cell.name, cell.scheduler, kind, **labels)
        await self._client.create(PODS, pod, NAMESPACE)

    def _changed(self, old: Pod | None, new: Pod | None) -> None:
        """Start a pod that has been bound."""
        pod = self._pods.get(new.metadata.name) if new is not None else None
        if pod is None or new is None or pod.bound or not new.spec.node_name:
            return
        pod.bound = True
        now = asyncio.get_running_loop().time()
        pod.cell.waits.append(now - pod.created)
        name = new.spec.node_name
        self._nodes[name][1].start(new.metadata.name, pod.arrival.workload, pod.arrival.work, now)
        self._set_timer(name)
        self._tasks.create_task(self._tell(new.metadata.name, pod))

    def _set_timer(self, name: str) -> None:
        if name in self._timers:
            self._timers.pop(name).cancel()
        due = self._nodes[name][1].next_end()
        if due is not None:
            self._timers[name] = asyncio.get_running_loop().call_at(due, self._end, name, due)

    def _end(self, name: str, due: float) -> None:
        """End the pods whose work is done: when it was due, even if this loop is late."""
        cell, node = self._nodes[name]
        for ended in node.end(due):
            cell.ended.append(ended)
            self._pods[ended.pod].done.set()
        self._set_timer(name)

    async def _tell(self, name: str, pod: _Awaited) -> None:
        """Write a pod's status as its kubelet does: when it starts, and when it has ended."""
        await self._write(name, {"phase": "Running", "startTime": rfc3339(SYSTEM_CLOCK.now())})
        await pod.done.wait()
        await self._write(name, {"phase": "Succeeded"})
        self._left -= 1
        if not self._left:
            self._all_ended.set()

    async def _write(self, name: str, status: dict[str, Any]) -> None:
        await self._client.patch(PODS, name, {"status": status}, namespace=NAMESPACE, subresource="status")


@asynccontextmanager
async def simulated_nodes(client: Client, cells: Mapping[str, Sequence[Machine]]) -> AsyncIterator[None]:
    """Have the nodes of these cells, their leases renewed, beside the block; nothing is left afterwards."""
    names = [machine.name for machines in cells.values() for machine in machines]

    async def renew() -> None:
        while True:
            for name in names:
                await _renew_lease(client, name)
            await asyncio.sleep(_RENEW_EVERY)

    await remove_all(client)
    try:
        async with asyncio.TaskGroup() as tasks:
            for cell, machines in cells.items():
                for machine in machines:
                    tasks.create_task(client.create(_PLAIN_NODES, _node(cell, machine)))
        async with asyncio.timeout(_READY_WITHIN), running(renew):
            while not await _ready(client):
                await asyncio.sleep(1)
        async with running(renew):
            yield
    finally:
        await remove_all(client)


async def _ready(client: Client) -> bool:
    """Whether the cluster counts the nodes as ready."""
    nodes = await client.list(_PLAIN_NODES, label_selector=MARK)
    taints = [taint["key"] for node in nodes.items for taint in node["spec"].get("taints", ())]
    return _NOT_READY not in taints


async def _renew_lease(client: Client, name: str) -> None:
    spec = {
        "holderIdentity": name,
        "leaseDurationSeconds": 40,
        "renewTime": rfc3339_micro(SYSTEM_CLOCK.now()),
    }
    await client.patch(
        LEASES.typed(dict[str, Any]),
        name,
        {"metadata": {"name": name, "labels": {MARK: "node"}}, "spec": spec},
        type=PatchType.APPLY,
        namespace=_LEASES,
        field_manager=MARK,
        force=True,
    )


async def remove_pods(client: Client) -> None:
    """Delete all pods that carry the label."""
    await _remove(client, PODS.path(namespace=NAMESPACE))


async def remove_all(client: Client) -> None:
    """Delete everything that carries the label."""
    await remove_pods(client)
    for path in (_SERVICES.path(namespace=NAMESPACE), NODES.path(), LEASES.path(namespace=_LEASES)):
        await _remove(client, path)


async def _remove(client: Client, path: str) -> None:
    body = {"gracePeriodSeconds": 0}
    await client.request("DELETE", path, params={"labelSelector": MARK}, body=body, timeout=_REMOVED_WITHIN)


def simulated_pod(name: str, cell: str, scheduler: str, kind: str, **labels: str) -> dict[str, Any]:
    """Return a pod of a type of workload that may run on the nodes of a cell alone."""
    workload = ALL[kind]
    amounts = {"cpu": str(workload.cpus), "memory": f"{workload.memory}G"}
    return {
        "metadata": {"name": name, "labels": {MARK: cell, _TYPE: kind, **labels}},
        "spec": {
            "schedulerName": scheduler,
            "nodeSelector": {MARK: cell},
            "tolerations": [{"key": MARK, "operator": "Exists"}],
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "containers": [{"name": "main", "image": "simulated", "resources": {"requests": amounts}}],
        },
    }


def _node(cell: str, machine: Machine) -> dict[str, Any]:
    now = rfc3339(SYSTEM_CLOCK.now())
    amounts = {"cpu": str(machine.cpus), "memory": str(machine.memory), "pods": "110"}
    ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": now, "lastTransitionTime": now}
    return {
        "metadata": {
            "name": machine.name,
            "labels": {MARK: cell, "kubernetes.io/hostname": machine.name},
        },
        "spec": {"taints": [{"key": MARK, "value": cell, "effect": "NoSchedule"}]},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{**ready, "reason": "Simulated", "message": "kept ready by the experiment"}],
        },
    }


def _service(cell: Cell, workload: str) -> dict[str, Any]:
    return {
        "metadata": {"name": f"{cell.name}-{workload}", "labels": {MARK: cell.name}},
        "spec": {"clusterIP": "None", "selector": {MARK: cell.name, _TYPE: workload}},
    }


def cells(
    mixes: Sequence[str], seeds: Sequence[int], arms: Sequence[tuple[str, str]], seconds: float, scale: float
) -> list[Cell]:
    """Return a cell for each mix, seed and arm; an arm is its name and the schedulerName of its pods."""
    return [
        Cell(mix, seed, arm, scheduler, arrivals(mix, seed, seconds, scale))
        for mix in mixes
        for seed in seeds
        for arm, scheduler in arms
    ]
