"""The tutorials' commands run, and print what the pages say.

The pages of ``docs/start`` for users run in ``.ci/run``, where nothing of development is installed
(``tools/front_door.py``); here are all pages but those.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kubectl import KUBECTLS, Kubectl
from tools import front_door, tutorial

ROOT = Path(__file__).parents[2]
PAGES = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md") if tutorial.steps(path))
TUTORIALS = [name for name in PAGES if Path(name) not in front_door.PAGES]
AGES = {"docs/start/openstack.md": "find . -exec touch --no-dereference --date='3 days ago' {} +"}
"""Page -> the command after each block that ages its files, as if its reader had paused."""


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


@pytest.mark.parametrize(("name", "pause"), [*((name, ":") for name in TUTORIALS), *AGES.items()])
def test_tutorial_prints_what_it_says_when_pasted(name: str, pause: str, tmp_path: Path) -> None:
    todo = tutorial.steps(ROOT / name)
    assert len(todo) > 2
    if any("kubectl" in step.commands for step in todo):
        if not KUBECTLS:
            pytest.skip("there is no kubectl on PATH, and KUBEDOUBLE_TEST_KUBECTL names none")
        Kubectl(KUBECTLS[0], tmp_path / "none", tmp_path).needs(31)  # waits for a field of any value
    folder = project(tmp_path / "corewise")
    path = os.pathsep.join([*(str(Path(each).parent) for each in KUBECTLS[:1]), os.environ["PATH"]])
    environment = {
        "PATH": path, "HOME": str(tmp_path), "TMPDIR": str(tmp_path), "LANG": "C.UTF-8", "TERM": "dumb",
        # What a page changes is what it runs.
        "PYTHONPATH": os.pathsep.join(map(str, sorted(folder.glob("packages/*/src")))),
    }  # fmt: skip
    done = tutorial.run(folder / name, folder, environment, between=pause)
    assert "".join(each.problem for each in done) == ""


def test_start_pages_for_users_run_at_front_door() -> None:
    pages = {path.relative_to(ROOT) for path in (ROOT / "docs/start").glob("*.md")}
    assert pages - {Path("docs/start/contributor.md")} == set(front_door.PAGES)
    assert {Path(step.command) for step in front_door.STEPS} >= set(front_door.PAGES)


@pytest.mark.parametrize("name", PAGES)
def test_a_tutorial_waits_for_its_reader(name: str) -> None:
    lines = [line for step in tutorial.steps(ROOT / name) for line in step.commands.splitlines()]
    assert not [line for line in lines if line.endswith("&") and "--for" in line]
    assert not [line for line in lines if line.startswith("sleep ")], "wait for a state, not for seconds"
