"""The pictures and the table of what offline work costs are made from the committed measurements."""

from __future__ import annotations

from pathlib import Path

from experiments.latency import tables
from experiments.latency.command import drawn, read
from experiments.latency.kernels import by_kernel
from golden.test_golden_pictures import DOCS, same

DATA = Path(__file__).parents[2] / "experiments" / "latency" / "data"
TRIALS = DATA / "cgroup-v2-16-cpus.jsonl"


def test_pictures_of_latency_are_current() -> None:
    pictures = dict(drawn(TRIALS, DATA / "cgroup-v1-2-cpus-wave.json"))
    for name, drawing in pictures.items():
        same(DOCS / "pictures" / f"{name}.svg", drawing)
    assert {each.stem for each in (DOCS / "pictures").glob("offline-cost-*.svg")} == {*pictures}


def test_page_has_the_tables_of_the_measurements() -> None:
    pages = [DOCS / "concepts" / "offline-cost.md", *(DOCS / "benchmarks").glob("offline-*.md")]
    shown = "".join(page.read_text() for page in pages)
    for file in DATA.glob("*.jsonl"):
        _, trials = read(file)
        assert f"<!-- offline-cost {file.stem} -->\n{tables.summary(trials)}\n<!-- /offline-cost -->" in shown


def test_pages_have_the_tables_of_all_kernels() -> None:
    pages = ("offline-kernels", "offline-linux-73")
    shown = "".join((DOCS / "benchmarks" / f"{page}.md").read_text() for page in pages)
    found = by_kernel(DATA / "kernels")
    table = tables.kernels(found)
    assert f"<!-- offline-kernels -->\n{table}\n<!-- /offline-kernels -->" in shown
    for release, trials in found.items():
        if changes := tables.changes(trials):
            assert f"<!-- offline-changes {release} -->\n{changes}\n<!-- /offline-changes -->" in shown
