"""The page on the accuracy of ratios shows what the committed runs come to."""

from __future__ import annotations

from pathlib import Path

from experiments.accuracy import report
from experiments.accuracy.records import read_runs

ROOT = Path(__file__).parents[2]
DATA = ROOT / "experiments" / "accuracy" / "data" / "runs.jsonl"


def test_page_shows_the_report_of_the_runs() -> None:
    runs = read_runs([DATA])
    page = (ROOT / "docs" / "benchmarks" / "accuracy.md").read_text()
    expected = {
        "accuracy-machines": report.machines(runs),
        "accuracy": report.accuracy(runs),
        "accuracy-programs": report.programs(runs),
    }
    for name, text in expected.items():
        assert f"<!-- {name} -->\n{text}\n<!-- /{name} -->" in page
