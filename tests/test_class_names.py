"""One concept, one class: no two public classes of corewise have the same name."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import corewise


def test_no_two_public_classes_have_the_same_name() -> None:
    root = Path(corewise.__file__).parent
    modules = defaultdict(list)
    for path in root.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                modules[node.name].append(str(path.relative_to(root)))
    assert len(modules) > 500
    assert {name: paths for name, paths in modules.items() if len(paths) > 1} == {}
