"""The columns of a cluster: whatever happened, they are those of a new cluster with the same nodes and pods.

And what is bound through the engine never takes more than there is: no node's pods own more CPUs than it has,
no CPU is owned twice, and amplified requests stay within allocatable, whatever comes in between: deletions,
ratios that rise, pods bound by somebody else, restarts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from corewise.amplification import occupied
from corewise.engine import (
    AllocationScore,
    AmplifiedCPU,
    BlockingTaint,
    ChosenNode,
    Cluster,
    ClusterSnapshot,
    Constraints,
    CPUPlacement,
    Decision,
    Engine,
    NodeFacts,
    Placement,
    PodFacts,
)
from corewise.quantities import ONE, Ratio, amplify
from corewise.scheduler.decisions import decision_record, node_records
from corewise.topology import CPUSet
from corewise.vocabulary.cpu_annotations import BindPolicy, CPUBinding, NumaPolicy
from corewise.vocabulary.findings import Finding
from engine.scenes import bind, cluster_of, cpuset, decide, engine, node, numa_node, share, static
from tally import fault

COLUMNS = (
    "present", "unschedulable", "ratio", "ratio_known", "normalization", "requested_cpu", "owned_cpu",
    "cpu_room", "static_cpu_manager", "topology_known", "free_cpus", "free_whole_cpus", "free_cores",
    "core_size", "full_cores_only", "numa_policy", "zones_known",
)  # fmt: skip


def rows(snapshot: ClusterSnapshot) -> dict[str, dict[str, Any]]:
    """Return the columns' values of each node, whatever row it has; zeros at the end of zones are dropped."""
    said = {}
    for name, row in snapshot.index.items():
        own: dict[str, Any] = {column: getattr(snapshot, column)[row].item() for column in COLUMNS}
        for kind in ("free", "allocatable"):
            by_resource = getattr(snapshot, kind)
            own |= {f"{kind}/{each}": by_resource[each][row].item() for each in by_resource}
        for block in (
            "zone_cpu",
            "zone_cpu_room",
            "zone_cpus",
            "zone_free_cpus",
            "zone_free_whole_cpus",
            "zone_free_cores",
            "zone_core_size",
            "zone_memory",
            "zone_memory_free",
        ):
            own[block] = np.trim_zeros(getattr(snapshot, block)[:, row], "b").tolist()
        own["taints"] = snapshot.taint_sets[snapshot.taint_set[row]]
        own["labels"] = {
            key: next(value for value, number in column.numbers.items() if number == column.rows[row])
            for key, column in snapshot.labels.items()
            if row < len(column.rows) and column.rows[row] >= 0
        }
        said[name] = {key: value for key, value in own.items() if value or "/" not in key}
    return said


def rebuilt(cluster: Cluster) -> Cluster:
    """Return a new cluster with the same nodes and pods, pods first, in the order they were put."""
    again = Cluster()
    for name in cluster.nodes:
        for pod, placement in cluster.pods_on(name).values():
            again.put_pod(pod, placement)
    for facts in cluster.nodes.values():
        again.put_node(facts)
    return again


NAMES = ["n0", "n1", "n2"]
ratios = st.integers(100, 300).map(lambda hundredths: str(Ratio(hundredths)))
policies = st.sampled_from(NumaPolicy)
labels = st.dictionaries(st.sampled_from(["zone", "disk"]), st.sampled_from(["a", "b", "7"]))
taints = st.lists(
    st.sampled_from([BlockingTaint("gpu", "NoSchedule", "x"), BlockingTaint("slow", "PreferNoSchedule")])
).map(tuple)
nodes = st.one_of(
    st.builds(
        node,
        st.sampled_from(NAMES),
        st.integers(1, 16),
        ratios,
        labels=labels,
        taints=taints,
        unschedulable=st.booleans(),
        static_cpu_manager=st.booleans(),
        normalization=st.sampled_from([ONE, Ratio(150), Ratio(200), None]),
    ),
    st.builds(numa_node, st.sampled_from(NAMES), st.integers(1, 8), st.integers(1, 3), ratios, policies),
    st.builds(node, st.sampled_from(NAMES), st.integers(1, 16), topology=st.none()),
    st.builds(
        NodeFacts, st.sampled_from(NAMES), st.just({"cpu": 8000, "pods": 3, "gpu": 2}), ratio=st.none()
    ),
)
keys = st.sampled_from([f"ns/p{number}" for number in range(8)])
bindings = st.builds(CPUBinding, st.sampled_from(BindPolicy), st.booleans())
pods = st.one_of(
    st.builds(share, keys, st.integers(0, 12), st.integers(0, 4)),
    st.builds(cpuset, keys, st.integers(1, 8), bindings),
    st.builds(cpuset, keys, st.integers(1, 16), bindings, normalizes=st.just(value=True)),
    st.builds(static, keys, st.integers(1, 8)),
)
placements = st.builds(
    Placement,
    st.sampled_from([*NAMES, "elsewhere"]),
    st.sets(st.integers(0, 20), max_size=4).map(CPUSet.of),
    st.dictionaries(st.integers(0, 2), st.just({"cpu": 1000, "memory": 5}), max_size=2),
)
changes = st.one_of(
    st.tuples(st.just("node"), nodes),
    st.tuples(st.just("gone"), st.sampled_from(NAMES)),
    st.tuples(st.just("pod"), st.tuples(pods, placements)),
    st.tuples(st.just("ended"), keys),
    st.tuples(st.just("look"), st.none()),
)


@given(st.lists(changes, max_size=25))
def test_columns_after_any_history_match_a_new_cluster(history: list[tuple[str, Any]]) -> None:
    cluster = Cluster()
    for what, value in history:
        match what:
            case "node":
                cluster.put_node(value)
            case "gone":
                cluster.remove_node(value)
            case "pod":
                cluster.put_pod(*value)
            case "ended":
                cluster.remove_pod(value)
            case _:
                decide(cluster, share("probe", 1))
    kept = {"zone", "disk"}
    mine, again = rows(cluster.snapshot()), rows(rebuilt(cluster).snapshot())
    assert mine == again
    assert {key for row in mine.values() for key in row["labels"]} <= kept
    assert all(row["owned_cpu"] >= 0 and row["requested_cpu"] >= 0 for row in mine.values())


@given(st.lists(nodes, max_size=4), pods, st.lists(st.tuples(pods, placements), max_size=8))
def test_decision_matches_evaluating_nodes_one_by_one(
    facts: list[NodeFacts], pod: PodFacts, bound: list[tuple[PodFacts, Placement]]
) -> None:
    cluster = cluster_of(*facts)
    for each in bound:
        cluster.put_pod(*each)
    together = decide(cluster, pod)
    alone: dict[str, Decision] = {}
    for name in cluster.nodes:
        single = cluster_of(cluster.nodes[name])
        for each in cluster.pods_on(name).values():
            single.put_pod(*each)
        alone[name] = decide(single, pod)
    snapshot = cluster.snapshot()
    for name, decision in alone.items():
        row = snapshot.index[name]
        assert bool(together.feasible[row]) is (decision.node == name)
        if decision.node:
            assert together.total[row] == decision.total[decision.row]
        else:
            assert list(together.refusals(row)) == list(decision.refusals(0))
    best = max((int(d.total[d.row]) for d in alone.values() if d.node), default=None)
    assert (together.node is None) is (best is None)
    assert best is None or int(together.total[together.row]) == best


class GateStaysWithinWhatThereIs(RuleBasedStateMachine):
    """Pods come and go through the engine, ratios change as the check of changes allows, restarts happen."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster = Cluster()
        self.number = 0
        self.bound_without_gate: set[str] = set()
        self.ratio_changed: set[str] = set()

    @initialize(facts=st.lists(nodes.filter(lambda each: each.ratio is not None), min_size=1, max_size=3))
    def begin(self, facts: list[NodeFacts]) -> None:
        self.cluster = cluster_of(*facts)

    @rule(pod=pods)
    def arrives(self, pod: PodFacts) -> None:
        self.number += 1
        answer = bind(self.cluster, replace(pod, key=f"ns/{self.number}"))
        assert not isinstance(answer, Finding), "a node that passes the filters has the CPUs"

    @rule(pod=pods, pick=st.integers(0, 2))
    def is_bound_while_the_gate_is_away(self, pod: PodFacts, pick: int) -> None:
        """Whoever binds looks at plain requests alone, if at anything, and names no CPUs."""
        fault("binding past the gate")
        self.number += 1
        name = sorted(self.cluster.nodes)[pick % len(self.cluster.nodes)]
        self.bound_without_gate.add(name)
        self.cluster.put_pod(replace(pod, key=f"ns/{self.number}"), Placement(name))

    @rule(pick=st.integers(0, 30))
    def leaves(self, pick: int) -> None:
        everybody = [key for name in self.cluster.nodes for key in self.cluster.pods_on(name)]
        if everybody:
            self.cluster.remove_pod(everybody[pick % len(everybody)])

    @rule(name=st.sampled_from(NAMES), hundredths=st.integers(100, 300))
    def changes_ratio(self, name: str, hundredths: int) -> None:
        """A ratio changes where the node's pods still fit, as the manager's check demands."""
        facts = self.cluster.nodes.get(name)
        if facts is None or facts.ratio is None:
            return
        raw = -(-facts.allocatable["cpu"] * 100 // facts.ratio.hundredths)
        allocatable = amplify(raw, Ratio(hundredths))
        row = self.cluster.snapshot().index[name]
        requested, owned = (
            int(column[row])
            for column in (self.cluster.snapshot().requested_cpu, self.cluster.snapshot().owned_cpu)
        )
        if occupied(requested, owned, hundredths) <= allocatable:
            self.ratio_changed.add(name)
            amounts = {**facts.allocatable, "cpu": allocatable}
            self.cluster.put_node(replace(facts, ratio=Ratio(hundredths), allocatable=amounts))

    @rule()
    def restarts(self) -> None:
        fault("restart")
        self.cluster = rebuilt(self.cluster)

    @invariant()
    def no_cpu_is_owned_twice_and_none_that_is_not_there(self) -> None:
        for name in self.cluster.nodes:
            ledger = self.cluster.ledger(name)
            assert ledger is None or ledger.conflicts == ()

    @invariant()
    def a_node_that_has_more_than_it_can_take_takes_no_more(self) -> None:
        snapshot = self.cluster.snapshot()
        for name in self.bound_without_gate:
            row = snapshot.index[name]
            if snapshot.cpu_room[row] < 0:
                assert not decide(self.cluster, share("probe", 1)).feasible[row]

    @invariant()
    def owned_cpus_and_amplified_requests_are_within_the_node(self) -> None:
        snapshot = self.cluster.snapshot()
        for name, facts in self.cluster.nodes.items():
            if name in self.bound_without_gate:
                continue
            assert snapshot.cpu_room[snapshot.index[name]] >= 0
            raw = facts.allocatable["cpu"] * 100 / (facts.ratio or ONE).hundredths
            assert snapshot.owned_cpu[snapshot.index[name]] <= raw

    @invariant()
    def zones_are_within_what_they_have(self) -> None:
        snapshot = self.cluster.snapshot()
        assert (snapshot.zone_memory_free >= 0).all()
        for name, facts in self.cluster.nodes.items():
            if facts.numa_policy in {NumaPolicy.RESTRICTED, NumaPolicy.SINGLE_NUMA_NODE} and name not in (
                self.bound_without_gate | self.ratio_changed
            ):
                assert (snapshot.zone_cpu_room[:, snapshot.index[name]] >= 0).all()


TestGateStaysWithinWhatThereIs = GateStaysWithinWhatThereIs.TestCase
TestGateStaysWithinWhatThereIs.settings = settings(max_examples=40, stateful_step_count=30)


def test_copied_snapshot_does_not_change() -> None:
    cluster = cluster_of(node("n", 8))
    live, kept = cluster.snapshot(), cluster.snapshot().copy()
    cluster.put_pod(share("a", 4), Placement("n"))
    cluster.snapshot()
    assert live.cpu_room.tolist() == [4000]
    assert kept.cpu_room.tolist() == [8000]


def test_recorded_decision_does_not_change() -> None:
    cluster = cluster_of(node("n", 8), node("m", 2))
    decision = decide(cluster, share("a", 4)).detached()
    cluster.put_pod(share("b", 8), Placement("m"))
    cluster.remove_node("n")
    assert decision.node == "n"
    cause = decision.verdicts["AmplifiedCPU"].cause(1)
    assert cause is not None
    numbers = decision.verdicts["AmplifiedCPU"].numbers(1)
    assert numbers["room"] == 2000


class Told:
    """A plugin with something to say about each row."""

    name = "Told"

    def account(self, *_: object) -> Told:
        return self

    def detached(self) -> Told:
        return self

    def of(self, row: int) -> dict[str, Any]:
        return {"row": row}

    def lines(self, row: int) -> Iterator[tuple[str, str]]:
        yield "row", str(row)


def test_recorded_decision_covers_the_nodes_asked_about() -> None:
    """kube-scheduler asks about 1,000 of 20,000 nodes; 50 decisions are kept."""
    snapshot = cluster_of(*(node(f"n{number}", number) for number in range(1, 9))).snapshot()
    deciding = Engine.of(AmplifiedCPU(), AllocationScore(), Told())
    among = np.isin(np.arange(8), [1, 5, 6])
    decision = deciding.decide(share("a", 4), snapshot, among)
    kept = decision.detached()
    assert kept.names == ("n2", "n6", "n7")
    assert (kept.node, kept.headline) == (decision.node, decision.headline)
    assert list(node_records(kept)) == list(node_records(decision))
    assert decision_record(kept) == decision_record(decision)
    assert list(kept.accounts["Told"].lines(2)) == [("row", "6")]
    codes = kept.verdicts["AmplifiedCPU"].codes
    assert {len(each) for each in (kept.asked, kept.feasible, kept.total, *kept.scores.values(), codes)} == {
        3
    }
    nowhere = deciding.decide(share("a", 9), snapshot, among).detached()
    assert (nowhere.node, nowhere.headline.partition(":")[0]) == (None, "0/3 nodes are available")


def test_pod_put_on_another_node_leaves_the_first() -> None:
    cluster = cluster_of(node("n", 8), node("m", 8))
    cluster.put_pod(share("a", 4), Placement("n"))
    cluster.put_pod(share("a", 4), Placement("m"))
    snapshot = cluster.snapshot()
    assert {name: int(snapshot.cpu_room[row]) for name, row in snapshot.index.items()} == {
        "n": 8000,
        "m": 4000,
    }
    assert cluster.node_of("a") == "m"
    cluster.remove_pod("a")
    cluster.remove_pod("a")
    assert cluster.node_of("a") is None


def test_updated_pod_keeps_cpus_that_another_also_claims() -> None:
    cluster = cluster_of(node("n", 8))
    cpus = CPUSet.parse("0-3")
    for key in "ab":
        cluster.put_pod(cpuset(key, 4), Placement("n", cpus))
    cluster.put_pod(replace(cpuset("a", 4), requests={"cpu": 4000, "memory": 1}), Placement("n", cpus))
    ledger = cluster.ledger("n")
    assert ledger is not None
    assert ledger.held_by("a") == cpus
    assert cluster.snapshot().free["memory"].tolist() == [(256 << 30) - 1]


def test_pod_with_edited_claim_queues_behind_cpu_holders() -> None:
    cluster = cluster_of(node("n", 8))
    cluster.put_pod(cpuset("old", 2), Placement("n", CPUSet.parse("0-1")))
    cluster.put_pod(cpuset("owner", 2), Placement("n", CPUSet.parse("2-3")))
    cluster.put_pod(cpuset("old", 2), Placement("n", CPUSet.parse("2-3")))
    ledger = cluster.ledger("n")
    assert ledger is not None
    assert ledger.held_by("owner") == CPUSet.parse("2-3")
    assert not ledger.held_by("old")
    assert list(cluster.pods_on("n")) == ["owner", "old"]


def test_only_the_nodes_in_question_are_decided_on() -> None:
    cluster = cluster_of(node("n", 8), node("m", 16), node("gone", 32))
    cluster.remove_node("gone")
    snapshot = cluster.snapshot()
    among = np.zeros(snapshot.size, dtype=np.bool_)
    among[snapshot.index["n"]] = True
    decision = engine().decide(share("a", 4), snapshot, among)
    assert decision.node == "n"
    assert int(decision.asked.sum()) == 1
    assert engine().decide(share("a", 4), snapshot).node == "m"
    assert engine().decide(share("a", 17, constraints=Constraints()), snapshot).node is None


def test_row_of_a_removed_node_is_reused_empty() -> None:
    cluster = cluster_of(numa_node("n", 8, 2, "2.00", NumaPolicy.RESTRICTED, labels={"zone": "a"}))
    cluster.put_pod(share("a", 4), Placement("n"))
    cluster.remove_node("n")
    assert decide(cluster, share("b", 1)).node is None
    cluster.put_node(NodeFacts("m", {"cpu": 1000, "pods": 1}))
    again = cluster_of(NodeFacts("m", {"cpu": 1000, "pods": 1}))
    assert rows(cluster.snapshot()) == rows(again.snapshot())


def test_refused_reserve_undoes_what_other_plugins_placed() -> None:
    class Note:
        name = "Note"

        def reserve(self, pod: PodFacts, node: ChosenNode, placement: Placement) -> Placement:
            return replace(placement, zones={7: {"cpu": 1}})

    cluster = cluster_of(node("n", 4))
    before = rows(cluster.snapshot())
    chosen = ChosenNode.of(cluster, cluster.snapshot(), 0)
    both = Engine.of(Note(), CPUPlacement())
    assert isinstance(both.reserve(cpuset("a", 5), chosen), Finding)
    placed = both.reserve(cpuset("a", 4), chosen)
    assert isinstance(placed, Placement)
    assert (len(placed.cpus), placed.zones) == (4, {7: {"cpu": 1}})
    assert rows(cluster.snapshot()) == before
