"""The engine that stands for kube-scheduler: its score of resources, and what it knows of owned CPUs.

| pod requests | node | score |
|---|---|---|
| 2 of 8 CPUs, a quarter of memory | empty | (75 + 75) / 2 |
| the same | offers batch CPU | the same: the pod requests none |
| 4 of 8 batch CPUs, 8 of 16 GiB | half of its CPU requested, memory free | (50 + 100 + 10 x 50 + 50) / 13 |
| the same | offers none | not feasible |
| nothing | all requested | 0 |
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from corewise.engine import NodeFacts, Placement, PodFacts
from corewise.engine.assembly import kube_scheduler
from corewise.vocabulary.names import BATCH_CPU, BATCH_MEMORY
from engine.scenes import GIB, cluster_of, cpuset, node, share

SCORE = "NodeResourcesFit"


def offering(name: str, batch_cpu: int = 8000) -> NodeFacts:
    plain = node(name, 8, memory=16)
    return replace(plain, allocatable={**plain.allocatable, BATCH_CPU: batch_cpu, BATCH_MEMORY: 16 * GIB})


def offline(key: str, batch_cpu: int = 4000) -> PodFacts:
    return PodFacts(key, {BATCH_CPU: batch_cpu, BATCH_MEMORY: 8 * GIB})


@pytest.mark.parametrize(
    ("pod", "there", "taken", "score"),
    [
        (share("web", 2, 4), node("n", 8, memory=16), None, 75),
        (share("web", 2, 4), offering("n"), None, 75),
        (offline("batch"), offering("n"), share("web", 4), (50 + 100 + 10 * 50 + 50) // 13),
        (PodFacts("nothing", {}), node("n", 8, memory=16), share("web", 8, 16), 0),
    ],
)
def test_the_score_is_that_of_kube_scheduler(
    pod: PodFacts, there: NodeFacts, taken: PodFacts | None, score: int
) -> None:
    cluster = cluster_of(there)
    if taken:
        cluster.put_pod(taken, Placement("n"))
    decision = kube_scheduler().decide(pod, cluster.snapshot())
    assert decision.node == "n"
    assert decision.scores[SCORE].tolist()[decision.row] == score


def test_offline_pod_prefers_larger_share_of_batch_cpu() -> None:
    cluster = cluster_of(offering("fuller", 16_000), offering("emptier"), node("none", 64))
    cluster.put_pod(offline("first", 12_000), Placement("fuller"))
    cluster.put_pod(share("web", 8, 8), Placement("emptier"))
    decision = kube_scheduler().decide(offline("second", 1000), cluster.snapshot())
    assert decision.node == "emptier", "though it has no cpu left, and the other one has all"
    assert [each.cause.summary for each in decision.causes()] == [f"Insufficient {BATCH_CPU}"]


def test_cost_of_owned_cpus_reduces_node_room() -> None:
    cluster = cluster_of(node("fast", 8, "2.00"))
    cluster.put_pod(cpuset("owner", 4), Placement("fast"))
    engine, snapshot = kube_scheduler(), cluster.snapshot()
    assert engine.decide(share("fits", 8), snapshot).node == "fast", "16 CPUs, 8 of which the owner takes"
    assert engine.decide(share("too-large", 9), snapshot).node is None
