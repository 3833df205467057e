"""How ``corewise up --scenario outage`` ends in failure. Its run: simulation/test_outage.py."""

from __future__ import annotations

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


def test_cpu_with_two_owners_fails_the_verdict(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async def run_outage(*_: object, **__: object) -> OutageReport:
        return OutageReport(1, ("manager",), (Phase("all run", 1.0, twice=1),), 0)

    monkeypatch.setattr(outage, "has_policies", lambda: True)
    monkeypatch.setattr(outage, "run_outage", run_outage)
    with pytest.raises(Failure) as failed:
        outage.run_scenario(Folder(tmp_path), None, None, Form.TABLE)
    assert failed.value.exit_code == ExitCode.VERDICT
