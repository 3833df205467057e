"""Runs the experiment, prints what came of it, and puts table and picture into the documents."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean, median

from experiments.chart import Curve, Panel, chart
from experiments.interference_burst.burst import AT_ONCE, PODS, SLOW, WAYS, Burst, Run, Way, run
from tools.bench import table

RUNS = 20
PAGE = "docs/concepts/interference-example.md"
PICTURE = Path("docs/pictures/interference-burst.svg")
COMMAND = "python -m experiments.interference_burst"
SECTION = "burst"
_NANO = 1e9

Runs = dict[Way, list[Run]]


def main(arguments: Sequence[str]) -> None:
    """Run both bursts in every way."""
    parser = argparse.ArgumentParser(
        prog=COMMAND,
        description=f"Place a burst of pods in every way, and fill {PAGE} and its picture. Half a minute.",
    )
    parser.add_argument("--print", action="store_true", dest="prints_only", help="write no files")
    prints_only = parser.parse_args(arguments).prints_only
    found = {burst: _all(burst) for burst in (AT_ONCE, SLOW)}
    text = "\n\n".join(_table(burst, runs) for burst, runs in found.items())
    print(text)
    if not prints_only:
        table.fill(SECTION, text, PAGE)
        PICTURE.write_text(_picture(found))


def _all(burst: Burst) -> Runs:
    print(f"# {burst.name}", file=sys.stderr, flush=True)
    return {way: [run(burst, way, seed) for seed in range(RUNS)] for way in WAYS}


def _table(burst: Burst, runs: Runs) -> str:
    head = [
        f"**{PODS} pods {burst.name}** ({RUNS} runs)",
        "",
        "| way | pods on the fullest node | latency they meet | throughput they lose | busy nodes |",
        "|---|---|---|---|---|",
    ]
    return "\n".join([*head, *(_row(way, each) for way, each in runs.items())])


def _row(way: Way, runs: Sequence[Run]) -> str:
    most = [each.most for each in runs]
    cells = (
        way.name,
        f"{median(most):g} ({min(most)} to {max(most)})",
        f"{fmean(each.latency for each in runs) * _NANO:.1f} ns",
        f"{fmean(each.lost for each in runs) * 100:.1f} %",
        f"{fmean(each.busy for each in runs):.1f}",
    )
    unplaced = sum(each.unplaced for each in runs)
    if unplaced:
        raise RuntimeError(f"{way.name}: {unplaced} pods found no node, and the table has no column for them")
    return f"| {' | '.join(cells)} |"


def _picture(found: dict[Burst, Runs]) -> str:
    panels = [
        Panel(f"pods on the fullest node: {PODS} pods {burst.name}", "pods", _top(runs), list(_curves(runs)))
        for burst, runs in found.items()
    ]
    return chart(panels, label="burst of pods, by what counterweights count in", made_by=COMMAND)


def _top(runs: Runs) -> float:
    return float(max(median(each.most for each in some) for some in runs.values())) + 1


def _curves(runs: Runs) -> Iterator[Curve]:
    """Yield the median over the runs of each way."""
    for way, some in runs.items():
        times = [at for at, _ in some[0].fullest]
        middle = [
            median(pods) for pods in zip(*([pods for _, pods in each.fullest] for each in some), strict=True)
        ]
        yield Curve(way.name, way.style, list(zip(times, middle, strict=True)))
