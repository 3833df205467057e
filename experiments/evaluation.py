"""Repeat the agent's measurement of one CPU, and print the scores and their spread.

``python -m experiments.evaluation --runs 20 --pause 5``. On an idle machine the runs show how exact one is;
on a busy one, why they end.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from statistics import pstdev
from threading import Event

from corewise.agent.evaluation_run import KernelBench
from corewise.kernel.machine import read_machine
from corewise.normalization.calibration import percent, scored
from corewise.normalization.evaluation import Rates, rates_of
from corewise.vocabulary.findings import Finding
from tools.bench.table import machine


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m experiments.evaluation", description=__doc__)
    parser.add_argument("--runs", type=int, default=20, metavar="N")
    parser.add_argument("--pause", type=float, default=5.0, metavar="S", help="seconds between two runs")
    parser.add_argument("--cpu", type=int, help="default: the last one")
    given = parser.parse_args()
    bench, topology = KernelBench(Path("/")), read_machine().host.topology
    cpu = max(bench.allowed()) if given.cpu is None else given.cpu
    print(f"{machine()}; CPU {cpu}")
    runs: list[Rates] = []
    for number in range(given.runs):
        time.sleep(given.pause if number else 0.0)
        began = time.monotonic()
        found = bench.measure(topology, cpu, Event())
        seconds = time.monotonic() - began
        if isinstance(found, Finding):
            print(f"{number + 1:3} {seconds:5.2f} s  {found.reason}: {found.message}")
        else:
            runs.append(rates_of(found))
            print(f"{number + 1:3} {seconds:5.2f} s  {scored(1, runs[-1:]).score}")
    if runs:
        _print_summary(runs, given.runs)


def _print_summary(runs: list[Rates], tried: int) -> None:
    """Print how much the scores differ, and those of each kernel."""
    scores = [scored(1, [run]).score for run in runs]
    every = scored(1, runs)
    widest = (max(scores) - min(scores)) * 10_000 // every.score
    print(f"{len(runs)} of {tried} runs count; median {every.score}")
    print(f"middle half {percent(every.spread)} wide, all {percent(widest)} wide")
    for kernel in runs[0]:
        rates = [run[kernel] for run in runs]
        print(f"  {kernel:8} standard deviation {100 * pstdev(rates) / (sum(rates) / len(rates)):.2f} %")


if __name__ == "__main__":
    main()
