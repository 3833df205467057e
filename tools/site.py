"""A hook of mkdocs (``mkdocs.yml``) that makes the docs a site as well as pages on GitHub.

- A folder in the navigation stands for all of its pages: the generated ones need no entry each.
- A page that the navigation does not name is under "More".
- GitHub reads CommonMark; mkdocs wants lists indented by four, and a blank line before them.
- Links out of ``docs/`` lead to files of the repository. The site has no such file: it shows the link's text.
- No page has more than LONGEST words: a longer one answers more than one question.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

LONGEST = 1500
_ITEM = re.compile(r"(\s*)([-*]|\d+\.)( +)(?=\S)")
_COMMENT = re.compile(r"<!--.*?-->\n?", re.DOTALL)
_LINK = re.compile(r"\[([^\]]*)\]\((?!\w+:)([^)#\s]*)(#[^)\s]*)?\)")


def on_config(config: MkDocsConfig) -> None:
    """Put the pages of each folder into the navigation.

    The theme would load from elsewhere the script that lets pages opened as files be searched: ours is here.
    """
    config.extra["polyfills"] = ["javascripts/search_in_files.js"]
    docs = Path(config.docs_dir)
    config.nav = [_unfold(each, docs) for each in config.nav or []]
    listed = set(_pages(config.nav))
    pages = [path.relative_to(docs).as_posix() for path in sorted(docs.rglob("*.md"))]
    if rest := [page for page in pages if page not in listed]:
        config.nav.append({"More": rest})


def _pages(entry: Any) -> Iterator[str]:
    if isinstance(entry, str):
        yield entry
    else:
        for below in entry.values() if isinstance(entry, dict) else entry:
            yield from _pages(below)


def _unfold(entry: Any, docs: Path) -> Any:
    if isinstance(entry, dict):
        return {title: _unfold(below, docs) for title, below in entry.items()}
    if isinstance(entry, list):
        return [_unfold(each, docs) for each in entry]
    if entry.endswith("/"):
        return [path.relative_to(docs).as_posix() for path in sorted((docs / entry).glob("*.md"))]
    return entry


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Return the page in mkdocs' Markdown; refuse one that is too long."""
    del files
    words = len(markdown.split())
    if words > LONGEST:
        raise PluginError(f"{page.file.src_uri} has {words} words, more than {LONGEST}: split it by question")
    here = (Path(config.docs_dir) / page.file.src_uri).parent
    markdown = _COMMENT.sub("", markdown)
    return "\n".join(_indented(_without_links_out(markdown, here, Path(config.docs_dir)).splitlines())) + "\n"


def _without_links_out(markdown: str, here: Path, docs: Path) -> str:
    def shown(link: re.Match[str]) -> str:
        target = (here / link[2]).resolve()
        if target.is_relative_to(docs.resolve()):
            return link[0]
        if not target.exists():
            raise PluginError(f"{here.name}: there is no {link[2]}")
        return link[1]

    return _LINK.sub(shown, markdown)


def _indented(lines: list[str]) -> Iterator[str]:
    """Yield CommonMark's lists as four columns for each level."""
    columns: list[int] = []  # where the text of each open item begins
    fence, before = False, ""
    for line in lines:
        indent = len(line) - len(line.lstrip())
        if line.strip() and not fence:
            lazy = before.strip() and indent and not _ITEM.match(line)  # a paragraph goes on
            while columns and indent < columns[-1] and not lazy:
                columns.pop()
        code = indent >= (columns[-1] if columns else 0) + 4
        item = None if fence or code else _ITEM.match(line)
        if item:
            if before.strip() and not columns:
                yield ""
            yield f"{'    ' * len(columns)}{item[2]} {line[item.end() :]}"
            columns.append(item.end())
        elif line.strip():
            shift = columns[-1] if columns else 0
            yield "    " * len(columns) + line[min(shift, indent) :]
        else:
            yield line
        if line.lstrip().startswith("```"):
            fence = not fence
        before = line
