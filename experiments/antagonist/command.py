"""Let the agent's own code watch pods on real cgroups of this machine, beside real antagonists.

``run`` adds runs to a file, one a line; ``table`` prints precision and recall. Seeds below 1000 were for
tuning.
"""

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
from experiments.antagonist.node import Node, Outcome, Programs
from experiments.antagonist.scenarios import VICTIM, Load, Scenario, drawn
from experiments.antagonist.tables import table
from experiments.latency.trials import before_all_others
from tools.bench.table import machine

_SOURCES = Path(__file__).parent
_FIRST = 1000
_LOOKS = 30
_MICRO = 1e6


class Header(msgspec.Struct, frozen=True):
    """The first line of a file of runs."""

    machine: str


def build(directory: Path) -> Programs:
    """Compile both programs.

    Raises:
        SystemExit: without a C compiler, or if it refuses the sources.
    """
    places = {"load": _SOURCES / "load.c", "antagonist": _SOURCES.parent / "latency" / "antagonist.c"}
    for name, source in places.items():
        command = ["cc", "-O2", "-pthread", "-o", str(directory / name), str(source)]
        try:
            subprocess.run(command, check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise SystemExit(f"{source.name} cannot be compiled: {error}") from error
    return Programs(directory / "load", directory / "antagonist")


def read(path: Path) -> tuple[Header, list[Outcome]]:
    """Return a file's header and runs, in the order of their seeds.

    Raises:
        SystemExit: if there is no such file, or it is not a file of runs.
    """
    try:
        first, *rest = path.read_bytes().splitlines()
        outcomes = [msgspec.json.decode(line, type=Outcome) for line in rest]
        return msgspec.json.decode(first, type=Header), sorted(outcomes, key=lambda each: each.scenario.seed)
    except (OSError, ValueError) as error:
        raise SystemExit(f"{path} cannot be read as a file of runs: {error}") from error


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m experiments.antagonist", description=__doc__)
    commands = parser.add_subparsers(required=True)
    measure = commands.add_parser(
        "run", help="measure; needs root, a C compiler, cgroup v1 and a unified hierarchy"
    )
    measure.set_defaults(act=_measure)
    measure.add_argument("file", type=Path, help="runs are added to it; seeds that it has are left out")
    measure.add_argument("--runs", type=int, default=200, metavar="N")
    measure.add_argument("--first", type=int, default=_FIRST, metavar="SEED")
    measure.add_argument("--backwards", action="store_true", help="begin with the last seed")
    measure.add_argument("--cpus", type=_cpus, default=CPUSet.parse("0"), metavar="LIST", help="of the node")
    show = commands.add_parser("table", help="print precision, recall and the time to the naming")
    show.set_defaults(act=_show)
    show.add_argument("file", type=Path)
    cost = commands.add_parser("cost", help="measure the CPU time of a look; needs what run needs")
    cost.set_defaults(act=_cost)
    cost.add_argument("--pods", type=int, default=110, metavar="N")
    cost.add_argument("--cpus", type=_cpus, default=CPUSet.parse("0"), metavar="LIST", help="of the node")
    given = parser.parse_args()
    given.act(given)


def _cpus(text: str) -> CPUSet:
    try:
        return CPUSet.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _measure(given: argparse.Namespace) -> None:
    # SIGTERM ends a run as Ctrl-C does: its cgroups are removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    seeds = range(given.first, given.first + given.runs)
    if not given.file.exists():
        given.file.write_bytes(msgspec.json.encode(Header(machine())) + b"\n")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name, before_all_others(find_layout()):
        programs = build(Path(name))
        for seed in reversed(seeds) if given.backwards else seeds:
            # Another process may add runs to the file at the same time.
            if any(each.scenario.seed == seed for each in read(given.file)[1]):
                continue
            with Node(drawn(seed, len(given.cpus)), given.cpus, programs, Path(name)) as node:
                outcome = node.watch()
            with given.file.open("ab") as file:
                file.write(msgspec.json.encode(outcome) + b"\n")
            print(f"# {seed} {_text(outcome)}", file=sys.stderr, flush=True)


def _cost(given: argparse.Namespace) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    quiet = tuple(Load(f"default/quiet-{index}", 1, 0.0005, 100.0, 10) for index in range(given.pods - 2))
    scenario = Scenario(0, "innocent", len(given.cpus), Load(VICTIM, 1, 0.1, 20.0, 100), quiet)
    with (
        tempfile.TemporaryDirectory(dir="/dev/shm") as name,
        Node(scenario, given.cpus, build(Path(name)), Path(name)) as node,
    ):
        costs = node.cost(_LOOKS)
    for source, (reading, judging) in costs.items():
        each = reading / given.pods * _MICRO
        print(f"{source}: {each:.0f} us a pod and look; judging one pod {judging * _MICRO:.0f} us")


def _text(outcome: Outcome) -> str:
    seen = []
    for source, found in outcome.seen.items():
        named = [f"{pod} by {each.name} after {each.after}" for pod, each in found.named.items()]
        seen.append(f"{source}: {', '.join(named)} ({found.reason})")
    return f"{outcome.scenario.kind}, outside {outcome.outside}; {'; '.join(seen)}"


def _show(given: argparse.Namespace) -> None:
    header, outcomes = read(given.file)
    print(f"{header.machine}; {len(outcomes)} runs\n\n{table(outcomes)}")
