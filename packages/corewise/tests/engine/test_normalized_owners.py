"""Pods whose CPUs are normalized: on each node they own the physical CPUs that do their work there.

A pod that requests 8 normalized CPUs:

    node                                      owns   takes of the node
    ratio 1.00                                8      8
    ratio 2.00                                4      8
    ratio 2.50                                4      10
    normalization 2.00, amplification 3.00    4      12
    normalization 2.00, amplification 1.50    6      9     the node offers no more than 1.50
    static CPU manager, ratio 2.00            8      16    kubelet gives as many as are requested
    normalization ratio unreadable            refused

A pod that requests 5, whole cores of two threads required: 4 at ratio 1.50 (3.33 are needed), refused at 1.00
and at 1.10 (6 are more than 5).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewise.amplification import normalized_cpus
from corewise.engine import ChosenNode, Cluster, NodeFacts, Placement, PodFacts
from corewise.engine.objects import ReportedTopology
from corewise.engine.preemption import Victim, cheapest_victims
from corewise.engine.reading import placement, pod_facts, read_node_facts
from corewise.quantities import Ratio
from corewise.ratios.nodes import view_of
from corewise.topology import CPUSet
from corewise.vocabulary.cpu_annotations import BindPolicy, CPUBinding, NumaPolicy
from corewise.vocabulary.findings import Finding
from corewise.vocabulary.names import (
    AMPLIFICATION_RATIO,
    NORMALIZATION_RATIO,
    NORMALIZE_CPUSET,
    QOS_CLASS,
    RESOURCE_STATUS,
    recorded_applied,
    recorded_raw,
)
from corewise.vocabulary.owned_cpus import CPUOwner, OwnedCPUs, print_owned_cpus
from corewise.vocabulary.reasons import Reason
from corewise.workload.nodes import Node
from corewise.workload.pods import Pod
from engine.scenes import bind, cluster_of, cpuset, decide, engine, node, numa_node, share

WHOLE = CPUBinding(BindPolicy.FULL_PCPUS, required=True)
SINGLE = NumaPolicy.SINGLE_NUMA_NODE


def normalized(key: str, cpus: int, **rest: Any) -> PodFacts:
    return cpuset(key, cpus, normalizes=True, **rest)


def fast(name: str, cpus: int, ratio: str, amplification: str = "", **rest: Any) -> NodeFacts:
    return node(name, cpus, amplification or ratio, normalization=Ratio.parse(ratio), **rest)


def reasons(cluster: Cluster, pod: PodFacts) -> list[Reason]:
    return [each.cause.reason for each in decide(cluster, pod).causes()]


@pytest.mark.parametrize(
    ("machine", "owns", "takes"),
    [
        (fast("n", 16, "1.00"), 8, 8_000),
        (fast("n", 16, "2.00"), 4, 8_000),
        (fast("n", 16, "2.50"), 4, 10_000),
        (fast("n", 16, "2.00", "3.00"), 4, 12_000),
    ],
)
def test_a_pod_owns_what_does_its_work_there(machine: NodeFacts, owns: int, takes: int) -> None:
    cluster = cluster_of(machine)
    before = int(cluster.snapshot().cpu_room[0])
    placed = bind(cluster, normalized("p", 8))
    assert isinstance(placed, Placement)
    assert (len(placed.cpus), placed.surplus) == (owns, (8 - owns) * 1000)
    assert before - int(cluster.snapshot().cpu_room[0]) == takes
    assert int(cluster.snapshot().free_cpus[0]) == 16 - owns
    cluster.remove_pod("p")
    assert int(cluster.snapshot().cpu_room[0]) == before


@pytest.mark.parametrize(
    ("normalization", "amplification", "policy", "counts"),
    [
        ("2.00", "2.00", "none", "2.00"),
        ("2.00", "3.00", "none", "2.00"),
        ("2.00", "1.50", "none", "1.50"),
        ("2.00", None, "none", "1.00"),
        (None, "2.00", "none", "1.00"),
        ("2.00", "2.00", "static", "1.00"),
        ("two", "2.00", "none", None),
        ("0.50", "2.00", "none", None),
        ("9.00", "9.00", "none", None),
        ("2.00", "two", "none", None),
    ],
)
def test_a_node_normalizes_by_its_annotation(
    normalization: str | None, amplification: str | None, policy: str, counts: str | None
) -> None:
    notes = {} if normalization is None else {NORMALIZATION_RATIO: normalization}
    notes |= {} if amplification is None else {AMPLIFICATION_RATIO: f'{{"cpu":{amplification}}}'}
    document = {"metadata": {"name": "n", "annotations": notes}}
    manager = {"kubelet.koordinator.sh/cpu-manager-policy": f'{{"policy":"{policy}"}}'}
    stated = msgspec.convert({"metadata": {"name": "n", "annotations": manager}}, ReportedTopology)
    reading = read_node_facts(msgspec.convert(document, Node), stated)
    assert reading.facts.normalization == (None if counts is None else Ratio.parse(counts))
    told = Reason.NORMALIZATION_RATIO_INVALID in {each.reason for each in reading.findings}
    assert told is (normalization in {"two", "0.50", "9.00"})


def test_unreadable_normalization_refuses_only_these_pods() -> None:
    cluster = cluster_of(node("n", 16, "2.00", normalization=None))
    assert reasons(cluster, normalized("p", 8)) == [Reason.NORMALIZATION_RATIO_INVALID]
    for other in (cpuset("q", 8), share("r", 8)):
        assert decide(cluster, other).node == "n"


@pytest.mark.parametrize(
    ("ratio", "asked", "owns"),
    [("1.50", 5, 4), ("1.00", 6, 6), ("2.00", 1, None), ("1.00", 5, None), ("1.10", 5, None), ("2.50", 5, 2)],
)
@pytest.mark.parametrize("by_node", [False, True])
def test_whole_cores_never_exceed_the_request(
    ratio: str, asked: int, owns: int | None, *, by_node: bool
) -> None:
    cluster = cluster_of(fast("n", 16, ratio, full_cores_only=by_node))
    pod = normalized("p", asked) if by_node else normalized("p", asked, binding=WHOLE)
    placed = bind(cluster, pod)
    if owns is None:
        assert placed is None
        assert reasons(cluster, pod) == [Reason.NOT_WHOLE_CORES]
    else:
        assert isinstance(placed, Placement)
        assert len(placed.cpus) == owns


def test_too_few_cpus_say_how_many_are_needed() -> None:
    cluster = cluster_of(fast("n", 8, "2.00"))
    cluster.put_pod(cpuset("a", 5), Placement("n", CPUSet.parse("0-4")))
    decision = decide(cluster, normalized("p", 8))
    (_, refusal), *_ = decision.refusals(0)
    assert refusal.reason is Reason.NOT_ENOUGH_CPUS
    assert refusal.message == (
        "needs 4 CPUs of its own for the 8 it requests (normalization ratio 2.00), 3 are free"
    )
    cluster = cluster_of(fast("n", 8, "2.00"))
    cluster.put_pod(share("a", 9), Placement("n"))
    (_, refusal), *_ = decide(cluster, normalized("p", 7)).refusals(0)
    assert refusal.message == (
        "needs 8 amplified CPUs (7 requested, for which it owns 4, ratio 2.00), 7 of 16 are left"
    )


def test_zones_count_what_is_owned_in_them() -> None:
    """Zones of 8 CPUs at ratio 2.00: 10 shared in one leave 3 CPUs, which do the work of 6, not of 8."""
    machine = replace(numa_node("n", 8, 2, "2.00", SINGLE), normalization=Ratio.parse("2.00"))
    cluster = cluster_of(machine)
    for key in "ab":
        assert isinstance(bind(cluster, share(key, 10)), Placement)
    assert reasons(cluster, normalized("p", 8)) == [Reason.NUMA_NOT_ALIGNED]
    assert reasons(cluster, cpuset("p", 4)) == [Reason.NUMA_NOT_ALIGNED]
    placed = bind(cluster, normalized("p", 6))
    assert isinstance(placed, Placement)
    assert list(placed.zones.values()) == [{"cpu": 3_000}]
    assert sorted(cluster.snapshot().zone_cpu_room[:, 0].tolist()) == [0, 6_000]


def test_a_ratio_that_changes_leaves_what_pods_own() -> None:
    cluster = cluster_of(fast("n", 16, "2.00"))
    placed = bind(cluster, normalized("p", 9))
    assert isinstance(placed, Placement)
    for ratio, taken in (("1.00", 9_000), ("4.00", 20_000)):
        cluster.put_node(fast("n", 16, ratio))
        (_, where) = cluster.pods_on("n")["p"]
        assert (len(where.cpus), where.surplus) == (5, 4_000)
        snapshot = cluster.snapshot()
        assert int(snapshot.allocatable["cpu"][0]) - int(snapshot.cpu_room[0]) == taken


def test_entry_counts_as_the_request_it_is_for() -> None:
    entry = OwnedCPUs({"u1": CPUOwner("default/p", CPUSet.parse("0-3"), request=7)})
    cluster = cluster_of(fast("n", 16, "2.00", owned=entry))
    assert cluster.snapshot().requested_cpu.tolist() == [7_000]
    assert cluster.snapshot().cpu_room.tolist() == [24_000]
    cluster.put_pod(normalized("default/p", 7, uid="u1"), Placement("n"))
    assert cluster.snapshot().requested_cpu.tolist() == [7_000]
    assert cluster.snapshot().cpu_room.tolist() == [24_000]
    cluster.remove_pod("default/p")
    cluster.put_node(fast("n", 16, "2.00"))
    assert cluster.snapshot().cpu_room.tolist() == [32_000]


def test_kept_cpus_are_not_counted_anew() -> None:
    """A binding under way keeps its entry's CPUs, also if the node's ratio has changed since."""
    cluster = cluster_of(fast("n", 16, "1.00"))
    pod = replace(normalized("p", 8), kept=4)
    decision = decide(cluster, pod)
    placed = engine().reserve(pod, ChosenNode.of(cluster, cluster.snapshot(), decision.row))
    assert isinstance(placed, Placement)
    assert (len(placed.cpus), placed.surplus) == (4, 4_000)


def test_a_victims_cpus_are_those_it_owns() -> None:
    """8 CPUs at ratio 2.00, all owned for 16 normalized ones: one victim of 8 gives back 4 CPUs."""
    cluster = cluster_of(fast("n", 8, "2.00"))
    victims = []
    for number, key in enumerate(("a", "b")):
        pod = normalized(key, 8, uid=key)
        placed = bind(cluster, pod)
        assert isinstance(placed, Placement)
        victims.append(Victim(pod, placed, key, priority=0, started=float(number)))
    assert decide(cluster, cpuset("p", 4)).node is None
    published = {"cpu": 16_000, "memory": 256 << 30, "pods": 110}
    chosen = cheapest_victims(engine(), cluster.alone("n"), normalized("p", 8), victims, published)
    assert [each.uid for each in chosen or ()] == ["b"]
    chosen = cheapest_victims(engine(), cluster.alone("n"), cpuset("p", 5), victims, published)
    assert [each.uid for each in chosen or ()] == ["a", "b"]


RATIOS = ["1.00", "1.33", "1.50", "2.00", "2.50"]
ORIGINALS = {"1.00": "1.20", "1.33": "1.60", "1.50": "1.50", "2.00": "3.00", "2.50": "2.75"}
bindings = st.builds(CPUBinding, st.sampled_from(BindPolicy), st.booleans())
pods = st.one_of(
    st.builds(share, st.just(""), st.integers(0, 12)),
    st.builds(cpuset, st.just(""), st.integers(1, 12), bindings),
    st.builds(normalized, st.just(""), st.integers(1, 24), binding=bindings),
)
machines = st.builds(
    lambda cpus, zones, ratio, policy, whole: replace(
        numa_node("n", cpus, zones, ORIGINALS[ratio], policy, full_cores_only=whole),
        normalization=Ratio.parse(ratio),
    ),
    st.integers(1, 8),
    st.integers(1, 3),
    st.sampled_from(RATIOS),
    st.sampled_from(NumaPolicy),
    st.booleans(),
)


@given(machines, st.lists(pods, max_size=8))
def test_whoever_is_admitted_owns_just_enough(machine: NodeFacts, asked: list[PodFacts]) -> None:
    cluster, owned, requested, for_owned = cluster_of(machine), 0, 0, 0
    assert machine.normalization is not None
    assert machine.ratio is not None
    for number, pod in enumerate(asked):
        placed = bind(cluster, replace(pod, key=f"p{number}"))
        assert not isinstance(placed, Finding)
        if placed is None:
            continue
        count, n = len(placed.cpus), pod.owned_by_class // 1000
        least = normalized_cpus(n, machine.normalization.hundredths) if pod.normalizes else n
        whole = pod.normalizes and (machine.full_cores_only or pod.binding.required)
        assert least <= count <= (min(least + 1, n) if whole else least)
        assert placed.surplus == (n - count) * 1000
        owned, requested, for_owned = owned + count, requested + pod.cpu, for_owned + n
    ratio = machine.ratio.hundredths
    room = machine.allocatable["cpu"] - requested - max(0, owned * 10 * ratio - for_owned * 1000)
    assert cluster.snapshot().cpu_room.tolist() == [room]
    assert room >= 0


def document(name: str, cpu: str, **annotations: str) -> dict[str, Any]:
    amounts = {"requests": {"cpu": cpu}, "limits": {"cpu": cpu}}
    meta = {"namespace": "ns", "name": name, "uid": name, "labels": {QOS_CLASS: "LSR"}}
    return {
        "metadata": {**meta, "annotations": annotations},
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "resources": amounts}]},
    }


@pytest.mark.parametrize(("value", "normalizes"), [("true", True), ("false", False), (None, False)])
def test_a_pod_says_whether_its_cpus_are_normalized(value: str | None, *, normalizes: bool) -> None:
    notes = {} if value is None else {NORMALIZE_CPUSET: value}
    facts = pod_facts(msgspec.convert(document("p", "8", **notes), Pod))
    assert (facts.normalizes, facts.problem) == (normalizes, None)
    shared = document("p", "8", **notes)
    shared["metadata"]["labels"] = {}
    assert not pod_facts(msgspec.convert(shared, Pod)).normalizes


@pytest.mark.parametrize("value", ["", "yes", "True", "1"])
def test_any_other_value_fits_nowhere(value: str) -> None:
    facts = pod_facts(msgspec.convert(document("p", "8", **{NORMALIZE_CPUSET: value}), Pod))
    assert facts.problem is not None
    assert facts.problem.reason is Reason.RESOURCE_SPEC_INVALID
    assert "the choices are true, false" in facts.problem.message


@pytest.mark.parametrize(
    ("status", "cpus", "reason"),
    [
        ('{"cpuset":"0-3","requestedCPUs":8}', 4, None),
        ('{"cpuset":"0-7"}', 8, None),
        ('{"cpuset":"0-3"}', 0, Reason.CLAIM_NOT_REQUESTED),
        ('{"cpuset":"0-3","requestedCPUs":9}', 0, Reason.CLAIM_NOT_REQUESTED),
        ('{"cpuset":"0-9","requestedCPUs":8}', 0, Reason.RESOURCE_STATUS_INVALID),
        ('{"cpuset":"0-3","requestedCPUs":-8}', 0, Reason.RESOURCE_STATUS_INVALID),
        ('{"cpuset":"0-3","requestedCPUs":"8"}', 0, Reason.RESOURCE_STATUS_INVALID),
    ],
)
def test_a_claim_counts_only_for_what_is_requested(status: str, cpus: int, reason: Reason | None) -> None:
    """Whatever the pod's own annotation says by then."""
    for notes in ({}, {NORMALIZE_CPUSET: "true"}, {NORMALIZE_CPUSET: "false"}):
        pod = msgspec.convert(document("p", "8", **{RESOURCE_STATUS: status, **notes}), Pod)
        where, finding = placement(pod)
        assert len(where.cpus) == cpus
        assert (finding.reason if finding else None) == reason
        assert where.surplus == ((8 - cpus) * 1000 if cpus else 0)


@pytest.mark.parametrize("in_ledger", [False, True])
@pytest.mark.parametrize("bound", [False, True])
def test_scheduler_and_corewise_nodes_agree_on_remaining_cpu(*, in_ledger: bool, bound: bool) -> None:
    """32 CPUs at ratio 2, 5 owned for 9: 64 - 10 - 3.5 for a shared pod, the fold of 1 in status or not."""
    if not (in_ledger or bound):
        return
    folds = 1 if in_ledger else 0
    owners = {"owner": CPUOwner("ns/owner", CPUSet.parse("0-4"), request=9)} if in_ledger else {}
    notes = {
        AMPLIFICATION_RATIO: '{"cpu":2.00}',
        recorded_raw("capacity", "cpu"): "32",
        recorded_applied("capacity", "cpu"): "64",
        recorded_raw("allocatable", "cpu"): "32",
        recorded_applied("allocatable", "cpu"): str(64 - folds),
        **{name: text for name, text in print_owned_cpus(owners).items() if text is not None},
    }
    machine = msgspec.convert(
        {
            "metadata": {"name": "n1", "annotations": notes},
            "status": {"allocatable": {"cpu": str(64 - folds)}, "capacity": {"cpu": "64"}},
        },
        Node,
    )
    status = {RESOURCE_STATUS: '{"cpuset":"0-4","requestedCPUs":9}'}
    share_pod = document("share", "3500m")
    share_pod["metadata"]["labels"] = {}
    documents = [share_pod, *([document("owner", "9", **status)] if bound else [])]
    placed = [msgspec.convert(each, Pod) for each in documents]
    cluster = cluster_of(read_node_facts(machine, None).facts)
    for each in placed:
        cluster.put_pod(pod_facts(each), placement(each)[0])
    view = view_of(machine, None, lambda: placed)
    assert cluster.snapshot().cpu_room.tolist() == [50_500]
    assert view.free_cpu() == 50_500
    assert view.demand().cpuset_milli == 5_000
