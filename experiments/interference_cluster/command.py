"""The command: ``run`` and ``simulate`` add results to a file, ``table`` shows what they come to."""

from __future__ import annotations

import argparse
import asyncio
import math
import signal
import sys
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from corewise.kube.client import Client
from corewise.kube.config import load_config
from experiments.interference_cluster import rate, tables
from experiments.interference_cluster.cells import COREWISE, OWN, STOCK, Outcome, Run, cells
from experiments.interference_cluster.mixes import MIXES, WINDOW, configuration, configuration_text
from experiments.interference_cluster.offline import Offline

_SCHEDULER = "default-scheduler"
_MINUTES = 3.5
"""In which the pods of a cell arrive."""
_PATIENCE = 120.0
"""Seconds that a request may take: a crowded control plane is slow, and a run should outlast that."""
T = TypeVar("T")


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m experiments.interference_cluster", description=__doc__)
    commands = parser.add_subparsers(required=True)
    config = commands.add_parser("config", help="print the file for corewise scheduler --config")
    config.set_defaults(act=lambda given: print(configuration_text(given.window), end=""))
    config.add_argument("--window", type=int, default=WINDOW, metavar="SECONDS", help=f"rate: {rate.WINDOW}")
    run = commands.add_parser("run", help="run cells of simulated nodes on a cluster, all at once")
    run.set_defaults(act=_run)
    run.add_argument("file", type=_file, help="results are added to it, a line for each cell")
    run.add_argument("--kubeconfig", required=True)
    run.add_argument("--mixes", type=_mixes, default=tuple(MIXES), metavar="MIX,...")
    run.add_argument("--seeds", type=_seeds, default=(0,), metavar="FIRST-LAST", help="seeds of arrivals")
    run.add_argument(
        "--arm",
        dest="arms",
        type=_arm,
        action="append",
        metavar="NAME[=SCHEDULER]",
        help=f"and the schedulerName of its pods (default: {_SCHEDULER}); corewise is not asked in {STOCK}",
    )
    run.add_argument("--minutes", type=float, default=_MINUTES, help="in which pods arrive")
    run.add_argument("--prometheus-port", type=int, default=0, help="of 127.0.0.1, for corewise scheduler")
    virtual = commands.add_parser(
        "simulate", help="run three arms of them in virtual time, without a cluster"
    )
    virtual.set_defaults(act=_simulate)
    virtual.add_argument("file", type=_file, help="results are added to it, a line for each cell")
    virtual.add_argument("--mixes", type=_mixes, default=tuple(MIXES), metavar="MIX,...")
    virtual.add_argument("--seeds", type=_seeds, default=(0,), metavar="FIRST-LAST")
    virtual.add_argument(
        "--lag", type=_lag, default=0.0, metavar="SECONDS", help="until the watch shows a pod on its node"
    )
    fast = commands.add_parser("rate", help="measure pods per second and CPU time, alone and with corewise")
    fast.set_defaults(act=_rate)
    fast.add_argument("file", type=_file, help="runs are added to it, a line for each")
    fast.add_argument("--kubeconfig", required=True)
    for name in (rate.ALONE, rate.COREWISE):
        fast.add_argument(
            f"--{name}", type=_scheduler, required=True, metavar="SCHEDULER=PID", help="its kube-scheduler"
        )
    fast.add_argument("--nodes", type=int, default=1000)
    fast.add_argument("--pods", type=int, default=1000)
    fast.add_argument("--profiled", type=int, default=100, help="of the pods")
    fast.add_argument("--pairs", type=int, default=5)
    fast.add_argument("--prometheus-port", type=int, required=True, help="of 127.0.0.1")
    fast.add_argument("command", nargs="+", help="-- corewise scheduler --metrics-listen ADDRESS ...")
    table = commands.add_parser("table", help="print the tables of files: one arm beside stock, or several")
    table.set_defaults(act=_table)
    table.add_argument("files", type=Path, nargs="+")
    rated = commands.add_parser("rates", help="print the table of a file that rate wrote")
    rated.set_defaults(act=lambda given: print(rate.rates(read_rates(given.file))))
    rated.add_argument("file", type=Path)
    given = parser.parse_args()
    given.act(given)


def _file(text: str) -> Path:
    """Refuse a file whose folder is missing before anything is measured."""
    path = Path(text)
    if not path.absolute().parent.is_dir():
        raise argparse.ArgumentTypeError(f"{text} cannot be written: there is no such folder")
    return path


def _mixes(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    for name in names:
        if name not in MIXES:
            raise argparse.ArgumentTypeError(f"no mix named {name!r}; there are {', '.join(MIXES)}")
    return names


def _seeds(text: str) -> tuple[int, ...]:
    first, _, last = text.partition("-")
    try:
        seeds = tuple(range(int(first), int(last or first) + 1))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a range such as 0-7") from error
    if not seeds:
        raise argparse.ArgumentTypeError(f"{text!r} has no seed: the first comes before the last, as in 0-7")
    return seeds


def _lag(text: str) -> float:
    try:
        lag = float(text)
    except ValueError:
        lag = math.nan
    if not 0 <= lag < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds, 0 or more")
    return lag


def _arm(text: str) -> tuple[str, str]:
    name, _, scheduler = text.partition("=")
    return name, scheduler or _SCHEDULER


def run_until_ended(what: Coroutine[Any, Any, None]) -> None:
    """Run to the end, or until SIGTERM or Ctrl-C, and leave nothing behind."""

    async def ended_by_signal() -> None:
        task = asyncio.create_task(what)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        await task

    asyncio.run(ended_by_signal())


def read(*paths: Path) -> list[Outcome]:
    """Return the results of cells in files."""
    return [each for path in paths for each in _lines(path, Outcome)]


def read_rates(path: Path) -> list[rate.Rate]:
    """Return the runs in a file."""
    return _lines(path, rate.Rate)


def _lines(path: Path, kind: type[T]) -> list[T]:
    """Return the records of a file, one a line.

    Raises:
        SystemExit: if it cannot be read.
    """
    try:
        return [msgspec.json.decode(line, type=kind) for line in path.read_bytes().splitlines()]
    except (OSError, ValueError) as error:
        raise SystemExit(f"{path} cannot be read as results: {error}") from error


def _table(given: argparse.Namespace) -> None:
    outcomes = read(*given.files)
    names = {each.arm for each in outcomes}
    if OWN in names:
        shown = [tables.neighbors(outcomes)]
    elif len(names) > 2:
        shown = [tables.arms(outcomes)]
    else:
        shown = [tables.slowdowns(outcomes), tables.prices(outcomes)]
    print("\n\n".join(shown))


def _run(given: argparse.Namespace) -> None:
    chosen = cells(given.mixes, given.seeds, given.arms or [(STOCK, _SCHEDULER)], given.minutes * 60, 1.0)
    pods, nodes = sum(len(cell.to_come) for cell in chosen), sum(len(cell.nodes) for cell in chosen)
    print(f"# {len(chosen)} cells, {nodes} nodes, {pods} pods", file=sys.stderr, flush=True)

    async def take() -> None:
        async with Client(load_config(given.kubeconfig, None), timeout=_PATIENCE) as client:
            begin = time.monotonic()
            outcomes = await Run(client, chosen).take(given.prometheus_port)
            said = (
                f"# {pods / (time.monotonic() - begin):.1f} pods/s, {time.process_time():.0f} s of CPU time"
            )
            print(said, file=sys.stderr, flush=True)
        with given.file.open("ab") as file:
            file.writelines(msgspec.json.encode(each) + b"\n" for each in outcomes)

    run_until_ended(take())


def _simulate(given: argparse.Namespace) -> None:
    arms = [(name, "") for name in (STOCK, OWN, COREWISE)]
    with given.file.open("ab") as file:
        for cell in cells(given.mixes, given.seeds, arms, _MINUTES * 60, 1.0):
            outcome = Offline(cell, configuration(), given.lag).take()
            file.write(msgspec.json.encode(outcome) + b"\n")
            file.flush()


def _scheduler(text: str) -> tuple[str, int]:
    name, _, process = text.partition("=")
    if not name or not process.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a schedulerName and a process: SCHEDULER=PID")
    return name, int(process)


def _rate(given: argparse.Namespace) -> None:
    (alone, process), (extended, other) = given.alone, given.corewise
    arms = [
        rate.Arm(rate.ALONE, alone, process),
        rate.Arm(rate.COREWISE, extended, other, given.command),
    ]

    async def take() -> None:
        sizes = given.nodes, given.pods, given.profiled
        async with (
            Client(load_config(given.kubeconfig, None), timeout=_PATIENCE) as client,
            rate.rig(client, *sizes, given.prometheus_port) as rig,
        ):
            for pair in range(given.pairs):
                async for run in rig.pair(pair, arms[:: 1 if pair % 2 else -1]):
                    print(f"# {run.arm}: {run.per_second:.0f} pods/s", file=sys.stderr, flush=True)
                    with given.file.open("ab") as file:
                        file.write(msgspec.json.encode(run) + b"\n")

    run_until_ended(take())
