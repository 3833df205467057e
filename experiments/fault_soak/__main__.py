"""Faults at the network between every two programs of a local cluster, for an hour or less.

    python -m experiments.fault_soak --minutes 60 --seed 1

Partitions, reordering, lost and late requests, 429, 500, 503, 410 and slow reads strike each link by a plan
that the seed draws (links.py). Nodes, pods and ledgers are judged in every version; when the faults are over,
everything must become right (witness.py). The command prints a table for
docs/benchmarks/benchmarks-soak.md, and exits with 1 if anything was wrong; it keeps the programs' logs then.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import math
import shutil
import sys
import time
from pathlib import Path
from tempfile import mkdtemp

from corewise.kube.errors import KubeError
from corewise_lab.control_plane import ClusterError
from experiments.fault_soak.links import Fault
from experiments.fault_soak.result import Options
from experiments.fault_soak.run import run
from kubedouble import expressions
from tools.bench.table import machine

_BEGAN = time.monotonic()
_MOST_NODES = 8


def main(arguments: list[str]) -> int:
    """Run it, print the table and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m experiments.fault_soak", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--minutes", type=float, default=60.0, help="how long faults strike (default: 60)")
    parser.add_argument("--seed", type=int, default=1, help="draws the faults (default: 1)")
    parser.add_argument(
        "--only", nargs="+", choices=[each.option for each in Fault], help="kinds of faults (default: all)"
    )
    parser.add_argument("--nodes", type=int, default=2, help=f"1 to {_MOST_NODES} (default: 2)")
    parser.add_argument("--logs", type=Path, help="folder to keep the programs' logs in")
    given = parser.parse_args(arguments)
    if not 0 < given.minutes < math.inf:
        parser.error(f"--minutes is a number above 0, not {given.minutes:g}")
    if not 1 <= given.nodes <= _MOST_NODES:
        parser.error(f"--nodes is 1 to {_MOST_NODES}, not {given.nodes}")
    if not expressions.is_available():
        parser.error("the policies need the package cel-expr-python")
    folder = given.logs or Path(mkdtemp(prefix="corewise-faults-"))
    folder.mkdir(parents=True, exist_ok=True)
    logging.basicConfig(filename=folder / "this-process.log", format="%(asctime)s %(name)s: %(message)s")
    try:
        kinds = frozenset(each for each in Fault if not given.only or each.option in given.only)
        options = Options(given.nodes, given.minutes * 60, given.seed, kinds)
        result = asyncio.run(run(options, folder, _say))
        print(f"{machine()}\n\n{result.table()}", flush=True)
        failed = bool(result.problems)
    except (ClusterError, KubeError) as error:
        print(f"failed: {type(error).__name__}: {error}", file=sys.stderr)
        failed = True
    if failed:
        print(f"the programs' logs are in {folder}", file=sys.stderr)
    elif not given.logs:
        shutil.rmtree(folder)
    return int(failed)


def _say(message: str) -> None:
    print(f"{time.monotonic() - _BEGAN:7.1f} s  {message}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
