"""The package is built with its helpers in C, and without them where there is no compiler."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2] / "packages" / "corewise"
HELPERS = ("corewise/kernel/chase.so", "corewise/kernel/idle_start")
NEEDED = ("pyproject.toml", "README.md", "LICENSE", "hatch_build.py")
CODE = "src/corewise/kernel"
ALONE = ("src/corewise/__init__.py", "src/corewise/cli/commit.py")
needs_hatchling = pytest.mark.skipif(find_spec("hatchling") is None, reason="hatchling is not installed here")
needs_compiler = pytest.mark.skipif(
    shutil.which("cc") is None or os.uname().machine not in {"x86_64", "aarch64"},
    reason="there is no C compiler here, or the processor is neither x86-64 nor arm64",
)
pytestmark = needs_hatchling


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a project that can be built into the package, with the source that the helpers belong to."""
    copy = tmp_path / "project"
    ignore = shutil.ignore_patterns("__pycache__", "*.so", "idle_start")
    shutil.copytree(PROJECT / CODE, copy / CODE, ignore=ignore)
    shutil.copytree(PROJECT / "man", copy / "man")
    shutil.copy(PROJECT.parents[1] / ".gitignore", copy)
    (copy / "src/corewise/cli").mkdir()
    for path in (*ALONE, *NEEDED):
        shutil.copy(PROJECT / path, copy / path)
    return copy


def wheel(project: Path, compiler: str) -> tuple[Path, str]:
    """Build; return the wheel and what was said."""
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", "dist"],
        cwd=project,
        env={**os.environ, "CC": compiler},
        capture_output=True,
        text=True,
        check=True,
    )
    (built,) = (project / "dist").glob("*.whl")
    return built, done.stdout + done.stderr


@needs_compiler
def test_platform_wheel_with_helpers_installs_on_any_python(project: Path) -> None:
    built, _ = wheel(project, "cc")
    assert "-py3-none-linux_" in built.name
    target = project / "installed"
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--target", target, built],
        check=True,
        capture_output=True,
    )
    assert all((target / each).read_bytes()[:4] == b"\x7fELF" for each in HELPERS)
    assert os.access(target / HELPERS[1], os.X_OK)
    assert not any((project / "src" / each).exists() for each in HELPERS)


@pytest.mark.parametrize("compiler", ["no-such-compiler", "false"])
def test_wheel_without_compiler_is_universal_and_says_so(project: Path, compiler: str) -> None:
    built, said = wheel(project, compiler)
    assert built.name.endswith("-py3-none-any.whl")
    assert not {*HELPERS} & {*zipfile.ZipFile(built).namelist()}
    assert "memory latency will not be measured" in said
    assert "agents will not measure their CPUs (--evaluate)" in said


@needs_compiler
def test_editable_install_finds_helpers_beside_their_source(project: Path) -> None:
    beside = [project / "src" / each for each in HELPERS]
    build = "import hatchling.build as b; print(b.build_editable('dist'))"
    (project / "dist").mkdir()
    subprocess.run([sys.executable, "-c", build], cwd=project, check=True, capture_output=True)
    assert all(each.read_bytes()[:4] == b"\x7fELF" for each in beside)
    without = {**os.environ, "CC": "no-such-compiler"}
    subprocess.run([sys.executable, "-c", build], cwd=project, check=True, capture_output=True, env=without)
    assert not any(each.exists() for each in beside)
