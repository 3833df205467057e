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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from corewise.kernel.cgroups.pods import QOSClass
from corewise.local.fair_share import Cgroup, Tree
from corewise.local.load import Load
from corewise.local.pod_cgroups import (
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
from corewise.local.pods import batch_milli, load_of, phase_of
from corewise.manager.objects import DemandingContainer, DemandingPod
from corewise.policy.names import BATCH_MEMORY, RESOURCE_STATUS
from corewise.quantities import Quantity, QuantityError
from corewise.suppression.batch_limits import weight
from corewise.topology import CPUSet, CPUSetError


class _ResourceStatus(msgspec.Struct):
    cpuset: str = ""


@dataclass(frozen=True, slots=True)
class Task:
    """A running container: where it is in the tree, and what it is asked to do. Memory is in bytes."""

    leaf: int
    name: str
    requested: float
    load: Load
    phase: float
    offline: bool
    best_effort: bool
    memory: int

    def demand(self, seconds: float) -> float:
        """Return what it wants at a time, in baseline CPUs."""
        return self.requested * self.load.at(seconds, self.phase)


@dataclass(frozen=True, slots=True)
class NodeTree:
    """A machine's tree, and who runs in it. ``owners`` are the cgroups of the pods that own CPUs."""

    tree: Tree
    tasks: tuple[Task, ...]
    owners: tuple[str, ...]

    def of(self, cgroup: str) -> int:
        """Return the index of a cgroup in the tree."""
        return self.tree.index[cgroup]


def read_tree(root: Path, pods: Iterable[DemandingPod], cpus: int) -> NodeTree:
    """Read the tree of a machine with so many CPUs, on which these pods run."""
    running = sorted(pods, key=lambda pod: pod.metadata.uid)
    owned = {pod.metadata.uid: cpus_owned(pod) for pod in running}
    taken = frozenset(cpu for each in owned.values() for cpu in each)
    rest = frozenset(range(cpus)) - taken if taken else None
    by_class: dict[QOSClass, list[Cgroup]] = {qos: [] for qos in QOSClass}
    for pod in running:
        confined = owned[pod.metadata.uid] or rest or None
        by_class[QOSClass(pod.status.qos_class)].append(_pod(root, pod, confined))
    requests = sum(_requested(pod) for pod in running if pod.status.qos_class == QOSClass.BURSTABLE)
    slices = (
        _slice(root, BURSTABLE, weight(requests), by_class[QOSClass.BURSTABLE]),
        _slice(root, BEST_EFFORT, weight(0), by_class[QOSClass.BEST_EFFORT]),
    )
    tree = Tree(Cgroup(KUBEPODS, children=(*by_class[QOSClass.GUARANTEED], *slices)), cpus)
    return NodeTree(
        tree,
        tuple(task for pod in running for task in _tasks(root, pod, tree)),
        tuple(pod_cgroup(pod) for pod in running if owned[pod.metadata.uid]),
    )


def cpus_owned(pod: DemandingPod) -> frozenset[int]:
    """Return the CPUs that the binding gate has given to a pod alone."""
    text = pod.metadata.annotations.get(RESOURCE_STATUS)
    try:
        return (
            CPUSet.parse(msgspec.json.decode(text, type=_ResourceStatus).cpuset).cpus if text else frozenset()
        )
    except (msgspec.DecodeError, CPUSetError):
        return frozenset()


def _slice(root: Path, path: str, default: int, children: Sequence[Cgroup]) -> Cgroup:
    return Cgroup(path, _weight(root, path, default), _quota(root, path), None, tuple(children))


def _pod(root: Path, pod: DemandingPod, cpus: frozenset[int] | None) -> Cgroup:
    path = pod_cgroup(pod)
    containers = tuple(_container(root, pod, each) for each in running_containers(pod))
    return Cgroup(path, _weight(root, path, weight(_requested(pod))), _quota(root, path), cpus, containers)


def _container(root: Path, pod: DemandingPod, container: DemandingContainer) -> Cgroup:
    path = container_cgroup(pod, container.name)
    return Cgroup(path, _weight(root, path, weight(_request(container))), _quota(root, path))


def _weight(root: Path, path: str, default: int) -> float:
    found = read_weight(root, path)
    return float(default if found is None else found)


def _quota(root: Path, path: str) -> float:
    found = read_quota(root, path)
    return math.inf if found is None else found


def _requested(pod: DemandingPod) -> int:
    return sum(map(_request, running_containers(pod)))


def _request(container: DemandingContainer) -> int:
    """Return the milli-CPU that kubelet counts for a container: its limit, if it requests nothing else."""
    requests, limits = container.resources.requests, container.resources.limits
    return cpu_of(requests if "cpu" in requests else limits) or 0


def _tasks(root: Path, pod: DemandingPod, tree: Tree) -> Iterable[Task]:
    offline = is_offline(pod)
    for each in running_containers(pod):
        path = container_cgroup(pod, each.name)
        limited = offline or read_quota(root, path) is not None
        yield Task(
            leaf=tree.index[path],
            name=f"{pod.metadata.namespace}/{pod.metadata.name}/{each.name}",
            requested=(batch_milli(each) if offline else _request(each)) / 1000,
            load=load_of(pod.metadata.annotations, limited=limited),
            phase=phase_of(pod.metadata.name),
            offline=offline,
            best_effort=pod.status.qos_class == QOSClass.BEST_EFFORT,
            memory=_memory(each, BATCH_MEMORY if offline else "memory"),
        )


def _memory(container: DemandingContainer, resource: str) -> int:
    amounts: Mapping[str, str] = {**container.resources.limits, **container.resources.requests}
    try:
        return Quantity.parse(amounts.get(resource, "0")).units
    except QuantityError:
        return 0
