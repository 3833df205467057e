"""Worked examples, through the engine: what fits a node, and what a refusal says.

A node of 32 CPUs at ratio 2.00 offers 64:

    bound          asked            verdict
    cpuset 32      cpuset 32        refused
    cpuset 32      share 32         refused
    share 32       share 32         fits
    share 32       cpuset 32        refused
    -              cpuset 33        refused: the machine has 32
    whatever       share 0          fits
    static kubelet: Guaranteed pods with whole CPUs are CPUSet pods there, CPUShare pods elsewhere

Zones of 16 CPUs at ratio 1.50 under SingleNUMANode: share 14, then cpuset 8 goes to the other zone, and with
one zone nowhere.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewise.engine import (
    ChosenNode,
    Cluster,
    NodeFacts,
    Placement,
    PodFacts,
)
from corewise.scheduler.decisions import node_records
from corewise.topology import CPUSet
from corewise.vocabulary.cpu_annotations import (
    BindPolicy,
    CPUBinding,
    ExclusivePolicy,
    NumaPolicy,
)
from corewise.vocabulary.findings import Finding
from corewise.vocabulary.reasons import Reason
from engine.scenes import (
    GIB,
    arrangement,
    bind,
    cluster_of,
    cpuset,
    decide,
    engine,
    node,
    numa_node,
    share,
    static,
)

FULL, SPREAD = BindPolicy.FULL_PCPUS, BindPolicy.SPREAD_BY_PCPUS
SINGLE, RESTRICTED, BEST = NumaPolicy.SINGLE_NUMA_NODE, NumaPolicy.RESTRICTED, NumaPolicy.BEST_EFFORT


def reasons(cluster: Cluster, pod: PodFacts) -> list[Reason]:
    return [each.cause.reason for each in decide(cluster, pod).causes()]


@pytest.mark.parametrize(
    ("bound", "asked", "fits"),
    [
        (cpuset("a", 32), cpuset("b", 32), False),
        (cpuset("a", 32), share("b", 32), False),
        (share("a", 32), share("b", 32), True),
        (share("a", 32), cpuset("b", 32), False),
        (share("a", 0.001), cpuset("b", 32), False),
        (share("a", 0), cpuset("b", 32), True),
        (cpuset("a", 16), share("b", 32), True),
        (cpuset("a", 16), share("b", 32.001), False),
        (cpuset("a", 16), cpuset("b", 16), True),
        (cpuset("a", 32), share("b", 0), True),
    ],
)
def test_on_32_cpus_at_ratio_2(bound: PodFacts, asked: PodFacts, fits: bool) -> None:
    cluster = cluster_of(node("n", 32, "2.00"))
    assert isinstance(bind(cluster, bound), Placement)
    assert (decide(cluster, asked).node == "n") is fits


def test_pod_owning_more_cpus_than_machine_is_refused() -> None:
    assert Reason.NOT_ENOUGH_CPUS in reasons(cluster_of(node("n", 32, "2.00")), cpuset("a", 33))


def test_static_cpu_manager_cpus_count_where_it_runs() -> None:
    plain, managed = node("plain", 32, "2.00"), node("managed", 32, "2.00", static_cpu_manager=True)
    for bound in (share("a", 32), static("a", 32)):
        assert isinstance(bind(cluster_of(plain), bound), Placement)
    cluster = cluster_of(managed)
    cluster.put_pod(static("a", 16), Placement("managed"))
    assert decide(cluster, share("b", 32)).node == "managed"
    assert decide(cluster, share("b", 33)).node is None
    cluster.put_node(node("managed", 32, "2.00"))
    assert decide(cluster, share("b", 48)).node == "managed"


def test_pod_bound_without_cpus_counts_by_its_request() -> None:
    cluster = cluster_of(node("n", 32, "2.00"))
    cluster.put_pod(cpuset("a", 16), Placement("n"))
    assert decide(cluster, share("b", 33)).node is None
    cluster.put_pod(cpuset("a", 16), Placement("n", CPUSet.parse("0-15")))
    assert decide(cluster, share("b", 33)).node is None
    assert decide(cluster, share("b", 32)).node == "n"


def test_a_cpu_that_two_pods_name_counts_once() -> None:
    cluster = cluster_of(node("n", 32, "2.00"))
    for key in "ab":
        cluster.put_pod(cpuset(key, 16), Placement("n", CPUSet.parse("0-15")))
    assert cluster.snapshot().owned_cpu.tolist() == [16_000]
    ledger = cluster.ledger("n")
    assert ledger is not None
    assert [conflict.owner for conflict in ledger.conflicts] == ["b"]


def test_unreadable_ratio_refuses_cpuset_pods_and_amplifies_nothing() -> None:
    cluster = cluster_of(NodeFacts("n", {"cpu": 32_000, "memory": 1, "pods": 9}, ratio=None))
    assert reasons(cluster, cpuset("a", 4)) == [Reason.AMPLIFICATION_RATIO_INVALID]
    assert decide(cluster, share("a", 32)).node == "n"


def test_cpuset_pod_needs_a_node_stating_its_cpus() -> None:
    cluster = cluster_of(node("n", 32, topology=None))
    assert reasons(cluster, cpuset("a", 4)) == [Reason.CPU_TOPOLOGY_UNKNOWN]
    assert decide(cluster, share("a", 4)).node == "n"


def test_a_cpuset_pod_gets_no_reserved_cpu() -> None:
    cluster = cluster_of(node("n", 8, reserved=CPUSet.parse("0,4")))
    assert reasons(cluster, cpuset("b", 8)) == [Reason.NOT_ENOUGH_CPUS]
    chosen = bind(cluster, cpuset("a", 6))
    assert isinstance(chosen, Placement)
    assert chosen.cpus == CPUSet.parse("1-3,5-7")


def test_unknown_reservation_keeps_cpuset_pods_away() -> None:
    cluster = cluster_of(node("n", 8, reservation_known=False))
    assert reasons(cluster, cpuset("a", 2)) == [Reason.NODE_RESERVATION_INVALID]
    assert decide(cluster, share("b", 2)).node == "n"
    assert decide(cluster, static("c", 2)).node == "n"


def test_pod_with_a_problem_fits_nowhere_with_reason() -> None:
    problem = Finding(Reason.CPUS_NOT_INTEGER, "the requested CPUs must be integer, not 2.5")
    decision = decide(cluster_of(node("n", 32)), PodFacts("a", {"cpu": 2500}, problem=problem))
    assert decision.node is None
    assert decision.headline == ("0/1 nodes are available: 1 the requested CPUs must be integer, not 2.5")


def test_a_required_shape_must_be_there() -> None:
    cluster = cluster_of(node("n", 8))
    full, spread = CPUBinding(FULL, required=True), CPUBinding(SPREAD, required=True)
    assert reasons(cluster, cpuset("a", 3, full)) == [Reason.NOT_WHOLE_CORES]
    assert reasons(cluster, cpuset("a", 5, spread)) == [Reason.NOT_ENOUGH_CORES]
    assert isinstance(bind(cluster, cpuset("a", 4, spread)), Placement)
    assert reasons(cluster, cpuset("b", 2, full)) == [Reason.NOT_WHOLE_CORES]
    assert decide(cluster, cpuset("b", 2)).node == "n"


def test_whole_core_node_refuses_single_threads() -> None:
    cluster = cluster_of(node("n", 8, full_cores_only=True))
    assert reasons(cluster, cpuset("a", 3)) == [Reason.NOT_WHOLE_CORES]
    assert reasons(cluster, cpuset("a", 2, CPUBinding(SPREAD, required=True))) == [
        Reason.BIND_POLICY_CONFLICT
    ]
    assert bind(cluster, cpuset("a", 2, CPUBinding(SPREAD))) == Placement("n", CPUSet.parse("0,4"))


def test_pod_request_counts_amplified_in_its_zone() -> None:
    cluster = cluster_of(numa_node("n", 16, 1, "1.50", SINGLE))
    assert isinstance(bind(cluster, share("a", 14)), Placement)
    assert Reason.AMPLIFIED_CPU_INSUFFICIENT in reasons(cluster, cpuset("b", 8))
    two = cluster_of(numa_node("n", 16, 2, "1.50", SINGLE))
    assert bind(two, share("a", 14)) == Placement("n", zones={0: {"cpu": 14_000}})
    placed = bind(two, cpuset("b", 8))
    assert isinstance(placed, Placement)
    assert placed.zones == {1: {"cpu": 8_000}}
    assert reasons(two, cpuset("c", 9)) == [Reason.NUMA_NOT_ALIGNED]


@pytest.mark.parametrize(
    ("policy", "cpus", "zones"),
    [
        (SINGLE, 20, None),
        (RESTRICTED, 20, {0: {"cpu": 16_000}, 1: {"cpu": 4_000}}),
        (BEST, 20, {0: {"cpu": 16_000}, 1: {"cpu": 4_000}}),
        (SINGLE, 16, {0: {"cpu": 16_000}}),
        (NumaPolicy.NONE, 20, {}),
    ],
)
def test_a_pod_larger_than_a_zone(
    policy: NumaPolicy, cpus: int, zones: dict[int, dict[str, int]] | None
) -> None:
    placed = bind(cluster_of(numa_node("n", 16, 2, policy=policy)), share("a", cpus))
    assert placed == (None if zones is None else Placement("n", zones=zones))


def test_pod_and_node_with_different_numa_policies_mismatch() -> None:
    cluster = cluster_of(numa_node("n", 16, 2, policy=RESTRICTED))
    assert reasons(cluster, share("a", 1, numa_policy=SINGLE)) == [Reason.NUMA_POLICY_CONFLICT]
    assert decide(cluster, share("a", 1, numa_policy=RESTRICTED)).node == "n"
    assert decide(cluster, share("a", 1, numa_policy=NumaPolicy.NONE)).node == "n"
    plain = cluster_of(numa_node("n", 16, 2))
    assert reasons(plain, share("a", 17, numa_policy=SINGLE)) == [Reason.NUMA_NOT_ALIGNED]


def test_numa_policy_without_usable_zones_refuses_the_pod() -> None:
    cluster = cluster_of(node("n", 16, numa_policy=SINGLE))
    assert reasons(cluster, share("a", 1)) == [Reason.NUMA_ZONES_UNUSABLE]
    assert decide(cluster, PodFacts("b")).node == "n"
    many = cluster_of(numa_node("n", 2, 9), numa_node("m", 2, 8))
    assert reasons(many, share("a", 1, numa_policy=RESTRICTED))[:1] == [Reason.NUMA_ZONES_UNUSABLE]
    assert decide(many, share("a", 1, numa_policy=RESTRICTED)).node == "m"


@pytest.mark.parametrize("policy", [SINGLE, RESTRICTED, BEST])
def test_kept_cpus_are_given_again_in_their_zone(policy: NumaPolicy) -> None:
    """Zone 0 has room by now, and would come first."""
    cluster = cluster_of(numa_node("n", 8, 2, policy=policy))
    chosen = ChosenNode.of(cluster, cluster.snapshot(), 0)
    assert chosen.ledger is not None
    cpus = chosen.ledger.topology.numa_nodes[1]
    ledger = replace(chosen.ledger, reserved=chosen.ledger.topology.cpus - cpus)
    pod = replace(cpuset("a", 8), requests={"cpu": 8000, "memory": GIB}, kept=8)
    placed = engine().reserve(pod, replace(chosen, ledger=ledger))
    assert placed == Placement("n", cpus, {1: {"cpu": 8000, "memory": GIB}})


def test_memory_must_lie_in_the_same_zone() -> None:
    cluster = cluster_of(numa_node("n", 16, 2, policy=SINGLE))
    assert isinstance(bind(cluster, share("a", 12, memory=100)), Placement)
    assert reasons(cluster, share("b", 2, memory=129)) == [Reason.NUMA_NOT_ALIGNED]
    placed = bind(cluster, share("c", 2, memory=30))
    assert isinstance(placed, Placement)
    assert set(placed.zones) == {1}


def test_owned_cpus_come_from_zones_within_their_room() -> None:
    cluster = cluster_of(numa_node("n", 16, 2, policy=RESTRICTED))
    assert isinstance(bind(cluster, share("a", 12)), Placement)
    placed = bind(cluster, cpuset("b", 20))
    assert isinstance(placed, Placement)
    assert placed.zones == {0: {"cpu": 4_000}, 1: {"cpu": 16_000}}
    assert cluster.snapshot().zone_cpu_room[:, 0].tolist() == [0, 0]


def test_zone_room_is_counted_in_whole_cpus() -> None:
    """Two rooms of 13 amplified CPUs at ratio 1.50 are 8 CPUs each, and not 17 together."""
    cluster = cluster_of(numa_node("n", 16, 2, "1.50", RESTRICTED))
    for key in "ab":
        assert isinstance(bind(cluster, share(key, 11, memory=100)), Placement)
    assert cluster.snapshot().zone_cpu_room[:, 0].tolist() == [13_000, 13_000]
    assert reasons(cluster, cpuset("c", 17)) == [Reason.NUMA_NOT_ALIGNED]
    cluster.remove_pod("b")
    placed = bind(cluster, cpuset("c", 17))
    assert isinstance(placed, Placement)
    assert sum(zone["cpu"] for zone in placed.zones.values()) == 17_000


def test_static_cpu_manager_cpus_take_amplified_zone_room() -> None:
    cluster = cluster_of(numa_node("n", 16, 2, "2.00", RESTRICTED, static_cpu_manager=True))
    assert isinstance(bind(cluster, share("a", 12)), Placement)
    placed = bind(cluster, static("b", 20))
    assert isinstance(placed, Placement)
    assert placed.zones == {0: {"cpu": 10_000}, 1: {"cpu": 10_000}}
    assert (cluster.snapshot().zone_cpu_room[:, 0] >= 0).all()


def test_named_cpus_are_owned_in_their_actual_zone() -> None:
    pod = cpuset("a", 8)
    for zones in ({}, {1: {"cpu": 8_000}}):
        cluster = Cluster()
        cluster.put_pod(pod, Placement("n", CPUSet.parse("0-7"), zones))
        cluster.put_node(numa_node("n", 16, 2, "1.50", SINGLE))
        assert cluster.snapshot().zone_cpu_room[:, 0].tolist() == [12_000, 24_000]
        assert reasons(cluster, share("b", 24.001)) == [Reason.NUMA_NOT_ALIGNED]


bindings = st.builds(CPUBinding, st.sampled_from(BindPolicy), st.booleans(), st.sampled_from(ExclusivePolicy))
own_policies = st.sampled_from([None, *NumaPolicy])
askers = st.one_of(
    st.builds(share, st.just(""), st.integers(0, 12), st.integers(0, 200), numa_policy=own_policies),
    st.builds(cpuset, st.just(""), st.integers(1, 12), bindings, numa_policy=own_policies),
    st.builds(static, st.just(""), st.integers(1, 12), numa_policy=own_policies),
)
machines = st.one_of(
    st.builds(
        numa_node,
        st.just("n"),
        st.integers(1, 8),
        st.integers(1, 3),
        st.sampled_from(["1.00", "1.33", "1.50", "2.00"]),
        st.sampled_from(NumaPolicy),
        reserved=st.sets(st.integers(0, 7), max_size=2).map(CPUSet.of),
        full_cores_only=st.booleans(),
        static_cpu_manager=st.booleans(),
    ),
    st.builds(
        node,
        st.just("n"),
        st.just(8),
        topology=st.sets(st.integers(0, 7), min_size=1).map(lambda on: arrangement(8).within(CPUSet.of(on))),
    ),
)


@given(machines, st.lists(askers, max_size=8))
def test_whoever_is_admitted_is_given_what_it_needs(machine: NodeFacts, pods: list[PodFacts]) -> None:
    cluster = cluster_of(machine)
    for number, pod in enumerate(pods):
        placed = bind(cluster, replace(pod, key=f"p{number}"))
        assert not isinstance(placed, Finding)
        assert placed is None or len(placed.cpus) * 1000 == pod.owned_by_class
        if machine.numa_policy in {SINGLE, RESTRICTED}:
            assert (cluster.snapshot().zone_cpu_room >= 0).all()


def test_reserve_refuses_node_whose_cpus_were_taken_meanwhile() -> None:
    cluster = cluster_of(node("n", 4))
    pod = cpuset("a", 3)
    decision = decide(cluster, pod)
    assert decision.node == "n"
    cluster.put_pod(cpuset("b", 2), Placement("n", CPUSet.parse("0-1")))
    chosen = ChosenNode.of(cluster, cluster.snapshot(), decision.row)
    refused = engine().reserve(pod, chosen)
    assert isinstance(refused, Finding)
    assert refused.reason is Reason.NOT_ENOUGH_CPUS


def test_a_refusal_tells_its_numbers() -> None:
    cluster = cluster_of(node("n", 32, "2.00"))
    bind(cluster, share("a", 40))
    decision = decide(cluster, cpuset("b", 16))
    (record,) = node_records(decision)
    (verdict,) = [each for each in record["verdicts"] if each["reason"]]
    assert verdict["message"] == (
        "needs 32 amplified CPUs (16 requested, of which 16 owned, ratio 2.00), 24 of 64 are left"
    )
    assert verdict["inputs"]["free_cpus"] == 32
