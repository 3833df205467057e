"""``make dist`` in a clean clone: every file has the version and the commit, and works without git.

| where | version | commit |
|---|---|---|
| names of the files, requirements of the distributions on each other, the chart | yes | |
| `corewise --version` of a wheel | yes | that of the clone |
| a wheel that is built from an sdist, without the clone | yes | the same: it has the same bytes |
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import helm_python
import pytest

from corewise import __version__
from tools import dist as release
from tools import image
from tools.chart import chart_version

ROOT = Path(__file__).parents[2]
NAMES = ("corewise", "corewise_lab", "corewise_openstack", "kubedouble")
SDISTS = tuple(f"{name}-{__version__}.tar.gz" for name in NAMES)
PURE = tuple(f"{name}-{__version__}-py3-none-any.whl" for name in NAMES)
COMPILED = f"corewise-{__version__}-py3-none-linux_x86_64.whl"
CHART = f"corewise-{chart_version(__version__)}.tgz"


def output(directory: Path, *command: str) -> str:
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_changelog_describes_the_released_version() -> None:
    headings = re.findall(r"(?m)^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text())
    assert headings[0] == "Unreleased"
    assert __version__ in headings or ".dev" in __version__


@pytest.mark.parametrize(
    ("installed", "usable"),
    [
        ({}, ""),
        ({"docker": 1}, ""),  # without a daemon
        ({"docker": 0}, "docker"),
        ({"docker": 0, "podman": 1}, "podman"),
        ({"buildah": 1, "podman": 1}, "buildah"),
    ],
)
def test_image_is_made_by_a_usable_tool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, installed: dict[str, int], usable: str
) -> None:
    for name, code in installed.items():
        (tmp_path / name).write_text(f"#!/bin/sh\nexit {code}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert image.usable_tool() == usable


def test_only_files_of_releases_are_removed_and_summed(tmp_path: Path) -> None:
    ours = {*PURE, COMPILED, *SDISTS, CHART, f"corewise-{__version__}-sbom.cdx.json", "SHA256SUMS"}
    for name in (*ours, "thesis.tex"):
        (tmp_path / name).write_text(name)
    (tmp_path / "corewise-notes").mkdir()
    assert len(release.write_checksums(tmp_path).splitlines()) == len(ours) - 1
    release.clear(tmp_path)
    assert {each.name for each in tmp_path.iterdir()} == {"thesis.tex", "corewise-notes"}
    release.clear(tmp_path / "none")


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not (ROOT / ".git").exists() or not shutil.which("cc"):
        pytest.skip("needs a clone and a C compiler")
    directory = tmp_path_factory.mktemp("clone") / "corewise"
    output(ROOT, "git", "clone", "--quiet", "--no-tags", str(ROOT), str(directory))
    return directory


@pytest.fixture(scope="module")
def dist(clone: Path) -> Path:
    """The files of a release, from the commit of the clone."""
    output(clone, sys.executable, "-m", "tools.dist", "--offline")
    return clone / "dist"


def test_release_has_sdists_wheels_chart_and_checksums(dist: Path) -> None:
    lines = (line.split("  ") for line in (dist / "SHA256SUMS").read_text().splitlines())
    checksums = {name: checksum for checksum, name in lines}
    assert sorted(checksums) == sorted((*PURE, COMPILED, *SDISTS, CHART))
    for name, checksum in checksums.items():
        assert hashlib.sha256((dist / name).read_bytes()).hexdigest() == checksum


def test_second_build_has_the_same_checksums(clone: Path, dist: Path) -> None:
    again = clone.parent / "again"
    output(clone, sys.executable, "-m", "tools.dist", "--offline", "--directory", str(again))
    assert (again / "SHA256SUMS").read_text() == (dist / "SHA256SUMS").read_text()


def test_requirements_and_chart_have_the_one_version(dist: Path) -> None:
    required: set[str] = set()
    for name in PURE:
        with zipfile.ZipFile(dist / name) as wheel:
            (metadata,) = (each for each in wheel.namelist() if each.endswith("/METADATA"))
            lines = wheel.read(metadata).decode().splitlines()
        required |= set(re.findall(r"Requires-Dist: ((?:corewise|kubedouble)[^;\n]*)", "\n".join(lines)))
    names = ("corewise", "corewise-openstack", "kubedouble")
    assert required == {f"{name}=={__version__}" for name in names}
    with helm_python.Chart.load(dist / CHART) as chart:
        assert chart.metadata["version"] == chart_version(__version__)
        assert chart.metadata["appVersion"] == __version__


def test_wheel_reports_its_version_and_commit(clone: Path, dist: Path, tmp_path: Path) -> None:
    output(tmp_path, sys.executable, "-m", "venv", "--without-pip", "fresh")
    python = str(tmp_path / "fresh/bin/python")
    pip = (sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-index", "--no-deps")
    output(tmp_path, *pip, str(dist / PURE[0]))
    site = output(tmp_path, python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    assert not list(Path(site).rglob("chase.so"))
    # Its dependencies are those of this environment; not corewise: its own directory comes first.
    Path(site, "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    commit = output(clone, "git", "rev-parse", "--short=12", "HEAD").strip()
    printed = output(tmp_path, python, "-I", "fresh/bin/corewise", "--version")
    assert printed == f"corewise, version {__version__} ({commit})\n"


@pytest.mark.parametrize(("sdist", "wheel"), [(SDISTS[0], COMPILED), *zip(SDISTS[1:], PURE[1:], strict=True)])
def test_sdist_alone_builds_the_same_wheel(dist: Path, tmp_path: Path, sdist: str, wheel: str) -> None:
    output(tmp_path, "tar", "-xzf", str(dist / sdist))
    project = tmp_path / sdist.removesuffix(".tar.gz")
    epoch = output(ROOT, "git", "log", "-1", "--format=%ct").strip()
    build = (sys.executable, "-m", "hatchling", "build", "--target", "wheel")
    output(project, "env", f"SOURCE_DATE_EPOCH={epoch}", *build)
    assert (project / "dist" / wheel).read_bytes() == (dist / wheel).read_bytes()
