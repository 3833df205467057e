"""Prints what runs came to, and puts figures and pictures into the documents."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from experiments.suppression_proof import pictures
from experiments.suppression_proof.run import Run, summary
from experiments.suppression_proof.run import table as figures_table
from tools.bench import table

SUMMARY = "docs/benchmarks/suppression.md"
FIGURES = "docs/benchmarks/suppression*.md"
_TITLES = {
    "step": "Step: online load from 20 % to 70 %, and back",
    "ramp": "Ramp: online load from 10 % to 80 %",
    "square": "Square wave: online load between 20 % and 70 %",
    "threads": "The step on hyper-threads, where offline work makes online work use more CPU time",
}


def say(text: str) -> None:
    """Print progress to stderr."""
    print(f"# {text}", file=sys.stderr, flush=True)


def tell(part: str, where: str, runs: Sequence[Run], *, write: bool) -> None:
    """Print the figures of each scenario; write them to the pages, and draw them."""
    scenarios = dict.fromkeys(run.scenario for run in runs)
    tables = {each: figures_table([run for run in runs if run.scenario == each]) for each in scenarios}
    text = "\n\n".join(f"**{_TITLES[each]}** ({where})\n\n{rows}" for each, rows in tables.items())
    told = summary(runs)
    print(f"{told}\n\n{text}", flush=True)
    if write:
        table.fill(part, text, FIGURES)
        table.fill(f"proof-{part}", f"- {where[0].upper()}{where[1:]}: {told}.", SUMMARY)
        for picture in pictures.draw(part, runs, where):
            say(f"drawn: {picture}.svg")


def tell_text(section: str, text: str, *, write: bool, pages: str = FIGURES) -> None:
    """Print a table that stands in a section of its own, and write it there."""
    print(text, flush=True)
    if write:
        table.fill(section, text, pages)
