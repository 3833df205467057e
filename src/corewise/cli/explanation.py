"""How ``corewise explain`` lays out what it has to say: a heading, and lines under labels (pure)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

_LABEL_WIDTH = 15


@dataclass(frozen=True, slots=True)
class Line:
    """One line; lines that follow each other under one label show it once."""

    label: str
    text: str


def explanation(heading: str, lines: Iterable[Line]) -> str:
    """Return the whole text, ending in a newline."""
    return "".join(f"{line}\n" for line in [heading, *_laid_out(lines)])


def _laid_out(lines: Iterable[Line]) -> Iterable[str]:
    lines, label = list(lines), ""
    width = max([_LABEL_WIDTH, *(len(line.label) + 1 for line in lines)])
    for line in lines:
        shown = "" if line.label == label else line.label
        label = line.label
        yield f"  {shown:{width}}{line.text}".rstrip()
