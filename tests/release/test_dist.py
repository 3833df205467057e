"""``make dist`` in a clean clone: every file has the version of git's tag, and works without git."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RELEASE = "9.8.7"
IDENTITY = ("-c", "user.name=test", "-c", "user.email=test@example.com")
NAMES = ("corewise", "corewise_lab", "corewise_openstack", "kubedouble")
SDISTS = tuple(f"{name}-{RELEASE}.tar.gz" for name in NAMES)
WHEELS = (
    f"corewise-{RELEASE}-py3-none-linux_x86_64.whl",
    *(f"{name}-{RELEASE}-py3-none-any.whl" for name in NAMES),
)


def output(directory: Path, *command: str) -> str:
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def version(directory: Path) -> str:
    project = directory / "packages/corewise"
    call = (sys.executable, "-m", "hatchling", "version")
    return output(project if project.is_dir() else directory, *call).strip()


def cloned(directory: Path, *tags: str) -> Path:
    if not (ROOT / ".git").exists() or not shutil.which("cc"):
        pytest.skip("needs a clone and a C compiler")
    output(ROOT, "git", "clone", "--quiet", "--no-tags", str(ROOT), str(directory))
    for tag in tags:
        output(directory, "git", "tag", tag)
    return directory


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return cloned(tmp_path_factory.mktemp("clone") / "corewise", f"v{RELEASE}")


@pytest.fixture(scope="module")
def dist(clone: Path) -> Path:
    """The files of a release whose tag is at the clone's commit."""
    output(clone, sys.executable, "-m", "tools.dist", "--no-image")
    return clone / "dist"


def test_release_has_sdist_wheels_chart_and_checksums(dist: Path) -> None:
    lines = (line.split("  ") for line in (dist / "SHA256SUMS").read_text().splitlines())
    checksums = {name: checksum for checksum, name in lines}
    assert sorted(checksums) == sorted((*WHEELS, *SDISTS, f"corewise-{RELEASE}.tgz"))
    for name, checksum in checksums.items():
        assert hashlib.sha256((dist / name).read_bytes()).hexdigest() == checksum


def test_second_build_gives_the_same_sdist_and_wheels(clone: Path, dist: Path) -> None:
    again = clone.parent / "again"
    output(clone, sys.executable, "-m", "tools.dist", "--no-image", "--directory", str(again))
    for name in (*WHEELS, *SDISTS):
        assert (again / name).read_bytes() == (dist / name).read_bytes(), name


def test_pure_wheel_runs_freshly_installed_and_reports_version(dist: Path, tmp_path: Path) -> None:
    output(tmp_path, sys.executable, "-m", "venv", "--without-pip", "fresh")
    python = str(tmp_path / "fresh/bin/python")
    pip = (sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-index", "--no-deps")
    output(tmp_path, *pip, str(dist / f"corewise-{RELEASE}-py3-none-any.whl"))
    site = output(tmp_path, python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    assert not list(Path(site).rglob("chase.so"))
    # Its dependencies are those of this environment; not corewise: its own directory comes first.
    Path(site, "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    assert output(tmp_path, "fresh/bin/corewise", "--version") == f"corewise, version {RELEASE}\n"


def test_an_sdist_knows_its_version_without_git(dist: Path, tmp_path: Path) -> None:
    subprocess.run(["tar", "-xzf", dist / f"corewise-{RELEASE}.tar.gz", "-C", tmp_path], check=True)
    assert version(tmp_path / f"corewise-{RELEASE}") == RELEASE


def test_untagged_clone_has_development_version_naming_its_commit(tmp_path: Path) -> None:
    clone = cloned(tmp_path / "clone")
    commit = output(clone, "git", "rev-parse", "--short=7", "HEAD").strip()
    assert re.fullmatch(rf"0\.0\.1\.dev\d+\+g{commit}\w*", version(clone))


def test_commit_after_release_is_next_versions_development_version(tmp_path: Path) -> None:
    clone = cloned(tmp_path / "clone", "v1.2.3")
    output(clone, "git", *IDENTITY, "commit", "--quiet", "--allow-empty", "--message", "next")
    assert version(clone).startswith("1.2.4.dev1+g")
