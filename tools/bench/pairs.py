"""Samples of the headline figures, each from a process of its own: of this tree, or of two trees in pairs.

The other tree is a git worktree in a temporary folder, which is gone at the end. Both are measured by this
tree's benchmarks. The trees take turns, and which one begins changes with each pair; both samples of a pair
have the same hash seed. The first sample of each run does not count: it compiles the modules.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tools.bench.headlines import HEADLINES

ROOT = Path(__file__).parents[2]
PAIRS = 10
"""With ten, the interval leaves out the lowest and the highest ratio, and covers 97.9 %."""
RUNS = tuple(dict.fromkeys(each.run for each in HEADLINES))
VERSION_FILE = "packages/corewise/src/corewise/__init__.py"


class NotMeasuredError(Exception):
    """A run failed in a tree; the text is the last line that it printed."""


@dataclass(slots=True)
class Tree:
    """A tree of the packages' sources, and the samples of each figure taken there."""

    folder: Path
    samples: dict[str, list[float]] = field(default_factory=dict)

    def take(self, run: str, seed: int) -> dict[str, float]:
        """Return a sample of each figure of a run."""
        sources = sorted(map(str, self.folder.glob("packages/*/src")))
        if not sources:
            raise NotMeasuredError("it has no packages/*/src")
        done = subprocess.run(
            (sys.executable, "-m", "tools.bench.headlines", run),
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sources), "PYTHONHASHSEED": str(seed)},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise NotMeasuredError((done.stderr.strip().splitlines() or ["it printed nothing"])[-1])
        taken: dict[str, float] = json.loads(done.stdout)
        return taken

    def add(self, run: str, seed: int) -> None:
        """Take a sample, and keep it."""
        for name, value in self.take(run, seed).items():
            self.samples.setdefault(name, []).append(float(f"{value:.5g}"))


def measure(runs: Sequence[str], trees: Sequence[Tree]) -> dict[str, str]:
    """Sample the runs in all trees, in turns; return the runs that another tree lacks, each with why."""
    lacking: dict[str, str] = {}
    here, *others = trees
    for run in runs:
        here.take(run, 0)
        try:
            for other in others:
                other.take(run, 0)
        except NotMeasuredError as error:
            lacking[run] = str(error)
    for pair in range(PAIRS):
        for run in runs:
            if sys.stderr.isatty():
                print(f"\rpair {pair + 1} of {PAIRS}: {run:<20}", end="", file=sys.stderr, flush=True)
            if run not in lacking:
                for tree in trees[:: -1 if pair % 2 else 1]:
                    tree.add(run, pair)
    if sys.stderr.isatty():
        print("\r" + " " * 40 + "\r", end="", file=sys.stderr)
    return lacking


def spoken(lacking: Mapping[str, str], revision: str) -> Iterator[str]:
    """Yield a sentence about each run that a revision lacks."""
    for run, why in lacking.items():
        names = ", ".join(each.name for each in HEADLINES if each.run == run)
        yield f"{names}: not measured: this tree's benchmark does not fit the code of {revision} ({why})."


def commit_of(revision: str) -> str:
    """Return the short name of a commit; end with a sentence if there is none."""
    found = _git("rev-parse", "--verify", "--quiet", "--short=8", f"{revision}^{{commit}}")
    if not found:
        raise SystemExit(
            f"bench: this repository has no commit {revision}. List some: git log --oneline -20, then: "
            "make bench COMPARE=COMMIT"
        )
    return found


def last_release() -> str:
    """Return the newest commit before this one that set a version without ``.dev``, or replaced one."""
    newest = ("log", "-1", "--format=%h", "--abbrev=8", "--extended-regexp")
    found = _git(*newest, '-G^__version__ = "[0-9.]+"$', "HEAD^", "--", VERSION_FILE)
    if not found:
        raise SystemExit("bench: no release in this history. Name a commit: make bench-check COMPARE=COMMIT")
    return found


@contextmanager
def tree_of(commit: str) -> Iterator[Tree]:
    """Check out a commit into a temporary folder beside the block."""
    with tempfile.TemporaryDirectory(prefix="corewise-bench-") as folder:
        place = Path(folder, commit)
        added = ("git", "worktree", "add", "--quiet", "--detach", str(place), commit)
        subprocess.run(added, cwd=ROOT, check=True)
        try:
            yield Tree(place)
        finally:
            subprocess.run(("git", "worktree", "remove", "--force", str(place)), cwd=ROOT, check=True)


def _git(*arguments: str) -> str:
    """Return the output of git; nothing if it fails."""
    done = subprocess.run(("git", *arguments), cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""
