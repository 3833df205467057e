"""Runs the tests that try every case within a bound, over their whole domains: ``--exhaustive``.

They are the test files that import ``every_case``. The counts go to stdout as Markdown, for
docs/internals/reliability-bounds.md.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Final

import msgspec

from every_case import Tried

ROOT: Final = Path(__file__).parents[2]
_NO_TESTS_OR_WORSE: Final = 2


def try_every_case(files: Iterable[str], processes: int) -> int:
    """Run the tests, print the counts and return the exit code of ``make explore``."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "tried.jsonl"
        command = [
            *(sys.executable, "-m", "pytest", "-q", "--tb=short", "-p", "no:cacheprovider"),
            *("-c", str(ROOT / "pyproject.toml"), "-o", "faulthandler_timeout=0"),
            *(
                "-n",
                str(processes),
                "--dist",
                "load",
                "--maxschedchunk",
                "1",
                *(files or _exhaustive_files()),
            ),
        ]
        environment = {**os.environ, "COREWISE_EXHAUSTIVE": str(out)}
        status = subprocess.run(command, cwd=ROOT, env=environment, stdout=sys.stderr, check=False).returncode
        lines = out.read_bytes().splitlines() if out.exists() else []
    print("\n".join(counts_of(msgspec.json.decode(line, type=Tried) for line in lines)))
    return min(status, _NO_TESTS_OR_WORSE)


def _exhaustive_files() -> list[str]:
    """Return the test files that try every case, those with the longest tests first, as it happens."""
    paths = chain((ROOT / "tests").rglob("test_*.py"), ROOT.glob("packages/*/tests/**/test_*.py"))
    found = (str(path.relative_to(ROOT)) for path in paths if "from every_case" in path.read_text())
    return sorted(found, reverse=True)


def counts_of(tried: Iterable[Tried]) -> Iterable[str]:
    """Return a table: a row for each domain, with the counts and seconds of all its tests.

    Deliberate errors have the shortest known history that shows them.
    """
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    seconds: Counter[str] = Counter()
    histories: dict[str, str] = {}
    for each in tried:
        counts[each.domain].update(each.counts)
        seconds[each.domain] += round(each.seconds)
        histories[each.domain] = " > ".join(each.history)
    yield "| every case of | tried | seconds of CPU | shown by |"
    yield "|---|---|---:|---|"
    for domain in sorted(counts):
        numbers = ", ".join(f"{number:,} {what}" for what, number in counts[domain].items())
        yield f"| {domain} | {numbers} | {seconds[domain]:,} | {histories[domain]} |"
