"""The report on a cluster as one HTML page: no script, no request, light and dark, and printable."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from corewise.cli.report_pictures import amount_bars, drawn, offline_bars, worth_bars
from corewise.cli.report_text import (
    KIND_HEADS,
    PROBLEM_HEADS,
    TITLE,
    kind_cells,
    notes_on_offline,
    notes_on_savings,
    notes_on_worth,
    objects_of,
)
from corewise.cli.svg import escaped
from corewise.views.cluster_findings import DENOMINATORS, key_figures
from corewise.views.cluster_report import ClusterReport, ProblemGroup
from corewise.views.text import count

STYLE = """\
:root { color-scheme: light dark; --paper: #ffffff; --ink: #1f2933; --faint: #52606d; --line: #cbd2d9;
  --box: #f5f7fa; --without: #7b8794; --now: #00796b; --speed: #3f6fb5; --requested: #8a5a00;
  --online: #3f6fb5; --offline: #c05600; --idle: #d9dfe5; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #14181d; --ink: #e4e7eb; --faint: #b8c4ce; --line: #3e4c59; --box: #1f2630;
    --without: #8b98a5; --now: #4db6ac; --speed: #82aaff; --requested: #e0b050; --online: #82aaff;
    --offline: #ff9e4a; --idle: #3a4551; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 62rem; padding: 1.5rem 1rem 3rem; background: var(--paper);
  color: var(--ink); font: 1rem/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: 0; }
h2 { font-size: 1.2rem; margin: 2.2rem 0 0.6rem; border-bottom: 1px solid var(--line); }
p, dd { margin: 0.4rem 0; }
.faint, dd { color: var(--faint); }
.wide { overflow-x: auto; }
.figures { display: grid; gap: 0.8rem; grid-template-columns: repeat(auto-fit, minmax(16rem, 1fr));
  list-style: none; margin: 1.2rem 0 0; padding: 0; }
.figure { background: var(--box); border: 1px solid var(--line); border-radius: 6px; padding: 0.8rem; }
.figure strong { display: block; font-size: 1.7rem; line-height: 1.2; font-variant-numeric: tabular-nums; }
.figure span { color: var(--faint); display: block; margin-bottom: 0.3rem; }
table { border-collapse: collapse; width: 100%; min-width: 42rem; font-size: 0.92rem; }
td:first-child { white-space: nowrap; }
th, td { border-bottom: 1px solid var(--line); padding: 0.3rem 0.8rem 0.3rem 0; text-align: left;
  vertical-align: top; }
th { color: var(--faint); font-weight: 600; }
.number { text-align: right; font-variant-numeric: tabular-nums; }
td.number { white-space: nowrap; }
code { font: 0.88em ui-monospace, monospace; }
svg { display: block; height: auto; max-width: 100%; min-width: 34rem; margin: 0.6rem 0; }
svg text { fill: var(--ink); font-family: system-ui, sans-serif; }
svg .number { fill: var(--faint); }
svg .without { fill: var(--without); } svg .now { fill: var(--now); } svg .speed { fill: var(--speed); }
svg .requested { fill: var(--requested); } svg .online { fill: var(--online); }
svg .offline { fill: var(--offline); } svg .idle { fill: var(--idle); }
.key::before { content: ""; display: inline-block; width: 0.8em; height: 0.8em; margin: 0 0.3em 0 0;
  border-radius: 2px; background: var(--of); }
.key { margin-right: 1.2em; }
dt { font-weight: 600; margin-top: 0.6rem; }
dd { margin-left: 0; }
@media print {
  :root { color-scheme: light; --paper: #ffffff; --ink: #000000; --faint: #333333; --line: #999999;
    --box: #ffffff; --without: #7b8794; --now: #00796b; --speed: #3f6fb5; --requested: #8a5a00;
    --online: #3f6fb5; --offline: #c05600; --idle: #d9dfe5; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  section, tr, .figure { break-inside: avoid; }
  h2 { break-after: avoid; }
  .wide { overflow: visible; }
  table { min-width: 0; font-size: 0.85rem; }
}"""


def page(report: ClusterReport) -> str:
    """Return the whole page."""
    figures = "".join(
        f'<li class="figure"><strong>{escaped(each.figure)}</strong><span>{escaped(each.label)}</span>'
        f"{escaped(each.sentence)}</li>\n"
        for each in key_figures(report)
    )
    words = "".join(
        f"<dt>{escaped(word)}</dt><dd>{escaped(meaning)}.</dd>\n" for word, meaning in DENOMINATORS
    )
    parts = (
        _section("What CPUs are worth", _of_worth(report), notes_on_worth(report)),
        _section("What amplification yields", _of_amounts(report), notes_on_savings(report)),
        _section("What offline work uses", _of_offline(report), notes_on_offline(report)),
        _section("Problems", _of_problems(report.problems), _unread(report)),
        _section("Words", f"<dl>\n{words}</dl>\n", ()),
    )
    subtitle = f"{report.source}, {count(report.nodes, 'node')}, {report.time}"
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{TITLE}</title>\n<style>\n{STYLE}\n</style>\n</head>\n<body>\n<main>\n"
        f'<h1>{TITLE}</h1>\n<p class="faint">{escaped(subtitle)}</p>\n'
        f'<ul class="figures">\n{figures}</ul>\n{"".join(parts)}</main>\n</body>\n</html>\n'
    )


def _section(title: str, content: str, notes: Iterable[str]) -> str:
    said = "".join(f'<p class="faint">{escaped(each)}</p>\n' for each in notes)
    return f"<section>\n<h2>{escaped(title)}</h2>\n{content}{said}</section>\n"


def _of_worth(report: ClusterReport) -> str:
    picture = drawn(
        worth_bars(report), "What one requested CPU is worth by kind of machine, in baseline CPUs"
    )
    keys = _keys((("without", "without corewise"), ("now", "with corewise"))) if picture else ""
    rows = [kind_cells(each) for each in report.kinds]
    return f"{keys}{_picture(picture)}{_table(KIND_HEADS, rows, numbers=7) if rows else ''}"


def _of_amounts(report: ClusterReport) -> str:
    return _picture(
        drawn(amount_bars(report), "CPUs of the cluster: raw, normalized, schedulable, requested")
    )


def _of_offline(report: ClusterReport) -> str:
    picture = drawn(offline_bars(report.offline), "Raw CPUs by node: online pods, offline pods, idle")
    if not picture:
        return "<p>No node reports offline pods.</p>\n"
    keys = (("online", "online pods"), ("offline", "offline pods"), ("idle", "idle"))
    return f"{_keys(keys)}{_picture(picture)}"


def _of_problems(problems: Sequence[ProblemGroup]) -> str:
    if not problems:
        return "<p>No problem is known.</p>\n"
    rows = "".join(
        f"<tr><td><code>{escaped(each.reason)}</code></td><td>{escaped(objects_of(each))}</td>"
        f"<td>{escaped(each.message)}</td><td>{escaped(each.fix)}{_command(each)}</td></tr>\n"
        for each in problems
    )
    return _scrolled(_head(PROBLEM_HEADS, 0), rows)


def _unread(report: ClusterReport) -> list[str]:
    missing = "; ".join(report.missing)
    return [f"Not read, so problems may be missing: {missing}."] if missing else []


def _command(group: ProblemGroup) -> str:
    return f" <code>{escaped(group.command)}</code>" if group.command else ""


def _picture(svg: str) -> str:
    return f'<div class="wide" tabindex="0">{svg}</div>\n' if svg else ""


def _keys(keys: Iterable[tuple[str, str]]) -> str:
    shown = "".join(
        f'<span class="key" style="--of: var(--{style})">{escaped(label)}</span>' for style, label in keys
    )
    return f"<p>{shown}</p>\n"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], numbers: int) -> str:
    """Return a table; the last ``numbers`` columns are aligned to the right."""
    words = len(heads) - numbers
    lines = "".join(
        "<tr>"
        + "".join(
            f"<td{_CLASS if place >= words else ''}>{escaped(cell)}</td>" for place, cell in enumerate(row)
        )
        + "</tr>\n"
        for row in rows
    )
    return _scrolled(_head(heads, numbers), lines)


_CLASS = ' class="number"'


def _scrolled(head: str, rows: str) -> str:
    """Return a table in a box that scrolls, by keys too."""
    return f'<div class="wide" tabindex="0">\n<table>\n{head}<tbody>\n{rows}</tbody>\n</table>\n</div>\n'


def _head(heads: Sequence[str], numbers: int) -> str:
    words = len(heads) - numbers
    cells = "".join(
        f'<th scope="col"{_CLASS if place >= words else ""}>{escaped(head)}</th>'
        for place, head in enumerate(heads)
    )
    return f"<thead><tr>{cells}</tr></thead>\n"
