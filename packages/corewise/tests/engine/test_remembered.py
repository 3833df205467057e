"""Pods of a known shape go where a decision about all nodes would put them, whatever happened before."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from random import Random

import numpy as np
import pytest

from corewise.engine import (
    Allocation,
    AllocationScore,
    AmplifiedCPU,
    BlockingTaint,
    Cluster,
    Constraints,
    CPUPlacement,
    Engine,
    NodeConstraints,
    NodeFacts,
    NodePreferences,
    NodeRequirement,
    Placement,
    Placer,
    PodFacts,
    ResourceFit,
    Toleration,
    assemble,
    place,
)
from corewise.quantities import Ratio
from corewise.vocabulary.cpu_annotations import BindPolicy, CPUBinding, NumaPolicy
from engine.scenes import GIB, cluster_of, cpuset, node, numa_node, share, static

TAINT = BlockingTaint("dedicated", "NoSchedule", "batch")
WOULD_RATHER_NOT = BlockingTaint("old", "PreferNoSchedule")
BATCH = {"kubernetes.io/batch-cpu": 4000, "kubernetes.io/batch-memory": 4 * GIB}
IN_ZONE_0, IN_ZONE_1 = ((NodeRequirement("zone", "In", (each,)),) for each in ("0", "1"))
NODES = [
    *(node(f"plain-{number}", 8, labels={"zone": str(number % 2)}) for number in range(4)),
    *(node(f"amplified-{number}", 8, "1.50", static_cpu_manager=number == 0) for number in range(4)),
    *(numa_node(f"zones-{number}", 4, 2, policy=NumaPolicy.SINGLE_NUMA_NODE) for number in range(3)),
    *(numa_node(f"best-effort-{number}", 4, 2, "1.25", NumaPolicy.BEST_EFFORT) for number in range(3)),
    node("whole-cores", 16, full_cores_only=True),
    node("tainted", 32, taints=(TAINT,)),
    node("old", 32, taints=(WOULD_RATHER_NOT,)),
    node("no-topology", 32, topology=None),
    replace(node("offers", 8), allocatable={**node("offers", 8).allocatable, **BATCH}),
]
CHANGES = [
    lambda facts: replace(facts, unschedulable=not facts.unschedulable),
    lambda facts: replace(facts, taints=() if facts.taints else (TAINT,)),
    lambda facts: replace(facts, allocatable={**facts.allocatable, "memory": 16 * GIB}),
    lambda facts: replace(facts, allocatable={**facts.allocatable, "gpu": 2}),
    lambda facts: replace(facts, ratio=None if facts.ratio else Ratio(100)),
    lambda facts: replace(facts, full_cores_only=not facts.full_cores_only),
]
SHAPES = [
    partial(share, cpus=1, memory=2),
    partial(share, cpus=3, memory=1),
    partial(share, cpus=0.5),
    partial(
        share, cpus=1, memory=2, constraints=Constraints(selector=(NodeRequirement("zone", "In", ("1",)),))
    ),
    partial(share, cpus=1, memory=2, constraints=Constraints(preferred=((20, IN_ZONE_0), (50, IN_ZONE_1)))),
    partial(share, cpus=2, constraints=Constraints(tolerations=(Toleration(operator="Exists"),))),
    partial(share, cpus=3, memory=8, numa_policy=NumaPolicy.SINGLE_NUMA_NODE),
    partial(cpuset, cpus=2),
    partial(cpuset, cpus=3),
    partial(cpuset, cpus=2, binding=CPUBinding(BindPolicy.SPREAD_BY_PCPUS, required=True)),
    partial(cpuset, cpus=2, numa_policy=NumaPolicy.RESTRICTED),
    partial(static, cpus=2),
    partial(PodFacts, requests=BATCH),
    partial(PodFacts, requests={"cpu": 1000, "gpu": 1}),
]
ENGINES = {
    "least": assemble(kube_checks=True),
    "most": assemble(Allocation.MOST, kube_checks=True),
    "in proportion to other nodes": Engine.of(
        NodeConstraints(), ResourceFit(), AmplifiedCPU(), AllocationScore(), NodePreferences(), CPUPlacement()
    ),
}
CHANGED = ("remove pod", "change", "remove node", "add node")


def change(cluster: Cluster, what: str, number: int) -> None:
    facts: NodeFacts | None = cluster.nodes.get(NODES[number % len(NODES)].name)
    if what == "remove pod":
        cluster.remove_pod(f"a/{number}")
    elif what == "add node":
        cluster.put_node(NODES[number % len(NODES)])
    elif facts is not None and what == "change":
        cluster.put_node(CHANGES[number % len(CHANGES)](facts))
    elif facts is not None:
        cluster.remove_node(facts.name)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ENGINES)
def test_placement_matches_a_decision_about_all_nodes(name: str, seed: int) -> None:
    random = Random(seed)  # noqa: S311 - a history
    engine, cluster, pods = ENGINES[name], cluster_of(*NODES), 0
    placer = Placer(engine, cluster, gathering=0)
    for step in range(600):
        if random.random() < 0.1:
            change(cluster, random.choice(CHANGED), random.randrange(step + 1))
            continue
        number = random.randrange(len(SHAPES))
        pod = SHAPES[number](key=f"a/{pods}")
        pods += 1
        answer, expected = placer.place(pod), place(engine, cluster, pod)
        if isinstance(answer, Placement) and isinstance(expected, Placement):
            assert answer == expected
            cluster.put_pod(pod, answer)
        else:
            assert not isinstance(answer, Placement)
            assert not isinstance(expected, Placement)
            assert (answer.message, answer.refused) == (expected.message, expected.refused)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ENGINES)
def test_decision_about_some_nodes_matches_all_nodes(name: str, seed: int) -> None:
    random = Random(seed)  # noqa: S311 - a history
    engine, cluster = ENGINES[name], cluster_of(*NODES)
    for step in range(300):
        change(cluster, random.choice(CHANGED), random.randrange(step + 1))
        pod = random.choice(SHAPES)(key=f"a/{step}")
        snapshot = cluster.snapshot()
        among = np.array([random.random() < 0.3 for _ in range(snapshot.size)], dtype=np.bool_)
        whole = engine.decide(pod, snapshot, among, gathering=10**6)
        some = engine.decide(pod, snapshot, among, gathering=0)
        assert (some.node, some.headline) == (whole.node, whole.headline)
        for one, other in ((some, whole), (some.detached(), whole.detached())):
            assert (one.row, one.names) == (other.row, other.names)
            assert one.feasible.tolist() == other.feasible.tolist()
            assert one.total.tolist() == other.total.tolist()
            for row in np.flatnonzero(other.asked).tolist():
                assert list(one.refusals(row)) == list(other.refusals(row))
        answer = place(engine, cluster, pod)
        if isinstance(answer, Placement):
            cluster.put_pod(pod, answer)


def test_large_cluster_evaluates_only_the_nodes_in_question() -> None:
    evaluated: list[int] = []

    class Counted(ResourceFit):
        def filter(self, pod, snapshot):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
            evaluated.append(snapshot.size)
            return super().filter(pod, snapshot)

    snapshot = cluster_of(*(node(f"n{number}", 8) for number in range(100))).snapshot()
    among = np.zeros(100, dtype=np.bool_)
    among[[7, 70]] = True
    engine = Engine.of(Counted(), AllocationScore())
    assert engine.decide(share("a/1", 1), snapshot, among, gathering=50).node == "n7"
    assert engine.decide(share("a/1", 1), snapshot, among).node == "n7"
    assert evaluated == [2, 100]


def test_only_the_nodes_that_changed_are_judged_again() -> None:
    judged: list[int] = []

    class Counted(ResourceFit):
        def filter(self, pod, snapshot):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
            judged.append(snapshot.size)
            return super().filter(pod, snapshot)

    cluster = cluster_of(*(node(f"n{number}", 8) for number in range(100)))
    placer = Placer(Engine.of(Counted(), AllocationScore()), cluster, gathering=10)
    for number in range(4):
        pod = share(f"a/{number}", 1)
        answer = placer.place(pod)
        assert isinstance(answer, Placement)
        cluster.put_pod(pod, answer)
    assert judged == [100, 1, 1, 1]
