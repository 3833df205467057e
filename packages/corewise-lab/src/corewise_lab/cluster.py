"""A running local cluster: control plane as children; kubelets, agents and their pods in this process.

    async with local_cluster(plan, folder) as cluster:   # corewise is off: no configuration, no manager
        await cluster.load()
        off = await cluster.snapshot()
        await cluster.turn_on()
        await cluster.settle(timeout=60)
        on = await cluster.snapshot()

Nodes, pods, leases and topologies are objects of the API from the first moment on, and what is measured comes
from what the API holds, read back through watches. A child that dies ends the block with a ClusterError.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from corewise.config.interference.model import InterferenceConfiguration
from corewise.kube.cache import Cache
from corewise.kube.client import Client
from corewise.kube.clock import SYSTEM_CLOCK
from corewise.kube.config import load_config
from corewise.kube.errors import AlreadyExists, NotFound
from corewise.kube.objects import ConfigMap
from corewise.kube.resources import (
    CONFIG_MAPS,
    EVENTS,
    MUTATING_POLICIES,
    MUTATING_POLICY_BINDINGS,
    MUTATING_WEBHOOKS,
    NODE_RESOURCE_TOPOLOGIES,
    NODES,
    PODS,
)
from corewise.scheduler.configuration import parse_configuration
from corewise.vocabulary.names import AMPLIFICATION_RATIO, CONFIG_NAME, CONFIG_NAMESPACE
from corewise.vocabulary.qos import QoSRules
from corewise.workload.pods import WORKLOAD_PODS, Pod
from corewise_lab import control_plane
from corewise_lab.agents import AgentFleet, NodeSimulations
from corewise_lab.control_plane import Child, running
from corewise_lab.filling import GroupPods
from corewise_lab.kubelets import (
    SIMULATED_NODES,
    SIMULATED_PODS,
    KubeletFleet,
    Periods,
    PodReconciler,
    SimulatedNode,
    SimulatedPod,
    is_finished,
)
from corewise_lab.local_scheduler import LocalScheduler
from corewise_lab.machine_files import MachineFiles
from corewise_lab.measurement import ClusterMeasurement, Verdict, by_node, is_settled, view_node
from corewise_lab.node_memory import MemoryWatch
from corewise_lab.plan import Plan
from corewise_lab.resource_metrics import DEFINITIONS, ResourceMetrics
from corewise_lab.waiting import Stall, Waits

_POLL = 0.1
_VERDICT_POLL = 1.0
_CONCURRENCY = 32


@dataclass(frozen=True, slots=True)
class Clients:
    """The clients of the programs in this process; each may have a way of its own to the API server."""

    kubelets: Client
    agents: Client
    scheduler: Client


class LocalCluster:
    """A running cluster; :func:`local_cluster` makes it.

    ``client`` is the administrator's; ``clients``: those of the others, if they have their own.
    """

    def __init__(
        self, plan: Plan, client: Client, folder: Path, periods: Periods, clients: Clients | None = None
    ) -> None:
        clients = clients or Clients(client, client, client)
        self.plan = plan
        self.client = client
        self.machines = {machine.name: machine for machine in plan.machines}
        self.node_writes = 0
        self.children: dict[str, Child] = {}
        self.was_on = False
        """Whether corewise had been turned on already in the state that the API server kept."""
        self._nodes = Cache(clients.kubelets, SIMULATED_NODES, on_change=self._node_changed)
        self._pods = Cache(
            clients.kubelets,
            SIMULATED_PODS,
            field_selector="spec.nodeName!=",
            on_change=self._pod_changed,
        )
        self.files = MachineFiles(folder)
        roots = {machine.name: self.files.make(machine) for machine in plan.machines}
        self.kubelets = KubeletFleet(
            clients.kubelets,
            plan.machines,
            cached_node=self._nodes.get,
            boot_id=self.files.boot_id,
            periods=periods,
        )
        agent, groups = control_plane.account_identity(
            control_plane.AGENT_NAMESPACE, control_plane.AGENT_NAME
        )
        self.agents = AgentFleet(
            clients.agents.as_user(agent, groups),
            roots,
            self.kubelets,
            rules=QoSRules(frozenset(plan.qos_namespaces)),
            clock=SYSTEM_CLOCK,
        )
        self._agents_task: asyncio.Task[None] | None = None
        self._agents_wanted = asyncio.Event()
        self._agents_wanted.set()
        self._reconciler = PodReconciler(
            self.kubelets,
            cached_node=self._nodes.get,
            cached_pods=cast("Mapping[object, SimulatedPod]", self._pods.items),
            files=self.files,
            clock=SYSTEM_CLOCK,
            on_start=self.agents.look_at,
        )
        self.scheduler = LocalScheduler(clients.scheduler, clock=SYSTEM_CLOCK)
        self.waits = Waits(
            (self.kubelets.counters.refusals, self.scheduler.failures),
            lambda: {name: child.log for name, child in self.children.items()},
        )
        self.interference = parse_configuration(plan.scheduler).interference
        label = (self.interference or InterferenceConfiguration()).type_label
        self.memory = MemoryWatch(plan.machines, self.files, self._bound_pods, label)
        self._group_pods = GroupPods(plan)
        self._config: tuple[ConfigMap, ...] = ()
        self.simulations = NodeSimulations(self.machines, self.files, self.agents, lambda: by_node(self.pods))
        self.metrics = ResourceMetrics(
            client, self.simulations, nodes=lambda: self.nodes, pods=lambda: by_node(self.pods)
        )

    def _node_changed(self, old: SimulatedNode | None, new: SimulatedNode | None) -> None:
        if old is not None and new is not None:
            self.node_writes += 1

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        self._reconciler.changed(old, new)

    @property
    def nodes(self) -> list[SimulatedNode]:
        """The simulated nodes as the API holds them."""
        return [node for name in self.machines if (node := self._nodes.get(name)) is not None]

    @property
    def pods(self) -> list[Pod]:
        return list(self._pods.items.values())

    @property
    def rejected(self) -> list[Pod]:
        """The pods that kubelets rejected: their nodes have no room for them."""
        return [pod for pod in self._bound_pods() if pod.status.phase == "Failed"]

    def loops(self) -> list[Callable[[], Coroutine[Any, Any, None]]]:
        """The loops that run as long as the cluster does."""
        kubelets = [self._nodes.run, self._pods.run, self.kubelets.run, self._reconciler.run]
        return [*kubelets, self._run_agents, self.scheduler.run]

    async def _run_agents(self) -> None:
        """Run the agents, whenever they are wanted."""
        while True:
            await self._agents_wanted.wait()
            async with asyncio.TaskGroup() as tasks:
                self._agents_task = tasks.create_task(self.agents.run())

    def start_agents(self) -> None:
        self._agents_wanted.set()

    def stop_agents(self) -> None:
        """Stop the agents, as an outage does: what they have written stays."""
        self._agents_wanted.clear()
        if self._agents_task:
            self._agents_task.cancel()

    async def load(self) -> None:
        """Create nodes and pods, and wait until they are in place."""
        await self.waits.until("the list of nodes", self._nodes.synced.is_set)
        await self.kubelets.register()
        await self._all(  # labels of the plan, which a kubelet may not set all by itself
            self._patch_node(name, {"labels": dict(machine.labels)})
            for name, machine in self.machines.items()
            if machine.labels
        )
        await self._count("agents to report their machines", lambda: self.agents.reported)
        topologies = self.scheduler.state.topologies.items
        await self._count("the scheduler to see the machines", lambda: len(topologies))
        for namespace in sorted({pod["metadata"]["namespace"] for pod in self.plan.pods} - {"default"}):
            await control_plane.ensure_namespace(self.client, namespace)
        await self._create_pods(self.plan.pods)
        await self.fill()

    async def has_config(self) -> bool:
        """Whether the ConfigMap that turns corewise on exists."""
        try:
            await self.client.get(CONFIG_MAPS, CONFIG_NAME, CONFIG_NAMESPACE)
        except NotFound:
            return False
        return True

    async def _patch_node(self, name: str, metadata: dict[str, Any]) -> None:
        await self.client.patch(NODES, name, {"metadata": metadata})

    async def fill(self) -> int:
        """Create the pods that the groups call for, have all pods scheduled; return how many were created."""
        await self._count("the nodes to be registered", lambda: len(self.nodes))
        await self.waits.ending("the scheduler to see the nodes", self.scheduler.have_seen(self.nodes))
        self.scheduler.try_all()
        pods = self._group_pods.due(self.nodes)
        await self._create_pods(pods)
        await self.waits.until(
            "the scheduler to try every pod",
            lambda: self.scheduler.is_idle,
            progress=lambda: self.scheduler.answered,
        )
        return len(pods)

    async def rearrange(self) -> None:
        """Delete the online pods of the groups; ``fill`` creates and places them again."""
        groups = {group.name for group in self.plan.groups if not group.offline}
        every = (pod.metadata for pod in self.scheduler.state.pods.items.values())
        await self._delete_pods(
            [(each.namespace, each.name) for each in every if each.labels.get("app") in groups]
        )
        self._group_pods = GroupPods(self.plan)

    async def try_rejected(self) -> None:
        """Recreate the plan's pods that kubelets rejected: some fit on amplified nodes only."""
        rejected = {(pod.metadata.namespace, pod.metadata.name) for pod in self.rejected}
        again = [pod for pod in self.plan.pods if _key(pod) in rejected]
        await self._delete_pods([_key(pod) for pod in again])
        await self._create_pods(again)

    async def _delete_pods(self, keys: Sequence[tuple[str, str]]) -> None:
        pods = self.scheduler.state.pods.items
        await self._all(self.client.delete(PODS, name, space, grace_period=0) for space, name in keys)
        left = list(keys)

        def gone() -> bool:
            while left and not (left[-1] in pods or left[-1] in self._pods.items):
                left.pop()
            return not left

        await self.waits.until("pods to be deleted", gone, progress=lambda: (len(left), len(pods)))

    async def _create_pods(self, pods: Iterable[dict[str, Any]]) -> None:
        """Create pods and wait until each of them runs, was refused by its kubelet, or fits nowhere.

        Those without a node are scheduled when all are there, in the order given.
        """
        pods = list(pods)
        unplaced = [_key(pod) for pod in pods if "nodeName" not in pod["spec"]]
        self.scheduler.hold(unplaced)
        created: list[Pod] = []
        await self._all(self._create_pod(pod, created) for pod in pods)
        await self.scheduler.release(unplaced, (pod for pod in created if not pod.spec.node_name))
        left = [_key(pod) for pod in reversed(pods)]

        def placed() -> bool:
            while left and self._is_placed(left[-1]):
                left.pop()
            return not left

        await self.waits.until(
            "pods to be scheduled and started",
            placed,
            progress=lambda: (len(left), self.scheduler.answered, self.kubelets.counters.pods_started),
        )

    async def _create_pod(self, pod: dict[str, Any], created: list[Pod]) -> None:
        try:
            created.append(await self.client.create(WORKLOAD_PODS, pod, pod["metadata"]["namespace"]))
        except AlreadyExists:
            return

    def _is_placed(self, key: tuple[str, str]) -> bool:
        pod = self._pods.items.get(key)
        if pod is None:
            return self.scheduler.has_refused(key)
        return pod.status.phase == "Running" or is_finished(pod)

    async def turn_on(self) -> None:
        """Write the configuration, and give users' own labels and annotations about corewise back.

        In a cluster that was on already, all of that is there, and stays as it is.
        """
        if self.was_on:
            return
        await control_plane.ensure_namespace(self.client, CONFIG_NAMESPACE)
        body = {"metadata": {"name": CONFIG_NAME}, "data": dict(self.plan.config)}
        self._config = (await self.client.create(CONFIG_MAPS, body, CONFIG_NAMESPACE),)
        await self._all(
            self._patch_node(name, {"labels": dict(own.labels), "annotations": dict(own.annotations)})
            for name, own in self.plan.when_on.items()
        )

    async def installed(self, policy: str, url: str) -> None:
        """Wait until the API server has a program's policy, bound, or its webhook at this address."""
        await self.waits.ending(f"policy {policy}, or its webhook", self._installed(policy, url))

    async def _installed(self, policy: str, url: str) -> None:
        served = await self.client.serves(MUTATING_POLICIES)
        while True:  # no event says when
            if served:
                bindings = await self.client.list(MUTATING_POLICY_BINDINGS)  # they come after their policies
                if any(each.metadata.name == policy for each in bindings.items):
                    return
            listing = await self.client.list(MUTATING_WEBHOOKS)
            hooks = [hook for configuration in listing.items for hook in configuration.webhooks]
            if any((hook.client_config.url or "").startswith(url) for hook in hooks):
                return
            await asyncio.sleep(_POLL)

    async def settle(self, *, timeout: float) -> list[str]:  # noqa: ASYNC109 - the nodes left are the answer
        """Wait until the manager has brought every node to its ratios, or said why not.

        Returns the nodes that are neither after ``timeout`` seconds.

        Raises:
            ClusterError: if something keeps all that have a ratio to apply from it.
        """
        now = asyncio.get_running_loop().time
        deadline, asked = now() + timeout, now()
        pending, amplified = list(self.machines), 0
        stall = Stall(self.waits, "the manager to amplify the nodes", lambda: amplified)
        self.waits.show(stall.text)
        while pending and now() < deadline:
            await asyncio.sleep(_POLL)
            stall.check(fatal=not amplified)
            settled = [node for name in pending if (node := self._nodes.get(name)) and is_settled(node)]
            pending = sorted({*pending} - {node.metadata.name for node in settled})
            # one whose ratios are all 1.00 is settled as soon as they are written, without a policy
            amplified += sum(AMPLIFICATION_RATIO in node.metadata.annotations for node in settled)
            if pending and now() - asked >= _VERDICT_POLL:
                asked = now()
                stall.what = f"the manager to amplify the nodes, {len(pending)} of {len(self.machines)} left"
                self.waits.show(stall.text)
                verdicts = await self._verdicts()
                pending = [name for name in pending if name not in verdicts]
        return pending

    async def _verdicts(self) -> dict[str, Verdict]:
        """Return the last Warning Event of each node."""
        events = await self.client.list(EVENTS, field_selector="involvedObject.kind=Node,type=Warning")
        ordered = sorted(events.items, key=lambda event: event.last_timestamp or "")
        return {event.involved_object.name: Verdict(event.reason, event.message) for event in ordered}

    async def agents_done(self) -> None:
        """Wait until the agents have seen what the API holds now, and have acted on it."""
        await self.waits.until(
            "kubelets to start and stop their pods",
            lambda: all(map(self._reconciler.is_at_rest, self._bound_pods())),
            progress=lambda: self.kubelets.counters.pods_started,
        )
        seen = self.agents.have_seen(self.nodes, self._bound_pods(), self._config)
        await self.waits.ending("agents to see nodes and pods", seen)
        await self.waits.until(
            "agents to write quotas",
            lambda: not self.agents.unanswered,
            progress=lambda: self.agents.unanswered,
        )

    def _bound_pods(self) -> list[Pod]:
        return [pod for pod in self.pods if pod.spec.node_name in self.machines]

    async def snapshot(self) -> ClusterMeasurement:
        """Return all nodes, and their simulated compute under the quotas in their cgroups."""
        await self.agents_done()
        listing = await self.client.list(NODE_RESOURCE_TOPOLOGIES)
        topologies = {topology.metadata.name: topology for topology in listing.items}
        verdicts = await self._verdicts()
        pods = by_node(self.pods)
        views = []
        for node in self.nodes:
            name = node.metadata.name
            view = view_node(
                node,
                self.machines[name],
                pods.get(name, []),
                root=self.files.root(name),
                topology=topologies.get(name),
                verdict=None if is_settled(node) else verdicts.get(name),
            )
            views.append(view)
            await asyncio.sleep(0)  # thousands of nodes take a while, and heartbeats go on
        return ClusterMeasurement(tuple(views), rejected=len(self.rejected))

    async def _count(self, what: str, number: Callable[[], int]) -> None:
        """Wait until a number has reached the number of machines."""
        await self.waits.until(what, lambda: number() >= len(self.machines), progress=number)

    async def _all(self, requests: Iterable[Awaitable[object]]) -> None:
        """Send many requests, a bounded number at once; the first failure ends it."""
        left = iter(requests)

        async def one_after_the_other() -> None:
            for request in left:
                await request

        async with asyncio.TaskGroup() as tasks:
            for _ in range(_CONCURRENCY):
                tasks.create_task(one_after_the_other())


def _key(pod: dict[str, Any]) -> tuple[str, str]:
    return pod["metadata"]["namespace"], pod["metadata"]["name"]


@asynccontextmanager
async def local_cluster(
    plan: Plan, folder: control_plane.Folder, *, periods: Periods | None = None
) -> AsyncIterator[LocalCluster]:
    """Run a cluster, with corewise off unless a kept state had it on; nodes and pods come with load().

    Raises:
        ClusterError: if a child dies or the control plane does not come up.
        KubeError: if the API refuses a part of the plan.
    """
    async with (
        control_plane.api_server(folder) as server,
        Client(load_config(str(folder.kubeconfig))) as client,
    ):
        await control_plane.install(client, [*control_plane.shipped_manifests(), *DEFINITIONS])
        cluster = LocalCluster(plan, client, folder.path / "machines", periods or Periods())
        cluster.children["apiServer"] = server
        async with running(*cluster.loops()):
            cluster.was_on = await cluster.has_config()
            yield cluster
