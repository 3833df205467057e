"""Pods on the simulated nodes: admitted by what the API says a node offers, run, refused, finished.

One queue for all nodes. An entry is a pod's key; what to do follows from the pod as it is now (a level, not
an edge), so that entries may be lost or doubled without harm.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from corewise.amplification import pod_request
from corewise.kube.client import PatchType
from corewise.kube.clock import Clock, rfc3339
from corewise.kube.resources import PODS
from corewise.manager.demand import demand_of
from corewise.manager.objects import DemandingPod
from corewise.simulation.kubelets import SIMULATED_NODES, Kubelet, KubeletFleet, SimulatedNode
from corewise.simulation.machine_files import MachineFiles
from corewise.simulation.pod_cgroups import make_cgroups, remove_cgroups, running_containers
from corewise.simulation.pod_status import Need, Rejection, admit, rejected_status, running_status, together
from corewise.simulation.pods import batch_milli, memory_of
from corewise.vocabulary.names import BATCH_CPU, BATCH_MEMORY

_WORKERS = 16
_AGAIN_AFTER = 1.0
_FINISHED = frozenset({"Succeeded", "Failed"})
Key = tuple[str, str]


def need_of(pod: DemandingPod) -> Need:
    """Return what a pod takes of its node."""
    demand = demand_of(pod)
    containers = tuple(running_containers(pod))
    batch = {
        BATCH_CPU: sum(map(batch_milli, containers)),
        BATCH_MEMORY: sum(memory_of(each, BATCH_MEMORY) for each in containers),
    }
    extended = {name: amount for name, amount in batch.items() if amount > 0}
    return Need(pod_request(demand, "cpu").milli, pod_request(demand, "memory").units, extended)


def is_finished(pod: DemandingPod) -> bool:
    """Whether a pod has come to its end and holds nothing any more."""
    return pod.status.phase in _FINISHED


class PodKeeper:
    """Brings every pod that is bound to a simulated node to where its kubelet would."""

    def __init__(
        self,
        fleet: KubeletFleet,
        *,
        cached_node: Callable[[str], SimulatedNode | None],
        cached_pods: Mapping[object, DemandingPod],
        files: MachineFiles,
        clock: Clock,
        on_start: Callable[[str], None],
    ) -> None:
        """``on_start`` hears of each node on which a pod's cgroups have been made."""
        self._fleet = fleet
        self._cached_node = cached_node
        self._cached_pods = cached_pods
        self._files = files
        self._clock = clock
        self._on_start = on_start
        self._queue: asyncio.Queue[Key] = asyncio.Queue()
        self._queued: set[Key] = set()
        self._admitted: dict[str, dict[str, Need]] = defaultdict(dict)

    def changed(self, old: DemandingPod | None, new: DemandingPod | None) -> None:
        """Take note of a change of a pod."""
        pod = new or old
        if pod is None or pod.spec.node_name not in self._fleet.kubelets:
            return
        admitted = self._admitted[pod.spec.node_name]
        if (new is None or is_finished(new)) and pod.metadata.uid in admitted:
            del admitted[pod.metadata.uid]
            remove_cgroups(self._files.root(pod.spec.node_name), pod)
        if new is not None and not self.is_at_rest(new):
            self._enqueue((pod.metadata.namespace, pod.metadata.name))

    def is_at_rest(self, pod: DemandingPod) -> bool:
        """Whether a pod of a simulated node is where it belongs, its cgroups too."""
        if pod.metadata.deletion_timestamp is not None:
            return False
        running = pod.status.phase == "Running"
        return is_finished(pod) or (running and pod.metadata.uid in self._admitted[pod.spec.node_name])

    def _enqueue(self, key: Key) -> None:
        if key not in self._queued:
            self._queued.add(key)
            self._queue.put_nowait(key)

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(_WORKERS):
                tasks.create_task(self._work())

    async def _work(self) -> None:
        while True:
            key = await self._queue.get()
            self._queued.discard(key)
            pod = self._cached_pods.get(key)
            kubelet = self._fleet.kubelets.get(pod.spec.node_name) if pod else None
            if pod is None or kubelet is None or self.is_at_rest(pod):
                continue
            if not await self._fleet.attempt(partial(self._settle, kubelet, pod)):
                await self._clock.sleep(_AGAIN_AFTER)
                self._enqueue(key)

    async def _settle(self, kubelet: Kubelet, pod: DemandingPod) -> None:
        name, namespace = pod.metadata.name, pod.metadata.namespace
        counters = self._fleet.counters
        if pod.metadata.deletion_timestamp is not None:
            await kubelet.client.delete(PODS, name, namespace, uid=pod.metadata.uid, grace_period=0)
            counters.pods_deleted += 1
            return
        status = await self._status_of(kubelet, pod)
        if status is not None:
            await kubelet.client.patch(
                PODS,
                name,
                {"metadata": {"uid": pod.metadata.uid}, "status": status},
                type=PatchType.STRATEGIC,
                namespace=namespace,
                subresource="status",
            )

    async def _status_of(self, kubelet: Kubelet, pod: DemandingPod) -> dict[str, Any] | None:
        """Return the status to write, or None for a pod taken over from an earlier run: it runs already."""
        now = rfc3339(self._clock.now())
        admitted, need = self._admitted[kubelet.machine.name], need_of(pod)
        if pod.status.phase != "Running" and pod.metadata.uid not in admitted:
            rejection = self._check(kubelet, need, self._cached_node(kubelet.machine.name))
            if rejection is not None:
                # The scheduler may have seen the node grow before this watch has.
                node = await kubelet.client.get(SIMULATED_NODES, kubelet.machine.name)
                rejection = self._check(kubelet, need, node)
            if rejection is not None:
                self._fleet.counters.pods_rejected += 1
                return rejected_status(rejection, now=now)
        admitted[pod.metadata.uid] = need
        make_cgroups(self._files.root(kubelet.machine.name), pod)
        self._on_start(kubelet.machine.name)
        if pod.status.phase == "Running":
            return None
        self._fleet.counters.pods_started += 1
        return running_status(pod, host=kubelet.address, address=kubelet.address, now=now)

    def _check(self, kubelet: Kubelet, need: Need, node: SimulatedNode | None) -> Rejection | None:
        allocatable = node.status.get("allocatable", {}) if node else kubelet.machine.allocatable
        others = self._admitted[kubelet.machine.name].values()
        return admit(need, together(others), len(others), allocatable)
