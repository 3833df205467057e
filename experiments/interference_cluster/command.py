"""The command: ``run`` adds results to a file, ``table`` shows what they come to."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from pathlib import Path

import msgspec

from corewise.kube.client import Client
from corewise.kube.config import load_config
from experiments.interference_cluster.cells import STOCK, Run, cells
from experiments.interference_cluster.mixes import MIXES, configuration_text

_SCHEDULER = "default-scheduler"


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m experiments.interference_cluster", description=__doc__)
    commands = parser.add_subparsers(required=True)
    config = commands.add_parser("config", help="print the file for corewise scheduler --config")
    config.set_defaults(act=lambda _: print(configuration_text(), end=""))
    run = commands.add_parser("run", help="run cells of simulated nodes on a cluster, all at once")
    run.set_defaults(act=_run)
    run.add_argument("file", type=Path, help="results are added to it, a line for each cell")
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
    run.add_argument("--minutes", type=float, default=4.0, help="in which pods arrive")
    run.add_argument("--prometheus-port", type=int, default=0, help="of 127.0.0.1, for corewise scheduler")
    given = parser.parse_args()
    given.act(given)


def _mixes(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    for name in names:
        if name not in MIXES:
            raise argparse.ArgumentTypeError(f"no mix named {name!r}; there are {', '.join(MIXES)}")
    return names


def _seeds(text: str) -> tuple[int, ...]:
    first, _, last = text.partition("-")
    try:
        return tuple(range(int(first), int(last or first) + 1))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a range such as 0-7") from error


def _arm(text: str) -> tuple[str, str]:
    name, _, scheduler = text.partition("=")
    return name, scheduler or _SCHEDULER


def _run(given: argparse.Namespace) -> None:
    chosen = cells(given.mixes, given.seeds, given.arms or [(STOCK, _SCHEDULER)], given.minutes * 60, 1.0)
    pods, nodes = sum(len(cell.to_come) for cell in chosen), sum(len(cell.nodes) for cell in chosen)
    print(f"# {len(chosen)} cells, {nodes} nodes, {pods} pods", file=sys.stderr, flush=True)

    async def take() -> None:
        async with Client(load_config(given.kubeconfig, None)) as client:
            begin = time.monotonic()
            outcomes = await Run(client, chosen).take(given.prometheus_port)
            print(f"# {pods / (time.monotonic() - begin):.1f} pods/s", file=sys.stderr, flush=True)
        with given.file.open("ab") as file:
            file.writelines(msgspec.json.encode(each) + b"\n" for each in outcomes)

    asyncio.run(take())
