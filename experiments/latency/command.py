"""The command: ``run`` adds to a file of trials, ``table`` and ``pictures`` show what they come to."""

from __future__ import annotations

import argparse
import itertools
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec

from corewise.kernel.cgroups.layout import Version
from experiments.latency import pictures, tables, wave
from experiments.latency.arms import AGAIN, ALONE, ARMS, AWAKE
from experiments.latency.figures import quantile, stacked
from experiments.latency.programs import build, calibrate
from experiments.latency.trace import recording, waits_of
from experiments.latency.trials import (
    MOST_OTHERS,
    Bench,
    Case,
    Header,
    Trial,
    before_all_others,
    run,
    wait_quiet,
    with_request_ms,
)
from kernel.cgroup_writes import layout_here
from real_load.runs import cpus_here
from tools.bench.table import machine

SIZES, LOADS = (0.1, 1.0, 5.0), (0.1, 0.3, 0.5, 0.7, 0.9)
KINDS = ("spin", "stream", "fork", "faults", "threads")
ANTAGONISTS = KINDS[:3]
_Measured = TypeVar("_Measured", Trial, wave.Run)
DEFAULT_ARMS = (ALONE, AGAIN, AWAKE, "weights", "idle pods", "option 1", "option 1, idle pods, 1 s")


def say(text: str) -> None:
    """Print progress to stderr."""
    print(f"# {text}", file=sys.stderr, flush=True)


def read(path: Path) -> tuple[Header, list[Trial]]:
    """Return a file's header and trials.

    Raises:
        SystemExit: if there is no such file, or it is not a file of trials.
    """
    try:
        first, *rest = path.read_bytes().splitlines()
        return (
            msgspec.json.decode(first, type=Header),
            [msgspec.json.decode(line, type=Trial) for line in rest],
        )
    except (OSError, ValueError) as error:
        raise SystemExit(f"{path} cannot be read as a file of trials: {error}") from error


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m experiments.latency", description=__doc__)
    commands = parser.add_subparsers(required=True)
    measure = commands.add_parser("run", help="measure; needs root, a C compiler and a quiet machine")
    measure.set_defaults(act=_measure)
    measure.add_argument("file", type=Path, help="trials are added to it")
    measure.add_argument("--repetitions", type=int, default=20, metavar="N")
    measure.add_argument("--first", type=int, default=0, metavar="N", help="number of the first repetition")
    measure.add_argument("--minutes", type=float, metavar="N", help="begin no trial after that time")
    measure.add_argument(
        "--seconds", type=float, default=2.0, metavar="S", help="of requests that count, a trial"
    )
    measure.add_argument("--sizes", type=_numbers, default=SIZES, metavar="MS,...")
    measure.add_argument("--loads", type=_numbers, default=LOADS, metavar="PART,...", help="of all CPUs")
    measure.add_argument("--antagonists", type=_kinds, default=ANTAGONISTS, metavar="KIND,...")
    measure.add_argument(
        "--arms", type=arms_of, default=DEFAULT_ARMS, metavar="ARM;...", help="; ".join(ARMS)
    )
    measure.add_argument("--work", default="compute", choices=("compute", "cache", "memory"))
    measure.add_argument("--threads", type=int, default=1, help="of the service for each CPU (0: one in all)")
    measure.add_argument("--pinned", action="store_true", help="each thread stays on one CPU")
    trace = commands.add_parser("trace", help="trace one arm, and print where requests waited for a CPU")
    trace.set_defaults(act=_trace)
    trace.add_argument("size", type=float, metavar="MS")
    trace.add_argument("load", type=float, metavar="PART")
    trace.add_argument("antagonist", choices=KINDS)
    trace.add_argument("arm", choices=ARMS)
    trace.add_argument("--seconds", type=float, default=10.0, metavar="S")
    trace.add_argument("--threads", type=int, default=1)
    trace.add_argument("--pinned", action="store_true")
    table = commands.add_parser(
        "table", help="print the tables of a file of trials: p99 of alone and offline work's part, then all"
    )
    table.set_defaults(act=_table)
    table.add_argument("file", type=Path)
    follow = commands.add_parser(
        "wave", help="measure p99 over time while the load jumps; needs what run needs"
    )
    follow.set_defaults(act=_wave)
    follow.add_argument("file", type=Path, help="JSON, replaced")
    follow.add_argument("--repetitions", type=int, default=3, metavar="N")
    follow.add_argument("--seconds", type=float, default=16.0, metavar="S")
    follow.add_argument("--arms", type=arms_of, default=wave.ARMS, metavar="ARM;...")
    draw = commands.add_parser("pictures", help="draw what the docs show")
    draw.set_defaults(act=_draw)
    draw.add_argument("file", type=Path, help="trials")
    draw.add_argument("wave", type=Path, help="what the command wave wrote")
    draw.add_argument("--out", type=Path, required=True, metavar="FOLDER")
    given = parser.parse_args()
    signal.signal(
        signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM)
    )  # which removes cgroups on its way
    given.act(given)


def _numbers(text: str) -> tuple[float, ...]:
    try:
        numbers = tuple(map(float, text.split(",")))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of numbers such as 0.1,1,5") from error
    if min(numbers) <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} has a number that is not above 0")
    return numbers


def _kinds(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    for name in names:
        if name not in KINDS:
            raise argparse.ArgumentTypeError(f"no offline work named {name!r}; there is {', '.join(KINDS)}")
    return names


def arms_of(text: str) -> tuple[str, ...]:
    """Return the names of arms of an argument; a semicolon is between two.

    Raises:
        argparse.ArgumentTypeError: if there is no arm of that name.
    """
    names = tuple(name.strip() for name in text.split(";"))
    for name in names:
        if name not in ARMS:
            raise argparse.ArgumentTypeError(f"no arm named {name!r}; there are {'; '.join(ARMS)}")
    return names


@contextmanager
def _bench(work: str) -> Iterator[Bench]:
    """This machine, with the programs compiled and calibrated."""
    layout = layout_here(Version.V1, Version.V2)
    if layout is None:
        raise SystemExit("needs root and a writable cgroup hierarchy with cpu and memory")
    # SIGTERM ends a run as Ctrl-C does: the cgroups of the trial are removed.
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        with tempfile.TemporaryDirectory() as name, before_all_others(layout):
            programs = build(Path(name))
            yield Bench(layout, cpus_here(), programs, {work: calibrate(programs, work)}, {})
    finally:
        signal.signal(signal.SIGTERM, before)


def _trace(given: argparse.Namespace) -> None:
    case = Case(given.size, given.load, given.antagonist, threads=given.threads, pinned=given.pinned)
    with _bench(case.work) as bare, recording() as record:
        bench = with_request_ms(bare, case.work, case.threads, (case.size,))
        trial = run(bench, case, given.arm, 0, given.seconds)
        waits = waits_of(record.read_text().splitlines())
    tail = quantile(stacked([trial.latencies]), 0.99)[0]
    print(f"{machine()}; p99 of requests {tail:.2f} ms\n\n{waits.table(longer_than=given.size / 2)}")


def _measure(given: argparse.Namespace) -> None:
    until = time.monotonic() + given.minutes * 60 if given.minutes else float("inf")
    check_folder(given.file)
    with _bench(given.work) as bare:
        if not given.file.exists():
            alone = with_request_ms(bare, given.work, given.threads, given.sizes)
            first = Header(machine(), alone.round_ns, alone.request_ms)
            given.file.write_bytes(msgspec.json.encode(first) + b"\n")
        header, trials = read(given.file)
        bench = replace(bare, round_ns=header.round_ns, request_ms=header.request_ms)
        if header.machine != machine():
            raise SystemExit(f"{given.file} is of another machine ({header.machine}): name a new file")
        if given.work not in header.round_ns or not header.request_ms.keys() >= set(given.sizes):
            sizes = ", ".join(f"{size:g}" for size in header.request_ms)
            has = f"{', '.join(header.round_ns)} work and requests of {sizes} ms"
            raise SystemExit(f"{given.file} was begun with {has}: name a new file for others")
        had = {(each.case, each.arm, each.repetition) for each in trials}
        plan = list(_plan(given))
        measured = sum(each in had for each in plan)
        say(f"{len(plan)} trials, {measured} of them measured before")
        say(f"CPU time of a round: {bench.round_ns} ns, of a request by size: {bench.request_ms} ms")
        for case, arm, repetition in plan:
            if time.monotonic() > until:
                say("the time is over; the same command goes on where this one ends")
                break
            if (case, arm, repetition) not in had:
                trial = partial(run, bench, case, arm, repetition, given.seconds)
                append(given.file, _undisturbed(bench, f"{arm}, {case}", trial))


def _plan(given: argparse.Namespace) -> Iterator[tuple[Case, str, int]]:
    """Yield all trials, repetition by repetition, each in an order of its own.

    Arms without offline work are measured once for all antagonists, under the name of the first.
    """
    cases = [
        Case(*each, given.work, given.threads, given.pinned)
        for each in itertools.product(given.sizes, given.loads, given.antagonists)
    ]
    for repetition in range(given.first, given.first + given.repetitions):
        trials = [
            (case, arm, repetition)
            for case, arm in itertools.product(cases, given.arms)
            if ARMS[arm].offline or case.antagonist == given.antagonists[0]
        ]
        random.Random(repetition).shuffle(trials)  # noqa: S311 - an order, not a secret
        yield from trials


def _undisturbed(bench: Bench, name: str, measure: Callable[[], _Measured]) -> _Measured:
    """Measure until other work has not disturbed it."""
    while (found := measure()).others > MOST_OTHERS * len(bench.cpus):
        say(f"refused: other work used {found.others:.2f} CPUs during {name}")
        wait_quiet(bench, say)
    return found


def append(path: Path, trial: Trial) -> None:
    """Add a trial to a file."""
    with path.open("ab") as file:
        file.write(msgspec.json.encode(trial) + b"\n")


def _table(given: argparse.Namespace) -> None:
    header, trials = read(given.file)
    print(f"{header.machine}\n\n{tables.summary(trials)}\n\n{tables.relative(trials)}")


def check_folder(path: Path) -> None:
    """Refuse a file whose folder is missing, before anything is measured."""
    if not path.absolute().parent.is_dir():
        raise SystemExit(f"{path} cannot be written: there is no such folder")


def _draw(given: argparse.Namespace) -> None:
    check_folder(given.out / "picture")
    for name, text in drawn(given.file, given.wave):
        (given.out / f"{name}.svg").write_text(text, encoding="utf-8")


def drawn(trials: Path, waved: Path) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each picture of a file of trials, and of a wave."""
    header, found = read(trials)
    yield from pictures.drawn(found, header.machine)
    try:
        yield "offline-cost-wave", pictures.of_wave(msgspec.json.decode(waved.read_bytes(), type=wave.Wave))
    except (OSError, ValueError) as error:
        raise SystemExit(f"{waved} cannot be read as what the command wave wrote: {error}") from error


def _wave(given: argparse.Namespace) -> None:
    check_folder(given.file)
    with _bench("compute") as bare:
        bench = with_request_ms(bare, "compute", 1, (wave.SIZE,))
        runs: list[wave.Run] = []
        for repetition in range(given.repetitions):
            for arm in random.Random(repetition).sample(given.arms, len(given.arms)):  # noqa: S311 - an order
                say(f"repetition {repetition + 1} of {given.repetitions}: {arm}")
                once = partial(wave.run, bench, arm, repetition, given.seconds)
                runs.append(_undisturbed(bench, arm, once))
        found = wave.Wave(machine(), wave.SIZE, wave.LOADS, wave.TURN, wave.WINDOW, runs)
        given.file.write_bytes(msgspec.json.encode(found) + b"\n")
