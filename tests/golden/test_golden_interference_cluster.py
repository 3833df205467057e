"""The tables of the experiment on a real kube-scheduler are made from the committed results."""

from __future__ import annotations

from pathlib import Path

from experiments.interference_cluster import tables
from experiments.interference_cluster.command import read, read_rates
from experiments.interference_cluster.rate import rates

ROOT = Path(__file__).parents[2]
DATA = ROOT / "experiments" / "interference_cluster" / "data"


def test_page_has_the_tables_of_the_results() -> None:
    mixes, weights = read(DATA / "mixes.jsonl"), read(DATA / "crowded.jsonl", DATA / "weights.jsonl")
    expected = {
        "slowdowns": tables.slowdowns(mixes),
        "prices": tables.prices(mixes),
        "weights": tables.arms(weights),
        "rates": rates(read_rates(DATA / "rate.jsonl")),
        "rates-unlimited": rates(read_rates(DATA / "rate-unlimited.jsonl")),
    }
    page = (ROOT / "docs" / "benchmarks" / "interference-cluster.md").read_text()
    for name, table in expected.items():
        assert f"<!-- cluster-{name} -->\n{table}\n<!-- /cluster-{name} -->" in page


def test_virtual_page_has_the_tables_of_the_results() -> None:
    page = (ROOT / "docs" / "benchmarks" / "interference-virtual.md").read_text()
    for name in ("virtual", "held-out", "late-3", "late-16"):
        table = tables.neighbors(read(DATA / f"{name}.jsonl"))
        assert f"<!-- cluster-{name} -->\n{table}\n<!-- /cluster-{name} -->" in page
