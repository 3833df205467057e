"""A small SVG writer: boxes that know their size, put into rows, grids and frames.

A box is drawn at its own origin and moved by whoever holds it, so every part of a drawing is laid out on its
own. All text is escaped here, and characters that XML forbids are left out.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

FONT = "system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif"
GAP = 6
PADDING = 8
TITLE_SIZE = 12
_TITLE_HEIGHT = 20
_LETTER_WIDTH = 0.6
"""Width of a letter in font sizes; fonts differ, and this is on the generous side."""

_ASPECT = 1.7
"""Width to height that grids aim at: that of a screen."""

_RAGGED = 0.35
"""What an entirely empty last row costs, in the same measure as the aspect."""

_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True)
class Box:
    """A drawing with its size; ``content`` is SVG whose origin is the upper left corner."""

    width: int
    height: int
    content: str


def escaped(text: str) -> str:
    """Return text as it may stand in XML, in an attribute too."""
    return html.escape(_FORBIDDEN.sub("", text), quote=True)


def text(x: float, y: float, words: str, *, size: int = TITLE_SIZE, style: str = "") -> str:
    """Return a line of text whose base line begins at x, y."""
    return f'<text x="{x:g}" y="{y:g}" font-size="{size}"{_class(style)}>{escaped(words)}</text>'


def text_width(words: str, size: int = TITLE_SIZE) -> int:
    """Return the approximate width of a line of text."""
    return math.ceil(len(words) * size * _LETTER_WIDTH)


def rectangle(width: int, height: int, style: str, *, radius: int = 3, tooltip: str = "") -> str:
    """Return a rectangle at the origin; ``style`` is a class of the style sheet."""
    title = f"<title>{escaped(tooltip)}</title>" if tooltip else ""
    shape = f'<rect width="{width}" height="{height}" rx="{radius}"{_class(style)}'
    return f"{shape}>{title}</rect>" if title else f"{shape}/>"


def at(x: int, y: int, box: Box) -> str:
    """Return a box moved to x, y."""
    return f'<g transform="translate({x} {y})">{box.content}</g>'


def row(boxes: Sequence[Box], gap: int = GAP) -> Box:
    """Return boxes side by side."""
    return _columns(boxes, max(1, len(boxes)), gap)


def column(boxes: Sequence[Box], gap: int = GAP) -> Box:
    """Return boxes one below the other."""
    return _columns(boxes, 1, gap)


def grid(boxes: Sequence[Box], gap: int = GAP) -> Box:
    """Return boxes in rows and columns that make a pleasant shape, with full rows where that is possible."""
    area = sum((box.width + gap) * (box.height + gap) for box in boxes)

    def unpleasantness(arranged: Box) -> float:
        """Add up the distance from the aspect, and the holes of the last row."""
        holes = 1 - area / ((arranged.width + gap) * (arranged.height + gap))
        return abs(math.log(arranged.width / max(1, arranged.height) / _ASPECT)) + holes / _RAGGED

    counts = range(1, len(boxes) + 1)
    return min((_columns(boxes, count, gap) for count in counts), key=unpleasantness, default=row(()))


def frames(contents: Iterable[tuple[str, Sequence[Box]]], style: str) -> list[Box]:
    """Return frames of one size, each with its title and its boxes one below the other."""
    filled = [(title, column(inside)) for title, inside in contents]
    smallest = [_frame(title, content, style) for title, content in filled]
    width, height = (max((getattr(box, of) for box in smallest), default=0) for of in ("width", "height"))
    return [_frame(title, content, style, width, height) for title, content in filled]


def _frame(title: str, content: Box, style: str, width: int = 0, height: int = 0) -> Box:
    width = max(width, max(content.width, text_width(title)) + 2 * PADDING)
    height = max(height, _TITLE_HEIGHT + content.height + (PADDING if content.height else 0))
    parts = [rectangle(width, height, style, radius=5), text(PADDING, 14, title, style="title")]
    return Box(width, height, "".join([*parts, at(PADDING, _TITLE_HEIGHT, content)]))


def document(box: Box, *, label: str, styles: str, definitions: str = "") -> str:
    """Return a whole SVG file, on a white ground so that it is legible anywhere."""
    size = f'width="{box.width}" height="{box.height}" viewBox="0 0 {box.width} {box.height}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{escaped(label)}" '
        f'font-family="{escaped(FONT)}">\n'
        f"<style>{styles}</style>\n<defs>{definitions}</defs>\n"
        f'<rect width="100%" height="100%" fill="#ffffff"/>\n{box.content}\n</svg>\n'
    )


def _columns(boxes: Sequence[Box], count: int, gap: int) -> Box:
    rows = [boxes[start : start + count] for start in range(0, len(boxes), count)]
    widths = [max(box.width for box in boxes[index::count]) for index in range(min(count, len(boxes)))]
    parts, y = [], 0
    for line in rows:
        x = 0
        for box, width in zip(line, widths, strict=False):
            parts.append(at(x, y, box))
            x += width + gap
        y += max(box.height for box in line) + gap
    return Box(max(0, sum(widths) + gap * (len(widths) - 1)), max(0, y - gap), "".join(parts))


def _class(style: str) -> str:
    return f' class="{style}"' if style else ""
