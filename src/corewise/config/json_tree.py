"""JSON as it was written: values with the places where they stand.

Numbers are decimals, never binary floats. An object keeps its members in the order of the text, each once.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple, TypeAlias

_FIELD = re.compile(r"[a-z][A-Za-z0-9]*")

Path: TypeAlias = tuple[str | int, ...]


class Broken:
    """Stands for a value whose text is not JSON; its fault has been told."""


BROKEN = Broken()


@dataclass(frozen=True, slots=True)
class Located:
    """A value and the offset at which it starts."""

    value: Value
    offset: int


class Member(NamedTuple):
    """One ``key: value`` of an object; ``offset`` is that of the key."""

    key: str
    offset: int
    value: Located


class Members(tuple[Member, ...]):
    """The members of an object in the order written; every key is there once."""

    __slots__ = ()


class Items(tuple[Located, ...]):
    """The items of an array."""

    __slots__ = ()


Value: TypeAlias = Members | Items | str | Decimal | bool | Broken | None


@dataclass(frozen=True, slots=True)
class Fault:
    """One place where the text is not the JSON it should be."""

    line: int
    column: int
    path: str
    message: str


@dataclass(frozen=True, slots=True)
class Reading:
    """What a text says. ``root`` is None if it says nothing; with faults it holds what could be read.

    ``complete`` is false if the rest of the text was given up.
    """

    root: Located | None
    faults: tuple[Fault, ...]
    complete: bool
    positions: Positions


class Positions:
    """Turns offsets into lines and columns."""

    def __init__(self, text: str) -> None:
        self._starts = [0, *(found.end() for found in re.finditer("\n", text))]

    def at(self, offset: int) -> tuple[int, int]:
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1


def path_text(path: Path) -> str:
    """Print a path: ``nodeConfigs[0].ratioModel["Xeon 8269CY"].baseRatio``."""
    parts: list[str] = []
    for step in path:
        if isinstance(step, int):
            parts.append(f"[{step}]")
        elif _FIELD.fullmatch(step):
            parts.append(f".{step}" if parts else step)
        else:
            quoted = step.replace("\\", "\\\\").replace('"', '\\"')
            parts.append(f'["{quoted}"]')
    return "".join(parts)
