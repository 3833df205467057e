"""How ``corewise explain`` lays out what it has to say: a heading, and lines under labels (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_LABEL_WIDTH = 15
_WIDEST = 32
"""A label that is longer, such as a long node name, moves its own text only."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line; lines that follow each other under one label show it once."""

    label: str
    text: str


def explanation(heading: str, lines: Iterable[Line]) -> str:
    """Return the whole text, ending in a newline."""
    told = list(lines)
    lengths = (len(line.label) + 1 for line in told)
    width = max((length for length in lengths if length <= _WIDEST), default=0)
    return "".join(f"{line}\n" for line in [heading, *_laid_out(told, max(width, _LABEL_WIDTH))])


def _laid_out(lines: Iterable[Line], width: int) -> Iterator[str]:
    label = ""
    for line in lines:
        shown = "" if line.label == label else line.label
        label = line.label
        yield f"  {shown:{width - 1}} {line.text}".rstrip()
