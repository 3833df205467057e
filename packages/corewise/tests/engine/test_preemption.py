"""Which pods make way for one of higher priority: vectors, and a comparison with all sets of victims.

On a node of 16 CPUs at ratio 2.00, which offers 32, a share pod of n takes n and a CPUSet pod of n takes 2n:

on the node (priority)                         asked        victims
share 8 (0), cpuset 12 (0)                     cpuset 4     the cpuset: the share pod would not do
share 16 (0), share 4 (0) twice, share 8 (0)   cpuset 4     the last one: one pod instead of two
share 4 (1), share 4 (1), share 24 (2)         cpuset 4     both of priority 1
share 16 (0), guarded; share 16 (1)            cpuset 8     the one of priority 1
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corewise.config.interference.model import Profile
from corewise.engine import Cluster, Placement, PodFacts, assemble
from corewise.engine.assembly import interference_alone
from corewise.engine.facts import BlockingTaint
from corewise.engine.objects import (
    BudgetSelector,
    DisruptionBudget,
    DisruptionBudgetSpec,
    DisruptionBudgetStatus,
    LabelRequirement,
)
from corewise.engine.preemption import Victim, cheapest_victims, waits_for_ended, with_budgets
from corewise.kube.objects import ObjectMeta
from corewise.topology import CPUSet
from corewise.vocabulary.cpu_annotations import BindPolicy, CPUBinding, NumaPolicy
from corewise.vocabulary.owned_cpus import CPUOwner, OwnedCPUs
from engine.interference_scenes import STREAM, Scene, configuration, stream
from engine.scenes import bind, cluster_of, cpuset, node, numa_node, share

ENGINE = assemble()
PLENTY = {"cpu": 1 << 40, "memory": 1 << 60, "pods": 1000}
"""What kube-scheduler counts by, where that is not what a test is about."""


def on(cluster: Cluster, *pods: PodFacts, at: str = "n") -> list[Victim]:
    """Put pods on a node; the first ones are the oldest. All have priority 0."""
    victims = []
    for number, pod in enumerate(pods):
        placed = bind(cluster, pod)
        assert isinstance(placed, Placement), pod
        assert placed.node == at
        victims.append(Victim(pod, placed, pod.key, 0, float(number)))
    return victims


def named(found: list[Victim] | None) -> list[str] | None:
    return None if found is None else [each.pod.key for each in found]


def chosen(cluster: Cluster, pod: PodFacts, victims: list[Victim], **published: int) -> list[str] | None:
    found = cheapest_victims(ENGINE, cluster.alone("n"), pod, victims, {**PLENTY, **published})
    return named(found)


def test_owner_gives_back_its_request_times_ratio() -> None:
    cluster = cluster_of(node("n", 16, "2.00"))
    victims = on(cluster, share("shares", 8), cpuset("owns", 12))
    assert chosen(cluster, cpuset("p", 4), victims) == ["owns"]
    assert chosen(cluster, cpuset("p", 16), victims) == ["shares", "owns"]
    assert chosen(cluster, cpuset("p", 17), victims) is None


def test_equal_priority_evicts_smallest_sufficient_pod_not_two() -> None:
    cluster = cluster_of(node("n", 16, "2.00"))
    victims = on(cluster, share("huge", 16), share("a", 4), share("b", 4), share("large", 8))
    assert chosen(cluster, cpuset("p", 4), victims) == ["large"]
    assert chosen(cluster, cpuset("p", 8), victims) == ["huge"]
    assert chosen(cluster, cpuset("p", 2), victims) == ["large"], "where one will do, the youngest"


def test_lowest_priority_goes_first_whatever_the_count() -> None:
    cluster = cluster_of(node("n", 16, "2.00"))
    victims = on(cluster, share("a", 4), share("b", 4), share("c", 24))
    ranked = [replace(each, priority=priority) for each, priority in zip(victims, (1, 1, 2), strict=True)]
    assert chosen(cluster, cpuset("p", 4), ranked) == ["a", "b"]
    assert chosen(cluster, cpuset("p", 5), ranked) == ["c"], "the others would not do, and are not needed"


def test_guarded_pod_goes_only_if_others_fall_short() -> None:
    cluster = cluster_of(node("n", 16, "2.00"))
    victims = on(cluster, share("a", 16), share("b", 16))
    ranked = [replace(victims[0], guarded=True), replace(victims[1], priority=1)]
    assert chosen(cluster, cpuset("p", 8), ranked) == ["b"]
    assert chosen(cluster, cpuset("p", 9), ranked) == ["b", "a"]


def test_whole_cores_are_freed_when_pod_requires_them() -> None:
    """Four pods on one thread each of four cores: two that share no core with others free two whole cores."""
    cluster = cluster_of(node("n", 8))
    spread = CPUBinding(BindPolicy.SPREAD_BY_PCPUS, required=True)
    victims = on(cluster, *(cpuset(key, 1, spread) for key in "abcd"), share("s", 0.5))
    whole = CPUBinding(BindPolicy.FULL_PCPUS, required=True)
    found = chosen(cluster, cpuset("p", 2, whole), victims)
    assert found is not None
    assert len(found) == 1
    assert len(chosen(cluster, cpuset("p", 4, whole), victims) or ()) == 2


def test_room_across_two_zones_fails_single_numa_node() -> None:
    facts = numa_node("n", 8, 2, policy=NumaPolicy.SINGLE_NUMA_NODE)
    cluster = cluster_of(facts)
    victims = on(cluster, cpuset("zone-0", 6), cpuset("zone-1", 6), cpuset("also-0", 2))
    assert chosen(cluster, cpuset("p", 2), victims) == [], "2 CPUs of zone 1 are free"
    assert chosen(cluster, cpuset("p", 8), victims) == ["zone-1"]
    only_zero = [each for each in victims if each.pod.key != "zone-1"]
    assert chosen(cluster, cpuset("p", 8), only_zero) == ["zone-0", "also-0"]


def test_kube_scheduler_victim_returns_only_if_room_explains() -> None:
    """kube-scheduler counts an owned CPU once: of 12 published CPUs 8 are requested, and 5 are needed."""
    cluster = cluster_of(node("n", 8, "1.50"))
    victims = on(cluster, share("shares", 4), cpuset("owns", 4))
    pod = cpuset("p", 5)
    proposed = [replace(victims[0], proposed=True), victims[1]]
    assert chosen(cluster, pod, proposed, cpu=12_000) == ["owns"], (
        "its 6 are enough, and 5 for kube-scheduler too"
    )
    assert chosen(cluster, pod, proposed) == ["shares", "owns"], (
        "room was plenty: something else made it a victim"
    )


@pytest.mark.parametrize(
    ("used", "since", "expected"),
    [
        (92e9, 1.0, ["young"]),
        (95e9, 1.0, ["old", "young"]),
        (88e9, 10_000.0, ["young"]),
        (91e9, 10_000.0, ["old", "young"]),
        (100e9, 1.0, None),
    ],
)
def test_victim_frees_its_bandwidth_once_others_free_none(
    used: float, since: float, expected: list[str] | None
) -> None:
    """Of 100 GB/s more than 10 must be free. Both pods of the profile use 5, and the third pod is unknown.

    Of "old" the measurements tell; of "young" too if it was placed at 1, and if it was placed now its
    counterweight, which counts on top of what is measured.
    """
    guess = "    default: {profile: {memoryBandwidthPerCore: 0}}\n"
    scene = Scene(configuration(STREAM + guess), nodes=("n",))
    pods = [(stream("old"), 1.0), (stream("young"), since), (share("ns/plain", 4), 1.0)]
    victims = []
    for number, (facts, placed) in enumerate(pods):
        scene.put(facts, "n", placed)
        victims.append(Victim(facts, Placement("n", since=placed), facts.key, 0, float(number)))
    scene.measure(memorybandwidth_used=used)
    assert scene.why(stream("p"), "n")
    found = cheapest_victims(scene.engine, scene.cluster.alone("n"), stream("p"), victims, PLENTY)
    assert found is None if expected is None else named(found) == [f"ns/{each}" for each in expected]


@pytest.mark.parametrize(
    ("capacity", "used", "expected"),
    [
        (30e9, 20e9, None),
        (40e9, 24e9, None),
        (50e9, 24e9, ["v2", "v3", "v4"]),
        (50e9, 20e9, ["v2", "v3", "v4"]),
        (61e9, 24e9, ["v4"]),
    ],
)
@pytest.mark.parametrize("missing", ["pass", "fail"])
def test_more_freed_than_used_is_no_missing_bandwidth(
    capacity: float, used: float, expected: list[str] | None, missing: str
) -> None:
    """Five pods whose profiles come to 25 GB/s of ``used``; the pod needs more than 40 GB/s free."""
    hog = "    hog: {profile: {memoryBandwidth: 20GB/s}, affinity: {}}\n"
    scene = Scene(configuration(f"{STREAM}{hog}  missing: {{filter: {missing}}}\n"), nodes=("n",))
    victims = []
    for number in range(5):
        facts = stream(f"v{number}")
        scene.put(facts, "n", 1.0)
        victims.append(Victim(facts, Placement("n", since=1.0), facts.key, 0, float(number)))
    scene.measure(memorybandwidth_capacity=capacity, memorybandwidth_used=used)
    pod = replace(stream("p"), labels={"app": "hog"})
    assert scene.why(pod, "n")
    found = cheapest_victims(scene.engine, scene.cluster.alone("n"), pod, victims, PLENTY)
    assert found is None if expected is None else named(found) == [f"ns/{each}" for each in expected]


def crowded(count: int, *, since: float = 1.0) -> tuple[Scene, list[Victim]]:
    """A node of 100 GB/s with pods of 5 GB/s each, all placed at a time."""
    scene = Scene(nodes=("n",))
    victims = []
    for number in range(count):
        facts = stream(f"v{number}")
        scene.put(facts, "n", since)
        victims.append(Victim(facts, Placement("n", since=since), facts.key, 0, float(number)))
    return scene, victims


def victims_for(scene: Scene, victims: list[Victim]) -> list[str] | None:
    found = cheapest_victims(scene.engine, scene.cluster.alone("n"), stream("p"), victims, PLENTY)
    return named(found)


def waits(scene: Scene) -> bool:
    return waits_for_ended(scene.engine, scene.cluster.alone("n"), stream("p"))


@pytest.mark.parametrize("after", [0, 10, 60, 140])
def test_pod_gets_no_more_victims_while_averages_follow(after: int) -> None:
    """The pod needs more than 10 GB/s, and 5 are free: two pods of 5 GB/s go, and the average follows."""
    scene, victims = crowded(10)
    scene.measure(memorybandwidth_used=95e9)
    assert victims_for(scene, victims) == ["ns/v8", "ns/v9"]
    for each in victims[8:]:
        scene.cluster.end_pod(each.pod.key)
    scene.now += after
    scene.measure(memorybandwidth_used=95e9 - 10e9 * after / 300)
    assert scene.why(stream("p"), "n"), "it does not fit yet"
    assert waits(scene)
    assert victims_for(scene, victims[:8]) == []


def test_use_that_outlasts_the_averages_costs_more_victims() -> None:
    scene, victims = crowded(10)
    for each in victims[8:]:
        scene.cluster.end_pod(each.pod.key)
    scene.now += 360
    scene.measure(memorybandwidth_used=95e9)
    assert not waits(scene)
    assert victims_for(scene, victims[:8]) == ["ns/v6", "ns/v7"]


def test_victims_too_few_are_no_reason_to_wait() -> None:
    scene, victims = crowded(10)
    scene.cluster.end_pod(victims[9].pod.key)
    scene.measure(memorybandwidth_used=97e9)
    assert not waits(scene), "8 GB/s are free once the average follows"
    assert victims_for(scene, victims[:9]) == ["ns/v8"]
    scene.measure(memorybandwidth_used=20e9)
    assert not waits(scene), "it fits"


def test_pod_that_never_showed_leaves_nothing_behind() -> None:
    scene, victims = crowded(1, since=10_000.0)
    scene.cluster.end_pod(victims[0].pod.key)
    assert scene.cluster.lingering_use("n") == Profile()
    scene, victims = crowded(1)
    scene.cluster.end_pod(victims[0].pod.key)
    assert scene.cluster.lingering_use("n").memory_bandwidth == 5e9
    assert scene.cluster.alone("n").lingering_use("n").memory_bandwidth == 5e9
    scene.now += 180
    assert scene.cluster.lingering_use("n").memory_bandwidth == 2.5e9
    scene.cluster.remove_node("n")
    assert scene.cluster.lingering_use("n") == Profile()


def test_victim_ledger_entry_goes_unbound_pod_entry_stays() -> None:
    owners = {
        "a": CPUOwner("ns/a", CPUSet.parse("0-3")),
        "being-bound": CPUOwner("ns/b", CPUSet.parse("4-5")),
    }
    cluster = cluster_of(node("n", 8, owned=OwnedCPUs(owners)))
    facts = replace(cpuset("ns/a", 4), uid="a")
    cluster.put_pod(facts, Placement("n"))
    victims = [Victim(facts, Placement("n", CPUSet.parse("0-3")), "a", 0, 1.0)]
    assert cluster.snapshot().free_cpus.tolist() == [2]
    assert chosen(cluster, cpuset("p", 6), victims) == ["ns/a"]
    assert chosen(cluster, cpuset("p", 7), victims) is None
    assert cluster.snapshot().free_cpus.tolist() == [2]


def test_entry_of_ended_victim_costs_no_more_victims() -> None:
    owners = {"a": CPUOwner("ns/a", CPUSet.parse("0-3")), "b": CPUOwner("ns/b", CPUSet.parse("4-5"))}
    cluster = cluster_of(node("n", 8, owned=OwnedCPUs(owners)))
    cluster.put_pod(replace(cpuset("ns/a", 4), uid="a"), Placement("n"))
    cluster.end_pod("ns/a")
    for count, expected in ((2, False), (3, True), (6, True), (7, False)):
        assert waits_for_ended(ENGINE, cluster.alone("n"), cpuset("p", count)) is expected, count
    assert cluster.snapshot().free_cpus.tolist() == [2]


@pytest.mark.parametrize(
    ("change", "more"),
    [
        ({}, True),
        ({"unschedulable": True}, False),
        ({"taints": (BlockingTaint("node.kubernetes.io/not-ready", "NoSchedule"),)}, False),
        ({"allocatable": {"cpu": 800, "memory": 1 << 40, "pods": 110}}, False),
    ],
)
def test_pod_waits_only_for_usable_node(change: dict[str, Any], more: bool) -> None:
    scene, victims = crowded(10)
    for each in victims[8:]:
        scene.cluster.end_pod(each.pod.key)
    scene.measure(memorybandwidth_used=95e9)
    scene.cluster.put_node(replace(scene.cluster.nodes["n"], **change))
    alone = scene.cluster.alone("n")
    assert waits_for_ended(interference_alone(scene.plugin), alone, stream("p")) is more


def test_inputs_are_left_unchanged() -> None:
    cluster = cluster_of(node("n", 16, "2.00"))
    victims = on(cluster, share("a", 16), cpuset("b", 8))
    before = cluster.snapshot().cpu_room.copy()
    assert chosen(cluster, cpuset("p", 16), victims) == ["a", "b"]
    assert (cluster.snapshot().cpu_room == before).all()
    assert set(cluster.pods_on("n")) == {"a", "b"}


PODS = st.lists(
    st.tuples(
        st.sampled_from(["share", "cpuset"]),
        st.integers(1, 4),
        st.integers(0, 2),
        st.booleans(),
        st.booleans(),
    ),
    min_size=1,
    max_size=5,
)


@settings(max_examples=60)
@given(PODS, st.integers(1, 8), st.sampled_from(["1.00", "1.50", "2.00"]), st.sampled_from([1, 2]))
def test_victim_set_is_minimal_in_size_and_priority(
    pods: list[tuple[str, int, int, bool, bool]], cpus: int, ratio: str, zones: int
) -> None:
    """Compared with all sets of victims: those that make room, by the engine on a cluster without them."""
    policy = NumaPolicy.SINGLE_NUMA_NODE if zones > 1 else NumaPolicy.NONE
    cluster = cluster_of(numa_node("n", 8 // zones, zones, ratio, policy))
    victims: list[Victim] = []
    for number, (kind, count, priority, guarded, _) in enumerate(pods):
        facts = (cpuset if kind == "cpuset" else share)(f"pod-{number}", count)
        placed = bind(cluster, facts)
        if isinstance(placed, Placement):
            victims.append(Victim(facts, placed, facts.key, priority, float(number), guarded))
    pod = cpuset("p", cpus)

    def fits_without(gone: set[str]) -> bool:
        alone = cluster.alone("n")
        for each in gone:
            alone.remove_pod(each)
        return isinstance(bind(alone, pod), Placement)

    every = [
        {each.uid for each in some}
        for size in range(len(victims) + 1)
        for some in combinations(victims, size)
    ]
    enough = [some for some in every if fits_without(some)]
    found = cheapest_victims(ENGINE, cluster.alone("n"), pod, victims, PLENTY)
    if found is None:
        assert not enough
        return
    uids = {each.uid for each in found}
    assert uids in enough
    assert not [some for some in enough if some < uids], "one too many"
    by_uid = {each.uid: each for each in victims}

    def worst(some: set[str]) -> tuple[int, int]:
        violations = sum(by_uid[each].guarded for each in some)
        return violations and 1, max((by_uid[each].priority for each in some), default=-1)

    without = [some for some in enough if not worst(some)[0]]
    if without:
        assert worst(uids) == min(map(worst, without)), "violates a budget, or takes a pod of higher priority"


def budget(
    selector: BudgetSelector | None, allowed: int, disrupted: tuple[str, ...] = ()
) -> DisruptionBudget:
    return DisruptionBudget(
        ObjectMeta(name="b", namespace="ns"),
        DisruptionBudgetSpec(selector),
        DisruptionBudgetStatus(allowed, dict.fromkeys(disrupted, "2026-01-01T00:00:00Z")),
    )


WEB = BudgetSelector(match_labels={"app": "web"})


@pytest.mark.parametrize(
    ("selector", "allowed", "disrupted", "expected"),
    [
        (WEB, 1, (), ["c"]),
        (WEB, 0, (), ["a", "c"]),
        (WEB, 0, ("a",), ["c"]),
        (WEB, 2, (), []),
        (None, 0, (), []),
        (BudgetSelector(), 0, (), []),
        (BudgetSelector(match_expressions=(LabelRequirement("app", "NotIn", ("db",)),)), 0, (), ["a", "c"]),
        (BudgetSelector(match_expressions=(LabelRequirement("app", "Near"),)), 0, (), []),
    ],
)
def test_violations_are_counted_as_kube_scheduler_counts_them(
    selector: BudgetSelector | None, allowed: int, disrupted: tuple[str, ...], expected: list[str]
) -> None:
    """The older a uses up the budget before c; b has no labels, and d is in another namespace."""
    labels = {"a": {"app": "web"}, "b": {}, "c": {"app": "web"}}
    victims = [
        Victim(share(f"ns/{name}", 1, labels=labels[name]), Placement("n"), name, 0, float(order))
        for order, name in enumerate("abc")
    ]
    victims.append(Victim(share("other/d", 1, labels={"app": "web"}), Placement("n"), "d", 0, 9.0))
    marked = with_budgets(victims[::-1], [budget(selector, allowed, disrupted)])
    assert [each.uid for each in marked] == ["a", "b", "c", "d"]
    assert [each.uid for each in marked if each.guarded] == expected
