"""``corewise profile``: from a file or a server, what it prints, and what its YAML means to the scheduler."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from corewise.cli import corewise
from corewise.cli.errors import ExitCode, Failure
from corewise.cli.profile_history import read_history, write_history
from corewise.config.interference.metrics import Metric
from corewise.config.interference.model import DefaultProfile, Profile
from corewise.config.interference.reading import parse_interference
from interference.simulated_history import RANGES, USE, Planted, planted_history

SENSITIVE = {
    Metric.MEMORY_BANDWIDTH: 60,
    Metric.MEMORY_LATENCY: 60,
    Metric.LLC_OCCUPANCY: 0,
    Metric.LLC_MPKI: 0,
    Metric.CPU: 50,
}
STEADY = dict.fromkeys(RANGES, 0)
WITHIN = 10
HEAD = '{"start": 0, "end": 1, "nodes": {}, "pods": '


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two types of Jobs; a third one has run once."""
    file = tmp_path_factory.mktemp("history") / "week.json"
    planted = planted_history(Planted({"incept-no-leak": SENSITIVE, "steady": STEADY}))
    once = planted_history(Planted({"rare": STEADY}, runs=1)).pods
    planted.pods.extend(once)  # type: ignore[attr-defined]  # it is a list
    write_history(file, planted)
    return file


def run(*arguments: object) -> Result:
    return CliRunner().invoke(corewise, ["profile", *map(str, arguments)])


def test_scheduler_reads_the_yaml_and_finds_planted_values(history: Path) -> None:
    result = run("--history", history, "-o", "yaml")
    assert result.exit_code == 0
    parsed = parse_interference(result.stdout)
    assert not parsed.problems
    assert parsed.value is not None
    assert parsed.value.profiles.keys() == {"incept-no-leak", "steady"}
    found = parsed.value.profiles["incept-no-leak"]
    assert all(abs(found.affinity[metric] - value) <= WITHIN for metric, value in SENSITIVE.items())
    assert found.profile.memory_bandwidth == pytest.approx(USE["memoryBandwidth"], rel=0.01)
    assert found.profile.memory == pytest.approx(USE["memory"], rel=0.01)
    assert found.profile.cpu == pytest.approx(1000 * USE["cpu"], rel=0.01)
    assert found.profile.llc == pytest.approx(USE["llc"], rel=0.01)
    assert "# rare refused: TooFewRuns: 1 runs by run time; at least 12 are needed" in result.stdout


def test_percentiles_replace_means_where_requested(history: Path) -> None:
    means, upper = (
        yaml.safe_load(run("--history", history, "-o", "yaml", *more).stdout) for more in ((), ("--p95",))
    )
    one, other = (
        each["interference"]["profiles"]["steady"]["profile"]["memoryBandwidth"] for each in (means, upper)
    )
    assert float(other.removesuffix("GB/s")) == pytest.approx(
        float(one.removesuffix("GB/s")) * 1.08, rel=0.02
    )


def test_the_table_shows_samples_spread_and_confidence(history: Path) -> None:
    result = run("--history", history)
    assert result.exit_code == 0
    lines = [line.split() for line in result.stdout.splitlines()]
    used = next(line for line in lines if line[:1] == ["incept-no-leak"])
    assert used[1:5] == ["200", "200", "12", "run"]
    weighs = next(line for line in lines if line[:2] == ["incept-no-leak", "memorybandwidth"])
    assert abs(int(weighs[2]) - 60) <= WITHIN
    assert weighs[3].startswith("±")
    assert weighs[-1] == "high"
    assert "rare: TooFewRuns" in result.stderr
    assert "--range" in result.stderr, "what to do about it"


def test_json_has_everything(history: Path) -> None:
    document = json.loads(run("--history", history, "-o", "json").stdout)
    by_type = {each["type"]: each for each in document["types"]}
    assert by_type["rare"]["refused"]["reason"] == "TooFewRuns"
    sensitive = by_type["incept-no-leak"]
    assert sensitive["by"] == "run time"
    assert sensitive["use"]["cpu"]["pods"] == 200
    assert sensitive["affinity"]["cpu"]["rankCorrelation"] > 0.5


def test_history_without_varied_pressure_is_refused_whole(tmp_path: Path) -> None:
    file = tmp_path / "flat.json"
    write_history(file, planted_history(Planted({"sort": SENSITIVE}, flat=frozenset(RANGES))))
    result = run("--history", file, "-o", "yaml")
    assert result.exit_code == 1
    parsed = parse_interference(result.stdout)
    assert parsed.value is not None
    assert not parsed.value.profiles
    assert "PressureNeverVaried" in result.stderr


def test_type_named_default_is_not_written_as_default(tmp_path: Path) -> None:
    file = tmp_path / "default.json"
    write_history(file, planted_history(Planted({"default": SENSITIVE}, runs=20)))
    result = run("--history", file, "-o", "yaml")
    parsed = parse_interference(result.stdout)
    assert parsed.value is not None
    assert not parsed.value.profiles
    assert parsed.value.default == DefaultProfile()
    assert "# the type default" in result.stdout


@pytest.mark.parametrize("name", ["", "two words", "x" * 64])
def test_type_unfit_to_name_a_profile_is_omitted(tmp_path: Path, name: str) -> None:
    file = tmp_path / "names.json"
    write_history(file, planted_history(Planted({name: SENSITIVE}, runs=20)))
    result = run("--history", file, "-o", "yaml")
    parsed = parse_interference(result.stdout)
    assert parsed.value is not None
    assert not parsed.value.profiles
    assert "; rename it" in result.stdout


def test_durations_alone_give_affinities_and_gaps_are_reported(tmp_path: Path) -> None:
    file = tmp_path / "durations.json"
    write_history(file, planted_history(Planted({"sort": SENSITIVE}, used=False)))
    result = run("--history", file, "-o", "yaml")
    assert result.exit_code == 0
    parsed = parse_interference(result.stdout)
    assert parsed.value is not None
    found = parsed.value.profiles["sort"]
    assert found.profile == Profile()
    assert all(abs(found.affinity[metric] - value) <= WITHIN for metric, value in SENSITIVE.items())
    assert "sort: its bandwidth was not measured" in result.stderr


def test_the_configuration_says_what_the_default_affinities_are(history: Path, tmp_path: Path) -> None:
    config = tmp_path / "scheduler.yaml"
    zeros = ", ".join(f"{metric}: 0" for metric in RANGES)
    config.write_text(f"interference: {{profiles: {{default: {{affinity: {{{zeros}}}}}}}}}\n")
    both = [
        json.loads(run("--history", history, "-o", "json", *more).stdout)
        for more in ((), ("--config", config))
    ]
    fifty, zero = (each["types"][0]["affinity"]["llc_mpki"]["value"] for each in both)
    assert fifty > zero


def test_a_history_survives_its_file(history: Path, tmp_path: Path) -> None:
    again = tmp_path / "again.json"
    write_history(again, read_history(history))
    assert again.read_bytes() == history.read_bytes()
    pod = replace(read_history(history).pods[0], ratio=1.2)
    write_history(again, replace(read_history(history), pods=[pod]))
    assert read_history(again).pods[0].ratio == 1.2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not a history"),
        ("[]", "Expected `object`"),
        (HEAD + '[{"name": "a"}]}', "$.pods[0]"),
        (
            '{"start": 0, "end": 1, "nodes": {"n": {"series": {"mpki": []}}}, "pods": []}',
            "Invalid enum value 'mpki'",
        ),
        (
            '{"start": 0, "end": 1, "nodes": {"n": {"series": {"cpu_cores": []}}}, "pods": []}',
            "nodes.n has 'cpu_cores'; known are memorybandwidth, memorylatency, llc_occupancy, llc_mpki, cpu",
        ),
        (
            HEAD + '[{"name": "a", "type": "t", "node": "n", "start": 0, "use": {"ram": [[0, 1]]}}]}',
            "pods[0].use has 'ram'; known are memoryBandwidth, memory, cpu, llc, cpi, throttled",
        ),
        (
            HEAD + '[{"name": "a", "type": "t", "node": "n", "start": 5, "end": 5}]}',
            "pods[0] (a) ends before it starts",
        ),
    ],
)
def test_invalid_history_file_is_reported_with_the_place(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "bad.json"
    file.write_text(text)
    result = run("--history", file)
    assert isinstance(result.exception, Failure)
    assert message in str(result.exception)
    assert str(file) in str(result.exception)


def test_a_history_without_pods_says_so(tmp_path: Path) -> None:
    file = tmp_path / "empty.json"
    file.write_text('{"start": 0, "end": 1, "nodes": {}, "pods": []}')
    result = run("--history", file)
    assert isinstance(result.exception, Failure)
    assert "no pods of any type" in str(result.exception)


@pytest.mark.parametrize("arguments", [(), ("--prometheus", "http://localhost", "--history", "f")])
def test_a_source_is_needed_and_one_is_enough(arguments: tuple[str, ...]) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert "either --prometheus URL or --history FILE" in result.stderr


@pytest.mark.parametrize(
    ("url", "message", "code"),
    [
        ("ftp://x", "not the address of a Prometheus server", ExitCode.USAGE),
        ("http://127.0.0.1:9", "127.0.0.1:9", ExitCode.CONNECTION),
    ],
)
def test_a_server_that_cannot_be_asked_is_named(url: str, message: str, code: ExitCode) -> None:
    result = run("--prometheus", url)
    assert isinstance(result.exception, Failure)
    assert message in str(result.exception)
    assert result.exception.exit_code == code
