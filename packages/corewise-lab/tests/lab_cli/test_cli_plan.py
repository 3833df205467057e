"""``corewise plan``: what it prints, and its exit codes: 0 no difference, 1 a difference, 2+ an error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from corewise.cli import corewise
from corewise.cli.errors import Failure
from corewise.vocabulary.names import (
    AMPLIFICATION_ORIGINAL,
    AMPLIFICATION_RATIO,
    CONFIG_NAME,
    CPU_BASIC_INFO,
    CPU_TOPOLOGY,
    LARGEST_RATIO,
    NORMALIZATION_RATIO,
    NUMA_SPEC,
    RAW_ALLOCATABLE,
    RECORD_GENERATION,
    RESOURCE_SPEC,
    RESOURCE_STATUS,
    recorded_applied,
    recorded_raw,
)

NODES = "sn,cpu_milli,memory_mib,gpu,model\nn0,8000,16384,0,\n"
PODS = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
    "a,6000,1024,0,0,,LS,Running,0,10,1\n"
    "b,6000,1024,0,0,,LS,Running,1,10,1\n"
)


@pytest.fixture
def trace(tmp_path: Path) -> list[str]:
    nodes, pods = tmp_path / "nodes.csv", tmp_path / "pods.csv"
    nodes.write_text(NODES)
    pods.write_text(PODS)
    return ["--from-openb", str(nodes), str(pods)]


def policy(folder: Path, ratio: str) -> str:
    file = folder / f"policy-{ratio}.yaml"
    value = json.dumps({"enable": True, "resourceAmplificationRatio": {"cpu": float(ratio)}})
    file.write_text(f"kind: ConfigMap\ndata:\n  resource-amplification-config: '{value}'\n")
    return str(file)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(corewise, ["plan", *arguments])


def test_plan_reports_placements_and_why_pods_stay_unplaced(trace: list[str]) -> None:
    result = run(*trace)
    assert result.exit_code == 0
    assert "1 node, 2 pods" in result.stdout
    lines = {line[:32].strip(): line[32:].split() for line in result.stdout.splitlines()}
    assert lines["pods scheduled"] == ["1"]
    assert lines["Insufficient cpu"] == ["1"]
    assert "pods/s" in result.stderr


def test_two_configurations_that_differ_end_with_1(trace: list[str], tmp_path: Path) -> None:
    result = run(
        *trace, "--policy", policy(tmp_path, "2.0"), "--against", policy(tmp_path, "1.0"), "-o", "json"
    )
    assert result.exit_code == 1
    document = json.loads(result.stdout)
    assert [each["scheduled"] for each in document["plans"]] == [1, 2]
    assert document["difference"]["podsGained"] == ["default/b"]
    assert document["plans"][1]["rawOvercommitPercent"] == 150
    assert document["plans"][0]["unplaced"]["default/b"]["reason"] == "ResourceInsufficient"


def test_a_configuration_is_compared_with_none(trace: list[str], tmp_path: Path) -> None:
    result = run(*trace, "--policy", policy(tmp_path, "2.0"), "--against", "none")
    assert result.exit_code == 1
    assert "no configuration" in result.stdout
    assert run(*trace, "--against", "none").exit_code == 0


def test_equivalent_configurations_exit_with_0(trace: list[str], tmp_path: Path) -> None:
    result = run(*trace, "--policy", policy(tmp_path, "1.0"), "--against", policy(tmp_path, "1.0"))
    assert result.exit_code == 0
    assert "no difference" in result.stdout


def test_a_difference_is_told_in_words(trace: list[str], tmp_path: Path) -> None:
    result = run(*trace, "--policy", policy(tmp_path, "2.0"), "--against", policy(tmp_path, "1.0"))
    assert "pods that gain a node: 1 (default/b)" in result.stdout
    assert "nodes with another ratio: 1" in result.stdout


def test_exactly_one_thing_to_plan_must_be_named(trace: list[str]) -> None:
    assert run().exit_code == 2
    assert run(*trace, "--from", "dump.json").exit_code == 2


@pytest.mark.parametrize(
    "text",
    ["kind: ConfigMap\n", "nonsense: [", 'kind: ConfigMap\ndata:\n  resource-amplification-config: "{"\n'],
)
def test_unusable_configuration_is_a_failure(trace: list[str], tmp_path: Path, text: str) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(text)
    result = run(*trace, "--policy", str(file))
    assert isinstance(result.exception, Failure)
    assert result.exception.exit_code == 5
    assert str(file) in str(result.exception)
    assert "corewise config check" in result.exception.hint


def dump_with(folder: Path, text: str) -> str:
    """Return a dump of a node with 8 CPUs, two pods that request 6 each, and this configuration."""
    amounts = {"cpu": "8", "memory": "16Gi", "pods": "110"}
    status = {"capacity": amounts, "allocatable": amounts}
    container = {"name": "c", "resources": {"requests": {"cpu": "6"}}}
    pods = [
        {"kind": "Pod", "metadata": {"name": name, "namespace": "a"}, "spec": {"containers": [container]}}
        for name in "pq"
    ]
    config = {
        "kind": "ConfigMap",
        "metadata": {"name": CONFIG_NAME},
        "data": {"resource-amplification-config": text},
    }
    file = folder / "dump.json"
    node = {"kind": "Node", "metadata": {"name": "n0"}, "status": status}
    file.write_text(json.dumps({"items": [node, *pods, config]}))
    return str(file)


@pytest.mark.parametrize(("largest", "scheduled"), [(None, 1), ("20.00", 2), ("11.00", 1)])
def test_ratios_are_judged_by_the_managers_largest(
    tmp_path: Path, largest: str | None, scheduled: int
) -> None:
    file = Path(dump_with(tmp_path, '{"enable": true, "resourceAmplificationRatio": {"cpu": 12}}'))
    annotations = {} if largest is None else {LARGEST_RATIO: largest}
    meta = {"name": "corewise-mutating", "annotations": annotations}
    items = json.loads(file.read_text())["items"]
    items.append({"kind": "MutatingWebhookConfiguration", "metadata": meta})
    file.write_text(json.dumps({"items": items}))
    (planned,) = json.loads(run("--from", str(file), "-o", "json").stdout)["plans"]
    assert planned["scheduled"] == scheduled
    result = run("--from", str(file), "--policy", policy(tmp_path, "12.0"))
    if scheduled == 2:
        assert result.exit_code == 0
    else:
        assert "the manager's --largest-amplification" in str(result.exception)


DOUBLED_WITH_ERROR = '{"enable": true, "resourceAmplificationRatio": {"cpu": 2.00, "memory": 0.5}}'


@pytest.mark.parametrize(
    ("text", "scheduled", "said"),
    [
        (DOUBLED_WITH_ERROR, 2, "entries without errors are applied"),
        ("{", 1, "nodes keep the ratios they have"),
    ],
)
def test_stored_errors_are_planned_as_applied(tmp_path: Path, text: str, scheduled: int, said: str) -> None:
    file = dump_with(tmp_path, text)
    result = run("--from", file, "--against", policy(tmp_path, "1.0"), "-o", "json")
    document = json.loads(result.stdout)
    assert [each["scheduled"] for each in document["plans"]] == [1, scheduled]
    (note,) = [each for each in document["notes"] if "has errors" in each]
    assert said in note
    assert note.endswith(f"To see them: corewise config check {file}")
    assert note in result.stderr


def test_present_file_with_errors_is_compared(trace: list[str], tmp_path: Path) -> None:
    before = tmp_path / "before.yaml"
    before.write_text(f"kind: ConfigMap\ndata:\n  resource-amplification-config: '{DOUBLED_WITH_ERROR}'\n")
    result = run(*trace, "--policy", policy(tmp_path, "2.0"), "--against", str(before))
    assert result.exit_code == 0
    assert f"note: {before}: resource-amplification-config has errors" in result.stderr


def doubled_node(name: str) -> dict[str, Any]:
    """Return a node with 8 raw CPUs and ratio 2.00 in force."""
    fields = ("capacity", "allocatable")
    annotations = {
        AMPLIFICATION_RATIO: '{"cpu":2.00}',
        AMPLIFICATION_ORIGINAL: "{}",
        RECORD_GENERATION: "1",
        **{recorded_raw(field, "cpu"): "8" for field in fields},
        **{recorded_applied(field, "cpu"): "16" for field in fields},
    }
    amounts = {"cpu": "16", "memory": "16Gi", "pods": "110"}
    return {
        "kind": "Node",
        "metadata": {"name": name, "annotations": annotations},
        "status": dict.fromkeys(fields, amounts),
    }


def running_pod(name: str, node: str, cpu: str, phase: str = "Running") -> dict[str, Any]:
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "a"},
        "spec": {"nodeName": node, "containers": [container]},
        "status": {"phase": phase},
    }


def written_dump(folder: Path, *items: dict[str, Any]) -> str:
    file = folder / "dump.json"
    file.write_text(json.dumps({"items": items}))
    return str(file)


def test_decreases_held_back_are_noted(tmp_path: Path) -> None:
    full = [f"full-{number}" for number in range(7)]
    dump = written_dump(
        tmp_path,
        *map(doubled_node, [*full, "calm"]),
        *(running_pod(f"of-{name}", name, "12") for name in full),
        *(running_pod("small", "calm", "2"), running_pod("done", "calm", "12", "Succeeded")),
    )
    lower = policy(tmp_path, "1.2")
    result = run("--from", dump, "--policy", lower, "--against", policy(tmp_path, "2.0"), "-o", "json")
    document = json.loads(result.stdout)
    assert [each["schedulableMilliCPU"] for each in document["plans"]] == [128_000, 76_800]
    (note,) = [each for each in document["notes"] if "holds back" in each]
    assert note.startswith(f"{lower}: ")
    assert note.endswith("7 (full-0, full-1, full-2, full-3, full-4 and 2 more)")
    assert f"note: {note}" in run("--from", dump, "--policy", lower).stderr


def test_nodes_that_keep_their_ratio_are_counted(tmp_path: Path) -> None:
    """Of four CPUs with ratio 2.00 the policy names one; a node without a ratio has none to keep."""
    models = {"n0": "Named", "n1": "Other", "n2": "Other", "n3": None, "raw": "Other"}
    nodes = [doubled_node(name) for name in models]
    nodes[-1]["metadata"]["annotations"] = {}
    stated = [
        {"kind": "NodeResourceTopology", "metadata": {"name": name, "annotations": {CPU_BASIC_INFO: facts}}}
        for name, model in models.items()
        if model and (facts := json.dumps({"cpuModel": model}))
    ]
    dump = written_dump(tmp_path, *nodes, *stated)
    file = tmp_path / "named.yaml"
    value = json.dumps({"enable": True, "ratioModel": {"Named": {"baseRatio": 1.5}}})
    file.write_text(f"kind: ConfigMap\ndata:\n  cpu-normalization-config: '{value}'\n")
    result = run("--from", dump, "--policy", str(file), "--against", "none", "-o", "json")
    document = json.loads(result.stdout)
    assert [each["schedulableMilliCPU"] for each in document["plans"]] == [48_000, 76_000]
    (note,) = [each for each in document["notes"] if "keep the cpu ratio" in each]
    assert note.startswith(f"{file}: ")
    assert note.endswith(": 3 (UnknownCPUModel 2, CPUFactsMissing 1)")
    assert f"note: {note}" in run("--from", dump, "--policy", str(file)).stderr


def test_missing_file_is_a_failure(tmp_path: Path, trace: list[str]) -> None:
    for arguments in (
        ["--from", str(tmp_path / "none.json")],
        [*trace, "--policy", str(tmp_path / "none.yaml")],
    ):
        result = run(*arguments)
        assert isinstance(result.exception, Failure)
        assert "none." in str(result.exception)


AMOUNTS = st.dictionaries(
    st.sampled_from(["cpu", "memory", "pods", "kubernetes.io/batch-cpu", "nvidia.com/gpu"]),
    st.sampled_from(["0", "1", "500m", "8", "1Gi", "9.3e15", "1e18", "1e30", "-1", "1n", "x", ""]),
)
ANNOTATIONS = st.dictionaries(
    st.sampled_from(
        [
            *(AMPLIFICATION_RATIO, NORMALIZATION_RATIO, RAW_ALLOCATABLE),
            *(RESOURCE_SPEC, RESOURCE_STATUS, NUMA_SPEC, CPU_BASIC_INFO, CPU_TOPOLOGY),
        ]
    ),
    st.sampled_from(
        [
            *("", "{}", "[", "[" * 5000, "null", '"x"', "1.5", "9" * 5000),
            *('{"cpu":1.5}', '{"cpu":"9e18"}', '{"cpu":1e400}', '{"cpuset":"0-3"}', '{"cpuset":"0-65535"}'),
            *('{"requiredCPUBindPolicy":"FullPCPUs"}', '{"numaTopologyPolicy":"SingleNUMANode"}'),
            *('{"detail":[{"id":0,"core":0,"socket":0,"node":0}]}', '{"detail":[{"id":99999999,"core":-1}]}'),
        ]
    ),
)


def resources() -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries({"requests": AMOUNTS, "limits": AMOUNTS})


NODES_OF_A_DUMP = st.fixed_dictionaries(
    {
        "kind": st.just("Node"),
        "metadata": st.fixed_dictionaries(
            {"name": st.sampled_from(["n0", "n1"]), "annotations": ANNOTATIONS, "labels": st.just({"a": "1"})}
        ),
        "status": st.fixed_dictionaries({"capacity": AMOUNTS, "allocatable": AMOUNTS}),
    }
)
PODS_OF_A_DUMP = st.fixed_dictionaries(
    {
        "kind": st.just("Pod"),
        "metadata": st.fixed_dictionaries(
            {
                "name": st.sampled_from(["p0", "p1", "p2"]),
                "annotations": ANNOTATIONS,
                "labels": st.sampled_from([{}, {"koordinator.sh/qosClass": "LSR"}]),
            }
        ),
        "spec": st.fixed_dictionaries(
            {
                "containers": st.lists(
                    st.fixed_dictionaries({"name": st.just("c"), "resources": resources()}), max_size=2
                ),
                "nodeName": st.sampled_from(["", "n0", None]),
                "overhead": st.none() | AMOUNTS,
                "resources": st.none() | resources(),
            }
        ),
    }
)
TOPOLOGIES_OF_A_DUMP = st.builds(
    lambda name, annotations: {
        "kind": "NodeResourceTopology",
        "metadata": {"name": name, "annotations": annotations},
    },
    st.sampled_from(["n0", "n1"]),
    ANNOTATIONS,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    nodes=st.lists(NODES_OF_A_DUMP, max_size=3),
    others=st.lists(PODS_OF_A_DUMP | TOPOLOGIES_OF_A_DUMP, max_size=5),
    form=st.sampled_from(["table", "json"]),
)
def test_any_dump_is_planned_or_refused(
    nodes: list[Any], others: list[Any], form: str, tmp_path: Path
) -> None:
    file = tmp_path / "dump.json"
    file.write_text(json.dumps({"items": [*nodes, *others]}))
    told = run("--from", str(file), "--against", "none", "-o", form).exception
    assert told is None or isinstance(told, Failure | SystemExit)


def test_impossibly_large_amounts_are_planned_without_a_crash(tmp_path: Path) -> None:
    amounts = {"cpu": "9.3e15", "memory": "1e30"}
    node = {
        "kind": "Node",
        "metadata": {"name": "n"},
        "status": {"capacity": amounts, "allocatable": amounts},
    }
    file = tmp_path / "dump.json"
    file.write_text(json.dumps({"items": [node]}))
    assert run("--from", str(file)).exit_code == 0
