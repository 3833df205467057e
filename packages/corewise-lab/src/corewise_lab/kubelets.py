"""Kubelet stand-ins: one for each simulated machine, each under its node's own identity.

Each one does what a kubelet does at the API: registers its Node, renews its Lease, reports status in the
form and at the times a kubelet does (:mod:`corewise_lab.kubelet_status`), and admits, runs, rejects
and finishes pods. One queue serves the pods of all nodes: an entry is a pod's key, and what to do follows
from the pod as it is now, so that entries may be lost or doubled without harm.

What differs from real ones, for the sake of thousands in a process: they share one watch of nodes and one
of pods, held by the cluster's administrator, where each kubelet has watches of its own objects; requests
share connections; and no more than ``concurrency`` are under way at once. Periods have random phases, so
that the load is even.

A pod whose restartPolicy is not Always ends, so that Jobs do. A container runs for N seconds if its command
ends in ``sleep N``, else for five seconds; ``false`` fails. Under OnFailure it is started again then.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec

from corewise.amplification import pod_request
from corewise.kube.client import Client, PatchType
from corewise.kube.clock import SYSTEM_CLOCK, Clock, rfc3339, rfc3339_micro
from corewise.kube.errors import (
    AlreadyExists,
    Forbidden,
    Invalid,
    KubeError,
    NotFound,
    ServerError,
    Unauthorized,
)
from corewise.kube.objects import NO_META, ObjectMeta, Struct
from corewise.kube.resources import LEASES, NODES, PODS, Resource
from corewise.ratios.nodes import demand_of
from corewise.vocabulary.names import BATCH_CPU, BATCH_MEMORY
from corewise.workload.pods import Container, Pod, PodSpec
from corewise_lab.kubelet_status import (
    Need,
    Rejection,
    StatusPatch,
    admit,
    compute_status,
    ended_status,
    has_changed,
    rejected_status,
    running_status,
    strategic_difference,
)
from corewise_lab.machine_files import MachineFiles
from corewise_lab.machines import Machine
from corewise_lab.node_cgroups import make_cgroups, remove_cgroups, running_containers
from corewise_lab.pods import amount_of
from corewise_lab.waiting import Failures

_WORKERS = 16
_LASTING = (Unauthorized, Forbidden, Invalid, ServerError)
_AGAIN_AFTER = 1.0
_FINISHED = frozenset({"Succeeded", "Failed"})
_RUN_SECONDS = 5.0
_SLEEP = re.compile(r"(?:.* )?sleep ([0-9]{1,6}(?:\.[0-9]{1,3})?)s?", re.DOTALL)
_FALSE = re.compile(r"(?:/\w+)*/?false")
Key = tuple[str, str]


class SimulatedContainer(Container, frozen=True):
    """core/v1 Container with its command."""

    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()

    @property
    def runs(self) -> str:
        return " ".join((*self.command, *self.args))


class SimulatedPodSpec(PodSpec, frozen=True):
    """core/v1 PodSpec with the fields that end a pod."""

    containers: tuple[SimulatedContainer, ...] = ()
    restart_policy: str = "Always"


class SimulatedPod(Pod, frozen=True):
    """core/v1 Pod as its kubelet needs it."""

    spec: SimulatedPodSpec = SimulatedPodSpec()


SIMULATED_PODS: Resource[SimulatedPod] = PODS.typed(SimulatedPod)


def need_of(pod: Pod) -> Need:
    """Return the amounts that a pod takes of its node."""
    demand = demand_of(pod)
    containers = tuple(running_containers(pod))
    return {
        "cpu": pod_request(demand, "cpu").milli,
        "memory": pod_request(demand, "memory").units,
        **{name: sum(amount_of(each, name) for each in containers) for name in (BATCH_CPU, BATCH_MEMORY)},
    }


def is_finished(pod: Pod) -> bool:
    """Whether a pod has ended and holds nothing."""
    return pod.status.phase in _FINISHED


class PodReconciler:
    """Does with the pods of simulated nodes what their kubelets would do."""

    def __init__(
        self,
        fleet: KubeletFleet,
        *,
        cached_node: Callable[[str], SimulatedNode | None],
        cached_pods: Mapping[object, SimulatedPod],
        files: MachineFiles,
        clock: Clock,
        on_start: Callable[[str], None],
    ) -> None:
        """``on_start`` is called with the node's name when a pod's cgroups have been made there."""
        self._fleet = fleet
        self._cached_node = cached_node
        self._cached_pods = cached_pods
        self._files = files
        self._clock = clock
        self._on_start = on_start
        self._queue: asyncio.Queue[Key] = asyncio.Queue()
        self._queued: set[Key] = set()
        self._admitted: dict[str, dict[str, Need]] = defaultdict(dict)
        self._tasks: asyncio.TaskGroup | None = None

    def changed(self, old: Pod | None, new: Pod | None) -> None:
        """Handle a change of a pod. A new list can show another pod in place of one of its name."""
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._release(old)
        if new is None or new.spec.node_name not in self._fleet.kubelets:
            return
        if is_finished(new):
            self._release(new)
        if not self.is_at_rest(new):
            self._enqueue((new.metadata.namespace, new.metadata.name))

    def _release(self, pod: Pod) -> None:
        """Have a pod that is gone or has ended take nothing of its node."""
        if self._admitted[pod.spec.node_name].pop(pod.metadata.uid, None) is not None:
            remove_cgroups(self._files.root(pod.spec.node_name), pod)

    def is_at_rest(self, pod: Pod) -> bool:
        """Whether nothing is left to do for a pod of a simulated node; its cgroups exist too."""
        if pod.metadata.deletion_timestamp is not None:
            return False
        running = pod.status.phase == "Running"
        return is_finished(pod) or (running and pod.metadata.uid in self._admitted[pod.spec.node_name])

    def _enqueue(self, key: Key) -> None:
        if key not in self._queued:
            self._queued.add(key)
            self._queue.put_nowait(key)

    async def run(self) -> None:
        """Work until canceled."""
        async with asyncio.TaskGroup() as self._tasks:
            for _ in range(_WORKERS):
                self._tasks.create_task(self._work())

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

    async def _settle(self, kubelet: Kubelet, pod: SimulatedPod) -> None:
        name, namespace = pod.metadata.name, pod.metadata.namespace
        if pod.metadata.deletion_timestamp is not None:
            await kubelet.client.delete(PODS, name, namespace, uid=pod.metadata.uid, grace_period=0)
            return
        status = await self._status_of(kubelet, pod)
        if status is not None:
            await self._write(kubelet, pod, status)
        if (
            self._tasks
            and pod.spec.restart_policy != "Always"
            and pod.metadata.uid in self._admitted[kubelet.machine.name]
        ):
            self._tasks.create_task(self._end(kubelet, pod))

    async def _write(self, kubelet: Kubelet, pod: Pod, status: dict[str, Any]) -> None:
        await kubelet.client.patch(
            PODS,
            pod.metadata.name,
            {"metadata": {"uid": pod.metadata.uid}, "status": status},
            type=PatchType.STRATEGIC,
            namespace=pod.metadata.namespace,
            subresource="status",
        )

    async def _end(self, kubelet: Kubelet, pod: SimulatedPod) -> None:
        """Let a pod run for its time and end; it is gone from ``_admitted`` if it was deleted meanwhile."""
        runs = [container.runs for container in pod.spec.containers]
        slept = [float(match[1]) if (match := _SLEEP.fullmatch(each)) else _RUN_SECONDS for each in runs]
        failed = any(_FALSE.fullmatch(each) for each in runs)
        again = failed and pod.spec.restart_policy == "OnFailure"
        for restarts in itertools.count(1):
            await self._clock.sleep(max(slept))
            now = rfc3339(self._clock.now())
            while pod.metadata.uid in self._admitted[kubelet.machine.name]:
                status = ended_status(pod, now=now, failed=failed, restarts=restarts if again else None)
                if await self._fleet.attempt(partial(self._write, kubelet, pod, status)):
                    break
                await self._clock.sleep(_AGAIN_AFTER)
            if not again or pod.metadata.uid not in self._admitted[kubelet.machine.name]:
                return

    async def _status_of(self, kubelet: Kubelet, pod: SimulatedPod) -> dict[str, Any] | None:
        """Return the status to write; None for a pod of an earlier run, which runs already."""
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
        return admit(need, self._admitted[kubelet.machine.name].values(), allocatable)


LEASE_NAMESPACE = "kube-node-lease"
LEASE_SECONDS = 40
_JITTER = 0.04
_FIRST_LEASE = 2.0
_NO_STATUS: StatusPatch = {}


class SimulatedNode(Struct, frozen=True):
    """core/v1 Node as its kubelet needs it: the status whole."""

    metadata: ObjectMeta = NO_META
    status: dict[str, Any] = msgspec.field(default_factory=dict)


SIMULATED_NODES = NODES.typed(SimulatedNode)


@dataclass(frozen=True, slots=True)
class Periods:
    """Seconds between status computations, between reports without a change, and between lease renewals."""

    status: float = 10.0
    report: float = 300.0
    lease: float = 10.0


@dataclass
class KubeletCounters:
    """The work of the kubelet stand-ins so far."""

    status_patches: int = 0
    status_patches_stored: int = 0
    lease_renewals: int = 0
    pods_started: int = 0
    pods_rejected: int = 0
    failures: int = 0
    last_failure: str = ""
    refusals: Failures = field(default_factory=Failures)
    """Those that do not pass by themselves: not allowed, not valid, or a webhook that does not answer."""


@dataclass
class Kubelet:
    """One node's stand-in; ``client`` has the node's identity."""

    machine: Machine
    client: Client
    address: str
    boot_id: str
    clock: Clock
    periods: Periods
    counters: KubeletCounters
    pressure: tuple[str, ...] = ()
    _reported: float = field(default=float("-inf"))
    _lease: dict[str, Any] | None = None

    async def register(self) -> None:
        """Create the Node with its first status, or take over the one that exists."""
        now = rfc3339(self.clock.now())
        status = self._status(_NO_STATUS, now)
        labels = {
            "kubernetes.io/hostname": self.machine.name,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": self.machine.architecture,
        }
        node = {"metadata": {"name": self.machine.name, "labels": labels}, "status": status}
        try:
            await self.client.create(SIMULATED_NODES, node)
            self._reported = self.clock.monotonic()
        except AlreadyExists:
            await self.report(await self.client.get(SIMULATED_NODES, self.machine.name))

    async def report(self, cached: SimulatedNode) -> bool:
        """Compute the status and send what differs from ``cached``, if it is time or anything changed.

        Returns whether a patch was sent.
        """
        now = rfc3339(self.clock.now())
        wanted = self._status(cached.status, now)
        due = self.clock.monotonic() - self._reported >= self.periods.report
        if not due and not has_changed(cached.status, wanted):
            return False
        answer = await self.client.patch(
            SIMULATED_NODES,
            self.machine.name,
            {"status": strategic_difference(cached.status, wanted)},
            type=PatchType.STRATEGIC,
            subresource="status",
        )
        self._reported = self.clock.monotonic()
        self.counters.status_patches += 1
        if answer.metadata.resource_version != cached.metadata.resource_version:
            self.counters.status_patches_stored += 1
        return True

    def _status(self, cached: StatusPatch, now: str) -> StatusPatch:
        return compute_status(
            cached, self.machine, address=self.address, now=now, pressure=self.pressure, boot_id=self.boot_id
        )

    async def renew_lease(self, node_uid: str) -> None:
        """Renew the node's lease; create it if there is none."""
        name = self.machine.name
        renewed = rfc3339_micro(self.clock.now())
        leases: Resource[dict[str, Any]] = LEASES.typed(dict)
        if self._lease is not None:
            body = {**self._lease, "spec": {**self._lease["spec"], "renewTime": renewed}}
            self._lease = None  # read again, should this fail
            self._lease = await self.client.replace(leases, name, body, LEASE_NAMESPACE)
        else:
            owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node_uid}
            spec = {"holderIdentity": name, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": renewed}
            lease = {"metadata": {"name": name, "ownerReferences": [owner]}, "spec": spec}
            try:
                self._lease = await self.client.create(leases, lease, LEASE_NAMESPACE)
            except AlreadyExists:
                self._lease = await self.client.get(leases, name, LEASE_NAMESPACE)
        self.counters.lease_renewals += 1


class KubeletFleet:
    """The kubelets of all machines, and their loops."""

    def __init__(
        self,
        client: Client,
        machines: Iterable[Machine],
        *,
        cached_node: Callable[[str], SimulatedNode | None],
        boot_id: Callable[[str], str],
        periods: Periods | None = None,
        clock: Clock = SYSTEM_CLOCK,
        concurrency: int = 32,
        seed: int = 0,
    ) -> None:
        self.counters = KubeletCounters()
        self.periods = periods or Periods()
        self._cached_node = cached_node
        self._clock = clock
        self._slots = asyncio.Semaphore(concurrency)
        self._random = random.Random(seed)  # noqa: S311 - phases of periods, guards nothing
        self.kubelets: Mapping[str, Kubelet] = {
            machine.name: Kubelet(
                machine=machine,
                client=client.as_user(f"system:node:{machine.name}", ["system:nodes"]),
                address=f"10.{index >> 16 & 255}.{index >> 8 & 255}.{index & 255}",
                boot_id=boot_id(machine.name),
                clock=clock,
                periods=self.periods,
                counters=self.counters,
            )
            for index, machine in enumerate(machines, 1)
        }

    async def register(self) -> None:
        """Register every node.

        Raises:
            KubeError: if a node cannot be registered.
        """
        async with asyncio.TaskGroup() as tasks:
            for kubelet in self.kubelets.values():
                tasks.create_task(self._in_turn(kubelet.register))

    async def run(self) -> None:
        """Report status and renew leases until canceled."""
        async with asyncio.TaskGroup() as tasks:
            for kubelet in self.kubelets.values():
                report, renew = partial(self._report, kubelet), partial(self._renew, kubelet)
                tasks.create_task(self._every(self.periods.status, report, within=self.periods.status))
                tasks.create_task(self._every(self.periods.lease, renew, within=_FIRST_LEASE))

    async def _every(self, period: float, act: Callable[[], Any], *, within: float) -> None:
        """Call ``act`` every period, the first time at a random moment ``within`` so many seconds."""
        await self._clock.sleep(min(period, within) * self._random.random())
        while True:
            await self.attempt(act)
            await self._clock.sleep(period * self._random.uniform(1, 1 + _JITTER))

    async def _report(self, kubelet: Kubelet) -> None:
        cached = self._cached_node(kubelet.machine.name)
        if cached is not None:
            await kubelet.report(cached)

    async def _renew(self, kubelet: Kubelet) -> None:
        cached = self._cached_node(kubelet.machine.name)
        if cached is not None:
            await kubelet.renew_lease(cached.metadata.uid)

    async def _in_turn(self, act: Callable[[], Any]) -> None:
        async with self._slots:
            await act()

    async def attempt(self, act: Callable[[], Any]) -> bool:
        """Send requests in turn; count a failure, and leave it to the next period."""
        try:
            await self._in_turn(act)
        except NotFound:
            return False  # the object was deleted meanwhile
        except KubeError as error:
            self.counters.failures += 1
            self.counters.last_failure = str(error)
            if isinstance(error, _LASTING):
                self.counters.refusals.note(error)
            return False
        return True
