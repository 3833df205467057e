"""How ``corewise up --scenario outage`` ends in failure. Its run: simulation/test_outage.py."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from corewise.cli.errors import ExitCode, Failure
from corewise.cli.output import Form
from corewise_lab.cli import outage
from corewise_lab.control_plane import Folder
from corewise_lab.outage import OutageReport, Phase


def test_missing_policy_library_is_named_with_install_hint(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(outage, "has_policies", lambda: False)
    with pytest.raises(Failure) as refused:
        outage.run_scenario(Folder(tmp_path), None, None, Form.TABLE)
    assert "pip install cel-expr-python" in refused.value.hint


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_stopped_outage_leaves_no_folder_behind(number: signal.Signals, tmp_path: Path) -> None:
    pytest.importorskip("cel_expr_python")
    with subprocess.Popen(
        [sys.executable, "-m", "corewise", "up", "--scenario", "outage"],
        env={**os.environ, "TMPDIR": str(tmp_path)}, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),  # noqa: PLW1509 - nohup ignores SIGHUP
    ) as process:  # fmt: skip
        assert process.stderr
        assert process.stderr.readline().startswith("starting the API server")
        process.send_signal(number)
        _, told = process.communicate(timeout=120)
    assert process.returncode == 130
    assert told == "corewise: stopped before there was anything to report\n"
    assert list(tmp_path.iterdir()) == []


def run_scenario(monkeypatch: pytest.MonkeyPatch, folder: Path, form: Form, *phases: Phase) -> None:
    async def run_outage(*_: object, **__: object) -> OutageReport:
        return OutageReport(1, ("manager",), phases, 0)

    monkeypatch.setattr(outage, "has_policies", lambda: True)
    monkeypatch.setattr(outage, "run_outage", run_outage)
    outage.run_scenario(Folder(folder), None, None, form)


@pytest.mark.parametrize("phase", [Phase("all run", 1.0, twice=1), Phase("all killed", 1.0, raw_seen=1)])
def test_raw_node_or_shared_cpu_fails_the_verdict(
    phase: Phase, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(Failure) as failed:
        run_scenario(monkeypatch, tmp_path, Form.TABLE, phase)
    assert failed.value.exit_code == ExitCode.VERDICT


def test_table_and_json_have_the_same_numbers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    phase = Phase(
        "all run", 10.0, 21, 32, 0, 0, Counter(plain=54, owner=65), Counter(plain=70, owner=87),
        {"plain": [0.5], "owner": [2.5]},
    )  # fmt: skip
    run_scenario(monkeypatch, tmp_path, Form.TABLE, phase)
    row = capsys.readouterr().out.splitlines()[1]
    assert row.split()[2:] == ["10s", "21", "32", "0", "7.0", "0.5s", "65", "87", "2.5s", "0"]
    run_scenario(monkeypatch, tmp_path, Form.JSON, phase)
    (record,) = json.loads(capsys.readouterr().out)["phases"]
    assert record == {
        "name": "all run", "seconds": 10.0, "kubeletWrites": 21, "refused": 32,
        "notAmplified": 0, "cpusTwice": 0,
        "plain": {"created": 54, "bound": 70, "medianWaitSeconds": 0.5},
        "owner": {"created": 65, "bound": 87, "medianWaitSeconds": 2.5},
    }  # fmt: skip
