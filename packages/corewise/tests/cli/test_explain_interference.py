"""``corewise explain interference``: the whole decision from three files; what is said of bad ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from corewise.cli import corewise
from corewise.cli.errors import Failure

CONFIG = """\
interference:
  overprovisioning: 2
  profiles:
    incept-no-leak:
      profile:  {memoryBandwidth: 5GB/s, memory: 0.2GB, cpu: 1, llc: 4MiB}
      affinity: {memorybandwidth: 60, memorylatency: 60, llc_occupancy: 0, llc_mpki: 0, cpu: 50}
    batch:
      selector: {matchLabels: {tier: batch}}
      profile:  {memoryBandwidth: 1GB/s}
      affinity: {memorybandwidth: 100, memorylatency: 0, llc_occupancy: 0, llc_mpki: 0, cpu: 0}
"""
POD = """\
apiVersion: v1
kind: Pod
metadata:
  name: web
  labels: {app: incept-no-leak}
spec:
  containers:
  - name: main
    image: x
    resources: {requests: {cpu: 0.5, memory: 1Gi}}
"""
OFFLINE = "kubernetes.io/batch-cpu: 8000, kubernetes.io/batch-memory: 8Gi"
Run = Callable[..., Result]


def node(
    used: float, latency: float, occupancy: float, mpki: float, cpu: float, **more: Any
) -> dict[str, Any]:
    return {
        "memorybandwidth_used": used,
        "memorybandwidth_capacity": 100e9,
        "memorylatency": latency,
        "llc_occupancy": occupancy,
        "llc_mpki": mpki,
        "cpu": cpu,
        "cpu_cores": 32,
        "memory_available": 64e9,
        **more,
    }


FOUR = {
    "n1": node(40e9, 95e-9, 1e6, 9.0, 0.3),
    "n2": node(10e9, 90e-9, 20e6, 3.0, 0.1),
    "n3": node(20e9, 110e-9, 30e6, 2.0, 0.5),
    "n4": node(70e9, 120e-9, 40e6, 1.0, 0.7),
}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    def call(*options: str, config: str = CONFIG, metrics: Any = FOUR, pod: str = POD) -> Result:
        files = {"config": tmp_path / "C.yaml", "metrics": tmp_path / "M.json", "pod": tmp_path / "P.yaml"}
        files["config"].write_text(config)
        files["metrics"].write_text(metrics if isinstance(metrics, str) else json.dumps(metrics))
        files["pod"].write_text(pod)
        named = [part for option, file in files.items() for part in (f"--{option}", str(file))]
        return CliRunner().invoke(corewise, ["explain", "interference", *named, *options])

    return call


def decided(run: Run, **files: Any) -> dict[str, Any]:
    result = run("-o", "json", **files)
    assert result.exit_code == 0, result.exception
    document: dict[str, Any] = json.loads(result.stdout)
    return document


def refused(run: Run, **files: Any) -> str:
    result = run(**files)
    assert isinstance(result.exception, Failure)
    assert result.exception.exit_code == 5
    return str(result.exception)


def test_the_documents_example_scores_610_and_36(run: Run) -> None:
    document = decided(run)
    first = document["nodes"]["n1"]
    assert document["profile"]["name"] == "incept-no-leak"
    assert list(first["positions"].values()) == [3, 2, 1, 4, 2]
    assert list(first["points"].values()) == [1, 5, 10, 0, 5]
    assert (first["raw"], first["normalized"], document["normalizer"]) == (610, 36, 1700)
    bandwidth, memory = first["filter"]["memorybandwidth"], first["filter"]["memory"]
    assert (bandwidth["left"], bandwidth["right"], bandwidth["passes"]) == (60e9, 10e9, True)
    assert (bandwidth["capacity"], bandwidth["used"], bandwidth["counterweights"]) == (100e9, 40e9, 0)
    assert (memory["left"], memory["right"], memory["passes"]) == (64e9, 4e8, True)
    assert document["best"] == ["n2"]


def test_equality_fails_and_failing_node_is_not_ranked(run: Run) -> None:
    metrics = {
        **FOUR,
        "n2": node(90e9, 90e-9, 20e6, 3.0, 0.1),
        "n3": node(1e9, 1e-7, 1e6, 1.0, 0.1, memory_available=4e8),
    }
    nodes = decided(run, metrics=metrics)["nodes"]
    assert (nodes["n2"]["passes"], nodes["n2"]["reasons"]) == (False, ["MemoryBandwidthInsufficient"])
    assert (
        nodes["n2"]["filter"]["memorybandwidth"]["left"] == nodes["n2"]["filter"]["memorybandwidth"]["right"]
    )
    assert nodes["n3"]["reasons"] == ["MemoryAvailableInsufficient"]
    assert (nodes["n2"]["raw"], nodes["n2"]["positions"]["cpu"]) == (None, None)
    assert nodes["n1"]["positions"]["memorylatency"] == 1


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"memorybandwidth_used": None}, "not given"),
        ({"memorybandwidth_used": float("nan")}, "not a number"),
        ({"memorybandwidth_used": float("inf")}, "infinite"),
        ({"memorybandwidth_used": float("-inf")}, "infinite"),
        ({"memorybandwidth_used": -1}, "-1 is negative"),
        ({"memorybandwidth_used": 1e300}, "1e+300 is more than any machine has"),
        ({"memorybandwidth_used": 0}, "0, which exporters print for what they do not support"),
    ],
)
def test_missing_value_says_why_and_follows_the_configuration(
    run: Run, values: dict[str, Any], why: str
) -> None:
    metrics = {**FOUR, "n1": {**FOUR["n1"], **values}}
    passing = decided(run, metrics=metrics)["nodes"]["n1"]
    assert passing["passes"]
    assert passing["missing"] == {"memorybandwidth_used": why}
    assert passing["filter"]["memorybandwidth"]["left"] is None
    assert (passing["positions"]["memorybandwidth"], passing["points"]["memorybandwidth"]) == (None, 0)
    config = CONFIG.replace("overprovisioning: 2", "missing: {filter: fail}")
    failing = decided(run, metrics=metrics, config=config)["nodes"]["n1"]
    assert (failing["passes"], failing["reasons"]) == (False, ["PressureUnknown"])


def test_unstated_node_capacity_comes_from_its_rule(run: Run) -> None:
    rule = "capacity: {memoryBandwidth: [{selector: {matchLabels: {cpu: big}}, value: 50GB/s}]}"
    config = CONFIG.replace("overprovisioning: 2", rule)
    bare = {key: value for key, value in FOUR["n1"].items() if key != "memorybandwidth_capacity"}
    nodes = decided(run, config=config, metrics={"big": {**bare, "labels": {"cpu": "big"}}, "other": bare})[
        "nodes"
    ]
    assert nodes["big"]["filter"]["memorybandwidth"]["left"] == 10e9
    assert nodes["big"]["missing"] == {}
    assert nodes["other"]["missing"] == {"memorybandwidth_capacity": "not given"}


def test_capacity_rule_wins_over_measurement_as_in_cluster(run: Run) -> None:
    rule = "capacity: {memoryBandwidth: [{selector: {}, value: 45GB/s}]}"
    nodes = decided(run, config=CONFIG.replace("overprovisioning: 2", rule))["nodes"]
    assert nodes["n1"]["filter"]["memorybandwidth"]["capacity"] == 45e9
    assert [name for name, each in nodes.items() if each["passes"]] == ["n2", "n3"]


def test_just_placed_pods_count_in_filter_and_score(run: Run) -> None:
    placed = [{"profile": "incept-no-leak", "age": 0}, {"profile": "incept-no-leak", "age": 180}]
    metrics = {**FOUR, "n2": {**FOUR["n2"], "placed": placed}}
    second = decided(run, metrics=metrics)["nodes"]["n2"]
    assert second["filter"]["memorybandwidth"]["counterweights"] == 7.5e9
    assert second["counterweights"] == {"cpu": 1.5, "llc": 1.5 * 4 * 2**20}
    assert second["filter"]["memorybandwidth"]["left"] == 82.5e9
    assert second["values"]["cpu"] == pytest.approx(0.1 + 1.5 / 32)


MINDS = CONFIG.replace(
    "memorylatency: 0, llc_occupancy: 0, llc_mpki: 0,", "memorylatency: 0, llc_occupancy: 60, llc_mpki: 40,"
)
SIZED = {name: {**values, "llc_capacity": 16 * 2**20} for name, values in FOUR.items()}
"""Of these caches the pod takes a quarter."""


def test_pods_placed_long_ago_lose_their_cache(run: Run) -> None:
    placed = [{"profile": "batch", "age": 100_000}]
    metrics = {**SIZED, "n2": {**SIZED["n2"], "placed": placed}}
    document = decided(run, metrics=metrics, config=MINDS)
    first, second = document["nodes"]["n1"], document["nodes"]["n2"]
    assert second["neighbors"] == {"minded": 100, "displaced": 0.25, "deduction": 250}
    assert document["normalizer"] == 1700
    assert (first["raw"], first["normalized"]) == (610, 36)
    assert (second["raw"], second["normalized"]) == (1700, round(1450 * 100 / 1700))
    table = run(metrics=metrics, config=MINDS).stdout
    assert "a score of 100 is 1700 raw\n" in table
    assert "  RAW  NEIGHBORS  SCORE\n" in table
    assert "  1700       -250     85\n" in table


@pytest.mark.parametrize(
    ("config", "displaced"),
    [
        pytest.param(MINDS, 0.25, id="some pods may mind"),
        pytest.param(CONFIG, None, id="none can: the cluster does not query it"),
        pytest.param(CONFIG.replace("overprovisioning: 2", "relative: true"), 0.25, id="relative"),
    ],
)
def test_cache_size_counts_where_the_cluster_queries_it(
    run: Run, config: str, displaced: float | None
) -> None:
    first = decided(run, metrics=SIZED, config=config)["nodes"]["n1"]
    assert first["neighbors"] == {"minded": 0, "displaced": displaced, "deduction": 0}
    assert first["normalized"] == 36


def test_pod_that_is_not_asked_about_is_told(run: Run) -> None:
    said = "only if they own CPUs: no affinity, and no more than 1 GB/s (askAbove)\n"
    assert said not in run().stdout
    quiet = CONFIG.replace("60, memorylatency: 60", "0, memorylatency: 0").replace("cpu: 50", "cpu: 0")
    assert said not in run(config=quiet).stdout
    assert said in run(config=quiet.replace("5GB/s", "1GB/s")).stdout


def test_pod_without_profile_counts_by_its_requests(run: Run) -> None:
    document = decided(run, pod=POD.replace("incept-no-leak", "unknown"))
    assert document["profile"] == {
        "name": "default",
        "memoryBandwidth": 250 * 10**6,
        "memory": 2**30,
        "cpu": 0.5,
        "llc": 0,
    }
    assert document["nodes"]["n1"]["filter"]["memory"]["right"] == 2**30
    offline = POD.replace("incept-no-leak", "unknown").replace("cpu: 0.5, memory: 1Gi", OFFLINE)
    profile = decided(run, pod=offline)["profile"]
    assert [profile[each] for each in ("memoryBandwidth", "memory", "cpu")] == [4 * 10**9, 8 * 2**30, 8]


def test_pod_is_read_as_the_api_server_would(run: Run) -> None:
    written = POD.replace("name: web", "name: web\n  creationTimestamp: 2026-01-01T00:00:00Z")
    document = decided(
        run, pod=written + "    volumeMounts: []\n  volumes: [{name: a, secret: {defaultMode: 0644}}]\n"
    )
    assert document["pod"] == "default/web"


@pytest.mark.parametrize(
    "pod",
    [
        '{"kind": "Pod", "metadata": {"labels": {"app": "incept-no-leak"}}, "spec": {"containers": []}}',
        "{kind: Pod, metadata: {labels: {app: incept-no-leak}}, spec: {containers: []}}",
        "kind: Pod\nmetadata: {annotations: &a {x: y}, labels: {<<: *a, app: incept-no-leak}}\nspec: {}\n",
    ],
)
def test_nameless_pod_in_json_or_yaml_is_accepted(run: Run, pod: str) -> None:
    document = decided(run, pod=pod)
    assert document["pod"] == "default/(no name)"
    assert document["profile"]["name"] == "incept-no-leak"


@pytest.mark.parametrize("written", ["apiVersion: apps/v1, name: d, uid: u, controller: true", "name: d"])
def test_daemon_set_pod_is_not_filtered(run: Run, written: str) -> None:
    owner = f"ownerReferences: [{{kind: DaemonSet, {written}}}]"
    document = decided(
        run, pod=POD.replace("name: web", f"name: web\n  {owner}"), metrics={"n": node(99e9, 1, 1, 1, 1)}
    )
    assert document["exempt"]
    assert document["predicted"] == []
    assert document["nodes"]["n"]["passes"]
    assert not document["nodes"]["n"]["filter"]["memorybandwidth"]["passes"]


def test_two_matching_profiles_are_refused_with_their_lines(run: Run) -> None:
    told = refused(run, pod=POD.replace("{app:", "{tier: batch, app:"))
    assert "profiles incept-no-leak (line 4) and batch (line 7) match the same pod" in told


def test_bad_configuration_reports_errors_with_file_line_field(run: Run) -> None:
    config = CONFIG.replace("cpu: 50", "cpu: 101").replace("5GB/s", "5 GB")
    told = refused(run, config=config)
    assert "C.yaml: line 5" in told
    assert '"5 GB" has the unit "GB"' in told
    assert "C.yaml: line 6" in told
    assert "101 is outside 0..100" in told


def test_profile_that_fits_no_node_is_reported(run: Run) -> None:
    result = run("-o", "json", config=CONFIG.replace("5GB/s", "50GB/s"))
    assert result.exit_code == 0
    assert (
        'line 4: interference.profiles["incept-no-leak"]: fits no node: it needs more than 100 GB/s'
        in result.stderr
    )
    assert json.loads(result.stdout)["best"] == []


@pytest.mark.parametrize(
    ("metrics", "told"),
    [
        ("[]", "line 1, column 1: must be an object"),
        ("{", "is not closed"),
        ('{"n1": {"memorylatency": 1, "memorylatency": 2}}', "the key is given twice"),
        ({"n1": {"memorybandwith_used": 1}}, 'unknown key: did you mean "memorybandwidth_used"?'),
        ({"n1": {"memorylatency": "95ns"}}, 'must be a number (seconds) or null, not "95ns"'),
        ({"n1": {"cpu": True}}, "must be a number (a ratio, 0..1) or null, not true"),
        ({"n1": None}, "n1: must be an object of values, not null"),
        ({"n1": 5}, "n1: must be an object"),
        ({"n1": {"placed": [{"profile": "incept", "age": 1}]}}, "is not a profile of the configuration"),
        ({"n1": {"labels": {"a": 1}}}, "must be a string"),
    ],
)
def test_unusable_measurement_file_is_refused_with_the_place(run: Run, metrics: Any, told: str) -> None:
    assert told in refused(run, metrics=metrics)


@pytest.mark.parametrize(
    ("pod", "told"),
    [
        ("kind: Deployment\n", "is a Deployment, not a Pod"),
        ("just text", "not a Pod: it has no kind"),
        ("a: [", "is not YAML"),
        ("{broken", "is not YAML"),
        ("kind: Pod\n", "spec is missing"),
        ("kind: Pod\nspec: {containers: 5}\n", "is not a valid Pod"),
        ("kind: Pod\nspec: {containers: [5]}\n", "is not a valid Pod"),
        (POD.replace("cpu: 0.5", "cpu: 5 cores"), "spec.containers[0].resources.requests.cpu"),
        (POD.replace("{app: incept-no-leak}", "{app: 5}"), "is not a valid Pod"),
        (POD.replace("{app: incept-no-leak}", "{app: a, app: b}"), "P.yaml: the key app is given twice"),
        (POD + "kind: Pod\n", "P.yaml: the key kind is given twice"),
        ('{"kind": "Pod", "spec": {}, "spec": {}}', "P.yaml: the key spec is given twice"),
        (POD.replace("1Gi", "-1Gi"), "spec.containers[0].resources.requests.memory: -1Gi is negative"),
        (POD + "---\n" + POD, "found another document"),
        ("[" * 100_000, "P.yaml: line 1, column 33: nested deeper than 32 levels"),
        ('{"a": ' * 100_000, "P.yaml: line 1, column 193: nested deeper than 32 levels"),
        ("kind: PodList\nitems: []\n", "is a PodList, not a Pod"),
    ],
)
def test_a_pod_that_will_not_do_is_refused(run: Run, pod: str, told: str) -> None:
    assert told in refused(run, pod=pod)


def test_no_nodes_is_a_decision_without_any(run: Run) -> None:
    document = decided(run, metrics={})
    assert (document["nodes"], document["best"]) == ({}, [])


def test_a_section_that_is_not_there_is_said(run: Run) -> None:
    assert "has no section 'interference'" in refused(run, config="scoring: MostAllocated\n")


def test_table_shows_both_sides_positions_points_and_scores(run: Run) -> None:
    result = run()
    assert result.exit_code == 0
    assert "needs more than 10 GB/s and 0.4 GB free (2 x 5 GB/s, 0.2 GB)" in result.stdout
    row = next(line for line in result.stdout.splitlines() if line.startswith("n1 "))
    assert " ".join(row.split()) == "n1 passes 60 > 10 64 > 0.4 3 (1) 2 (5) 1 (10) 4 (0) 2 (5) 610 36"
    plain = run(pod=POD.replace("incept", "x")).stdout
    assert "needs more than 0.5 GB/s and 1.07374 GB free (2 x 0.25 GB/s, and the memory it requests)" in plain
    nothing = "kind: Pod\nmetadata: {name: x}\nspec: {containers: []}\n"
    assert "needs neither memory bandwidth nor memory, so every node passes" in run(pod=nothing).stdout
    wide = run("-o", "wide").stdout
    assert "95 ns" in wide
    assert "60 GB/s free" in wide


def test_linear_points_and_a_relative_ranking_are_explained(run: Run) -> None:
    document = decided(run, config=CONFIG.replace("overprovisioning: 2", "points: linear\n  relative: true"))
    assert document["points"] == "linear"
    assert document["relative"] == ["memorybandwidth"]
    assert document["nodes"]["n1"]["values"]["memorybandwidth"] == 0.6
    assert document["nodes"]["n2"]["normalized"] == 100
