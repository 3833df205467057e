"""Draw a diagram from text as SVG: boxes on a grid, and arrows between them. Legible in light and in dark.

    box NAME COLUMN ROW WIDTH HEIGHT TITLE [LINE ...]     sizes in cells; fractions are fine
    bar NAME COLUMN ROW WIDTH HEIGHT TITLE [LINE ...]     the same, filled
    note COLUMN ROW TEXT [LINE ...]                       text alone, from its left end
    arrow FROM TO [LABEL]                                 straight, between the sides that face each other

Texts are quoted as in a shell; ``#`` begins a comment.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from xml.sax.saxutils import escape

TIP = (
    '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
    'orient="auto"><path d="M0 0L8 4L0 8z"/></marker></defs>'
)
CELL_WIDTH, CELL_HEIGHT, MARGIN, LINE = 170.0, 74.0, 14.0, 17.0
STYLE = """\
text { font: 13px system-ui, sans-serif; fill: #1f2933 }
.title { font-weight: 600; font-size: 14px }
.small { fill: #52606d }
.paper { fill: #ffffff }
.box { fill: #f5f7fa; stroke: #7b8794 }
.bar { fill: #b2dfdb; stroke: #00796b }
line { stroke: #7b8794; stroke-width: 1.5 }
marker path { fill: #7b8794 }
@media (prefers-color-scheme: dark) {
  text { fill: #e4e7eb }
  .small { fill: #b8c4ce }
  .paper { fill: #161b22 }
  .box { fill: #21262d; stroke: #8b98a5 }
  .bar { fill: #004d40; stroke: #4db6ac }
}"""


@dataclass(frozen=True, slots=True)
class Box:
    """A box in pixels, with its text."""

    kind: str
    left: float
    top: float
    right: float
    bottom: float
    texts: list[str]


def draw(description: str) -> str:
    """Return the SVG of a description.

    Raises:
        ValueError: if a line is none of the four.
    """
    boxes: dict[str, Box] = {}
    parts: list[str] = []
    right = 0.0
    for line in description.splitlines():
        words = shlex.split(line, comments=True)
        match words:
            case []:
                continue
            case ["box" | "bar" as kind, name, left, top, width, height, *texts]:
                x, y = MARGIN + float(left) * CELL_WIDTH, MARGIN + float(top) * CELL_HEIGHT
                end, foot = x + float(width) * CELL_WIDTH, y + float(height) * CELL_HEIGHT
                boxes[name] = Box(kind, x, y, end, foot, texts)
                parts.append(_shown(boxes[name]))
            case ["note", left, top, *texts]:
                x, y = MARGIN + float(left) * CELL_WIDTH, MARGIN + float(top) * CELL_HEIGHT
                right = max(right, x + max(map(len, texts)) * 6.7)
                parts += [_text(x, y + LINE * (row + 1), each, "small") for row, each in enumerate(texts)]
            case ["arrow", source, target, *label]:
                parts.append(_arrow(boxes[source], boxes[target], *label))
            case _:
                raise ValueError(f"neither box, bar, note nor arrow: {line}")
    right = max([right, *(each.right for each in boxes.values())]) + MARGIN
    bottom = max(each.bottom for each in boxes.values()) + MARGIN
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {right:g} {bottom:g}" width="{right:g}" '
        f'height="{bottom:g}">\n<style>\n{STYLE}\n</style>\n{TIP}'
    )
    paper = f'<rect class="paper" width="{right:g}" height="{bottom:g}" rx="8"/>'
    return "\n".join([head, paper, *parts, "</svg>"]) + "\n"


def _shown(box: Box) -> str:
    width, height = box.right - box.left, box.bottom - box.top
    rectangle = (
        f'<rect class="{box.kind}" x="{box.left:g}" y="{box.top:g}" rx="5" '
        f'width="{width:g}" height="{height:g}"/>'
    )
    first = (box.top + box.bottom - LINE * len(box.texts)) / 2 + LINE * 0.75
    texts = (
        _text(box.left + 10, first + LINE * row, each, "small" if row else "title")
        for row, each in enumerate(box.texts)
    )
    return "\n".join([rectangle, *texts])


def _text(x: float, y: float, text: str, kind: str) -> str:
    return f'<text class="{kind}" x="{x:g}" y="{y:g}">{escape(text)}</text>'


def _arrow(source: Box, target: Box, label: str = "") -> str:
    left, right = max(source.left, target.left), min(source.right, target.right)
    top, bottom = max(source.top, target.top), min(source.bottom, target.bottom)
    if left < right:  # one above the other
        x1 = x2 = (left + right) / 2
        y1, y2 = (source.bottom, target.top) if source.top < target.top else (source.top, target.bottom)
        at = (x1 + 7, (y1 + y2) / 2 + 4)
    elif top < bottom:  # side by side
        y1 = y2 = (top + bottom) / 2
        x1, x2 = (source.right, target.left) if source.left < target.left else (source.left, target.right)
        at = (min(x1, x2) + 8, y1 - 7)
    else:
        raise ValueError(f"no straight line leads from {source.texts[:1]} to {target.texts[:1]}")
    line = f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" marker-end="url(#tip)"/>'
    return f"{line}\n{_text(*at, label, 'small')}" if label else line
