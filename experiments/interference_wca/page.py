"""Runs all ways at all loads, prints the figures, fills the page and draws the picture."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from experiments.chart import Curve, Panel, chart
from experiments.interference_wca.experiment import Outcome, Run, arrivals, configuration, machines
from tools.bench import table

PAGE = "docs/benchmarks/interference-experiments.md"
PICTURE = Path("docs/pictures/interference-wca.svg")
COMMAND = "python -m experiments.interference_wca"
LOADS = (0.5, 0.6, 0.7, 0.8, 0.9)
_ORDERS = 10
_HUNDRED = 100
_HEADER = (
    *("CPUs requested", "way", "nodes oversubscribed", "nodes above 80 %", "mean slowdown"),
    *("pods placed", "pods without a node", "their CPUs"),
)


@dataclass(frozen=True, slots=True)
class Way:
    """One way of placing pods. ``factor``: overprovisioning of the filter; None is default scheduling."""

    name: str
    style: str
    factor: str | None


WAYS = (
    Way("default scheduling", "quota", None),
    Way("Interference, overprovisioning 1", "offline", "1"),
    Way("Interference, overprovisioning 2", "online", "2"),
)
CLUSTERS = {"all memory channels populated": 1.0, "half of the memory channels populated": 0.5}


@dataclass(frozen=True, slots=True)
class Case:
    """One point: a cluster, its load, and the way pods are placed."""

    cluster: str
    load: float
    way: Way


Results = Mapping[Case, Sequence[Outcome]]


def main(arguments: Sequence[str]) -> None:
    """Run everything."""
    parser = argparse.ArgumentParser(
        prog=COMMAND, description=f"Place pods in every way at every load, and fill {PAGE} and its picture."
    )
    parser.add_argument("--print", action="store_true", dest="prints_only", help="write no files")
    parser.add_argument("--quick", action="store_true", help=f"one order of pods instead of {_ORDERS}")
    given = parser.parse_args(arguments)
    orders = 1 if given.quick else _ORDERS
    cases = [Case(cluster, load, way) for cluster in CLUSTERS for load in LOADS for way in WAYS]
    results = {case: _outcomes(case, orders) for case in cases}
    text = "\n\n".join(figures(cluster, results) for cluster in CLUSTERS)
    print(text)
    if not given.prints_only:
        table.fill("wca", text, PAGE)
        PICTURE.write_text(picture(results))


def _outcomes(case: Case, orders: int) -> list[Outcome]:
    print(f"# {case.cluster}, {case.load:.0%}, {case.way.name}", file=sys.stderr, flush=True)
    settings = None if case.way.factor is None else configuration(case.way.factor)
    cluster = machines(CLUSTERS[case.cluster])
    return [Run(cluster, settings).take(arrivals(case.load, seed)) for seed in range(orders)]


def figures(cluster: str, results: Results) -> str:
    """Return the table of a cluster: means over the orders of arrival."""
    of_cluster = {case: outcomes for case, outcomes in results.items() if case.cluster == cluster}
    orders = len(next(iter(of_cluster.values())))
    lines = [
        f"**{cluster.capitalize()}** ({len(machines())} nodes, means over {orders} orders of arrival)",
        "",
        f"| {' | '.join(_HEADER)} |",
        "|---" * len(_HEADER) + "|",
    ]
    for case, outcomes in of_cluster.items():
        cells = (
            f"{case.load:.0%}",
            case.way.name,
            f"{_mean(outcomes, lambda each: each.oversubscribed):.1%}",
            f"{_mean(outcomes, lambda each: each.crowded):.1%}",
            f"{_mean(outcomes, lambda each: each.slowdown):.1%}",
            f"{_mean(outcomes, lambda each: each.placed):.0f}",
            f"{_mean(outcomes, lambda each: each.unplaced):.1f}",
            f"{_mean(outcomes, lambda each: each.unplaced_cpus):.0f}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _mean(outcomes: Sequence[Outcome], of: Callable[[Outcome], float]) -> float:
    return fmean(of(each) for each in outcomes)


def picture(results: Results) -> str:
    """Return the curves over the load."""
    panels = [
        _panel(results, cluster, f"{what}, {cluster}", of)
        for cluster in CLUSTERS
        for what, of in _PANELS.items()
    ]
    return chart(panels, label="WCA's workloads, default scheduling against Interference", made_by=COMMAND)


def _panel(results: Results, cluster: str, title: str, of: Callable[[Outcome], float]) -> Panel:
    curves = [
        Curve(
            way.name,
            way.style,
            [(_HUNDRED * load, _HUNDRED * _mean(results[Case(cluster, load, way)], of)) for load in LOADS],
        )
        for way in WAYS
    ]
    top = max(amount for curve in curves for _, amount in curve.points)
    return Panel(title, "%", max(1.0, top * 1.1), curves, across="CPUs requested, % of all")


def _oversubscribed(outcome: Outcome) -> float:
    return outcome.oversubscribed


def _slowdown(outcome: Outcome) -> float:
    return outcome.slowdown


def _unplaced(outcome: Outcome) -> float:
    return outcome.unplaced / (outcome.placed + outcome.unplaced)


_PANELS = {
    "nodes whose pods want more bandwidth than there is": _oversubscribed,
    "mean slowdown of placed pods": _slowdown,
    "price: pods without a node": _unplaced,
}
