"""Each distribution declares the libraries that it imports, and no others; its modules import."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
OURS = {each.name.replace("-", "_"): [each.name] for each in (ROOT / "packages").iterdir()}
PROJECTS = sorted(ROOT.glob("packages/*/pyproject.toml"))
LATE = {
    "corewise-lab": {"kubedouble"},  # started as a process
    "corewise-openstack": {"libvirt-python", "openstack-placement"},  # imported by name
}
"""What a distribution uses without an import statement."""
OPTIONAL = {"kubedouble": {"kubernetes", "pytest"}}
"""What a distribution imports only if its user has it: the fixture, and the client that it hands out."""


def name_of(path: Path) -> str:
    return path.parent.name


def declared(project: dict[str, Any]) -> set[str]:
    extras = project.get("optional-dependencies", {}).values()
    stated = [*project["dependencies"], *(each for extra in extras for each in extra)]
    return {re.split(r"[\s<>=!~;\[]", each, maxsplit=1)[0].lower() for each in stated}


def imported(source: Path) -> Iterator[str]:
    """Yield the top-level names that the modules import."""
    for path in source.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                yield from (each.name.partition(".")[0] for each in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                yield node.module.partition(".")[0]


@pytest.mark.parametrize("path", PROJECTS, ids=name_of)
def test_dependencies_are_those_imported(path: Path) -> None:
    project = tomllib.loads(path.read_text())["project"]
    providers = {**packages_distributions(), **OURS}
    names = set(imported(path.parent / "src")) - sys.stdlib_module_names
    found = {providers[name][0].lower().replace("_", "-") for name in names if name in providers}
    assert {name for name in names if name not in providers} <= {"cel_expr_python"}
    expected = declared(project) - {"cel-expr-python"} - LATE.get(project["name"], set())
    optional = OPTIONAL.get(project["name"], set())
    assert found - {project["name"], "cel-expr-python"} - optional == expected


@pytest.mark.parametrize("path", PROJECTS, ids=name_of)
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
