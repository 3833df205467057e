"""The pictures and the table of what offline work costs are what the committed measurements give."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.latency import pictures
from experiments.latency.command import Header, read
from experiments.latency.trials import Trial
from golden.test_golden_pictures import DOCS, same

DATA = Path(__file__).parents[2] / "experiments" / "latency" / "data"


@pytest.fixture(scope="module")
def measured() -> tuple[Header, list[Trial]]:
    return read(DATA / "cgroup-v2-16-cpus.jsonl")


def test_pictures_of_latency_are_current(measured: tuple[Header, list[Trial]]) -> None:
    header, trials = measured
    for name, drawing in pictures.drawn(trials, header.machine):
        same(DOCS / "pictures" / f"{name}.svg", drawing)
