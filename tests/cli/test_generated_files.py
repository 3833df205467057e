"""tools/generate.py writes the generated files, and tells which of them are stale."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from corewise.vocabulary.metrics import METRICS
from corewise.vocabulary.names import TABLE
from corewise.vocabulary.reasons import Reason

TOOL = Path(__file__).parents[2] / "tools" / "generate.py"


def generate(root: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(TOOL), "--root", str(root), *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_files_are_written_once_and_then_current(tmp_path: Path) -> None:
    absent = generate(tmp_path, "--check")
    assert absent.returncode == 1
    assert "docs/reference.md is not what the code says; run: make generate" in absent.stderr
    assert "wrote docs/reference.md" in generate(tmp_path).stdout
    assert generate(tmp_path).stdout == ""
    current = generate(tmp_path, "--check")
    assert (current.returncode, current.stderr) == (0, "")
    reference = tmp_path / "docs" / "reference.md"
    text = reference.read_text()
    for name in [*(row.name for row in TABLE), *Reason, *(metric.name for metric in METRICS)]:
        assert f"`{name}`" in text
    reference.write_text(text.replace("UnknownCPUModel", "Unknown"))
    stale = generate(tmp_path, "--check")
    assert stale.returncode == 1
    assert "docs/reference.md" in stale.stderr
    assert "UnknownCPUModel" in stale.stderr
    assert "docs/commands.md" not in stale.stderr
