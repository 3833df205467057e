"""Runs the parts of the proof, prints their figures, and puts figures and pictures into the documents."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from real_load.scenarios import RAMP, SQUARE, STEP
from tools.bench import table
from tools.suppression_proof import pictures, plant, real, virtual
from tools.suppression_proof.run import COUNTING, NOBODY, OPTION_ONE, OPTION_TWO, Run, summary
from tools.suppression_proof.run import table as figures_table

PAGE = Path("docs/suppression.md")
FIGURES = Path("docs/suppression-proof.md")
ROUNDS = 2
LOADS, PAIRS = (0.2, 0.7), 15
_WAYS = (OPTION_ONE, OPTION_TWO, NOBODY)
_WHERE = {
    "plant": "simulated node, 16 CPUs, interval 10 s",
    "real": "real kernel, cgroup {version}, {cpus} CPUs of which other work used {others:.2f}, interval 1 s",
    "virtual": "real kernel in a virtual machine, cgroup v2, 2 CPUs, interval 1 s",
}


def main(arguments: Sequence[str]) -> None:
    """Run what is named, or all."""
    flags = {each for each in arguments if each.startswith("-")}
    names = [each for each in arguments if not each.startswith("-")] or list(_PARTS)
    unknown = (set(names) - set(_PARTS)) | (flags - {"--print", "--quick", "--own-load"})
    if unknown:
        raise SystemExit(f"unknown: {', '.join(sorted(unknown))}; parts are {', '.join(_PARTS)}")
    for name in names:
        runs = _PARTS[name](flags)
        if runs:
            _tell(name, runs, write="--print" not in flags)
    if "--print" not in flags:
        table.fill("machine", table.machine(), FIGURES)


def _plant(flags: set[str]) -> list[Run]:
    return plant.measure(quick="--quick" in flags, told=_say)


def _real(flags: set[str]) -> list[Run]:
    quick = "--quick" in flags
    with real.machine(own_load="--own-load" in flags) as on:
        version, cpus = on.node.tree.layout.version.value, len(on.node.cpus)
        _WHERE["real"] = _WHERE["real"].format(version=version, cpus=cpus, others=real.others())
        runs = real.measure(on, STEP, 1 if quick else ROUNDS, _WAYS, told=_say)
        runs += real.measure(on, STEP, 1, (COUNTING,), told=_say)
        for scenario in () if quick else (RAMP, SQUARE):
            runs += real.measure(on, scenario, 1, _WAYS, told=_say)
        turns = real.measure_turns(on, LOADS, 3 if quick else PAIRS, told=_say)
    print(turns, flush=True)
    if "--print" not in flags:
        table.fill("turns", turns, FIGURES)
    return runs


def _virtual(_flags: set[str]) -> list[Run]:
    return virtual.measure(told=_say)


_PARTS: dict[str, Callable[[set[str]], list[Run]]] = {"plant": _plant, "real": _real, "virtual": _virtual}


def _tell(name: str, runs: Sequence[Run], *, write: bool) -> None:
    """Print the figures of each scenario; write them to the page, and draw."""
    where = _WHERE[name]
    parts = [f"**{_TITLES[scenario]}** ({where})\n\n{text}" for scenario, text in _tables(runs).items()]
    text = "\n\n".join(parts)
    print(f"{summary(runs)}\n\n{text}", flush=True)
    if write:
        table.fill(name, text, FIGURES)
        table.fill(f"proof-{name}", f"- {where[0].upper()}{where[1:]}: {summary(runs)}.", PAGE)
        for picture in pictures.draw(name, runs, where):
            _say(f"drawn: {picture}.svg")


_TITLES = {
    "step": "Step: online load from 20 % to 70 %, and back",
    "ramp": "Ramp: online load from 10 % to 80 %",
    "square": "Square wave: online load between 20 % and 70 %",
}


def _tables(runs: Sequence[Run]) -> dict[str, str]:
    scenarios = dict.fromkeys(run.scenario for run in runs)
    return {each: figures_table([run for run in runs if run.scenario == each]) for each in scenarios}


def _say(text: str) -> None:
    print(f"# {text}", file=sys.stderr, flush=True)
