"""Everything but CPUs that makes a node suit a pod: names, cordons, taints, labels, resources; and scores.

Taints and tolerations
    NoSchedule, NoExecute     keep away who does not tolerate them
    PreferNoSchedule          keeps no one away
    key with Exists           tolerates every value;   no key with Exists tolerates everything
    effect given              tolerates that effect alone

Affinity
    terms are alternatives, requirements of a term must all hold, an empty term matches nothing
    Gt and Lt compare whole numbers, and hold for nothing else
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from corewise.amplification.numa import BoolColumn, IntColumn
from corewise.engine import (
    Allocation,
    AllocationScore,
    BlockingTaint,
    Cluster,
    ClusterSnapshot,
    Constraints,
    Engine,
    NodeFacts,
    NodePreferences,
    NodeRequirement,
    Placement,
    PodFacts,
    ResourceFit,
    Toleration,
)
from corewise.engine.kube_plugins import PREFERS_NOT, NodeResourcesFit
from corewise.scheduler.decisions import decision_record
from corewise.vocabulary.cpu_annotations import NumaPolicy
from corewise.vocabulary.names import BATCH_CPU
from corewise.vocabulary.reasons import Reason
from engine.scenes import GIB, bind, cluster_of, cpuset, decide, node, numa_node, share

GPU = BlockingTaint("gpu", "NoSchedule", "a100")


def suits(constraints: Constraints, **facts: Any) -> bool:
    return decide(cluster_of(node("n", 8, **facts)), share("a", 1, constraints=constraints)).node == "n"


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        (Toleration("gpu", "Equal", "a100"), True),
        (Toleration("gpu", "Equal", "a100", "NoSchedule"), True),
        (Toleration("gpu", "Exists"), True),
        (Toleration("", "Exists"), True),
        (Toleration("gpu", "Equal", "h100"), False),
        (Toleration("gpu", "Exists", effect="NoExecute"), False),
        (Toleration("cpu", "Exists"), False),
        (Toleration("", "Equal", "a100"), False),
    ],
)
def test_taint_refuses_pods_that_do_not_tolerate_it(toleration: Toleration, tolerated: bool) -> None:
    assert suits(Constraints(tolerations=(toleration,)), taints=(GPU,)) is tolerated


def test_every_taint_but_preferences_must_be_tolerated() -> None:
    both = (GPU, BlockingTaint("x", "NoExecute"))
    assert not suits(Constraints(tolerations=(Toleration("gpu", "Exists"),)), taints=both)
    assert suits(Constraints(), taints=(BlockingTaint("slow", "PreferNoSchedule"),))


def test_cordoned_node_takes_only_pods_tolerating_that() -> None:
    assert not suits(Constraints(), unschedulable=True)
    cordon = Toleration("node.kubernetes.io/unschedulable", "Exists")
    assert suits(Constraints(tolerations=(cordon,)), unschedulable=True)


def test_pod_naming_a_node_goes_there_or_nowhere() -> None:
    assert suits(Constraints(node_name="n"))
    assert not suits(Constraints(node_name="other"))


def requirement(operator: str, *values: str, key: str = "zone") -> NodeRequirement:
    return NodeRequirement(key, operator, values)


@pytest.mark.parametrize(
    ("given", "holds"),
    [
        (requirement("In", "a", "b"), True),
        (requirement("In", "b"), False),
        (requirement("In"), False),
        (requirement("NotIn", "b"), True),
        (requirement("NotIn", "a"), False),
        (requirement("NotIn", "a", key="none"), True),
        (requirement("Exists"), True),
        (requirement("Exists", key="none"), False),
        (requirement("DoesNotExist"), False),
        (requirement("DoesNotExist", key="none"), True),
        (requirement("Gt", "6", key="cores"), True),
        (requirement("Gt", "7", key="cores"), False),
        (requirement("Lt", "8", key="cores"), True),
        (requirement("Lt", "x", key="cores"), False),
        (requirement("Gt", "1", key="zone"), False),
        (requirement("Gt", "1", key="none"), False),
        (requirement("Nonsense", "a"), False),
        (NodeRequirement("metadata.name", "In", ("n", "m"), field=True), True),
        (NodeRequirement("metadata.name", "In", ("m",), field=True), False),
        (NodeRequirement("metadata.name", "NotIn", ("n",), field=True), False),
    ],
)
def test_a_requirement_holds_for_these_labels(given: NodeRequirement, holds: bool) -> None:
    labels = {"zone": "a", "cores": "7"}
    assert suits(Constraints(selector=(given,)), labels=labels) is holds
    assert suits(Constraints(affinity=((given,),)), labels=labels) is holds


def test_terms_are_alternatives_and_empty_one_matches_nothing() -> None:
    yes, no = requirement("Exists"), requirement("DoesNotExist")
    labels = {"zone": "a"}
    assert suits(Constraints(affinity=((no,), (yes,))), labels=labels)
    assert not suits(Constraints(affinity=((no, yes),)), labels=labels)
    assert not suits(Constraints(affinity=((),)), labels=labels)
    assert not suits(Constraints(affinity=()), labels=labels)
    assert suits(Constraints(affinity=None), labels=labels)


def test_changed_labels_or_taints_count_at_once() -> None:
    cluster = cluster_of(node("n", 8, labels={"zone": "a"}))
    pod = share("a", 1, constraints=Constraints(selector=(requirement("In", "a"),)))
    engine = decide(cluster, pod)
    assert engine.node == "n"
    cluster.put_node(node("n", 8, labels={"zone": "b"}))
    assert decide(cluster, pod).node is None
    cluster.put_node(node("n", 8, labels={"zone": "a"}, taints=(GPU,)))
    assert decide(cluster, pod).node is None
    cluster.put_node(node("m", 8, labels={"zone": "a", "new": "key"}))
    assert decide(cluster, pod).node == "m"


def test_every_resource_and_the_pod_count_must_suffice() -> None:
    facts = NodeFacts("n", {"cpu": 4000, "memory": 8 * GIB, "pods": 2, "gpu": 1})
    cluster = cluster_of(facts)
    assert decide(cluster, PodFacts("a", {"gpu": 1, "cpu": 4000})).node == "n"
    refused = {
        "Insufficient cpu": PodFacts("a", {"cpu": 4001}),
        "Insufficient memory": PodFacts("a", {"memory": 9 * GIB}),
        "Insufficient gpu": PodFacts("a", {"gpu": 2}),
        "Insufficient fpga": PodFacts("a", {"fpga": 1}),
    }
    for summary, pod in refused.items():
        assert [each.cause.summary for each in decide(cluster, pod).causes()] == [summary]
    for key in "xy":
        cluster.put_pod(PodFacts(key), Placement("n"))
    assert [each.cause.summary for each in decide(cluster, PodFacts("a")).causes()] == ["Too many pods"]


def test_amounts_are_told_as_users_write_them() -> None:
    cluster = cluster_of(NodeFacts("n", {"cpu": 2500, "memory": 3 << 29, "pods": 9, "gpu": 1}))
    for requests, told in (
        ({"cpu": 3000}, "requests 3 of cpu, 2500m is left"),
        ({"memory": 2 * GIB}, "requests 2Gi of memory, 1536Mi is left"),
        ({"gpu": 2}, "requests 2 of gpu, 1 is left"),
    ):
        decision = Engine.of(ResourceFit()).decide(PodFacts("a", requests), cluster.snapshot())
        assert [each.message for _, each in decision.refusals(0)] == [told]


def test_impossible_amounts_fit_nowhere_and_break_nothing() -> None:
    cluster = cluster_of(NodeFacts("n", {"cpu": 2**80, "memory": 2**80, "pods": 110}))
    assert decide(cluster, PodFacts("a", {"cpu": 2**62})).node is None
    assert decide(cluster, PodFacts("a", {"cpu": 1000})).node == "n"


def test_pod_is_refused_for_first_resource_it_lacks() -> None:
    requests = {"cpu": 1000, **{f"example.com/device-{number}": 1 for number in range(300)}}
    decision = decide(cluster_of(node("n", 8)), PodFacts("a", requests))
    assert [each.cause.summary for each in decision.causes()] == ["Insufficient example.com/device-0"]


def test_node_with_largest_or_smallest_free_share_wins() -> None:
    cluster = cluster_of(node("small", 8), node("large", 64))
    bind(cluster, share("a", 40, constraints=Constraints(node_name="large")))
    least = Engine.of(ResourceFit(), AllocationScore(Allocation.LEAST))
    most = Engine.of(ResourceFit(), AllocationScore(Allocation.MOST))
    pod = share("b", 1)
    assert least.decide(pod, cluster.snapshot()).node == "small"
    assert most.decide(pod, cluster.snapshot()).node == "large"


def test_owned_cpus_count_amplified_in_scores() -> None:
    cluster = cluster_of(node("n", 32, "2.00", memory=0), node("m", 32, "1.00", memory=0))
    decision = decide(cluster, cpuset("a", 16))
    by_name = dict(zip(decision.names, decision.total.tolist(), strict=True))
    assert by_name == {"n": 25, "m": 25}
    assert dict(zip(decision.names, decide(cluster, share("a", 16)).total.tolist(), strict=True)) == {
        "n": 37,
        "m": 25,
    }


@pytest.mark.parametrize(
    ("policy", "least", "most"),
    [
        (NumaPolicy.NONE, {"even": 81, "uneven": 81}, {"even": 18, "uneven": 18}),
        (NumaPolicy.SINGLE_NUMA_NODE, {"even": 75, "uneven": 87}, {"even": 25, "uneven": 12}),
        (NumaPolicy.RESTRICTED, {"even": 75, "uneven": 87}, {"even": 25, "uneven": 12}),
        (NumaPolicy.BEST_EFFORT, {"even": 75, "uneven": 87}, {"even": 25, "uneven": 12}),
    ],
)
def test_numa_policy_scores_zones_the_pod_would_get(
    policy: NumaPolicy, least: dict[str, int], most: dict[str, int]
) -> None:
    """Both have 24 of 32 CPUs left: "even" 12 of 16 in each zone, "uneven" 16 and 8. The pod needs 4."""
    cluster = cluster_of(*(numa_node(each, 16, 2, policy=policy) for each in ("even", "uneven")))
    for name, zones in (("even", {0: 4, 1: 4}), ("uneven", {1: 8})):
        stated = {zone: {"cpu": cpus * 1000} for zone, cpus in zones.items()}
        cluster.put_pod(share(f"on-{name}", 8), Placement(name, zones=stated))
    snapshot = cluster.snapshot()
    for allocation, expected in ((Allocation.LEAST, least), (Allocation.MOST, most)):
        scores = AllocationScore(allocation).score(share("p", 4), snapshot, snapshot.present)
        assert dict(zip(snapshot.names, scores.tolist(), strict=True)) == expected


@pytest.mark.parametrize("allocation", list(Allocation))
def test_offline_pods_follow_batch_cpu_like_kube_scheduler(
    allocation: Allocation,
) -> None:
    offers = {"little": 4000, "much": 16_000, "nothing": 0}
    facts = [node(name, 32) for name in offers]
    cluster = cluster_of(
        *(replace(each, allocatable={**each.allocatable, BATCH_CPU: offers[each.name]}) for each in facts)
    )
    cluster.put_pod(share("on-much", 24), Placement("much"))
    cluster.put_pod(PodFacts("running", {BATCH_CPU: 1000}), Placement("little"))
    snapshot, pod = cluster.snapshot(), PodFacts("p", {BATCH_CPU: 1000})
    scores = AllocationScore(allocation).score(pod, snapshot, snapshot.present)
    found = dict(zip(snapshot.names, scores.tolist(), strict=True))
    if allocation is Allocation.LEAST:
        assert found == {
            "little": (100 + 100 + 10 * 50) // 12,
            "much": (25 + 100 + 10 * 93) // 12,
            "nothing": 100,
        }
        own = NodeResourcesFit().score(pod, snapshot, snapshot.present)
        assert scores.tolist() == own.tolist()
    else:
        assert found == {"little": 500 // 12, "much": (75 + 10 * 6) // 12, "nothing": 0}


def test_node_memory_counts_where_zones_state_none() -> None:
    facts = numa_node("n", 16, 2, policy=NumaPolicy.SINGLE_NUMA_NODE)
    cluster = cluster_of(replace(facts, zones=tuple(replace(each, memory=0) for each in facts.zones)))
    snapshot = cluster.snapshot()
    scores = AllocationScore().score(share("p", 4, memory=64), snapshot, snapshot.present)
    assert scores.tolist() == [75], "75 of the zone's cpu, 75 of the node's memory"


def preferring(*terms: tuple[int, NodeRequirement], tolerations: tuple[Toleration, ...] = ()) -> list[int]:
    """Return the scores of three nodes: in zone a, in zone b and slow, and nowhere and slow."""
    slow = BlockingTaint("slow", PREFERS_NOT, "very")
    cluster = cluster_of(
        node("a", 8, labels={"zone": "a"}, taints=(GPU,)),
        node("b", 8, labels={"zone": "b"}, taints=(slow,)),
        node("c", 8, taints=(slow, BlockingTaint("slower", PREFERS_NOT))),
    )
    preferred = tuple((weight, (term,)) for weight, term in terms)
    pod = share("p", 1, constraints=Constraints(preferred=preferred, tolerations=tolerations))
    snapshot, plugin = cluster.snapshot(), NodePreferences()
    return [int(each) for each in plugin.score(pod, snapshot, snapshot.present)]


def test_preferred_terms_and_untolerated_taints_count_in_proportion() -> None:
    in_a, in_b = requirement("In", "a"), requirement("In", "b")
    assert preferring() == [60, 30, 0]
    assert preferring((1, in_a)) == [100, 30, 0]
    assert preferring((50, in_b), (25, in_a)) == [80, 70, 0]
    assert preferring((10, requirement("Exists"))) == [100, 70, 0]
    everything = (Toleration("", "Exists"),)
    assert preferring(tolerations=everything) == [60, 60, 60]
    assert preferring(tolerations=(Toleration("slow", "Exists", effect="NoSchedule"),)) == [60, 30, 0]
    assert preferring(tolerations=(Toleration("slow", "Equal", "very"),)) == [60, 60, 0]


def test_weighted_scores_cover_feasible_nodes_ties_take_first() -> None:
    class Named:
        name = "Named"
        weight = 10

        def score(self, pod: PodFacts, snapshot: ClusterSnapshot, feasible: BoolColumn) -> IntColumn:
            many = int(feasible.sum())
            return np.array([many if name == "b" else 0 for name in snapshot.names], dtype=np.int64)

    cluster = cluster_of(node("a", 8), node("b", 8), node("c", 8))
    decision = Engine.of(Named(), AllocationScore()).decide(share("p", 1), cluster.snapshot())
    assert decision.node == "b"
    assert decision.scores["Named"].tolist() == [0, 3, 0]
    assert decision.total[1] - decision.total[0] == 30
    assert Engine.of().decide(share("p", 1), cluster.snapshot()).node == "a"


def test_refusal_sum_counts_nodes_by_their_first_plugin() -> None:
    cluster = cluster_of(
        node("tainted", 1, taints=(GPU,)), node("small", 1), node("smaller", 1), node("good", 8)
    )
    decision = decide(cluster, share("ns/p", 4))
    record = decision_record(decision)
    assert (decision.node, record["nodesAsked"], record["nodesSuiting"]) == ("good", 4, 1)
    assert record["best"] == [{"node": "good", "score": 75}]
    assert [(each.nodes, each.cause.reason) for each in decision.causes()] == [
        (2, Reason.RESOURCE_INSUFFICIENT),
        (1, Reason.TAINT_NOT_TOLERATED),
    ]
    assert decision.headline == "ns/p goes to good: 1 of 4 nodes suit it"
    nowhere = decide(cluster, share("ns/p", 9))
    assert nowhere.headline == (
        "0/4 nodes are available: 3 Insufficient cpu, 1 node has the untolerated taint {gpu: a100}"
    )
    first = decision_record(nowhere)["refusals"][0]
    assert first["example"] == "small: requests 9 of cpu, 1 is left"
    assert decide(Cluster(), share("ns/p", 1)).headline == ("0/0 nodes are available: there are no nodes")
