"""How ``corewise up --scenario outage`` ends in failure. Its run: simulation/test_outage.py."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
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


def test_cpu_with_two_owners_fails_the_verdict(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async def run_outage(*_: object, **__: object) -> OutageReport:
        return OutageReport(1, ("manager",), (Phase("all run", 1.0, twice=1),), 0)

    monkeypatch.setattr(outage, "has_policies", lambda: True)
    monkeypatch.setattr(outage, "run_outage", run_outage)
    with pytest.raises(Failure) as failed:
        outage.run_scenario(Folder(tmp_path), None, None, Form.TABLE)
    assert failed.value.exit_code == ExitCode.VERDICT
