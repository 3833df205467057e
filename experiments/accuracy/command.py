"""The command: ``run`` measures this machine and adds to a file, ``report`` shows what files come to."""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime
from pathlib import Path

from corewise.agent.calibration import WorkerError
from corewise.kernel.machine import read_machine
from experiments.accuracy import report
from experiments.accuracy.measuring import TooDisturbedError, measure
from experiments.accuracy.records import add_run, read_runs

_REPETITIONS = 15
_SECONDS = 0.3
_PATIENCE = 10.0


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m experiments.accuracy", description=__doc__)
    commands = parser.add_subparsers(required=True)
    run = commands.add_parser("run", help="measure kernels and programs on this machine, which must be quiet")
    run.set_defaults(act=_run)
    run.add_argument("file", type=Path, help="the run is added to it, one line")
    run.add_argument("--repetitions", type=int, default=_REPETITIONS, metavar="N")
    run.add_argument("--seconds", type=float, default=_SECONDS, metavar="S", help="of each sample")
    run.add_argument(
        "--patience",
        type=float,
        default=_PATIENCE,
        metavar="MINUTES",
        help="to wait for quiet moments, in all",
    )
    shown = commands.add_parser("report", help="print the tables of files")
    shown.set_defaults(act=_report)
    shown.add_argument("files", type=Path, nargs="+")
    given = parser.parse_args()
    given.act(given)


def _run(given: argparse.Namespace) -> None:
    if not given.file.parent.is_dir():
        raise SystemExit(f"there is no folder {given.file.parent}: make it first")

    def say(text: str) -> None:
        print(f"# {text}", file=sys.stderr, flush=True)

    taken = datetime.now(UTC).date().isoformat()
    patience = 60 * given.patience
    try:
        measured = measure(read_machine(), given.repetitions, given.seconds, taken, say, patience=patience)
    except (TooDisturbedError, WorkerError) as error:
        raise SystemExit(f"not measured: {error}. Try again when the machine is quiet") from error
    add_run(given.file, measured)
    for name, why in measured.skipped.items():
        say(f"{name} was not measured: {why}")
    print(f"added to {given.file}: {measured.machine.name}, {len(measured.programs)} programs")


def _report(given: argparse.Namespace) -> None:
    runs = read_runs(given.files)
    print(f"{report.machines(runs)}\n\n{report.accuracy(runs)}\n\n{report.programs(runs)}")
