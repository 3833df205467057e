"""The results of ``make bench`` are files of data, and each has a place on one page.

That the pages show what the files have is what ``python tools/generate.py --check`` sees.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.bench import records
from tools.bench.compared import Compared
from tools.bench.headlines import HEADLINES
from tools.bench.pages import filled, headlines, shown
from tools.bench.records import DATA, Record, read, write
from tools.bench.table import Row

RECORD = Record(
    "python -m tools.bench engine", "2 cores", 1.5, "1a2b3c4d", "2026-11-27", [Row("a", "b", "c")]
)


@pytest.mark.parametrize("path", sorted(DATA.glob("*.json")), ids=lambda path: path.stem)
def test_each_result_has_a_place_on_one_page(path: Path) -> None:
    pages = [page.read_text() for page in DATA.parent.glob("*.md")]
    assert sum(page.count(f"<!-- {path.stem} -->\n") for page in pages) == 1
    assert read(path.stem).machine


def test_page_changes_between_its_marks_only() -> None:
    page = "before\n<!-- engine -->\nold\n<!-- /engine -->\nafter\n<!-- web -->\nkept\n<!-- /web -->\n"
    assert filled(page, {"engine": "new", "other": "x"}) == page.replace("old", "new")


def test_table_names_command_machine_and_commit() -> None:
    assert shown(RECORD).splitlines()[2:] == [
        "| a | b | c |",
        "",
        "`python -m tools.bench engine` at 1a2b3c4d, 2026-11-27: 2 cores; load average 1.5.",
    ]


def test_headline_figures_show_median_and_quartiles() -> None:
    lines = headlines({each.name: [1.0, 2.0, 3.0, 4.0, 5.0] for each in HEADLINES}).splitlines()
    assert len(lines) == 2 + len(HEADLINES)
    assert f"| 3.00 {HEADLINES[0].unit} (2.00 to 4.00) |" in lines[2]


def test_written_result_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "DATA", tmp_path)
    write("engine", RECORD)
    assert read("engine") == RECORD
    assert '{ "what": "a", "size": "b", "value": "c" }' in (tmp_path / "engine.json").read_text()


def test_compared_row_has_pairs_and_interval() -> None:
    row = Compared("theirs", "p99", [1.0, 2.0, 4.0], "[page](page.md)").row()
    assert row == "| theirs | p99 | 3 | 2.00 (1.00 to 4.00) | [page](page.md) |"
