"""What the engine says of a node does not depend on the others: a binding looks at one alone."""

from __future__ import annotations

import pytest

from corewise.engine import AmplifiedCPU, ChosenNode, Cluster, CPUPlacement, Engine, PodFacts
from corewise.vocabulary.cpu_annotations import NumaPolicy
from engine.scenes import bind, cluster_of, cpuset, node, numa_node, share, static

ENGINE = Engine.of(AmplifiedCPU(), CPUPlacement())
PODS = [
    share("a/share", 5, 3),
    share("a/large", 30),
    cpuset("a/set", 4),
    cpuset("a/large-set", 12),
    static("a/static", 3),
    share("a/numa", 3, 8, numa_policy=NumaPolicy.SINGLE_NUMA_NODE),
    cpuset("a/numa-set", 6, numa_policy=NumaPolicy.RESTRICTED),
]


def cluster() -> Cluster:
    found = cluster_of(
        node("plain", 8),
        node("amplified", 16, "2.00", static_cpu_manager=True),
        numa_node("zones", 8, 2, "1.50", NumaPolicy.SINGLE_NUMA_NODE),
        numa_node("best-effort", 4, 4, "1.25", NumaPolicy.BEST_EFFORT),
        node("bad", 8, topology=None),
    )
    for number in range(6):
        bind(found, cpuset(f"b/set-{number}", 2))
        bind(found, share(f"b/share-{number}", 2, 1))
    return found


@pytest.mark.parametrize("pod", PODS, ids=lambda pod: pod.key)
def test_single_node_snapshot_gives_same_verdict_and_cpus(pod: PodFacts) -> None:
    full = cluster()
    snapshot = full.snapshot()
    whole = ENGINE.decide(pod, snapshot)
    for name, facts in full.nodes.items():
        row, one = snapshot.index[name], snapshot.only(snapshot.index[name])
        alone = ENGINE.decide(pod, one)
        assert alone.names == (name,)
        assert list(alone.refusals(0)) == list(whole.refusals(row))
        for plugin, verdicts in alone.verdicts.items():
            assert verdicts.numbers(0) == whole.verdicts[plugin].numbers(row)
        if whole.feasible[row]:
            ledger = full.ledger(name)
            there = ENGINE.reserve(pod, ChosenNode(facts, row, ledger, snapshot))
            assert ENGINE.reserve(pod, ChosenNode(facts, 0, ledger, one)) == there
