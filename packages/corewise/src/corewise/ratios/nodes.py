"""Nodes and their pods as the assessment reads them: what is decoded of the API's objects, and what it means.

The objects come from the manager's caches, or from what a command lists. An amount of a node that cannot be
read counts as absent; one that a pod requests counts as the largest, so that the pod never fits by mistake.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache

import msgspec

from corewise.amplification import (
    ContainerDemand,
    NodeAmounts,
    NodeDemand,
    PodDemand,
    ReportedMachine,
    left,
    node_demand,
    pod_request,
    ratio_of_owned,
    unfolded,
)
from corewise.amplification.amounts import AMPLIFIABLE, CPU, ResourceList
from corewise.amplification.annotations import LARGEST_RECORDED, read_node
from corewise.config.facts import CPUFacts, parse_cpu_basic_info
from corewise.kube.objects import EMPTY
from corewise.normalization.fleet import LeftOut, ScoredNode, scored_node
from corewise.quantities import MILLI, ONE, Quantity, offered_amounts
from corewise.vocabulary.cpu_annotations import NO_STATUS, ResourceStatus, stated_status
from corewise.vocabulary.errors import UNREADABLE
from corewise.vocabulary.findings import Finding
from corewise.vocabulary.names import (
    CPU_BASIC_INFO,
    CPU_EVALUATION,
    CPU_MANAGER_POLICY,
    MACHINE_RAW_ALLOCATABLE,
    MACHINE_RAW_CAPACITY,
    RESOURCE_STATUS,
    SLOW_CPU,
)
from corewise.vocabulary.owned_cpus import CPUOwner, read_owned_cpus, whole_cpus
from corewise.vocabulary.qos import ANY_NAMESPACE
from corewise.vocabulary.text_cache import MIB, remembered, text_bytes
from corewise.workload.nodes import Node
from corewise.workload.pods import Pod
from corewise.workload.requests import pod_demand

RUNNING_ON_A_NODE = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
"""Field selector of the pods that take something of a node."""


def running_on(node: str) -> str:
    """Return the field selector of the pods that take something of this node."""
    return f"{RUNNING_ON_A_NODE},spec.nodeName={node}"


class _CPUManager(msgspec.Struct):
    policy: str = ""


_CPU_MANAGER = msgspec.json.Decoder(_CPUManager)
_REPORT = msgspec.json.Decoder(dict[str, str])
_BOOT_ID = "bootID"
_GENERATION = "generation"


_FACTS_REMEMBERED = 4 * MIB
_FACTS_BYTES = 500
Annotations = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node, the annotations of its NodeResourceTopology (None without one), and what its pods request.

    ``demand`` is called only when it matters: on a node of many pods it is the most costly part. It is made
    once. ``slow`` is the message of the condition SlowCPU, "" if the node has none.
    """

    name: str
    uid: str
    resource_version: str
    labels: Mapping[str, str]
    annotations: Annotations
    amounts: NodeAmounts
    boot_id: str
    topology: Annotations | None
    demand: Callable[[], NodeDemand]
    slow: str = ""

    @property
    def facts(self) -> CPUFacts | Finding | None:
        """The node's CPU facts; None if none are stated."""
        return facts_of(self.topology or {})

    def free_cpu(self) -> int | None:
        """Return the amplified CPU that is left, in milli-CPU, as the scheduler counts it."""
        cpu = self.amounts.allocatable.get(CPU)
        if cpu is None:
            return None
        # How large a ratio may be, the manager's option says: what it let pass counts.
        stated, demand = read_node(self.annotations, maximum=LARGEST_RECORDED), self.demand()
        ratio = ratio_of_owned(stated) or ONE
        requested = demand.requests.get(CPU, 0)
        taken = requested, demand.cpuset_milli, ratio.hundredths, demand.surplus
        return left(unfolded(cpu.milli, stated), *taken)

    @property
    def machine(self) -> ReportedMachine | None:
        """The machine as its agent reports it; None without a readable report."""
        topology = self.topology or {}
        report = _report(topology.get(MACHINE_RAW_CAPACITY, ""))
        capacity = quantities(report)
        if not capacity:
            return None
        return ReportedMachine(
            capacity,
            quantities(_report(topology.get(MACHINE_RAW_ALLOCATABLE, ""))),
            same_boot=bool(self.boot_id) and report.get(_BOOT_ID) == self.boot_id,
            generation=report.get(_GENERATION, ""),
        )


def _report(text: str) -> Mapping[str, str]:
    try:
        return _REPORT.decode(text)
    except UNREADABLE:
        return {}


def view_of(node: Node, topology: Annotations | None, pods: Callable[[], Iterable[Pod]]) -> NodeView:
    """Return the view of a node; ``pods`` are those bound to it."""
    annotations = node.metadata.annotations
    return view_with(node, topology, lambda cpu: demand_of_node(pods(), topology, annotations, cpu))


def view_with(
    node: Node, topology: Annotations | None, demand: Callable[[Quantity | None], NodeDemand]
) -> NodeView:
    """Return the view of a node; ``demand`` sums up its pods, given the node's capacity of cpu."""
    meta = node.metadata
    amounts = NodeAmounts(quantities(node.status.capacity), quantities(node.status.allocatable))
    slow = node.status.condition(SLOW_CPU)
    return NodeView(
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
        labels=meta.labels,
        annotations=meta.annotations,
        amounts=amounts,
        boot_id=node.status.node_info.boot_id,
        topology=topology,
        demand=cache(lambda: demand(amounts.capacity.get(CPU))),
        slow=slow.message if slow else "",
    )


def _facts_bytes(_facts: CPUFacts | Finding, text: str) -> int:
    return 3 * text_bytes(text) + _FACTS_BYTES


@remembered(most=_FACTS_REMEMBERED, weigh=_facts_bytes)
def _read_facts(text: str) -> CPUFacts | Finding:
    """Nodes of a kind share the text of their CPU facts."""
    return parse_cpu_basic_info(text)


def facts_of(topology: Annotations) -> CPUFacts | Finding | None:
    """Return the CPU facts that annotations of a NodeResourceTopology state; None if they state none."""
    text = topology.get(CPU_BASIC_INFO)
    return None if text is None else _read_facts(text)


def read_scores(
    topologies: Iterable[tuple[str, Annotations]],
) -> list[tuple[str, ScoredNode | LeftOut]]:
    """Read the scores of nodes, by name, from the annotations of their NodeResourceTopologies."""
    return [
        (name, scored_node(name, annotations.get(CPU_EVALUATION), facts_of(annotations)))
        for name, annotations in topologies
    ]


def quantities(texts: Mapping[str, str]) -> ResourceList:
    """Return cpu and memory that a node states; an amount that cannot be read counts as absent."""
    return offered_amounts({resource: texts[resource] for resource in AMPLIFIABLE if resource in texts})


def demand_of_node(
    pods: Iterable[Pod],
    topology_annotations: Annotations | None,
    annotations: Annotations = EMPTY,
    capacity: Quantity | None = None,
) -> NodeDemand:
    """Sum up what the pods of one node request of it; ``annotations`` of the Node have its ledger.

    ``capacity`` is the node's capacity of cpu, which limits the ledger's length.

    The entry of a pod that is not among them counts as a pod that requests what it owns. A pod has the CPUs
    of its entry, whatever its resource-status says.
    """
    owners, static = owners_of_node(topology_annotations, annotations, capacity)
    demands = {pod.metadata.uid or str(number): demand_of(pod) for number, pod in enumerate(pods)}
    return demand_with_owners(demands, owners, static_cpu_manager=static)


def owners_of_node(
    topology_annotations: Annotations | None, annotations: Annotations, capacity: Quantity | None
) -> tuple[Mapping[str, CPUOwner], bool]:
    """Return the pods in a node's ledger by their UIDs, and whether kubelet's CPU manager is static."""
    try:
        manager = _CPU_MANAGER.decode((topology_annotations or {}).get(CPU_MANAGER_POLICY, "{}"))
    except UNREADABLE:
        manager = _CPUManager()
    return read_owned_cpus(annotations, whole_cpus(capacity)).owners, manager.policy == "static"


def demand_with_owners(
    demands: Mapping[str, PodDemand], owners: Mapping[str, CPUOwner], *, static_cpu_manager: bool
) -> NodeDemand:
    """Sum up the demands of pods by their UIDs, with the CPUs that a node's ledger gives to some."""
    owning = {
        uid: replace(
            demands.get(uid) or _not_bound(owner), exclusive_cpus=owner.cpus.cpus, surplus=owner.surplus
        )
        for uid, owner in owners.items()
    }
    return node_demand({**demands, **owning}.values(), static_cpu_manager=static_cpu_manager)


def _not_bound(owner: CPUOwner) -> PodDemand:
    """Return the demand of a ledger entry whose pod is not known on the node."""
    return PodDemand(owner.pod, (ContainerDemand({CPU: Quantity.of_milli(owner.requested * MILLI)}),))


def demand_of(pod: Pod) -> PodDemand:
    """Return the demand of one pod, with the CPUs that it claims."""
    demand = pod_demand(pod, AMPLIFIABLE)
    claimed = _claim(pod, demand)
    if not claimed.cpus:
        return demand
    return replace(demand, exclusive_cpus=claimed.cpus.cpus, surplus=claimed.surplus)


def _claim(pod: Pod, demand: PodDemand) -> ResourceStatus:
    """Return a pod's claim, if it holds; QoS LSE counts in every namespace."""
    meta = pod.metadata
    claimed = stated_status(meta.annotations.get(RESOURCE_STATUS))
    request = pod_request(demand, CPU).milli
    doubted = ANY_NAMESPACE.claim_problem(meta.labels, meta.namespace, claimed, request)
    return NO_STATUS if doubted else claimed
