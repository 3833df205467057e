"""What the cluster looks like at one moment, and what its machines deliver: read from the API's objects.

Raw CPU is what the status says, or, on an amplified node, what its raw annotations say. What a node
delivers is worked out (:mod:`corewise.simulation.nominal_compute`) with the pods as the API has them and the
quotas that stand in the cgroup files of the simulated machines, where kubelet stand-ins and agents have
written them. Offline pods are no part of that: what they get, and what they cost, is measured in time
(:mod:`corewise.simulation.living_nodes`).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from corewise.agent.cpu_manager import NO_POLICY
from corewise.agent.quotas import Standing, standing_of
from corewise.amplification import read_amounts, read_ratios
from corewise.kube.objects import NodeResourceTopology
from corewise.manager.objects import DemandingPod
from corewise.quantities import ONE, Quantity, QuantityError, amplify
from corewise.simulation.kubelets import SimulatedNode
from corewise.simulation.machines import Machine
from corewise.simulation.nominal_compute import Delivered, Workload, run, spread
from corewise.simulation.pod_cgroups import cpu_of, is_offline, read_share, running_containers
from corewise.simulation.pods import load_of, phase_of
from corewise.vocabulary.errors import UNREADABLE
from corewise.vocabulary.names import (
    AMPLIFICATION_RATIO,
    CPU_BASIC_INFO,
    NORMALIZATION_RATIO,
    QOS_CLASS,
    RAW_ALLOCATABLE,
    RAW_CAPACITY,
)

WINDOW = tuple(float(second) for second in range(0, 120, 4))
"""The points in simulated time at which the plant is advanced, the same in every measurement."""
OFFLINE_WEIGHT = 2.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a Warning Event of the manager's says about a node."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class NodeView:
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
class Snapshot:
    """All nodes at one moment."""

    nodes: tuple[NodeView, ...]

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


def is_settled(node: SimulatedNode) -> bool:
    """Whether the manager has given the node its ratios, and the node's status shows them."""
    annotations = node.metadata.annotations
    if NORMALIZATION_RATIO not in annotations:
        return False
    ratios = read_ratios(annotations.get(AMPLIFICATION_RATIO), annotation=AMPLIFICATION_RATIO).ratios
    schedulable = _cpu(node.status.get("allocatable", {}))
    raw = _raw(annotations, RAW_ALLOCATABLE, schedulable)
    return schedulable == amplify(raw, ratios.get("cpu", ONE))


def by_node(pods: Iterable[DemandingPod]) -> dict[str, list[DemandingPod]]:
    """Group the pods that run by the node they run on."""
    found: dict[str, list[DemandingPod]] = defaultdict(list)
    for pod in pods:
        if pod.spec.node_name and pod.status.phase == "Running":
            found[pod.spec.node_name].append(pod)
    return found


def view_node(
    node: SimulatedNode,
    machine: Machine,
    pods: Sequence[DemandingPod],
    *,
    root: Path,
    topology: NodeResourceTopology | None,
    verdict: Verdict | None = None,
) -> NodeView:
    """Look at one node. ``root`` is where its files are: the quotas are those in its cgroups."""
    annotations = node.metadata.annotations
    stated = read_ratios(annotations.get(AMPLIFICATION_RATIO), annotation=AMPLIFICATION_RATIO)
    capacity = _cpu(node.status.get("capacity", {}))
    schedulable = _cpu(node.status.get("allocatable", {}))
    workloads = [workload for pod in pods if not is_offline(pod) for workload in workloads_of(pod, root)]
    return NodeView(
        name=node.metadata.name,
        facts=_facts(topology),
        normalization_ratio=annotations.get(NORMALIZATION_RATIO),
        amplification_ratio={r: str(value) for r, value in stated.ratios.items() if value != ONE},
        raw_capacity=_raw(annotations, RAW_CAPACITY, capacity),
        raw_allocatable=_raw(annotations, RAW_ALLOCATABLE, schedulable),
        amplified_capacity=capacity,
        schedulable=schedulable,
        requested=sum(round(workload.requested * 1000) for workload in workloads),
        pods=len(pods),
        delivered=_deliver(machine, workloads),
        verdict=verdict,
    )


def workloads_of(pod: DemandingPod, root: Path) -> list[Workload]:
    """Return a pod's containers as the plant runs them, bounded as their cgroups say."""
    name, labels, annotations = pod.metadata.name, pod.metadata.labels, pod.metadata.annotations
    offline = labels.get(QOS_CLASS) == "BE"
    shares = standing_of(labels.get(QOS_CLASS, ""), pod.metadata.uid, pod.status.qos_class, NO_POLICY)
    found = []
    for container in running_containers(pod):
        quota = read_share(root, pod, container.name)
        requests, limits = container.resources.requests, container.resources.limits
        requested = (cpu_of(requests if "cpu" in requests else limits) or 0) / 1000
        found.append(
            Workload(
                requested=requested,
                weight=OFFLINE_WEIGHT if offline else max(OFFLINE_WEIGHT, requested * 1024),
                quota=math.inf if quota is None else quota,
                load=load_of(annotations, limited=quota is not None),
                phase=phase_of(name),
                counts=quota is not None and requested > 0 and shares is Standing.SHARE,
            )
        )
    return found


def _deliver(machine: Machine, workloads: Sequence[Workload]) -> Delivered | None:
    if machine.speed is None:
        return None
    return run(workloads, cpus=float(machine.cpus), speed=machine.speed, seconds=WINDOW)


def _facts(topology: NodeResourceTopology | None) -> Mapping[str, Any] | None:
    text = topology.metadata.annotations.get(CPU_BASIC_INFO) if topology else None
    try:
        facts = msgspec.json.decode(text) if text else None
    except UNREADABLE:
        return None
    return facts if isinstance(facts, dict) else None


def _cpu(amounts: Mapping[str, str]) -> int:
    try:
        return Quantity.parse(amounts.get("cpu", "0")).milli
    except QuantityError:
        return 0


def _raw(annotations: Mapping[str, str], name: str, in_status: int) -> int:
    amounts = read_amounts(annotations.get(name)) or {}
    return amounts["cpu"].milli if "cpu" in amounts else in_status
