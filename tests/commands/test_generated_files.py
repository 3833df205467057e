"""tools/generate.py writes the generated files, and tells which of them are stale."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from commands.command_tree import contexts
from corewise.vocabulary.metrics import METRICS
from corewise.vocabulary.names import TABLE
from corewise.vocabulary.reasons import Reason

ROOT = Path(__file__).parents[2]
TOOL = ROOT / "tools" / "generate.py"
PAGES = sorted(ROOT.glob("packages/*/man/man1/*.1"))


def generate(root: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(TOOL), "--root", str(root), *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with all generated files."""
    folder = tmp_path_factory.mktemp("generated")
    assert "wrote docs/reference/index.md" in generate(folder).stdout
    return folder


def test_files_are_written_once_and_then_current(written: Path, tmp_path: Path) -> None:
    shutil.copytree(written, tmp_path, dirs_exist_ok=True)
    assert generate(tmp_path).stdout == ""
    pages = sorted((tmp_path / "docs" / "reference").glob("*.md"))
    text = "".join(page.read_text() for page in pages)
    for name in [*(row.name for row in TABLE), *Reason, *(metric.name for metric in METRICS)]:
        assert f"`{name}`" in text
    reasons = tmp_path / "docs" / "reference" / "reasons-ratios.md"
    reasons.write_text(reasons.read_text().replace("UnknownCPUModel", "Unknown"))
    (tmp_path / "docs" / "reference" / "index.md").unlink()
    stale = generate(tmp_path, "--check")
    assert stale.returncode == 1
    assert "docs/reference/index.md is not what the code says; run: make generate" in stale.stderr
    assert "docs/reference/reasons-ratios.md" in stale.stderr
    assert "UnknownCPUModel" in stale.stderr
    assert "docs/reference/commands/index.md" not in stale.stderr
    man = generate(tmp_path, "--check", "--only", "packages/")
    assert (man.returncode, man.stderr) == (0, "")


@pytest.mark.parametrize("folder", ["docs/reference", "docs/reference/commands"])
def test_removed_commands_and_name_kinds_leave_no_page(folder: str, written: Path) -> None:
    assert {path.name for path in (ROOT / folder).iterdir()} == {
        path.name for path in (written / folder).iterdir()
    }


def test_every_command_has_a_shipped_man_page() -> None:
    names = {f"{each.command_path.replace(' ', '-')}.1" for each in contexts()}
    assert {path.name for path in PAGES} == names
    for project in {path.parents[2] for path in PAGES}:
        build = tomllib.loads((project / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
        assert build["targets"]["wheel"]["shared-data"] == {"man/man1": "share/man/man1"}


def test_man_page_names_every_option_and_escapes_macros() -> None:
    page = (ROOT / "packages/corewise/man/man1/corewise-nodes.1").read_text()
    for option in ("\\-\\-kubeconfig", "\\-l, \\-\\-selector", "\\-\\-all", "\\-o, \\-\\-output"):
        assert f".B {option}" in page
    known = re.compile(r'\.(\\"|TH|SH|TP|PP|B|BR|nf|fi)\b|\.\\"')
    for path in PAGES:
        text = path.read_text()
        assert text.isascii(), path
        assert [line for line in text.splitlines() if line[:1] in ".'" and not known.match(line)] == []


def test_roff_prints_every_man_page_without_a_warning() -> None:
    groff = shutil.which("groff")
    if groff is None:
        pytest.skip("there is no groff here")
    for path in PAGES:
        command = [groff, "-man", "-ww", "-Tutf8", "-z", str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, ""), path
