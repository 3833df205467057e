"""The pictures of what offline work costs are drawn from the committed measurements."""

from __future__ import annotations

from pathlib import Path

from experiments.latency.command import drawn
from golden.test_golden_pictures import DOCS, same

DATA = Path(__file__).parents[2] / "experiments" / "latency" / "data"


def test_pictures_of_latency_are_current() -> None:
    pictures = dict(drawn(DATA / "cgroup-v2-16-cpus.jsonl"))
    for name, drawing in pictures.items():
        same(DOCS / "pictures" / f"{name}.svg", drawing)
    assert {each.stem for each in (DOCS / "pictures").glob("offline-cost-*.svg")} == {*pictures}
