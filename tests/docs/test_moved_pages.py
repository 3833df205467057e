"""An address from when all pages were in one folder leads to the page that it became, and to its section."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tools.site import FLAT, SECTIONS, moved

DOCS = Path(__file__).parents[2] / "docs"
ANCHORS = {
    "suppression": "turn-it-on what-is-offered what-it-refuses see-what-it-does metrics undo-it",
    "suppression-latency": "what-is-run figures what-follows",
    "suppression-limits": "what-limits-offline-pods other-spellings does-it-settle",
    "suppression-proof": "what-is-run what-the-tests-check",
    "suppression-proof-kernel": "real-kernel real-kernel-with-cgroup-v2-in-a-virtual-machine",
    "suppression-proof-simulated": "simulated-node formulas-that-count-offline-usage",
}
"""The sections of the pages of the one folder that were divided."""


class Anchors(HTMLParser):
    """Collects the ids of a page."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.ids: set[str | None] = set()
        self.feed(page.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        del tag
        self.ids.add(dict(attrs).get("id"))


def test_table_has_every_page_of_the_old_folder() -> None:
    assert len(FLAT.split()) == 89
    assert set(SECTIONS) <= set(FLAT.split())


@pytest.mark.parametrize("old", sorted(moved(DOCS)))
def test_an_old_address_leads_to_the_page(old: str, site: Path) -> None:
    page = site / old.replace(".md", ".html")
    (address,) = set(re.findall(r'(?:href|url)="?([^"#]+?)"', page.read_text().replace("0; url=", 'url="')))
    target = (page.parent / address).resolve()
    assert target == (site / moved(DOCS)[old].replace(".md", ".html")).resolve()
    assert "location.hash" in page.read_text(), "the section is kept"
    assert 'id="__search"' in target.read_text(), "the address of a page, not of another old one"


@pytest.mark.parametrize("old", ANCHORS)
def test_section_of_a_split_page_is_found(old: str, site: Path) -> None:
    for anchor in ANCHORS[old].split():
        target = SECTIONS.get(old, {}).get(anchor, f"{moved(DOCS)[f'{old}.md']}#{anchor}")
        address, _, section = target.partition("#")
        assert section in Anchors(site / address.replace(".md", ".html")).ids, target
