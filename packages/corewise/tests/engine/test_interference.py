"""The plugin Interference in the engine: filter, ranking, counterweights, and what it tells.

| a pod of type stream (5 GB/s, 0.2 GB), overprovisioning 2 | |
|---|---|
| needs more than 10 GB/s of free bandwidth and 0.4 GB of memory | equality does not pass |
| positions 3, 2, 1, 4, 2 with affinities 60, 60, 0, 0, 50 | 610 points, 36 of 100 |
| once placed | counts as 5 GB/s, less and less, until 6 minutes have passed or it is gone |
| a value that is missing or too old | passes or refuses, as configured; no points |
| a DaemonSet's pod | is not filtered |
| two profiles that match | refuse all nodes |
"""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewise.engine import PodFacts
from corewise.kube.clock import SYSTEM_CLOCK
from corewise.scheduler.decisions import Asked, Decisions, encode, node_records
from corewise.topology import CPUSet
from corewise.vocabulary.names import BATCH_CPU, BATCH_MEMORY
from corewise.vocabulary.owned_cpus import CPUOwner, OwnedCPUs
from corewise.vocabulary.reasons import Reason
from engine.interference_scenes import EXPIRY, STREAM, Scene, configuration, stream
from engine.scenes import GIB, node, share


def test_room_equal_to_twice_the_profile_is_refused() -> None:
    scene = Scene()
    scene.measure(memorybandwidth_used={"n1": 90e9, "n2": 89.999999999e9})
    assert scene.suits(stream("p")) == {"n2", "n3"}
    text = "needs more than 10 GB/s of free memory bandwidth, 10 GB/s is free"
    assert scene.why(stream("p"), "n1").startswith(text)
    scene.measure(memory_available={"n1": 0.4e9, "n3": 0.400000001e9})
    assert scene.suits(stream("p")) == {"n2", "n3"}
    assert scene.why(stream("p"), "n1").startswith("needs more than 400 MB of available memory")


def test_document_example_scores_610_or_36_of_100() -> None:
    """n1 is third by bandwidth, second by latency, first by occupancy, fourth by MPKI, second by CPU."""
    scene = Scene(nodes=("n1", "n2", "n3", "n4"))
    scene.measure(
        memorybandwidth_used={"n1": 40e9, "n2": 10e9, "n3": 20e9, "n4": 60e9},
        memorylatency={"n1": 110e-9, "n2": 100e-9, "n3": 120e-9, "n4": 130e-9},
        llc_occupancy={"n1": 1e6, "n2": 2e6, "n3": 3e6, "n4": 4e6},
        llc_mpki={"n1": 9.0, "n2": 1.0, "n3": 2.0, "n4": 3.0},
        cpu={"n1": 0.3, "n2": 0.2, "n3": 0.4, "n4": 0.5},
    )
    decision = scene.decide(stream("p"))
    assert decision.scores["Interference"][decision.names.index("n1")] == 36
    told = decision.accounts["Interference"].of(decision.names.index("n1"))
    assert (told["raw"], told["normalizer"], told["normalized"]) == (610.0, 1700.0, 36)
    assert list(told["positions"].values()) == [3, 2, 1, 4, 2]
    assert list(told["points"].values()) == [1, 5, 10, 0, 5]


def test_simultaneous_pods_spread_though_no_measurement_changes() -> None:
    """30 GB/s are free on each: after four pods of 5 GB/s a fifth would need more than the 10 GB/s left."""
    scene = Scene(nodes=("n1", "n2"))
    scene.measure(memorybandwidth_used=70e9)
    homes = [scene.place(stream(f"p{number}")) for number in range(8)]
    assert {name: homes.count(name) for name in scene.nodes} == {"n1": 4, "n2": 4}
    assert not scene.suits(stream("late"))
    assert "pods just placed 20 GB/s" in scene.why(stream("late"), "n1")


def test_a_counterweight_loses_weight_until_it_expires() -> None:
    scene = Scene()
    home = scene.place(stream("p"))
    weights = []
    for _ in range(4):
        weights.append(scene.weighs(home))
        scene.now += EXPIRY / 3
    assert weights == pytest.approx([5e9, 5e9 * 2 / 3, 5e9 / 3, 0])
    assert scene.cluster.expire(scene.now) == 0


def test_step_counterweight_keeps_its_weight_to_the_end() -> None:
    text = STREAM.replace("interference:\n", "interference:\n  counterweight: {expiry: 6m, decay: step}\n")
    scene = Scene(configuration(text))
    home = scene.place(stream("p"))
    scene.now += EXPIRY - 1
    assert scene.weighs(home) == 5e9
    scene.now += 1
    assert scene.weighs(home) == 0


def test_counterweight_goes_at_once_when_pod_ends() -> None:
    scene = Scene()
    home = scene.place(stream("p"))
    scene.cluster.remove_pod("ns/p")
    assert scene.weighs(home) == 0


def test_after_a_restart_old_pods_are_not_new() -> None:
    scene = Scene()
    scene.put(stream("old"), "n1", scene.now - EXPIRY)
    scene.put(stream("middle"), "n2", scene.now - EXPIRY / 2)
    scene.put(stream("unknown"), "n3", None)
    assert [scene.weighs(name) for name in scene.nodes] == pytest.approx([0, 2.5e9, 0])


@pytest.mark.parametrize("later", [10_050.0, None])
def test_repeated_report_does_not_restart_a_pods_counterweight(later: float | None) -> None:
    scene = Scene()
    scene.put(stream("p"), "n1", scene.now)
    scene.now += 50
    scene.put(stream("p"), "n1", later)
    expected = pytest.approx(5e9 * (1 - 50 / EXPIRY))
    assert scene.weighs("n1") == expected
    scene.use(configuration(STREAM))
    assert scene.weighs("n1") == expected
    scene.cluster.remove_node("n1")
    scene.cluster.put_node(node("n1", 8))
    assert scene.weighs("n1") == expected


def test_returning_node_brings_its_counterweights_back() -> None:
    scene = Scene()
    scene.put(stream("p"), "n1", scene.now)
    scene.cluster.remove_node("n1")
    scene.cluster.put_node(node("other", 8))
    assert scene.weighs("other") == 0
    scene.cluster.put_node(node("n1", 8))
    assert scene.weighs("n1") == 5e9


def test_new_profiles_weigh_what_is_already_placed_anew() -> None:
    scene = Scene()
    scene.put(stream("p"), "n1", scene.now)
    scene.use(configuration(STREAM.replace("5GB/s", "8GB/s")))
    assert scene.weighs("n1") == 8e9
    scene.use(configuration("interference: {}"))
    assert scene.weighs("n1") == 0.05e9  # of the 0.1 CPU that it requests


actions = st.lists(
    st.tuples(
        st.sampled_from(["pod", "remove", "node", "lose", "wait"]), st.integers(0, 5), st.integers(0, 2)
    ),
    max_size=30,
)


@given(actions)
def test_counterweights_are_those_of_a_cluster_made_anew(steps: list[tuple[str, int, int]]) -> None:
    scene = Scene()
    for what, which, where in steps:
        name = scene.nodes[where]
        match what:
            case "pod":
                scene.put(stream(f"p{which}"), name, scene.now - which)
            case "remove":
                scene.cluster.remove_pod(f"ns/p{which}")
            case "node":
                scene.cluster.put_node(node(name, 8))
            case "lose":
                scene.cluster.remove_node(name)
            case _:
                scene.now += 50
    there = scene.cluster.snapshot().index
    for name in there:
        pods = scene.cluster.pods_on(name).values()
        ages = [scene.now - (placement.since or 0) for _, placement in pods]
        expected = sum(5e9 * max(0.0, 1 - age / EXPIRY) for age in ages)
        assert scene.weighs(name) == pytest.approx(expected)


@pytest.mark.parametrize(("passes", "suiting"), [("pass", {"n1", "n2", "n3"}), ("fail", {"n3"})])
def test_what_is_missing_passes_or_refuses_as_configured(passes: str, suiting: set[str]) -> None:
    text = STREAM.replace("interference:\n", f"interference:\n  missing: {{filter: {passes}}}\n")
    scene = Scene(configuration(text))
    scene.measure(memorybandwidth_used={"n1": float("nan")}, memory_available={"n2": float("nan")})
    assert scene.suits(stream("p")) == suiting
    if passes == "fail":
        assert "unknown: what is used is missing or too old" in scene.why(stream("p"), "n1")
        assert "available memory is unknown" in scene.why(stream("p"), "n2")


def test_stale_values_go_missing_without_new_measurement() -> None:
    text = STREAM.replace("interference:\n", "interference:\n  missing: {filter: fail}\n  window: 60s\n")
    scene = Scene(configuration(text))
    assert scene.suits(stream("p")) == set(scene.nodes)
    scene.now += 61
    assert not scene.suits(stream("p"))
    assert scene.decide(stream("p")).causes()[0].cause.reason is Reason.PRESSURE_UNKNOWN
    scene.measure()
    assert scene.suits(stream("p")) == set(scene.nodes)


def test_node_without_a_metric_gets_no_points_there() -> None:
    scene = Scene(nodes=("n1", "n2"))
    scene.measure(memorylatency={"n1": float("nan")})
    decision = scene.decide(stream("p"))
    told = decision.accounts["Interference"].of(decision.names.index("n1"))
    found = [told[name]["memorylatency"] for name in ("values", "positions", "points")]
    assert found == [None, None, 0]
    assert decision.node == "n2"


def test_node_statements_win_over_configuration_and_measurements() -> None:
    rules = "  capacity: {memoryBandwidth: [{selector: {matchLabels: {kind: big}}, value: 40GB/s}]}\n"
    scene = Scene(configuration(STREAM.replace("interference:\n", "interference:\n" + rules)))
    scene.cluster.put_node(node("n1", 8, labels={"kind": "big"}))
    scene.cluster.put_node(node("n2", 8, labels={"kind": "big"}, memory_bandwidth=25_000_000_000))
    told = scene.decide(stream("p")).accounts["Interference"]
    rows = scene.cluster.snapshot().index
    capacities = [told.of(rows[name])["filter"]["memorybandwidth"]["capacity"] for name in scene.nodes]
    assert capacities == [40e9, 25e9, 100e9]
    assert scene.suits(stream("p")) == {"n1", "n3"}


def test_a_daemon_sets_pod_is_not_filtered() -> None:
    scene = Scene()
    scene.measure(memorybandwidth_used=99e9)
    assert not scene.suits(stream("p"))
    assert scene.suits(stream("d", daemon=True)) == set(scene.nodes)


def test_pod_matching_two_profiles_fits_nowhere_naming_them() -> None:
    more = "    twin:\n      selector: {matchLabels: {app: stream}}\n      affinity: {cpu: 1}\n"
    scene = Scene(configuration(STREAM + more))
    assert not scene.suits(stream("p"))
    text = scene.why(stream("p"), "n1")
    assert "profiles stream (line 4) and twin (line 7) match the same pod" in text
    assert scene.decide(stream("p")).causes()[0].cause.reason is Reason.PROFILE_CONFLICT


@pytest.mark.parametrize(
    ("per_core", "used", "weighs"),
    [
        pytest.param("memoryBandwidthPerCore: 2GB/s", 84e9, 8e9, id="as configured"),
        pytest.param("", 96e9, 2e9, id="0.5 GB/s for each CPU if nothing is configured"),
        pytest.param("memoryBandwidthPerCore: 0", 99e9, 0, id="nothing, where the guess is turned off"),
    ],
)
@pytest.mark.parametrize("batch", [False, True], ids=["online", "offline"])
def test_typeless_pod_counts_by_requests_including_batch(
    per_core: str, used: float, weighs: float, batch: bool
) -> None:
    scene = Scene(configuration(f"interference: {{profiles: {{default: {{profile: {{{per_core}}}}}}}}}"))
    scene.measure(memorybandwidth_used={"n1": used}, memory_available={"n2": 8 * GIB})
    pod = share("ns/p", 4, memory=8)
    if batch:
        pod = replace(pod, requests={BATCH_CPU: 4000, BATCH_MEMORY: 8 * GIB})
    assert scene.suits(pod) == ({"n3"} if weighs else {"n1", "n3"})
    home = scene.place(pod)
    assert scene.weighs(home) == weighs


def test_a_type_without_affinities_scores_nothing() -> None:
    scene = Scene(configuration(STREAM.replace("60", "0").replace("50", "0")))
    decision = scene.decide(stream("p"))
    assert not decision.scores["Interference"].any()
    assert decision.accounts["Interference"].of(0)["normalized"] == 0


def test_gate_and_extender_see_one_node_alike() -> None:
    scene = Scene()
    scene.measure(memorybandwidth_used={"n2": 88e9})
    scene.put(stream("a"), "n2", scene.now)
    every = scene.cluster.snapshot()
    for name in scene.nodes:
        alone = scene.engine.decide(stream("p"), every.only(every.index[name]))
        assert bool(alone.feasible[0]) == (name in scene.suits(stream("p")))
        together = scene.decide(stream("p")).accounts["Interference"].of(every.index[name])
        told = alone.accounts["Interference"].of(0)
        assert told["filter"] == together["filter"]


def test_a_remembered_decision_tells_what_was_known_then() -> None:
    scene = Scene()
    scene.measure(memorybandwidth_used={"n1": 95e9})
    kept = Decisions(5, SYSTEM_CLOCK)
    kept.remember(Asked.FILTER, scene.decide(stream("p")), {}, "")
    before = encode(kept.details("ns/p"))
    scene.now += 100
    scene.measure(memorybandwidth_used=1e9, cpu=0.9)
    scene.put(stream("q"), "n1", scene.now)
    assert encode(kept.details("ns/p")) == before
    (decision,) = json.loads(before)
    told = {each["node"]: each["accounts"]["Interference"] for each in decision["nodes"]}
    assert told["n1"]["filter"]["memorybandwidth"]["left"] == 5e9
    assert told["n1"]["filter"]["memorybandwidth"]["right"] == 10e9
    assert told["n1"]["filter"]["memorybandwidth"]["passes"] is False
    assert told["n2"]["positions"]["cpu"] == 1


def test_both_sides_are_told_for_people_too() -> None:
    scene = Scene()
    scene.now += 30
    decision = scene.decide(stream("p"))
    lines = dict(decision.accounts["Interference"].lines(0))
    assert lines["bandwidth"] == (
        "80 GB/s > 10 GB/s: passes (capacity 100 GB/s, used 20 GB/s, counterweights 0 B/s, 30 s old)"
    )
    assert lines["memory"].startswith("64 GB > 400 MB: passes")
    assert lines["memorylatency"] == "100 ns, 30 s old; position 1: 10 points x affinity 60"
    assert lines["points"] == "1700 of 1700 by profile stream: 100 of 100"


def test_daemon_set_pod_is_reported_as_not_filtered() -> None:
    scene = Scene()
    scene.measure(memorybandwidth_used=99e9)
    account = scene.decide(stream("d", daemon=True)).accounts["Interference"]
    assert account.of(0)["exempt"]
    assert "1 GB/s > 10 GB/s: not checked for a pod of a DaemonSet (" in dict(account.lines(0))["bandwidth"]


def test_without_a_profile_nothing_is_looked_at() -> None:
    scene = Scene(configuration("interference: {}"))
    scene.measure(memorybandwidth_used=99e9)
    pod = PodFacts("ns/empty")
    assert scene.suits(pod) == set(scene.nodes)
    (first, *_) = node_records(scene.decide(pod))
    assert first["accounts"]["Interference"]["filter"]["memorybandwidth"]["right"] == 0


def test_outlook_is_rebuilt_only_when_something_changed() -> None:
    scene = Scene()
    first = scene.plugin.nodes(scene.cluster.snapshot())
    assert scene.plugin.nodes(scene.cluster.snapshot()) is first
    scene.put(stream("p"), "n1", scene.now)
    second = scene.plugin.nodes(scene.cluster.snapshot())
    assert second is not first
    scene.now += 2
    assert scene.plugin.nodes(scene.cluster.snapshot()) is not second
    scene.measure(cpu=0.9)
    assert np.all(scene.plugin.nodes(scene.cluster.snapshot()).pressure.cpu == 0.9)


MIXED = """
interference:
  profiles:
    graph:
      profile: {memoryBandwidth: 1GB/s, memory: 0.2GB, cpu: 1, llc: 8MiB}
      affinity: {memorybandwidth: 0, memorylatency: 0, llc_occupancy: 40, llc_mpki: 40, cpu: 0}
    hog:
      selector: {matchLabels: {tier: batch}}
      profile: {memoryBandwidth: 5GB/s, memory: 0.2GB, cpu: 1, llc: 16MiB}
      affinity: {memorybandwidth: 80, memorylatency: 80, llc_occupancy: 0, llc_mpki: 1, cpu: 0}
"""


def typed(name: str, kind: str) -> PodFacts:
    labels = {"tier": "batch"} if kind == "hog" else {"app": kind}
    return replace(share(f"ns/{name}", 0.1), labels=labels)


def minded(scene: Scene) -> dict[str, float]:
    """Return the affinities to the cache of the pods of each node."""
    snapshot = scene.cluster.snapshot()
    sums = snapshot.neighbors.at(snapshot.size)
    return {name: float(sums[row]) for name, row in snapshot.index.items()}


def test_pods_placed_long_ago_are_neighbors() -> None:
    scene = Scene(configuration(MIXED))
    scene.put(typed("a", "graph"), "n1", None)
    scene.put(typed("b", "hog"), "n1", scene.now - EXPIRY)
    scene.put(typed("c", "unknown"), "n2", scene.now)
    assert minded(scene) == {"n1": 81, "n2": 0, "n3": 0}
    scene.cluster.remove_pod("ns/a")
    assert minded(scene)["n1"] == 1


def test_neighbors_follow_node_pod_and_profiles() -> None:
    scene = Scene(configuration(MIXED))
    scene.put(typed("a", "graph"), "n1", None)
    scene.put(typed("a", "graph"), "n2", None)
    assert minded(scene) == {"n1": 0, "n2": 80, "n3": 0}
    scene.cluster.remove_node("n2")
    scene.cluster.put_node(node("other", 8))
    assert minded(scene)["other"] == 0
    scene.cluster.put_node(node("n2", 8))
    assert minded(scene)["n2"] == 80
    scene.use(configuration(MIXED.replace("llc_occupancy: 40", "llc_occupancy: 20")))
    assert minded(scene)["n2"] == 60
    scene.use(configuration("interference: {}"))
    assert minded(scene)["n2"] == 0


def test_ledger_entries_of_unknown_pods_are_no_neighbors() -> None:
    """Their labels are unknown, and this selector selects whatever has none."""
    text = MIXED.replace("{matchLabels: {tier: batch}}", "{}")
    scene = Scene(configuration(text))
    entry = CPUOwner("ns/owner", CPUSet.parse("0-3"))
    scene.cluster.put_node(replace(node("n1", 8), owned=OwnedCPUs({"u1": entry})))
    assert scene.cluster.unbound_entries == 1
    assert minded(scene)["n1"] == 0
    scene.use(configuration(text))
    assert minded(scene)["n1"] == 0
    scene.put(replace(typed("owner", "hog"), uid="u1"), "n1", None)
    assert minded(scene)["n1"] == 1
    scene.cluster.remove_pod("ns/owner")
    assert minded(scene)["n1"] == 0


@given(actions)
def test_neighbors_are_those_of_a_new_cluster(steps: list[tuple[str, int, int]]) -> None:
    scene = Scene(configuration(MIXED))
    for what, which, where in steps:
        name = scene.nodes[where]
        match what:
            case "pod":
                scene.put(typed(f"p{which}", "hog" if which % 2 else "graph"), name, None)
            case "remove":
                scene.cluster.remove_pod(f"ns/p{which}")
            case "node":
                scene.cluster.put_node(node(name, 8))
            case "lose":
                scene.cluster.remove_node(name)
            case _:
                scene.now += 50
    for name, found in minded(scene).items():
        pods = scene.cluster.pods_on(name).values()
        assert found == sum(1 if pod.labels.get("tier") else 80 for pod, _ in pods)


def test_hog_goes_where_no_pod_minds() -> None:
    scene = Scene(configuration(MIXED.replace("llc_mpki: 1", "llc_mpki: 0")))
    scene.measure(memorybandwidth_used={"n1": 1e9, "n2": 10e9, "n3": 20e9})
    assert scene.decide(typed("h", "hog")).node == "n1"
    scene.put(typed("a", "graph"), "n1", None)
    scene.put(typed("b", "graph"), "n1", None)
    decision = scene.decide(typed("h", "hog"))
    assert decision.node == "n2"
    account = decision.accounts["Interference"]
    told = account.of(0)
    assert told["neighbors"] == {"minded": 160, "displaced": 0.5, "deduction": 800}
    assert (told["raw"], told["normalizer"], told["normalized"]) == (1600, 1600, 50)
    lines = dict(account.lines(0))
    takes = "takes 50.0% of the cache, the pods there have affinities of 160 to it: 800 points less"
    assert lines["neighbors"] == takes
    assert lines["points"] == "1600 - 800 of 1600 by profile hog: 50 of 100"
    every = scene.cluster.snapshot()
    alone = scene.engine.decide(typed("h", "hog"), every.only(every.index["n1"]))
    assert alone.accounts["Interference"].of(0)["neighbors"] == told["neighbors"]


def test_cache_of_unknown_size_is_told() -> None:
    scene = Scene(configuration(MIXED))
    scene.measure(llc_capacity={"n1": math.nan})
    for name in ("n1", "n2"):
        scene.put(typed(f"on-{name}", "graph"), name, None)
    account = scene.decide(typed("h", "hog")).accounts["Interference"]
    assert account.of(0)["neighbors"] == {"minded": 80, "displaced": None, "deduction": 0}
    assert dict(account.lines(0))["neighbors"] == "the size of the cache is unknown: no points less"


def test_pod_without_affinities_spares_neighbors() -> None:
    scene = Scene(configuration(MIXED.replace("80", "0").replace("llc_mpki: 1", "llc_mpki: 0")))
    scene.put(typed("a", "graph"), "n1", None)
    scores = scene.decide(typed("h", "hog")).scores["Interference"]
    assert scores.tolist() == [90, 100, 100]
