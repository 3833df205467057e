"""The pictures of the report on a cluster: bars as SVG, colored by the page's style sheet, or as text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from corewise.cli.svg import Box, at, escaped, rectangle, text
from corewise.views.cluster_findings import worth
from corewise.views.cluster_report import ClusterReport
from corewise.views.offline_table import TopRow
from corewise.views.text import cpus, measured

WIDTH = 720
_LABEL, _NUMBER, _BAR, _GAP, _LETTERS = 210, 190, 16, 6, 30
_ROOM = WIDTH - _LABEL - _NUMBER
MOST_BARS = 24
_TEXT_WIDTH = 40


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a bar: its amount, its class in the style sheet, and what it is."""

    amount: int
    style: str
    tooltip: str


@dataclass(frozen=True, slots=True)
class Bar:
    """A row of a picture: label, parts side by side, and the number at the end."""

    label: str
    parts: Sequence[Part]
    number: str


def worth_bars(report: ClusterReport) -> list[Bar]:
    """Return two bars for each kind of machine: a requested CPU's worth without corewise and with it."""
    bars = []
    for kind in report.kinds[:MOST_BARS]:
        for label, value, style, when in (
            (kind.name, kind.worth.without, "without", "without corewise"),
            ("", kind.worth.now, "now", "with corewise"),
        ):
            parts = [] if value is None else [Part(value, style, f"{kind.name}, {when}: {worth(value)}")]
            bars.append(Bar(label, parts, f"{worth(value)} {when}"))
    return bars


def amount_bars(report: ClusterReport) -> list[Bar]:
    """Return the cluster's CPUs: raw, normalized, schedulable, and those that pods request."""
    amounts = report.total
    rows = (
        ("raw CPUs", amounts.raw, "without"),
        ("normalized CPUs", amounts.normalized, "speed"),
        ("schedulable CPUs", amounts.schedulable, "now"),
        ("requested, of schedulable", amounts.requested, "requested"),
    )
    return [
        Bar(label, [Part(amount, style, f"{label}: {cpus(amount)}")], cpus(amount))
        for label, amount, style in rows
        if amount is not None
    ]


def offline_bars(rows: Iterable[TopRow]) -> list[Bar]:
    """Return a bar for each node: raw CPUs used by online pods, by offline pods, and idle."""
    largest = sorted(rows, key=lambda row: (-row.sums.allocatable, row.name))[:MOST_BARS]
    return [
        Bar(
            row.name,
            [
                Part(row.sums.online, "online", f"{row.name}, online pods: {measured(row.sums.online)}"),
                Part(row.sums.offline, "offline", f"{row.name}, offline pods: {measured(row.sums.offline)}"),
                Part(row.sums.idle, "idle", f"{row.name}, idle: {measured(row.sums.idle)}"),
            ],
            f"{measured(row.sums.offline)} offline of {cpus(row.sums.allocatable)}",
        )
        for row in largest
    ]


def drawn(bars: Sequence[Bar], label: str) -> str:
    """Return bars as an SVG element, all to one scale; "" if there are none."""
    largest = max((sum(part.amount for part in bar.parts) for bar in bars), default=0)
    if largest <= 0:
        return ""
    lines, y = [], _GAP
    for bar in bars:
        y += _GAP if bar.label else 0
        lines.append(text(0, y + 12, _cut(bar.label), size=13))
        x = _LABEL
        for part in bar.parts:
            width = part.amount * _ROOM // largest
            shape = rectangle(max(1, width), _BAR, part.style, radius=2, tooltip=part.tooltip)
            lines.append(at(x, y, Box(width, _BAR, shape)))
            x += width
        lines.append(text(x + 6, y + 12, bar.number, size=13, style="number"))
        y += _BAR + 2
    height = y + _GAP
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img" '
        f'aria-label="{escaped(label)}">{"".join(lines)}</svg>'
    )


def as_text(bars: Sequence[Bar]) -> list[str]:
    """Return bars as lines of text, each part with a character of its own."""
    largest = max((sum(part.amount for part in bar.parts) for bar in bars), default=0)
    if largest <= 0:
        return []
    label = max(len(bar.label) for bar in bars)
    lines = []
    for bar in bars:
        shown = "".join(
            _CHARACTERS.get(part.style, "█") * (part.amount * _TEXT_WIDTH // largest) for part in bar.parts
        )
        lines.append(f"{bar.label:<{label}}  {shown} {bar.number}".rstrip())
    return lines


_CHARACTERS = {"without": "▒", "offline": "▓", "idle": "░"}


def _cut(label: str) -> str:
    return label if len(label) <= _LETTERS else f"{label[: _LETTERS - 1]}…"
