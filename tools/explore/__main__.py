"""Run it: ``python -m tools.explore --minutes 10``."""

from __future__ import annotations

import argparse
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import chain, count
from pathlib import Path
from random import Random
from threading import Lock

import msgspec

from tools.explore.exhaustive import try_every_case
from tools.explore.plugin import Ran

ROOT = Path(__file__).parents[2]
LONGEST_TEST = 600
"""Seconds after the end that the last test may take."""


@dataclass
class Findings:
    """The results of all processes so far. ``inputs`` and ``steps`` are by file, ``failures`` by test."""

    lock: Lock = field(default_factory=Lock)
    rounds: int = 0
    runs: int = 0
    inputs: Counter[str] = field(default_factory=Counter)
    steps: Counter[str] = field(default_factory=Counter)
    faults: Counter[tuple[str, str]] = field(default_factory=Counter)
    failures: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def add(self, ran: Ran) -> None:
        file = ran.test.partition("::")[0]
        self.runs += 1
        self.inputs[file] += ran.inputs
        self.steps[file] += ran.steps
        for kind, number in ran.faults.items():
            self.faults[file, kind] += number
        if ran.failure:
            self.failures.setdefault(ran.test, ran.failure)


@dataclass(frozen=True)
class Worker:
    """One process after the other, until the time is over. ``share``: which part of the files comes first."""

    files: list[str]
    order: int
    share: float
    until: float
    folder: Path
    findings: Findings

    def work(self) -> None:
        for number in count():
            if time.time() >= self.until or self.findings.problems:
                return
            files = Random(self.order + number).sample(self.files, len(self.files))  # noqa: S311 - an order
            first = int(len(files) * self.share)
            self._round(files[first:] + files[:first], self.folder / f"{first}-{number}.json")

    def _round(self, files: list[str], out: Path) -> None:
        seed = secrets.randbits(32)
        command = [
            *(sys.executable, "-m", "pytest", "-q", "--tb=short", "-p", "no:cacheprovider"),
            *("-p", "tools.explore.plugin", "-m", "hypothesis", f"--hypothesis-seed={seed}"),
            *(f"--explore-until={self.until}", f"--explore-out={out}", *files),
        ]
        longest = self.until - time.time() + LONGEST_TEST
        environment = {**os.environ, "COREWISE_EXPLORE": "1"}
        with out.with_suffix(".log").open("w") as log:
            try:
                status = subprocess.run(
                    command, cwd=ROOT, env=environment, stdout=log, stderr=log, timeout=longest, check=False
                ).returncode
            except subprocess.TimeoutExpired:
                status = None
        with self.findings.lock:
            self._read(out, status, seed)

    def _read(self, out: Path, status: int | None, seed: int) -> None:
        lines = out.read_bytes().splitlines() if out.exists() else []
        begun = ""
        for line in lines:
            document = msgspec.json.decode(line)
            if "begun" in document:
                begun = document["begun"]
            else:
                self.findings.add(msgspec.convert(document, Ran))
        if status is None or status < 0:
            end = f"did not end in {LONGEST_TEST} s" if status is None else f"ended by signal {-status}"
            command = f"COREWISE_EXPLORE=1 .venv/bin/pytest '{begun}' --hypothesis-seed={seed}"
            self.findings.failures.setdefault(begun, f"{end}\n\n{command}")
        elif status > 1:
            self.findings.problems.append(out.with_suffix(".log").read_text())
        elif time.time() < self.until:
            self.findings.rounds += 1
        print(f"explore: {self.findings.runs} tests run", file=sys.stderr)


def main() -> int:
    """Explore, print what was found, and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.explore", description="Run tests with fresh seeds."
    )
    parser.add_argument("--minutes", type=float, default=10.0, help="how long (default: 10)")
    parser.add_argument(
        "--exhaustive", action="store_true", help="try every case within a bound, however long that takes"
    )
    parser.add_argument("files", nargs="*", help="test files (default: all that draw inputs)")
    options = parser.parse_args()
    processes = os.cpu_count() or 1
    if options.exhaustive:
        return try_every_case(options.files, processes)
    files = options.files or sorted(_drawing_files())
    began, findings, order = time.time(), Findings(), secrets.randbits(32)
    until = began + options.minutes * 60
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(processes) as pool:
        workers = [
            Worker(files, order, number / processes, until, Path(folder), findings)
            for number in range(processes)
        ]
        for done in [pool.submit(worker.work) for worker in workers]:
            done.result()
    for problem in findings.problems:
        print(problem, file=sys.stderr)
    for test, failure in sorted(findings.failures.items()):
        print(f"COUNTEREXAMPLE {test}\n\n{failure}\n")
    print("\n".join(_figures(findings, time.time() - began, processes)))
    return 2 if findings.problems else int(bool(findings.failures))


def _drawing_files() -> Iterable[str]:
    """Yield the test files that use hypothesis."""
    for path in chain((ROOT / "tests").rglob("test_*.py"), ROOT.glob("packages/*/tests/**/test_*.py")):
        if "from hypothesis" in path.read_text():
            yield str(path.relative_to(ROOT))


def _figures(findings: Findings, seconds: float, processes: int) -> Iterable[str]:
    faults: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    for (file, kind), number in findings.faults.items():
        faults[file] += number
        kinds[kind] += number
    columns = findings.inputs, findings.steps, faults
    yield f"| {seconds:.0f} s in {processes} processes | |"
    yield "|---|---:|"
    yield f"| complete rounds through all tests | {findings.rounds} |"
    yield f"| tests run | {findings.runs:,} |"
    yield f"| inputs tried | {findings.inputs.total():,} |"
    yield f"| steps of histories | {findings.steps.total():,} |"
    yield f"| faults injected | {faults.total():,} |"
    yield f"| tests with a counterexample | {len(findings.failures)} |"
    yield ""
    yield "| fault | injected |"
    yield "|---|---:|"
    for kind, number in kinds.most_common():
        yield f"| {kind} | {number:,} |"
    yield ""
    yield "| test file | inputs | steps | faults |"
    yield "|---|---:|---:|---:|"
    for file in sorted(findings.inputs):
        cells = " | ".join(f"{column[file]:,}" for column in columns)
        yield f"| `{file}` | {cells} |"


if __name__ == "__main__":
    sys.exit(main())
