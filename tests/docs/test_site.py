"""The site of the docs shows what GitHub shows, and needs nothing from elsewhere."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
STRUCTURE = {"ul", "ol", "li", "pre", "table", "tr", "td", "h1", "h2", "h3", "h4", "strong", "em", "img"}


class Structure(HTMLParser):
    """Collects the tags that make a page, in their order, and what every block of code says."""

    def __init__(self, *, within: str = "") -> None:
        super().__init__()
        self.seen: list[str] = []
        self._within, self._inside, self._in_code = within, not within, False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == self._within:
            self._inside = True
        if self._inside and tag in STRUCTURE:
            self.seen.append(tag)
        self._in_code = self._in_code or tag == "pre"

    def handle_endtag(self, tag: str) -> None:
        if tag == self._within:
            self._inside = False
        if tag == "pre":
            self._in_code = False

    def handle_data(self, data: str) -> None:
        if self._inside and self._in_code:
            self.seen[-1] += data


def structure(html: str, *, within: str = "") -> list[str]:
    parser = Structure(within=within)
    parser.feed(html)
    return [each.strip() for each in parser.seen]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT / "docs").as_posix())
def test_lists_tables_and_code_match_github_on_site(page: Path, site: Path) -> None:
    text = re.sub(r"<!--.*?-->\n?", "", page.read_text(), flags=re.DOTALL)
    built = site / page.relative_to(ROOT / "docs").with_suffix(".html")
    on_site = structure(built.read_text(), within="article")
    assert on_site == structure(MarkdownIt("commonmark", {"html": True}).enable("table").render(text))


def requests(html: str) -> Iterator[str]:
    """Yield the URLs that a page loads: not those of its links."""
    for tag in re.findall(r"<(?:script|link|img|iframe|source|object)\b[^>]*>", html):
        yield from re.findall(r'(?:src|href|data)="?([^"\s>]+)', tag)


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > len(PAGES)
    assert [each for page in pages for each in requests(page.read_text()) if "//" in each] == []
    for style in site.rglob("*.css"):
        assert not re.search(r"@import|url\(.?(?:https?:)?//", style.read_text()), style


CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here")
@pytest.mark.parametrize("page", ["index.html", "start/openstack.html"])
def test_pages_opened_as_files_can_be_searched(page: str, site: Path, tmp_path: Path) -> None:
    address = f"{(site / page).as_uri()}?q=oversubscription"
    command = [
        str(CHROMIUM),
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={tmp_path}",
    ]
    browsed = subprocess.run(
        [*command, "--virtual-time-budget=60000", "--dump-dom", address],
        capture_output=True, text=True, timeout=240, check=True,
    )  # fmt: skip
    _, _, result = browsed.stdout.partition("md-search-result__meta")
    assert re.match(r'">\d+ matching documents', result), result[:200]
    assert f'href="{(site / "guides" / "suppression.html").as_uri()}' in result
