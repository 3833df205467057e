"""``python -m experiments.antagonist``."""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec

from corewise.kernel.cgroups.layout import find_layout
from corewise.topology import CPUSet
from experiments.antagonist.node import Node, Programs
from experiments.antagonist.scenarios import drawn
from experiments.latency.command import before_all_others

_SOURCES = Path(__file__).parent


def build(directory: Path) -> Programs:
    """Compile both programs."""
    places = {"load": _SOURCES / "load.c", "antagonist": _SOURCES.parent / "latency" / "antagonist.c"}
    for name, source in places.items():
        subprocess.run(["cc", "-O2", "-pthread", "-o", str(directory / name), str(source)], check=True)
    return Programs(directory / "load", directory / "antagonist")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m experiments.antagonist", description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--step", type=int, default=1)
    parser.add_argument("--cpus", type=CPUSet.parse, required=True)
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with (
        tempfile.TemporaryDirectory(dir="/dev/shm") as name,
        given.file.open("ab") as out,
        before_all_others(find_layout()),
    ):
        programs = build(Path(name))
        for seed in range(given.first, given.first + given.runs * given.step, given.step):
            scenario = drawn(seed, len(given.cpus))
            with Node(scenario, given.cpus, programs, Path(name)) as node:
                trace = [(round(at, 3), found) for at, found in node.intervals()]
            out.write(msgspec.json.encode({"scenario": scenario, "trace": trace}) + b"\n")
            out.flush()
            print(f"# {seed} {scenario.kind}", file=sys.stderr)
