"""A hook of mkdocs (``mkdocs.yml``) that makes the docs a site as well as pages on GitHub.

- A folder in the navigation stands for all of its pages: the generated ones need no entry each.
- A page that the navigation does not name is under "More".
- GitHub reads CommonMark; mkdocs wants lists indented by four, and a blank line before them.
- Links out of ``docs/`` lead to files of the repository. The site has no such file: it shows the link's text.
- No page has more than LONGEST words: a longer one answers more than one question.
- An address from when all pages were in one folder leads to the page's new address, anchor included.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

LONGEST = 1500
FLAT = """
    agent agent-cpus agent-quotas amplification amplification-trouble amplification-writes api-client
    architecture autoscaling benchmarks benchmarks-agent benchmarks-manager benchmarks-openstack
    benchmarks-scale benchmarks-scheduler benchmarks-soak beside-nova cache-limits calibrate colocation
    colocation-profiles coming-from-koordinator coming-from-nova coming-from-volcano commands dependencies
    domains eviction flavors glossary guest-cpus host-cpus host-upgrade image install interference
    interference-configuration interference-example interference-experiments interference-metrics
    interference-metrics-missing ledger life-of-a-pod local-cluster local-cluster-report manager monitoring
    moves normalization normalized-cpu nri owner pinning placement plan profile prometheus reference release
    reliability reliability-tests runbooks scale scenarios scheduling scheduling-decisions scheduling-plugins
    scheduling-tests scheduling-trouble simulated-machines suppression suppression-comparison
    suppression-latency suppression-limits suppression-proof suppression-proof-kernel
    suppression-proof-simulated suppression-trouble tenant-annotations testing-on-kernels threat-model
    threat-model-network top topology tracking web web-pictures webhook-callers why
"""
"""The pages of the one folder that docs/ was. A page has kept its name unless RENAMED has it."""
RENAMED = {
    "benchmarks": "benchmarks/index.md",
    "commands": "reference/commands/index.md",
    "reference": "reference/index.md",
    "release": "operate/release.md",
    "suppression": "guides/suppression.md",
    "suppression-comparison": "concepts/suppression.md",
    "suppression-latency": "concepts/offline-cost.md",
    "suppression-limits": "concepts/suppression.md",
    "suppression-proof": "benchmarks/suppression.md",
    "suppression-proof-kernel": "benchmarks/suppression-figures.md",
    "suppression-proof-simulated": "benchmarks/suppression-figures.md",
}
SECTIONS = {
    "suppression": {"what-is-offered": "concepts/suppression.md#what-is-offered"},
    "suppression-limits": {
        "other-spellings": "guides/suppression.md#other-spellings",
        "does-it-settle": "benchmarks/suppression.md#does-it-settle",
    },
    "suppression-proof-simulated": {
        "formulas-that-count-offline-usage": "benchmarks/suppression.md#formulas-that-count-offline-usage",
    },
    "suppression-latency": {
        "what-is-run": "concepts/offline-cost.md#what-was-measured",
        "figures": "concepts/offline-cost.md#figures",
        "what-follows": "concepts/offline-cost.md#the-goal-and-why-it-is-missed",
    },
}
"""Page of the one folder -> anchor -> where that section is now, if it is not on the page's new address."""
_REDIRECT = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Moved</title>
<link rel="canonical" href="{address}">
<noscript><meta http-equiv="refresh" content="0; url={address}"></noscript>
<script>
const moved = {sections};
location.replace(moved[location.hash.slice(1)] || "{address}" + location.hash);
</script>
</head>
<body><a href="{address}">This page has moved.</a></body>
</html>
"""
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


def moved(docs: Path) -> dict[str, str]:
    """Return the page that each page of the one folder became, both as paths below ``docs``."""
    commands = (path.name for path in (docs / "reference" / "commands").glob("*.md") if path.stem != "index")
    pages = {path.stem: path.relative_to(docs).as_posix() for path in docs.glob("*/*.md")} | RENAMED
    return {f"{name}.md": pages[name] for name in FLAT.split()} | {
        f"commands/{name}": f"reference/commands/{name}" for name in commands
    }


def on_post_build(config: MkDocsConfig) -> None:
    """Write a page at each old address that leads to the new one."""
    for old, new in moved(Path(config.docs_dir)).items():
        up = "../" * old.count("/")
        sections = {
            anchor: up + _address(target)
            for anchor, target in SECTIONS.get(old.removesuffix(".md"), {}).items()
        }
        page = Path(config.site_dir, _address(old))
        page.parent.mkdir(parents=True, exist_ok=True)
        text = _REDIRECT.format(address=up + _address(new), sections=json.dumps(sections))
        page.write_text(text, encoding="utf-8")


def _address(page: str) -> str:
    return page.replace(".md", ".html", 1)


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
        pages = sorted((docs / entry).glob("*.md"), key=lambda path: (path.stem != "index", path))
        return [path.relative_to(docs).as_posix() for path in pages]
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
