"""The tree of cgroups of one simulated machine, as the plant divides its CPUs: read from files and pods.

Quotas are those that stand in the tree, at every level: kubelet's, or what the agent has made of them.
Weights are those that stand there, and where nothing stands, kubelet's: with ``shares(r) = r milli-CPU x
1024 / 1000``, at least 2, turned into a v2 weight as runtimes do,

    container   by its request, 1 without one          pod     by the sum of its containers
    burstable   by the sum of its pods                 best effort   1

Guaranteed pods stand beside the two slices. A pod that owns CPUs (``resource-status``) is confined to them,
and all others to the CPUs that nobody owns, if any are left.

A container's demand is its load times what it requests, in baseline CPUs: for an offline pod that is its
batch CPU, for a pod that requests no CPU at all its limit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from corewise.kernel.cgroups.pods import QOSClass
from corewise.manager.objects import DemandingContainer, DemandingPod
from corewise.simulation.contention import MemoryUse
from corewise.simulation.fair_share import Cgroup, Tree
from corewise.simulation.load import Load
from corewise.simulation.pod_cgroups import (
    BEST_EFFORT,
    BURSTABLE,
    KUBEPODS,
    container_cgroup,
    cpu_of,
    is_offline,
    pod_cgroup,
    read_quota,
    read_weight,
    running_containers,
)
from corewise.simulation.pods import batch_milli, load_of, memory_of, memory_use_of, phase_of
from corewise.suppression.batch_limits import weight
from corewise.vocabulary.names import BATCH_MEMORY, RESOURCE_STATUS
from corewise.vocabulary.resource_status import stated_cpus


@dataclass(frozen=True, slots=True)
class RunningContainer:
    """A running container as its spec has it: what kubelet counts of it, and what it is asked to do.

    ``request`` is in milli-CPU, ``requested`` (what its load is a multiple of) in CPUs, ``memory`` in bytes.
    """

    path: str
    name: str
    request: int
    requested: float
    load: Load
    memory: int
    memory_use: MemoryUse | None = None


@dataclass(frozen=True, slots=True)
class RunningPod:
    """A running pod as its spec has it. ``owned`` are the CPUs that are its own."""

    path: str
    qos: QOSClass
    offline: bool
    phase: float
    owned: frozenset[int]
    containers: tuple[RunningContainer, ...]

    @property
    def request(self) -> int:
        return sum(container.request for container in self.containers)


@dataclass(frozen=True, slots=True)
class Task:
    """A running container in a tree."""

    leaf: int
    container: RunningContainer
    pod: RunningPod

    @property
    def name(self) -> str:
        return self.container.name

    @property
    def offline(self) -> bool:
        return self.pod.offline

    @property
    def best_effort(self) -> bool:
        return self.pod.qos is QOSClass.BEST_EFFORT

    def demand(self, seconds: float) -> float:
        """Return what it wants at a time, in baseline CPUs."""
        return self.container.requested * self.container.load.at(seconds, self.pod.phase)


@dataclass(frozen=True, slots=True)
class NodeTree:
    """A machine's tree, and who runs in it. ``owners`` are the cgroups of the pods that own CPUs."""

    tree: Tree
    tasks: tuple[Task, ...]
    owners: tuple[str, ...]

    @property
    def memory_uses(self) -> dict[int, MemoryUse]:
        """How those of its leaves use memory of which it is known."""
        return {task.leaf: use for task in self.tasks if (use := task.container.memory_use) is not None}

    def of(self, cgroup: str) -> int:
        """Return the index of a cgroup in the tree."""
        return self.tree.index[cgroup]


def describe(root: Path, pods: Iterable[DemandingPod]) -> tuple[RunningPod, ...]:
    """Describe the pods that run on a machine, in an order that is always the same."""
    return tuple(_describe(root, pod) for pod in sorted(pods, key=lambda pod: pod.metadata.uid))


def read_tree(root: Path, pods: Sequence[RunningPod], cpus: int) -> NodeTree:
    """Read the tree of a machine with so many CPUs, on which these pods run."""
    taken = frozenset(cpu for pod in pods for cpu in pod.owned)
    rest = (frozenset(range(cpus)) - taken if taken else None) or None
    by_class: dict[QOSClass, list[Cgroup]] = {qos: [] for qos in QOSClass}
    for pod in pods:
        by_class[pod.qos].append(_pod(root, pod, pod.owned or rest))
    requests = sum(pod.request for pod in pods if pod.qos is QOSClass.BURSTABLE)
    slices = (
        _slice(root, BURSTABLE, weight(requests), by_class[QOSClass.BURSTABLE]),
        _slice(root, BEST_EFFORT, weight(0), by_class[QOSClass.BEST_EFFORT]),
    )
    tree = Tree(Cgroup(KUBEPODS, children=(*by_class[QOSClass.GUARANTEED], *slices)), cpus)
    tasks = (Task(tree.index[each.path], each, pod) for pod in pods for each in pod.containers)
    return NodeTree(tree, tuple(tasks), tuple(pod.path for pod in pods if pod.owned))


def cpus_owned(pod: DemandingPod) -> frozenset[int]:
    """Return the CPUs that the binding gate has given to a pod alone."""
    return stated_cpus(pod.metadata.annotations.get(RESOURCE_STATUS)).cpus


def _slice(root: Path, path: str, default: int, children: Sequence[Cgroup]) -> Cgroup:
    return Cgroup(path, _weight(root, path, default), _quota(root, path), None, tuple(children))


def _pod(root: Path, pod: RunningPod, cpus: frozenset[int] | None) -> Cgroup:
    path = pod.path
    containers = tuple(_container(root, each) for each in pod.containers)
    return Cgroup(path, _weight(root, path, weight(pod.request)), _quota(root, path), cpus, containers)


def _container(root: Path, container: RunningContainer) -> Cgroup:
    path = container.path
    return Cgroup(path, _weight(root, path, weight(container.request)), _quota(root, path))


def _weight(root: Path, path: str, default: int) -> float:
    found = read_weight(root, path) if path.startswith(BEST_EFFORT) else None
    return float(default if found is None else found)


def _quota(root: Path, path: str) -> float:
    found = read_quota(root, path)
    return math.inf if found is None else found


def _describe(root: Path, pod: DemandingPod) -> RunningPod:
    offline = is_offline(pod)
    containers = (_describe_container(root, pod, each, offline=offline) for each in running_containers(pod))
    return RunningPod(
        path=pod_cgroup(pod),
        qos=QOSClass(pod.status.qos_class),
        offline=offline,
        phase=phase_of(pod.metadata.name),
        owned=cpus_owned(pod),
        containers=tuple(containers),
    )


def _describe_container(
    root: Path, pod: DemandingPod, container: DemandingContainer, *, offline: bool
) -> RunningContainer:
    path, request = container_cgroup(pod, container.name), _request(container)
    limited = offline or read_quota(root, path) is not None
    return RunningContainer(
        path=path,
        name=f"{pod.metadata.namespace}/{pod.metadata.name}/{container.name}",
        request=request,
        requested=(batch_milli(container) if offline else request) / 1000,
        load=load_of(pod.metadata.annotations, limited=limited),
        memory=memory_of(container, BATCH_MEMORY if offline else "memory"),
        memory_use=memory_use_of(pod.metadata.annotations),
    )


def _request(container: DemandingContainer) -> int:
    """Return the milli-CPU that kubelet counts for a container: its limit, if it requests nothing else."""
    requests, limits = container.resources.requests, container.resources.limits
    return cpu_of(requests if "cpu" in requests else limits) or 0
