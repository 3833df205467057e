"""The explanation of one object: a heading and parts, as text or as a record.

A part explains one thing: lines under labels for people, and keys of the record for
programs, side by side. Either may be empty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from corewise.views.text import wrapped

_LABEL_WIDTH = 15
_WIDEST = 32
"""A label that is longer, such as a long node name, moves its own text only."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line; lines that follow each other under one label show it once."""

    label: str
    text: str


@dataclass(frozen=True, slots=True)
class Part:
    """An explanation of one thing, as a record and as lines."""

    record: Mapping[str, Any]
    lines: Sequence[Line] = ()


@dataclass(frozen=True, slots=True)
class Explanation:
    """An explanation of one object."""

    heading: str
    parts: Sequence[Part]

    @property
    def text(self) -> str:
        """For people, ending in a newline."""
        return self.on(None)

    def on(self, width: int | None) -> str:
        """Return the text for people with its lines broken to fit a width, ending in a newline."""
        return explanation(self.heading, [line for part in self.parts for line in part.lines], width)

    def with_texts(self, changed: Callable[[str], str]) -> Explanation:
        """Return it with the text of each line changed."""
        return Explanation(
            self.heading,
            [
                Part(part.record, [Line(line.label, changed(line.text)) for line in part.lines])
                for part in self.parts
            ],
        )

    @property
    def record(self) -> dict[str, Any]:
        """For programs."""
        return {key: value for part in self.parts for key, value in part.record.items()}


def explanation(heading: str, lines: Iterable[Line], widest: int | None) -> str:
    """Return the whole text, ending in a newline; a line longer than ``widest`` goes on below its text."""
    lines = list(lines)
    lengths = (len(line.label) + 1 for line in lines)
    width = max((length for length in lengths if length <= _WIDEST), default=0)
    width = max(width, _LABEL_WIDTH)
    indent = " " * (width + 2)
    laid_out = (wrapped(line, widest, indent) for line in _laid_out(lines, width))
    return "".join(f"{line}\n" for line in [wrapped(heading, widest, "  "), *laid_out])


def _laid_out(lines: Iterable[Line], width: int) -> Iterator[str]:
    label = ""
    for line in lines:
        shown = "" if line.label == label else line.label
        label = line.label
        yield f"  {shown:{width - 1}} {line.text}".rstrip()
