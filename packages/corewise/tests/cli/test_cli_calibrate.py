"""``corewise calibrate``: what is printed, and how it refuses."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from corewise.agent.calibration import Crew
from corewise.cli import calibrate, corewise
from corewise.cli.errors import ExitCode, Failure
from corewise.kernel.usage import ProcessTime
from corewise.normalization.calibration import Calibration, CalibrationScore
from corewise.normalization.mix import Done
from corewise.topology import CPUSet


class FakeCrew(Crew):
    """Workers that are all alike and never disturbed."""

    def run(self, kernel: str, cpus: CPUSet, duration: int) -> dict[int, Done]:
        return {cpu: Done(1000, duration, duration) for cpu in cpus}


@contextmanager
def fake_crew(_: CPUSet) -> Iterator[Crew]:
    yield FakeCrew({})


def run(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(corewise, ["calibrate", *arguments], input=stdin)


@pytest.fixture
def quiet_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibrate, "crew", fake_crew)
    monkeypatch.setattr(calibrate, "_busy_now", lambda _: 0)
    monkeypatch.setattr(calibrate, "read_memory_available", lambda _: None)


def result(model: str, score: int) -> Calibration:
    of_all = CalibrationScore(8, score, score, score, score, 10)
    return Calibration(
        cpu_model=model,
        hyper_thread_enabled=True,
        turbo_enabled=False,
        online_cpus=8,
        single_thread=of_all,
        all_cpus=of_all,
        repeats=5,
        python="3.13.1",
        zlib="1.3",
    )


def write(path: Path, *results: Calibration) -> str:
    path.write_bytes(b"\n".join(map(msgspec.json.encode, results)))
    return str(path)


@pytest.mark.usefixtures("quiet_machine")
def test_measurement_prints_a_table_and_a_json_line() -> None:
    table = run("--repeats", "3")
    assert table.exit_code == 0
    titles = table.stdout.splitlines()[2].split()
    assert titles == ["BUSY", "CPUS", "SCORE", "INTEGER", "FLOAT", "MEMORY", "SPREAD"]
    line = run("--repeats", "3", "-o", "json").stdout
    assert line.count("\n") == 1
    assert json.loads(line)["allCPUs"]["score"] > 0


@pytest.mark.usefixtures("quiet_machine")
def test_busy_machine_is_refused_with_a_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibrate, "_busy_now", lambda _: 4000)
    spinning = {7: ProcessTime("spinner", 1, 50), 8: ProcessTime("ours", os.getpid(), 10**6)}
    readings: Iterator[dict[int, ProcessTime]] = iter([{}, spinning])
    monkeypatch.setattr(calibrate, "read_processes", lambda _: next(readings))
    failure = run().exception
    assert isinstance(failure, Failure)
    assert failure.exit_code == ExitCode.REFUSED
    assert "not measured: the machine is busy: other work took 40.0 %" in str(failure)
    assert failure.hint
    assert "spinner (process 7)" in failure.hint
    assert "ours" not in failure.hint
    assert "drained node" in failure.hint


@pytest.mark.usefixtures("quiet_machine")
def test_a_quiet_moment_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = iter([4000, 2000, 300])
    monkeypatch.setattr(calibrate, "_busy_now", lambda _: next(looks))
    assert run("--repeats", "3").exit_code == 0
    assert next(looks, None) is None


def test_results_become_a_ratio_model(tmp_path: Path) -> None:
    files = [
        write(tmp_path / "a", result("A", 100), result("B", 150)),
        write(tmp_path / "b", result("C", 233)),
    ]
    answer = run("--model", *files)
    assert answer.exit_code == 0
    assert answer.stdout == (
        "{\n"
        '  "ratioModel": {\n'
        '    "A": {"hyperThreadEnabledRatio": 1.00},\n'
        '    "B": {"hyperThreadEnabledRatio": 1.50},\n'
        '    "C": {"hyperThreadEnabledRatio": 2.33}\n'
        "  }\n"
        "}\n"
    )
    assert "cpu-normalization-config" in answer.stderr


def test_results_may_come_from_stdin() -> None:
    answer = run("--model", "-", stdin=msgspec.json.encode(result("A", 100)).decode())
    assert '"A": {"hyperThreadEnabledRatio": 1.00}' in answer.stdout
    assert "warning: one result says nothing about other models" in answer.stderr


BAD = {
    "missing": (None, "cannot be read: No such file or directory"),
    "words": (b"hello\nyou\n", "is not a result of corewise calibrate"),
    "bytes": (b"\xff\xfe", "is not a result of corewise calibrate"),
    "latin-1": (b'{"format":"\xff"}', "is not a result of corewise calibrate"),
    "other": (b'{"kind":"Node"}', "is not a result of corewise calibrate"),
    "unknown": (msgspec.json.encode(result("unknown", 3)), "no ratios: a result names no CPU model"),
}


@pytest.mark.parametrize("case", BAD)
def test_files_that_hold_no_result_are_named(tmp_path: Path, case: str) -> None:
    content, message = BAD[case]
    file = tmp_path / case
    if content is not None:
        file.write_bytes(content)
    failure = run("--model", str(file)).exception
    assert isinstance(failure, Failure)
    assert failure.exit_code == ExitCode.BAD_INPUT
    assert message in str(failure)


@pytest.mark.parametrize("arguments", [("--model",), ("file",), ("--repeats", "2")])
def test_wrong_calls_are_refused(arguments: tuple[str, ...]) -> None:
    assert run(*arguments).exit_code == ExitCode.USAGE
