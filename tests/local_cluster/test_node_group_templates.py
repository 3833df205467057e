"""What a node group's template states decides how many machines an autoscaler buys, and for which pods.

Neither Cluster Autoscaler nor Karpenter runs here. ``Autoscaler`` does what their documentation and source
say of templates; whether a pod fits a node is decided by the local cluster's kube-scheduler, and nodes that
join are amplified by the real manager. docs/guides/autoscaling.md tells these results.

Machines have 8 CPUs, 7.5 of them allocatable, and ratio 1.50: 11.25 CPUs to schedule by.

| pods                                     | machines needed |
|------------------------------------------|-----------------|
| 6 of 5.5 CPUs, two on a machine          | 3               |
| 22 of 1 CPU, 11 on a machine             | 2               |
| 1 of 10 CPUs, more than the raw machine  | 1               |
| 1 of 11.5 CPUs, fits 8 x 1.50, not 11.25 | none is enough  |
"""

from __future__ import annotations

import json
import sys
from asyncio import create_subprocess_exec
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from corewise.engine import Cluster, NodeFacts, Unschedulable, place
from corewise.engine.assembly import kube_scheduler
from corewise.engine.reading import placement as stated_placement
from corewise.engine.reading import pod_facts, read_node_facts
from corewise.kube.clock import SYSTEM_CLOCK
from corewise.kube.resources import NODES
from corewise.vocabulary.names import BATCH_CPU
from corewise.workload.nodes import Node
from corewise.workload.pods import WORKLOAD_PODS, Pod
from corewise_lab.control_plane import running
from corewise_lab.local_scheduler import LocalScheduler
from kubedouble import LocalAPIServer
from manager.world import FAST, PLAIN_NODES, World, eventually, normalization, small_cluster
from scheduler.program_world import PLAIN_PODS, pod_document

CLUSTER_API = "capacity.cluster-autoscaler.kubernetes.io/"
AWS = "k8s.io/cluster-autoscaler/node-template/resources/"
STARTUP_TAINT = "startup-taint.cluster-autoscaler.kubernetes.io/"
RAW, ALLOCATABLE, AMPLIFIED = "8", "7500m", "11250m"
MEMORY = "16Gi"


class Autoscaler:
    """Reads a cluster as Cluster Autoscaler does; ``stated``: annotations or tags of its only node group.

    A group is simulated by a Node that has been Ready for a minute. Without one, by its template: the
    machine's amounts, those instead that are stated, and allocatable is all of it. A Node with a startup
    taint has not started: the template stands in its place. Pods that fit no Node, the largest first, get new
    nodes until all fit, but those that do not even fit an empty one.
    """

    def __init__(self, world: World, **stated: str) -> None:
        self._world = world
        self.stated = stated

    def template(self, name: str) -> dict[str, Any]:
        amounts = {"cpu": RAW, "memory": MEMORY, "pods": "110"}
        for prefix in (CLUSTER_API, AWS):
            amounts |= {
                key.removeprefix(prefix): value
                for key, value in self.stated.items()
                if key.startswith(prefix)
            }
        return {"metadata": {"name": name}, "status": {"capacity": amounts, "allocatable": amounts}}

    async def wants(self, young: Collection[str] = ()) -> int:
        """Return the number of machines to buy now. ``young``: Nodes that became Ready a moment ago."""
        nodes = await self._world.client.list(PLAIN_NODES)
        started = [each for each in nodes if not _is_starting(each)]
        grown = [each for each in started if each["metadata"]["name"] not in young]
        starting = [self.template(each["metadata"]["name"]) for each in nodes if _is_starting(each)]
        pods = await self._world.client.list(WORKLOAD_PODS)
        cluster = simulated([*started, *starting], pods)
        waiting = sorted((each for each in pods if not each.spec.node_name), key=_cpu, reverse=True)
        bought = 0
        for pod in waiting:
            if fits(cluster, pod):
                continue
            name = f"bought-{bought}"
            like = {**grown[0], "metadata": {"name": name}} if grown else self.template(name)
            cluster.put_node(node_facts(like))
            if fits(cluster, pod):
                bought += 1
            else:
                cluster.remove_node(name)
        return bought

    async def surplus(self) -> list[str]:
        """Return the Nodes that can go one after the other, since all their pods fit the rest as it is."""
        nodes = await self._world.client.list(PLAIN_NODES)
        pods = await self._world.client.list(WORKLOAD_PODS)
        gone: list[str] = []
        for name in sorted(each["metadata"]["name"] for each in nodes):
            left = [each for each in nodes if each["metadata"]["name"] not in {name, *gone}]
            homeless = {pod.metadata.uid for pod in pods if pod.spec.node_name in {name, *gone}}
            cluster = simulated(left, (pod for pod in pods if pod.metadata.uid not in homeless))
            if all(fits(cluster, pod) for pod in pods if pod.metadata.uid in homeless):
                gone.append(name)
        return gone


def simulated(nodes: Iterable[Mapping[str, Any]], pods: Iterable[Pod]) -> Cluster:
    """A cluster for the engine: nodes, and the pods that have one."""
    cluster = Cluster()
    for node in nodes:
        cluster.put_node(node_facts(node))
    for pod in pods:
        if pod.spec.node_name:
            cluster.put_pod(pod_facts(pod), stated_placement(pod)[0])
    return cluster


def node_facts(node: Mapping[str, Any]) -> NodeFacts:
    return read_node_facts(msgspec.convert(node, Node), None).facts


def fits(cluster: Cluster, pod: Pod) -> bool:
    """Whether kube-scheduler finds the pod a node; if so, it is there."""
    facts = pod_facts(pod)
    placement = place(kube_scheduler(), cluster, facts)
    if isinstance(placement, Unschedulable):
        return False
    cluster.put_pod(facts, placement)
    return True


def _is_starting(node: Mapping[str, Any]) -> bool:
    return any(each["key"].startswith(STARTUP_TAINT) for each in node.get("spec", {}).get("taints", ()))


def _cpu(pod: Pod) -> int:
    return pod_facts(pod).cpu


@pytest.fixture
async def world(api_server: LocalAPIServer, tmp_path: Path) -> AsyncIterator[World]:
    """A cluster with the manager, and a ratio of 1.50 for its machines, and a scheduler."""
    async with small_cluster(api_server, tmp_path) as world:
        await world.configure(normalization=normalization(models={FAST: {"baseRatio": 1.5}}))
        async with world.manager(), running(LocalScheduler(world.client, clock=SYSTEM_CLOCK).run):
            await world.installed()
            yield world


async def join(world: World, *names: str, taint: str = "") -> None:
    """Machines join as kubelet has them join: raw."""
    taints = [{"key": taint, "effect": "NoSchedule"}] if taint else []
    for name in names:
        await world.client.create(PLAIN_NODES, {"metadata": {"name": name}, "spec": {"taints": taints}})
        await world.kubelet_writes(name, cpu=RAW, allocatable=ALLOCATABLE)


async def amplify(world: World, *names: str) -> None:
    """The agent of each node reports its model, and kubelet goes on with its status."""
    for name in names:
        await world.report(name, model=FAST)

        async def amplified(name: str = name) -> bool:
            answer = await world.kubelet_writes(name, cpu=RAW, allocatable=ALLOCATABLE)
            return bool(answer["status"]["allocatable"]["cpu"] == AMPLIFIED)

        await eventually(amplified)


async def wait(world: World, *requests: str, resource: str = "cpu", name: str = "pod") -> None:
    """Create pods, and wait until the scheduler has refused all of them."""
    for index, request in enumerate(requests):
        document = pod_document(f"{name}-{index}", cpu=None)
        amounts = {resource: request}
        document["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
        await world.client.create(PLAIN_PODS, document, "default")

    async def refused() -> bool:
        waiting = [
            pod for pod in await world.client.list(PLAIN_PODS) if pod["metadata"]["name"].startswith(name)
        ]
        conditions = [pod["status"].get("conditions") or [] for pod in waiting]
        return all(any(each.get("reason") == "Unschedulable" for each in of_one) for of_one in conditions)

    await eventually(refused)


async def nodes_of_pods(world: World) -> list[str]:
    """The nodes of all pods; "" of those that wait."""
    return [pod.spec.node_name for pod in await world.client.list(WORKLOAD_PODS)]


async def all_run(world: World) -> None:
    async def run() -> bool:
        return all(await nodes_of_pods(world))

    await eventually(run)


SIX, MANY, LARGE, TOO_LARGE = ("5500m",) * 6, ("1",) * 22, ("10",), ("11500m",)
NOTHING: dict[str, str] = {}
BY_CLUSTER_API, BY_AWS = {f"{CLUSTER_API}cpu": AMPLIFIED}, {f"{AWS}cpu": AMPLIFIED}
CAPACITY = {f"{AWS}cpu": "12"}


@pytest.mark.parametrize(
    ("stated", "pods", "bought", "surplus"),
    [
        pytest.param(NOTHING, SIX, 6, 3, id="raw: one pod a machine, twice as many machines as needed"),
        pytest.param(BY_CLUSTER_API, SIX, 3, 0, id="Cluster API: the right number"),
        pytest.param(BY_AWS, SIX, 3, 0, id="AWS: the right number"),
        pytest.param(NOTHING, MANY, 3, 1, id="raw: small pods, 1.50 times as many machines"),
        pytest.param(BY_AWS, MANY, 2, 0, id="AWS: small pods, the right number"),
        pytest.param(BY_CLUSTER_API, LARGE, 1, 0, id="Cluster API: a pod that fits only an amplified node"),
    ],
)
async def test_empty_group_scales_correctly_only_with_amplified_template(
    world: World, stated: dict[str, str], pods: tuple[str, ...], bought: int, surplus: int
) -> None:
    """Surplus machines can go once their nodes are amplified: Karpenter's consolidation finds that."""
    autoscaler = Autoscaler(world, **stated)
    await wait(world, *pods)
    assert await autoscaler.wants() == bought
    names = [f"n{index}" for index in range(bought)]
    await join(world, *names)
    await amplify(world, *names)
    await all_run(world)
    assert await autoscaler.wants() == 0
    assert len(await autoscaler.surplus()) == surplus


@pytest.mark.parametrize(
    ("stated", "pods", "bought"),
    [
        pytest.param(NOTHING, LARGE, 0, id="raw amounts: no machine for a pod that fits an amplified node"),
        pytest.param(
            CAPACITY, TOO_LARGE, 1, id="amplified capacity: a machine for a pod that does not fit it"
        ),
        pytest.param(BY_AWS, TOO_LARGE, 0, id="amplified allocatable: no machine for a pod that fits none"),
    ],
)
async def test_raw_or_capacity_template_leaves_pod_pending_forever(
    world: World, stated: dict[str, str], pods: tuple[str, ...], bought: int
) -> None:
    await wait(world, *pods)
    autoscaler = Autoscaler(world, **stated)
    assert await autoscaler.wants() == bought
    for index in range(bought):
        await join(world, f"n{index}")
        await amplify(world, f"n{index}")
    assert await nodes_of_pods(world) == [""]


async def test_a_group_with_a_node_needs_no_template(world: World) -> None:
    await join(world, "n0")
    await amplify(world, "n0")
    await world.client.create(PLAIN_PODS, pod_document("taken", cpu=AMPLIFIED), "default")
    await all_run(world)
    await wait(world, *SIX)
    assert await Autoscaler(world).wants() == 3


async def test_unamplified_node_triggers_overscaling_without_a_startup_taint(
    world: World,
) -> None:
    autoscaler = Autoscaler(world, **BY_CLUSTER_API)
    await wait(world, *LARGE)
    assert await autoscaler.wants() == 1
    await join(world, "n0")
    assert await autoscaler.wants(young={"n0"}) == 1, "of the template: one that is not needed"
    assert await autoscaler.wants() == 0, "a minute later it takes the raw Node for the template"
    await world.client.delete(NODES, "n0")

    await join(world, "n1", taint=f"{STARTUP_TAINT}corewise")
    assert await autoscaler.wants(young={"n1"}) == 0
    await amplify(world, "n1")
    await world.client.patch(PLAIN_NODES, "n1", {"spec": {"taints": None}})
    await all_run(world)


async def test_waiting_offline_pods_scale_only_batch_cpu_groups(
    world: World,
) -> None:
    await wait(world, "3000", resource=BATCH_CPU)
    assert await Autoscaler(world, **BY_AWS).wants() == 0
    await join(world, "n0")
    offer = {"status": {"allocatable": {BATCH_CPU: "4000"}, "capacity": {BATCH_CPU: "4000"}}}
    await world.client.patch(PLAIN_NODES, "n0", offer, subresource="status")
    await all_run(world)
    await wait(world, "3000", resource=BATCH_CPU, name="another")
    assert await Autoscaler(world, **BY_AWS).wants() == 1


async def test_template_values_are_those_corewise_nodes_shows(world: World, tmp_path: Path) -> None:
    await join(world, "n0")
    await amplify(world, "n0")
    world.server.write_kubeconfig(tmp_path / "kubeconfig")
    command = ["nodes", "--kubeconfig", str(tmp_path / "kubeconfig"), "-o", "json"]
    process = await create_subprocess_exec(sys.executable, "-m", "corewise", *command, stdout=PIPE)
    output, _ = await process.communicate()
    (shown,) = json.loads(output)["items"]
    assert f"{shown['schedulableCPUMilli']}m" == AMPLIFIED
