"""A table before it is printed: columns, the text and the severity of each cell, and rows as records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, TypeVar

T = TypeVar("T")
OutputRecord = Mapping[str, Any]


class CellSeverity(StrEnum):
    """Severity of a cell; the value is its color."""

    WARNING = "yellow"
    ERROR = "red"


@dataclass(frozen=True, slots=True)
class Column(Generic[T]):
    """One column of a table for people: title, text of a row, and where it is shown.

    A table too wide for its screen first takes the ``shorter`` form of texts, then cuts them, but never below
    ``shrink`` characters (0: never cut). Then it leaves out columns: those of the highest ``priority`` first,
    all of one priority together, and those of priority 0 never. ``figure`` is the number that ``text`` shows,
    where it shows one.
    """

    title: str
    text: Callable[[T], str]
    right: bool = False
    wide: bool = False
    priority: int = 0
    shrink: int = 0
    severity: Callable[[T], CellSeverity | None] = lambda _: None
    figure: Callable[[T], int | None] | None = None
    shorter: Callable[[str], str] | None = None

    def in_order(self, rows: Iterable[T], *, reverse: bool = False) -> list[T]:
        """Return rows sorted by this column: figures from the largest, texts from A; unknown ones last."""
        if self.figure is None:
            return sorted(rows, key=self.text, reverse=reverse)
        figures = [(figure, row) for row in rows for figure in [self.figure(row)]]
        known = [(figure, row) for figure, row in figures if figure is not None]
        known.sort(key=lambda each: each[0] if reverse else -each[0])
        return [*(row for _, row in known), *(row for figure, row in figures if figure is None)]


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """Rows and everything needed to print them in every form.

    ``records`` is the machine form of the rows, ``totals`` of all of them together; ``summary`` are rows that
    only tables show, below all others (the ``*`` row).
    """

    columns: Sequence[Column[T]]
    rows: Sequence[T]
    records: Sequence[OutputRecord]
    name: Callable[[T], str]
    totals: OutputRecord | None = None
    summary: Sequence[T] = ()


def amount(
    title: str,
    figure: Callable[[T], int | None],
    text: Callable[[int | None], str],
    *,
    wide: bool = False,
    priority: int = 0,
) -> Column[T]:
    """Return a column of an amount, which rows are sorted by."""
    return Column(
        title, lambda row: text(figure(row)), right=True, wide=wide, priority=priority, figure=figure
    )
