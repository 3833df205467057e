"""The figures of ``make bench`` go into the one page that has a place for them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tools.bench import table

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "section", ["machine", "tracking", "placement", "guests", "applying", "agent", "web"]
)
def test_new_figures_replace_those_in_their_marked_section(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, section: str
) -> None:
    shutil.copytree(ROOT / "docs", tmp_path / "docs", ignore=shutil.ignore_patterns("pictures", "*.svg"))
    monkeypatch.chdir(tmp_path)
    table.fill(section, "the new figures")
    (page,) = (each for each in Path("docs").rglob("*.md") if "the new figures" in each.read_text())
    assert page.read_text().count(f"<!-- {section} -->\nthe new figures\n<!-- /{section} -->") == 1
