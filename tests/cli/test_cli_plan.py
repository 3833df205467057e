"""``corewise plan``: what it prints, and its exit codes: 0 no difference, 1 a difference, 2+ an error."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from corewise.cli.errors import Failure
from corewise.cli.plan import command

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
    return CliRunner().invoke(command, list(arguments))


def test_a_plan_says_what_is_scheduled_and_why_the_rest_is_not(trace: list[str]) -> None:
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


def test_two_configurations_that_do_not_differ_end_with_0(trace: list[str], tmp_path: Path) -> None:
    result = run(*trace, "--policy", policy(tmp_path, "1.0"), "--against", policy(tmp_path, "1.0"))
    assert result.exit_code == 0
    assert "no difference" in result.stdout


def test_a_difference_is_told_in_words(trace: list[str], tmp_path: Path) -> None:
    result = run(*trace, "--policy", policy(tmp_path, "2.0"), "--against", policy(tmp_path, "1.0"))
    assert "pods that gain a node: 1 (default/b)" in result.stdout
    assert "nodes with another ratio: 1" in result.stdout


def test_something_to_plan_must_be_named_and_only_one(trace: list[str]) -> None:
    assert run().exit_code == 2
    assert run(*trace, "--from", "dump.json").exit_code == 2


@pytest.mark.parametrize(
    "text",
    ["kind: ConfigMap\n", "nonsense: [", 'kind: ConfigMap\ndata:\n  resource-amplification-config: "{"\n'],
)
def test_a_configuration_that_cannot_be_used_is_a_failure(
    trace: list[str], tmp_path: Path, text: str
) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(text)
    result = run(*trace, "--policy", str(file))
    assert isinstance(result.exception, Failure)
    assert result.exception.exit_code == 5
    assert str(file) in str(result.exception)
    assert "corewise config check" in result.exception.hint


def test_a_file_that_is_not_there_is_a_failure(tmp_path: Path, trace: list[str]) -> None:
    for arguments in (
        ["--from", str(tmp_path / "none.json")],
        [*trace, "--policy", str(tmp_path / "none.yaml")],
    ):
        result = run(*arguments)
        assert isinstance(result.exception, Failure)
        assert "none." in str(result.exception)
