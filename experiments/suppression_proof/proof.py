"""Runs the parts of the proof: what is named on the command line, or all."""

from __future__ import annotations

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
_FLAGS = {"--print", "--quick", "--own-load"}


@dataclass(frozen=True, slots=True)
class _Wish:
    """The options of the command line."""

    write: bool
    quick: bool
    own_load: bool


def main(arguments: Sequence[str]) -> None:
    """Run the parts."""
    flags = {each for each in arguments if each.startswith("-")}
    names = [each for each in arguments if not each.startswith("-")] or list(_PARTS)
    unknown = (set(names) - set(_PARTS)) | (flags - _FLAGS)
    if unknown:
        raise SystemExit(f"unknown: {', '.join(sorted(unknown))}; parts are {', '.join(_PARTS)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended before it was done"))
    wish = _Wish("--print" not in flags, "--quick" in flags, "--own-load" in flags)
    for name in names:
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
