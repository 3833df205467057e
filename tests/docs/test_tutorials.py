"""The tutorials' commands run, and print what the pages say.

The pages of ``docs/start`` for users run in ``.ci/run``, where nothing of development is installed
(``tools/front_door.py``); here are the pages that need more than that.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kubectl_binary import KUBECTLS, Kubectl
from tools import front_door, tutorial

ROOT = Path(__file__).parents[2]
TUTORIALS = sorted(
    str(path.relative_to(ROOT))
    for path in (ROOT / "docs").rglob("*.md")
    if tutorial.steps(path) and path.relative_to(ROOT) not in front_door.PAGES
)


def project(folder: Path) -> Path:
    """Return a copy of the project's files, with its virtual environment."""
    names = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    for name in filter(None, names.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    (folder / ".venv").symlink_to(sys.prefix)
    return folder


@pytest.mark.parametrize("name", TUTORIALS)
def test_a_tutorial_prints_what_it_says_when_its_commands_are_pasted(name: str, tmp_path: Path) -> None:
    todo = tutorial.steps(ROOT / name)
    assert len(todo) > 2
    if any("kubectl" in step.commands for step in todo):
        if not KUBECTLS:
            pytest.skip("there is no kubectl on PATH, and COREWISE_TEST_KUBECTL names none")
        Kubectl(KUBECTLS[0], tmp_path / "none", tmp_path).needs(31)  # waits for a field of any value
    folder = project(tmp_path / "corewise")
    path = os.pathsep.join([*(str(Path(each).parent) for each in KUBECTLS[:1]), os.environ["PATH"]])
    environment = {
        "PATH": path, "HOME": str(tmp_path), "TMPDIR": str(tmp_path), "LANG": "C.UTF-8", "TERM": "dumb",
        "PYTHONPATH": str(folder / "src"),  # what a page changes is what it runs
    }  # fmt: skip
    done = tutorial.run(folder / name, folder, environment)
    assert "".join(each.problem for each in done) == ""


def test_the_start_pages_for_users_are_run_where_users_stand() -> None:
    pages = {path.relative_to(ROOT) for path in (ROOT / "docs/start").glob("*.md")}
    assert pages - set(front_door.PAGES) == {Path("docs/start/contributor.md")}
