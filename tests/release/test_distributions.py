"""Each distribution declares the libraries that it and its tests import, and no others; its modules import.

``python -m tools.package_tests PACKAGE`` runs a distribution's tests where nothing else is installed.
"""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest

from tools.package_tests import name_of, required

ROOT = Path(__file__).parents[2]
OURS = {each.name.replace("-", "_"): [each.name] for each in (ROOT / "packages").iterdir()}
PROVIDERS = {**packages_distributions(), **OURS}
PROJECTS = sorted(ROOT.glob("packages/*/pyproject.toml"))
SUPPORT = ROOT / "tests" / "support"
"""Modules that the tests of several distributions share; those of kubedouble need no file beside its own."""
LATE = {
    "corewise-lab": {"kubedouble"},  # started as a process
    "corewise-openstack": {"libvirt-python", "openstack-placement"},  # imported by name
}
"""What a distribution uses without an import statement."""
OPTIONAL = {"kubedouble": {"kubernetes", "pytest"}}
"""What a distribution imports only if its user has it: the fixture, and the client that it hands out."""


def folder_of(path: Path) -> str:
    return path.parent.name


def declared(project: dict[str, Any]) -> set[str]:
    extras = project.get("optional-dependencies", {}).values()
    return set(map(name_of, [*project["dependencies"], *(each for extra in extras for each in extra)]))


def imported(source: Path) -> Iterator[str]:
    """Yield the modules that the files import."""
    for path in source.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                yield from (each.name for each in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                yield node.module


def distributions(modules: Iterable[str]) -> set[str]:
    """Return the distributions that have the modules, without Python's own."""
    names = {each.partition(".")[0] for each in modules} - sys.stdlib_module_names
    assert {name for name in names if name not in PROVIDERS} <= {"cel_expr_python"}
    return {name_of(PROVIDERS[name][0]) for name in names if name in PROVIDERS}


def is_module_in(folders: Iterable[Path], module: str) -> bool:
    return any(
        (folder / f"{module.replace('.', '/')}{end}").exists() for folder in folders for end in (".py", "")
    )


@pytest.mark.parametrize("path", PROJECTS, ids=folder_of)
def test_dependencies_are_those_imported(path: Path) -> None:
    project = tomllib.loads(path.read_text())["project"]
    found = distributions(imported(path.parent / "src"))
    expected = declared(project) - {"cel-expr-python"} - LATE.get(project["name"], set())
    optional = OPTIONAL.get(project["name"], set())
    assert found - {project["name"], "cel-expr-python"} - optional == expected


@pytest.mark.parametrize("path", PROJECTS, ids=folder_of)
def test_tests_import_what_their_package_declares(path: Path) -> None:
    tests = path.parent / "tests"
    folders = (tests, tests / "support") if path.parent.name == "kubedouble" else (tests, SUPPORT)
    others = (module for module in imported(tests) if not is_module_in(folders, module))
    assert distributions(others) <= set(map(name_of, required(path.parent.name))) | {path.parent.name}


def test_modules_of_all_tests_import_pytest_alone() -> None:
    assert distributions(imported(SUPPORT)) <= {"pytest"}


@pytest.mark.parametrize("path", PROJECTS, ids=folder_of)
def test_every_module_imports_by_itself(path: Path) -> None:
    """In a fresh process, so that no other module has imported what one forgot; pytest is absent there."""
    (package,) = (each for each in (path.parent / "src").iterdir() if (each / "__init__.py").exists())
    program = f"""
import importlib, pkgutil, sys
sys.modules["pytest"] = None
import {package.name} as package
skipped = ("__main__", "pytest_plugin", "child", "chase")
for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
    if module.name.rpartition(".")[2] not in skipped:
        importlib.import_module(module.name)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
