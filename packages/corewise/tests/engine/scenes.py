"""Nodes and pods for the tests of the engine, in CPUs, and a cluster that has them."""

from __future__ import annotations

from typing import Any

from corewise.engine import (
    ChosenNode,
    Cluster,
    Decision,
    Engine,
    NodeFacts,
    Placement,
    PodFacts,
    Zone,
    assemble,
)
from corewise.quantities import Ratio, amplify
from corewise.topology import Topology
from corewise.vocabulary.cpu_annotations import DEFAULT_BINDING, CPUBinding, NumaPolicy
from corewise.vocabulary.findings import Finding
from pinning.machines import machine

GIB = 1 << 30


def engine() -> Engine:
    return assemble(kube_checks=True)


def arrangement(cpus: int, *, numa_nodes: int = 1) -> Topology:
    """Return a machine of two threads a core, or one if the number of CPUs is odd."""
    threads = 2 if cpus % (2 * numa_nodes) == 0 else 1
    return machine(sockets=numa_nodes, cores=cpus // numa_nodes // threads, threads=threads)


def node(name: str, cpus: int, ratio: str = "1.00", *, memory: int = 256, **rest: Any) -> NodeFacts:
    factor = Ratio.parse(ratio)
    amounts = {"cpu": amplify(cpus * 1000, factor), "memory": memory * GIB, "pods": 110}
    return NodeFacts(name, amounts, **{"ratio": factor, "topology": arrangement(cpus), **rest})


def numa_node(
    name: str,
    cpus_a_zone: int,
    zones: int,
    ratio: str = "1.00",
    policy: NumaPolicy = NumaPolicy.NONE,
    **rest: Any,
) -> NodeFacts:
    return node(
        name,
        cpus_a_zone * zones,
        ratio,
        numa_policy=policy,
        zones=tuple(Zone(number, cpus_a_zone * 1000, 128 * GIB) for number in range(zones)),
        topology=arrangement(cpus_a_zone * zones, numa_nodes=zones),
        **rest,
    )


def share(key: str, cpus: float, memory: int = 0, **rest: Any) -> PodFacts:
    requests = {"cpu": round(cpus * 1000), "memory": memory * GIB}
    return PodFacts(key, {name: amount for name, amount in requests.items() if amount}, **rest)


def cpuset(key: str, cpus: int, binding: CPUBinding = DEFAULT_BINDING, **rest: Any) -> PodFacts:
    return PodFacts(key, {"cpu": cpus * 1000}, owned_by_class=cpus * 1000, binding=binding, **rest)


def static(key: str, cpus: int, **rest: Any) -> PodFacts:
    return PodFacts(key, {"cpu": cpus * 1000}, owned_if_static=cpus * 1000, **rest)


def cluster_of(*nodes: NodeFacts) -> Cluster:
    cluster = Cluster()
    for each in nodes:
        cluster.put_node(each)
    return cluster


def decide(cluster: Cluster, pod: PodFacts) -> Decision:
    return engine().decide(pod, cluster.snapshot())


def bind(cluster: Cluster, pod: PodFacts) -> Placement | Finding | None:
    """Place a pod as the scheduler does; return where, why the node refused, or None if nothing fits."""
    decision = decide(cluster, pod)
    if decision.node is None:
        return None
    chosen = ChosenNode.of(cluster, cluster.snapshot(), decision.row)
    placement = engine().reserve(pod, chosen)
    if isinstance(placement, Placement):
        cluster.put_pod(pod, placement)
    return placement
