"""The size of the code by package: ``python -m tools.size [REVISION]``, the working tree or a commit.

One row a package, one a distribution (its tests apart), and one for all: lines, files, the median file and
the one at 90 %, functions, private functions that are used once (and how many of those have three lines or
fewer), and how many lines of a hundred are docstrings or carry a comment.
"""

from __future__ import annotations

import ast
import io
import subprocess
import sys
import tarfile
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePath

SHORT = 3
_FOLDERS = ("packages", "src", "tests")
HEADER = (
    "package",
    "lines",
    "files",
    "median",
    "p90",
    "functions",
    "used once",
    "short",
    "docs %",
    "comments %",
)
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(slots=True)
class Size:
    """The counts of a package; ``short`` are the functions of ``used_once`` with three lines or fewer."""

    files: list[int] = field(default_factory=list)
    functions: int = 0
    used_once: int = 0
    short: int = 0
    docstring_lines: int = 0
    comments: int = 0

    def add(self, text: str) -> None:
        """Count one file."""
        tree = ast.parse(text)
        self.files.append(text.count("\n"))
        functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
        names = (
            n.id if isinstance(n, ast.Name) else n.attr
            for n in ast.walk(tree)
            if isinstance(n, ast.Name | ast.Attribute)
        )
        uses = Counter(names)
        once = [
            f
            for f in functions
            if f.name.startswith("_") and not f.name.startswith("__") and uses[f.name] == 1
        ]
        self.functions += len(functions)
        self.used_once += len(once)
        self.short += sum(lines_of(f) <= SHORT for f in once)
        documented = (
            n for n in ast.walk(tree) if isinstance(n, _DOCUMENTED) and ast.get_docstring(n) is not None
        )
        self.docstring_lines += sum(lines_of(n.body[0]) for n in documented)
        tokens = tokenize.generate_tokens(io.StringIO(text).readline)
        self.comments += sum(token.type == tokenize.COMMENT for token in tokens)

    def row(self, name: str) -> tuple[str, ...]:
        lines, ordered = sum(self.files), sorted(self.files)
        ninth = ordered[max(0, len(ordered) * 9 // 10 - 1)]
        counts = (
            lines,
            len(ordered),
            ordered[len(ordered) // 2],
            ninth,
            self.functions,
            self.used_once,
            self.short,
        )
        shares = (f"{100 * part / max(1, lines):.1f}" for part in (self.docstring_lines, self.comments))
        return (name, *map(str, counts), *shares)


def lines_of(node: ast.stmt | ast.expr) -> int:
    """Return the number of lines of a node."""
    return (node.end_lineno or node.lineno) - node.lineno + 1


def package_of(path: PurePath) -> str:
    """Return the package in which a file counts: one below its distribution's, or the tests as one."""
    distribution, *inner = inside(path)
    if inner[0] == "tests":
        return f"tests of {distribution}"
    return f"{distribution}.{inner[2]}" if len(inner) > 3 else distribution


def inside(path: PurePath) -> tuple[str, ...]:
    """Return the distribution of a file, and its path there; of all in a ``src`` of old it is the package."""
    parts = path.parts
    if parts[0] == "packages":
        return parts[1:]
    return (parts[1], *parts) if parts[0] == "src" else ("all distributions", *parts)


def sources(revision: str | None) -> Iterator[tuple[PurePath, str]]:
    """Yield the Python files of packages and tests, of a commit or of the working tree."""
    if revision is None:
        for folder in _FOLDERS:
            yield from ((path, path.read_text("utf-8")) for path in sorted(Path(folder).rglob("*.py")))
        return
    listed = ["git", "ls-tree", "--name-only", revision, *_FOLDERS]
    found = subprocess.run(listed, check=True, stdout=subprocess.PIPE, text=True).stdout.split()
    packed = subprocess.run(["git", "archive", revision, *found], check=True, stdout=subprocess.PIPE).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        for member in archive:
            content = archive.extractfile(member) if member.name.endswith(".py") else None
            if content is not None:
                yield PurePath(member.name), content.read().decode("utf-8")


def report(files: Iterable[tuple[PurePath, str]]) -> str:
    """Return the table: a row for each package, one for each distribution, one for all."""
    sizes: dict[str, Size] = {}
    for path, text in files:
        package = package_of(path)
        whole = "all tests" if package.startswith("tests of") else f"all of {inside(path)[0]}"
        for name in dict.fromkeys((package, whole, "all")):
            sizes.setdefault(name, Size()).add(text)
    last = sorted(sizes, key=lambda name: (name.startswith("all"), name))
    rows = [HEADER, *(sizes[name].row(name) for name in last)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    first, *others = widths
    return "\n".join(
        f"{row[0]:{first}}"
        + "".join(f"  {cell:>{width}}" for cell, width in zip(row[1:], others, strict=True))
        for row in rows
    )


if __name__ == "__main__":
    print(report(sources(sys.argv[1] if len(sys.argv) > 1 else None)))
