"""The state of the cluster at one moment, and the compute of its machines, read from the API's objects.

Raw CPU is what the status says, or, on an amplified node, what its raw annotations say. What a node delivers
is worked out with the pods as the API has them and the quotas in the cgroup files of the simulated machines,
where kubelet stand-ins and agents have written them.

The measure of normalization is what a requested CPU is worth on a machine whose threads are all busy. For one
step, with ``C`` CPUs of the nominal speed ``s`` (:mod:`corewise_lab.machines`: a thread whose sibling
is busy), and for container ``i`` a demand ``d`` in baseline CPUs, a quota ``q`` in CPUs (infinite
without a limit) and a weight ``w``:

    cap_i     = min(q_i, d_i / s)                       what it can use
    time_i    = min(cap_i, w_i x level)                 water-filling: one level for the machine,
    sum(time) = min(C, sum(cap))                        as high as the CPUs allow
    compute_i = time_i x s                              in baseline CPUs

What one requested CPU is worth shows only while a container wants more than it gets; one that idles says
nothing about the machine. So *compute per requested CPU* of a node is, over the steps and those of its
CPUShare containers that were held back in the step:

    sum(compute_i) / sum(requested_i)

The speed is what a request can rely on, whoever else is there. It differs from the plant's
(:mod:`corewise_lab.machine_model`), where a thread is faster while its sibling idles, and the tree of cgroups
counts: that says what happens at a moment, this what is promised. Offline pods do not count.

Online and offline pods beside each other are measured over a window of simulated time. *Slowdown* of an
online container is the part of its throughput that it lost: 1 - work done beside offline pods / work done
alone, at the same load, quotas and weights (:mod:`corewise_lab.machine_model`). One that gets its work done
on slower threads loses no throughput, and uses more CPU time for it; *stretch* says how much more: CPU time
of all online containers beside offline pods / alone, each per work done, less 1.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from corewise.agent.kubelet import NO_POLICY
from corewise.agent.quotas import Sharing, sharing_of
from corewise.amplification import read_amounts, read_ratios
from corewise.kube.objects import NodeResourceTopology
from corewise.quantities import MILLI, ONE, amplify
from corewise.vocabulary.errors import UNREADABLE
from corewise.vocabulary.names import (
    AMPLIFICATION_RATIO,
    CPU_BASIC_INFO,
    NORMALIZATION_RATIO,
    QOS_CLASS,
    RAW_ALLOCATABLE,
    RAW_CAPACITY,
)
from corewise.workload.pods import Pod
from corewise_lab.fair_share import water_fill
from corewise_lab.kubelets import SimulatedNode
from corewise_lab.load import Load
from corewise_lab.machines import Machine
from corewise_lab.node_cgroups import cpu_of, describe, is_offline, read_quota
from corewise_lab.node_simulation import PodTotals

HELD_BACK = 1e-9
"""A container was held back if its compute is this much (relative) below its demand."""


@dataclass(frozen=True, slots=True)
class Workload:
    """A container over time: its request, its bounds and its load."""

    requested: float
    weight: float
    quota: float
    load: Load
    phase: float
    counts: bool
    """Whether it is a CPUShare container whose compute per requested CPU is to be reported."""


@dataclass(frozen=True, slots=True)
class Delivered:
    """The compute of a machine over a window, in baseline CPUs, averaged over its steps."""

    compute: float
    per_requested: float | None
    """Compute per requested CPU; None if no counted container ever wanted more than it got."""


def run(workloads: Sequence[Workload], *, cpus: float, speed: float, seconds: Sequence[float]) -> Delivered:
    """Advance a machine through the given points in time and report what it delivered.

    Where every load is constant, all steps are the same, and one is enough.
    """
    if all(workload.load.is_constant for workload in workloads):
        seconds = seconds[:1]
    weights = [workload.weight for workload in workloads]
    compute, held_compute, held_requested = 0.0, 0.0, 0.0
    for now in seconds:
        demands = [each.requested * each.load.at(now, each.phase) for each in workloads]
        caps = [min(each.quota, demand / speed) for each, demand in zip(workloads, demands, strict=True)]
        delivered = [time * speed for time in water_fill(caps, weights, cpus)]
        compute += math.fsum(delivered)
        for workload, demand, got in zip(workloads, demands, delivered, strict=True):
            if workload.counts and got < demand * (1 - HELD_BACK):
                held_compute += got
                held_requested += workload.requested
    return Delivered(
        compute=compute / max(1, len(seconds)),
        per_requested=held_compute / held_requested if held_requested else None,
    )


def spread(values: Sequence[float]) -> float | None:
    """Return the largest value over the smallest, or None if there is nothing to compare."""
    return max(values) / min(values) if values and min(values) > 0 else None


@dataclass(frozen=True, slots=True)
class Colocation:
    """One node or many, in a window. CPUs are averages over it; sums where there are many nodes.

    ``offered`` is None while nothing is offered. ``refused`` is what offline pods wanted and quotas kept
    from them.
    """

    cpus: float
    online: float
    offline: float
    offered: float | None
    refused: float
    slowdowns: Sequence[float]
    work: float
    work_alone: float
    online_alone: float

    @property
    def mean_slowdown(self) -> float | None:
        """Over the online containers that had work; None without any."""
        return math.fsum(self.slowdowns) / len(self.slowdowns) if self.slowdowns else None

    @property
    def worst_slowdown(self) -> float | None:
        return max(self.slowdowns, default=None)

    @property
    def stretch(self) -> float | None:
        """The share of extra CPU time that online work takes beside offline pods; None if it did no work."""
        if min(self.work, self.work_alone, self.online_alone) <= 0:
            return None
        return max(0.0, (self.online / self.work) / (self.online_alone / self.work_alone) - 1)

    @property
    def idle_alone(self) -> float:
        """The CPUs that online pods leave idle when there are no offline pods."""
        return max(0.0, self.cpus - self.online_alone)

    @property
    def utilization(self) -> float:
        return (self.online + self.offline) / self.cpus if self.cpus else 0.0


def of_account(account: PodTotals, offers: Sequence[int]) -> Colocation:
    """Return the averages of an account. ``offers`` are those made in its time, in milli-CPU."""
    seconds = account.seconds or 1.0
    return Colocation(
        cpus=float(account.cpus),
        online=account.online / seconds,
        offline=account.offline / seconds,
        offered=sum(offers) / len(offers) / MILLI if offers else None,
        refused=account.throttled / seconds,
        slowdowns=tuple(account.slowdowns),
        work=math.fsum(account.work.values()) / seconds,
        work_alone=math.fsum(account.work_alone.values()) / seconds,
        online_alone=account.online_alone / seconds,
    )


def total(of: Iterable[Colocation]) -> Colocation | None:
    """Return all of them as one; None if there are none."""
    parts = tuple(of)
    offers = [part.offered for part in parts if part.offered is not None]
    if not parts:
        return None
    return Colocation(
        cpus=math.fsum(part.cpus for part in parts),
        online=math.fsum(part.online for part in parts),
        offline=math.fsum(part.offline for part in parts),
        offered=math.fsum(offers) if offers else None,
        refused=math.fsum(part.refused for part in parts),
        slowdowns=tuple(lost for part in parts for lost in part.slowdowns),
        work=math.fsum(part.work for part in parts),
        work_alone=math.fsum(part.work_alone for part in parts),
        online_alone=math.fsum(part.online_alone for part in parts),
    )


SAMPLED_SECONDS = tuple(float(second) for second in range(0, 120, 4))
"""The points in simulated time at which the plant is advanced, the same in every measurement."""
OFFLINE_WEIGHT = 2.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """One of the manager's Warning Events about a node."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class NodeMeasurement:
    """One node at one moment. CPU in milli-CPU."""

    name: str
    facts: Mapping[str, Any] | None
    normalization_ratio: str | None
    amplification_ratio: Mapping[str, str]
    raw_capacity: int
    raw_allocatable: int
    amplified_capacity: int
    schedulable: int
    requested: int
    pods: int
    delivered: Delivered | None
    verdict: Verdict | None


@dataclass(frozen=True, slots=True)
class ClusterMeasurement:
    """All nodes at one moment. ``rejected``: pods that do not run, since their nodes have no room."""

    nodes: tuple[NodeMeasurement, ...]
    rejected: int = 0

    @property
    def per_requested(self) -> list[float]:
        """Compute per requested CPU of the nodes where it could be measured."""
        values = [node.delivered.per_requested for node in self.nodes if node.delivered is not None]
        return [value for value in values if value is not None]

    @property
    def spread(self) -> float | None:
        """The largest compute per requested CPU over the smallest."""
        return spread(self.per_requested)

    @property
    def schedulable(self) -> int:
        return sum(node.schedulable for node in self.nodes)

    @property
    def requested(self) -> int:
        return sum(node.requested for node in self.nodes)

    @property
    def pods(self) -> int:
        return sum(node.pods for node in self.nodes)

    @property
    def pods_by_node(self) -> Mapping[str, tuple[int, int]]:
        """The number of pods on each node, and the sum of their requests."""
        return {node.name: (node.pods, node.requested) for node in self.nodes}


def is_settled(node: SimulatedNode) -> bool:
    """Whether the manager has given the node its ratios, and the node's status shows them."""
    annotations = node.metadata.annotations
    if NORMALIZATION_RATIO not in annotations:
        return False
    ratios = read_ratios(annotations.get(AMPLIFICATION_RATIO), annotation=AMPLIFICATION_RATIO).ratios
    schedulable = cpu_of(node.status.get("allocatable", {})) or 0
    raw = _raw(annotations, RAW_ALLOCATABLE, schedulable)
    return schedulable == amplify(raw, ratios.get("cpu", ONE))


def by_node(pods: Iterable[Pod]) -> dict[str, list[Pod]]:
    """Group the pods that run by the node they run on."""
    found: dict[str, list[Pod]] = defaultdict(list)
    for pod in pods:
        if pod.spec.node_name and pod.status.phase == "Running":
            found[pod.spec.node_name].append(pod)
    return found


def view_node(
    node: SimulatedNode,
    machine: Machine,
    pods: Sequence[Pod],
    *,
    root: Path,
    topology: NodeResourceTopology | None,
    verdict: Verdict | None = None,
) -> NodeMeasurement:
    """Look at one node. ``root`` is where its files are: the quotas are those in its cgroups."""
    annotations = node.metadata.annotations
    stated = read_ratios(annotations.get(AMPLIFICATION_RATIO), annotation=AMPLIFICATION_RATIO)
    capacity = cpu_of(node.status.get("capacity", {})) or 0
    schedulable = cpu_of(node.status.get("allocatable", {})) or 0
    workloads = [workload for pod in pods if not is_offline(pod) for workload in workloads_of(pod, root)]
    return NodeMeasurement(
        name=node.metadata.name,
        facts=_facts(topology),
        normalization_ratio=annotations.get(NORMALIZATION_RATIO),
        amplification_ratio={r: str(value) for r, value in stated.ratios.items() if value != ONE},
        raw_capacity=_raw(annotations, RAW_CAPACITY, capacity),
        raw_allocatable=_raw(annotations, RAW_ALLOCATABLE, schedulable),
        amplified_capacity=capacity,
        schedulable=schedulable,
        requested=sum(round(workload.requested * MILLI) for workload in workloads),
        pods=len(pods),
        delivered=run(workloads, cpus=float(machine.cpus), speed=machine.speed, seconds=SAMPLED_SECONDS)
        if machine.speed is not None
        else None,
        verdict=verdict,
    )


def workloads_of(pod: Pod, root: Path) -> list[Workload]:
    """Return an online pod's containers as the plant runs them, bounded by their quotas and own CPUs."""
    (running,) = describe(root, [pod])
    qos_class = pod.metadata.labels.get(QOS_CLASS, "")
    shares = sharing_of(qos_class, pod.metadata.uid, pod.status.qos_class, NO_POLICY) is Sharing.SHARE
    owned = len(running.owned) or math.inf
    found = []
    for container in running.containers:
        quota = read_quota(root, container.path)
        weight = OFFLINE_WEIGHT if qos_class == "BE" else max(OFFLINE_WEIGHT, container.requested * 1024)
        found.append(
            Workload(
                requested=container.requested,
                weight=weight,
                quota=owned if quota is None else quota,
                load=container.load,
                phase=running.phase,
                counts=quota is not None and container.requested > 0 and shares,
            )
        )
    return found


def _facts(topology: NodeResourceTopology | None) -> Mapping[str, Any] | None:
    text = topology.metadata.annotations.get(CPU_BASIC_INFO) if topology else None
    try:
        facts = msgspec.json.decode(text) if text else None
    except UNREADABLE:
        return None
    return facts if isinstance(facts, dict) else None


def _raw(annotations: Mapping[str, str], name: str, in_status: int) -> int:
    amounts = read_amounts(annotations.get(name)) or {}
    return amounts["cpu"].milli if "cpu" in amounts else in_status
