"""The nodes and pods that a plan places, and how they are made of a cluster's objects.

Where no topology says how a node's CPUs are arranged, cores of two threads in one NUMA node are assumed, and
a note says so.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from corewise.config.configuration import LARGEST_AMPLIFICATION_RATIO
from corewise.engine import PodFacts
from corewise.engine.facts import CPU
from corewise.engine.objects import ReportedTopology
from corewise.engine.reading import pod_facts
from corewise.quantities import MILLI, Ratio, offered_amounts
from corewise.ratios.nodes import NodeView, view_of
from corewise.topology import Thread, Topology
from corewise.vocabulary.names import CPU_TOPOLOGY
from corewise.vocabulary.qos import ANY_NAMESPACE, QoSRules
from corewise.workload.nodes import Node
from corewise.workload.pods import Pod

FINISHED = frozenset({"Succeeded", "Failed"})
"""Phases of pods that hold nothing any more."""
_MOST_CPUS = 4096


@dataclass(frozen=True, slots=True)
class PlannedNode:
    """A node; ``assumed``: how its CPUs are arranged where no annotation says it.

    ``running``: the pods bound to it now, which a plan may place elsewhere.
    """

    node: Node
    topology: ReportedTopology
    assumed: Topology
    running: tuple[Pod, ...] = ()

    @property
    def name(self) -> str:
        return self.node.metadata.name

    @property
    def view(self) -> NodeView:
        """The node as the manager sees it now."""
        return view_of(self.node, self.topology.metadata.annotations, lambda: self.running)


@dataclass(frozen=True, slots=True)
class PlanInput:
    """Nodes and pods. ``config``: the texts of the cluster's own configuration, by ConfigMap key.

    ``offered_share``: of the CPU and memory that online pods have not even requested, so many hundredths are
    offered to offline pods, which are placed last; None where nodes state themselves what they offer.
    ``largest``: the manager's largest amplification ratio.
    """

    source: str
    nodes: tuple[PlannedNode, ...]
    pods: tuple[PodFacts, ...]
    config: Mapping[str, str] = field(default_factory=dict)
    offered_share: int | None = None
    notes: tuple[str, ...] = ()
    largest: Ratio = LARGEST_AMPLIFICATION_RATIO


@lru_cache(maxsize=1024)
def arrangement(cpus: int, threads: int, numa_nodes: int, sockets: int) -> Topology:
    """Return an arrangement of so many CPUs; cores are spread evenly over NUMA nodes, these over sockets.

    Where CPUs do not divide by the threads of a core, the last cores have fewer.
    """
    cores = -(-cpus // threads)
    return Topology(tuple(_thread(cpu, cpu % cores, cores, numa_nodes, sockets) for cpu in range(cpus)))


def _thread(cpu: int, core: int, cores: int, numa_nodes: int, sockets: int) -> Thread:
    numa_node = core * numa_nodes // cores
    return Thread(cpu, core, numa_node, numa_node, numa_node * sockets // numa_nodes)


def plan_from_objects(
    source: str,
    nodes: Iterable[Node],
    topologies: Iterable[ReportedTopology],
    pods: Iterable[Pod],
    config: Mapping[str, str],
    *,
    rules: QoSRules | None,
    largest: Ratio = LARGEST_AMPLIFICATION_RATIO,
) -> PlanInput:
    """Return the input of a cluster's objects.

    ``rules`` are those of the cluster's scheduler; if they are not known, LSE counts in every namespace.
    """
    stated = {each.metadata.name: each for each in topologies}
    unfinished = tuple(pod for pod in pods if pod.status.phase not in FINISHED)
    running: dict[str, list[Pod]] = defaultdict(list)
    for pod in unfinished:
        running[pod.spec.node_name].append(pod)
    planned = tuple(
        PlannedNode(node, stated.get(name, ReportedTopology()), _assumed(node), tuple(running[name]))
        for node in nodes
        for name in [node.metadata.name]
    )
    unknown = sum(CPU_TOPOLOGY not in node.topology.metadata.annotations for node in planned)
    note = (
        f"nodes that do not state how their CPUs are arranged, assumed to be cores of two threads: {unknown}"
    )
    return PlanInput(
        source=source,
        nodes=planned,
        pods=tuple(pod_facts(pod, rules or ANY_NAMESPACE) for pod in unfinished),
        config=config,
        notes=(note,) if unknown else (),
        largest=largest,
    )


def _assumed(node: Node) -> Topology:
    capacity = offered_amounts(node.status.capacity).get(CPU)
    cpus = min(_MOST_CPUS, max(1, -(-capacity.milli // MILLI))) if capacity else 1
    return arrangement(cpus, 1 if cpus % 2 else 2, 1, 1)
