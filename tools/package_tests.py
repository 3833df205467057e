"""Runs a distribution's tests where nothing else is installed: ``python -m tools.package_tests PACKAGE``.

A new virtual environment gets the wheel, what the wheel requires, and the dependency group ``test`` of its
pyproject.toml, in the versions of requirements/*.txt. The tests are copied out of the repository, with
conftest.py and tests/support, so that they find no other file of it. Options behind PACKAGE are pytest's.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

from tools import image

ROOT = Path(__file__).parents[1]
PACKAGES = ROOT / "packages"
COPIED = ("pyproject.toml", "conftest.py", "tests/support")


def main() -> int:
    """Run the tests; return pytest's exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.package_tests", description=__doc__)
    parser.add_argument("package", choices=sorted(each.name for each in PACKAGES.iterdir()))
    package, options = parser.parse_known_args()
    with tempfile.TemporaryDirectory(prefix="package-tests-") as folder:
        work = Path(folder)
        python = _environment(work, package.package)
        _copy(work / "copy", package.package)
        tests = f"packages/{package.package}/tests"
        arguments = options if any(each.startswith(tests) for each in options) else [tests, *options]
        return _run(python, "-m", "pytest", *arguments, directory=work / "copy")


def required(package: str, *, with_tests: bool = True) -> list[str]:
    """Return the requirements of a package, and of its tests."""
    project = tomllib.loads((PACKAGES / package / "pyproject.toml").read_text())
    found: list[str] = project["project"]["dependencies"]
    return found + (project["dependency-groups"]["test"] if with_tests else [])


def name_of(requirement: str) -> str:
    """Return the normalized name of the distribution that a requirement names."""
    return re.sub(r"[-_.]+", "-", re.split(r"[\s<>=!~;\[]", requirement, maxsplit=1)[0]).lower()


def ours(package: str) -> set[str]:
    """Return the distributions of this repository that a package and its tests need, itself included."""
    found: set[str] = set()
    rest = {package}
    while rest:
        found |= rest
        rest = {name_of(each) for of in rest for each in required(of, with_tests=of == package)}
        rest = {name for name in rest - found if (PACKAGES / name).is_dir()}
    return found


def locked() -> Iterator[str]:
    """Yield the locked versions as lines of a constraints file, which has no hashes."""
    for path in sorted((ROOT / "requirements").glob("*.txt")):
        yield from re.findall(r"(?m)^([A-Za-z0-9][^ ]*==[^\\\n]*?) *\\?$", path.read_text())


def _environment(work: Path, package: str) -> Path:
    """Make a virtual environment for the tests of a package; return its Python."""
    for each in ours(package):
        image.hatch(each, "wheel", work / "wheels")
    (work / "locked.txt").write_text("".join(f"{line}\n" for line in dict.fromkeys(locked())))
    python = work / "venv" / "bin" / "python"
    _check(_run(Path(sys.executable), "-m", "venv", str(work / "venv"), directory=work))
    wheels = sorted(map(str, (work / "wheels").glob("*.whl")))
    group = [each for each in required(package) if not (PACKAGES / name_of(each)).is_dir()]
    install = ("-m", "pip", "install", "--quiet", "--constraint", str(work / "locked.txt"))
    _check(_run(python, *install, *wheels, *group, directory=work))
    return python


def _copy(copy: Path, package: str) -> None:
    for name in (*COPIED, *(f"packages/{package}/{each}" for each in ("tests", "README.md"))):
        source, target = ROOT / name, copy / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)


def _run(python: Path, *arguments: str, directory: Path) -> int:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run([str(python), *arguments], cwd=directory, env=environment, check=False).returncode


def _check(code: int) -> None:
    if code:
        sys.exit(code)


if __name__ == "__main__":
    sys.exit(main())
