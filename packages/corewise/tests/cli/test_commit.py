"""The commit behind a version.

| where the module is | the commit is |
|---|---|
| beside the file that the build wrote | the file's, wherever that is |
| in a clone | git's, with ``-dirty`` if files differ |
| in an unpacked sdist or an installed package, inside a foreign repository | unknown |
| in a clone, without git or with an unusable one | unknown |
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from corewise.cli import commit as module
from corewise.cli.commit import FILE, commit, with_commit

PLACE = "packages/corewise/src/corewise/cli"
needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="there is no git here")


def repository(root: Path, place: str) -> tuple[Path, str]:
    """Return a folder in a new repository, and its commit."""
    here = root / place
    here.mkdir(parents=True)
    (here / "commit.py").write_text("")
    author = ("-c", "user.name=test", "-c", "user.email=test@example.com")
    for command in (("init", "--quiet"), ("add", "."), (*author, "commit", "--quiet", "--message=one")):
        subprocess.run(("git", "-C", str(root), *command), check=True)
    shown = ("git", "-C", str(root), "rev-parse", "--short=12", "HEAD")
    return here, subprocess.check_output(shown, text=True).strip()


@needs_git
def test_clone_knows_its_commit_and_changes(tmp_path: Path) -> None:
    here, expected = repository(tmp_path, PLACE)
    assert commit(here) == expected
    (here / "commit.py").write_text("# changed\n")
    assert commit(here) == f"{expected}-dirty"


@needs_git
def test_file_of_the_build_comes_first(tmp_path: Path) -> None:
    here, _ = repository(tmp_path, PLACE)
    (here / FILE).write_text("0123456789ab\n")
    assert commit(here) == "0123456789ab"


@needs_git
@pytest.mark.parametrize("place", ["lib/corewise/cli", "corewise-0.1.0/src/corewise/cli"])
def test_foreign_repository_is_not_asked(tmp_path: Path, place: str) -> None:
    here, _ = repository(tmp_path, place)
    assert commit(here) == ""


def test_unusable_git_leaves_the_version_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = tmp_path / PLACE
    here.mkdir(parents=True)
    assert commit(here) == ""
    (tmp_path / ".git").write_text("no repository\n")
    assert commit(here) == ""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert commit(here) == ""
    monkeypatch.setattr(module, "commit", lambda: "")
    assert with_commit("0.1.0") == "0.1.0"
    monkeypatch.setattr(module, "commit", lambda: "0123456789ab")
    assert with_commit("0.1.0") == "0.1.0 (0123456789ab)"
