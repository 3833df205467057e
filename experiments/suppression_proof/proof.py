"""Runs the parts of the proof: what is named on the command line, or all."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from experiments.suppression_proof import plant, real, virtual
from experiments.suppression_proof.run import COUNTING, NOBODY, OPTION_ONE, OPTION_TWO
from experiments.suppression_proof.telling import say, tell, tell_text
from real_load.scenarios import RAMP, SQUARE, STEP
from tools.bench import suppression, table

ROUNDS = 2


@dataclass(frozen=True, slots=True)
class _Wish:
    """The options of the command line."""

    write: bool
    quick: bool
    own_load: bool


def main(arguments: Sequence[str]) -> None:
    """Run the parts."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments.suppression_proof",
        description="Measure how suppression follows the load, and fill the pages: all in half an hour.",
    )
    every = ", ".join(_PARTS)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"any of {every}; if none is named, all")
    parser.add_argument("--print", action="store_true", dest="prints_only", help="write no files")
    parser.add_argument("--quick", action="store_true", help="run the step only, each way once")
    parser.add_argument(
        "--own-load",
        action="store_true",
        help="count as the node's usage only what the proof itself runs: for a machine that others use, too",
    )
    given = parser.parse_args(arguments)
    if unknown := set(given.parts) - set(_PARTS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; parts are {every}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended before it was done"))
    wish = _Wish(not given.prints_only, given.quick, given.own_load)
    for name in given.parts or _PARTS:
        _PARTS[name](wish)
    tell_text("machine", table.machine(), write=wish.write)


def _plant(wish: _Wish) -> None:
    runs = plant.measure(quick=wish.quick, told=say)
    tell("plant", "simulated node, 16 CPUs, interval 10 s", runs, write=wish.write)


def _real(wish: _Wish) -> None:
    with real.machine(own_load=wish.own_load) as on:
        where = f"real kernel, cgroup {on.version}, {len(on.node.cpus)} CPUs, interval 1 s"
        where += f", other work used {real.others():.2f} CPUs"
        runs = real.measure(on, STEP, 1 if wish.quick else ROUNDS, (OPTION_ONE, OPTION_TWO, NOBODY), told=say)
        runs += real.measure(on, STEP, 1, (COUNTING,), told=say)
        for scenario in () if wish.quick else (RAMP, SQUARE):
            runs += real.measure(on, scenario, 1, (OPTION_ONE, OPTION_TWO), told=say)
    tell("real", where, runs, write=wish.write)


def _virtual(wish: _Wish) -> None:
    runs = virtual.measure(told=say)
    if runs:
        tell("virtual", "virtual machine, cgroup v2, 2 CPUs, interval 1 s", runs, write=wish.write)


def _bench(wish: _Wish) -> None:
    say("bench: the agent's reaction and cost")
    text = table.markdown(asyncio.run(suppression.measure()))
    tell_text("suppression", text, write=wish.write, pages=table.PAGES)


_PARTS: dict[str, Callable[[_Wish], None]] = {
    "plant": _plant,
    "real": _real,
    "virtual": _virtual,
    "bench": _bench,
}
