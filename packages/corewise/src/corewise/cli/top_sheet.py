"""A table on a screen that a person moves in: sorted, filtered, and with a cursor that stays on its row.

The texts of a row are made once, and again only for a row that is another object. Columns are as wide as all
rows need, so that they do not move while a person scrolls or types a filter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Generic

from corewise.cli import output
from corewise.views.tables import CellSeverity, Column
from corewise.views.top_data import R

_FIRST_OF_WIDE = 100
"""The priority from which the columns of ``-o wide`` on are left out, the last of them first."""


class Sheet(Generic[R]):
    """Rows as they are shown. ``cursor`` is the place of the chosen row among ``shown``."""

    def __init__(self, columns: Sequence[Column[R]], total: Callable[[list[R]], R]) -> None:
        self.columns = [
            replace(column, wide=False, priority=_FIRST_OF_WIDE + place) if column.wide else column
            for place, column in enumerate(columns)
        ]
        self._total = total
        self._rows: list[R] = []
        self._texts: dict[str, tuple[R, list[str]]] = {}
        self._natural: list[int] = []
        self._shorter: list[int] = []
        """The widths of all rows' texts, as they are and in their shorter form."""
        self.shown: list[R] = []
        self.total: R | None = None
        self.sorted_by = self.columns[0]
        self.reverse = False
        self.filter = ""
        self.cursor = 0
        self.made = 0
        """How many rows' texts have been made."""

    @property
    def chosen(self) -> R | None:
        """The row under the cursor."""
        return self.shown[self.cursor] if self.cursor < len(self.shown) else None

    def __len__(self) -> int:
        """Return the number of rows, shown or not."""
        return len(self._rows)

    def update(self, rows: list[R]) -> None:
        """Take the rows as they are now; the cursor stays on the row of the same name."""
        self._rows = rows
        self._texts = {row.name: (row, self.texts(row)) for row in rows}
        total = self._made(self._total(rows)) if rows else []
        every = [*(texts for _, texts in self._texts.values()), *([total] if total else [])]
        columns = zip([column.title for column in self.columns], *every, strict=True)
        texts_of = list(zip(self.columns, columns, strict=True))
        self._natural = [max(map(len, texts)) for _, texts in texts_of]
        self._shorter = [
            max(len(title), *(len(output.shorter(column, each)) for each in texts))
            if column.shorter and texts
            else width
            for width, (column, (title, *texts)) in zip(self._natural, texts_of, strict=True)
        ]
        self._choose()

    def texts(self, row: R) -> list[str]:
        """Return the texts of a row, one for each column."""
        known = self._texts.get(row.name)
        if known is not None and known[0] is row:
            return known[1]
        return self._made(row)

    def _made(self, row: R) -> list[str]:
        self.made += 1
        return [_printable(column.text(row)) for column in self.columns]

    def sort(self, column: Column[R]) -> None:
        """Sort by a column, or reverse the order if rows are sorted by it already."""
        self.reverse = not self.reverse if column is self.sorted_by else False
        self.sorted_by = column
        self._choose()

    def search(self, words: str) -> None:
        """Show only rows with a text that contains these words, upper or lower case."""
        self.filter = words
        self._choose()

    def _choose(self) -> None:
        """Sort and filter; the cursor stays on its row, or where it was if the row is gone."""
        chosen = self.chosen
        wanted = self.filter.casefold()
        rows: Iterable[R] = self._rows
        if wanted:
            rows = (row for row in rows if any(wanted in text.casefold() for text in self.texts(row)))
        self.shown = self.sorted_by.in_order(rows, reverse=self.reverse)
        self.total = self._total(self.shown) if self.shown else None
        place = self.cursor
        if chosen is not None:
            place = next((at for at, row in enumerate(self.shown) if row.name == chosen.name), place)
        self.move(place)

    def move(self, place: int) -> None:
        """Move the cursor; beyond an end it stays at the end."""
        self.cursor = max(0, min(place, len(self.shown) - 1))

    def layout(self, width: int) -> dict[int, int]:
        """Return the places of the columns that fit, and their widths."""
        if not self._natural:
            return {}
        fits = output.total_width(self._natural) <= width
        return output.fit(self.columns, self._natural if fits else self._shorter, width)

    def cells(self, row: R, layout: dict[int, int]) -> list[tuple[str, CellSeverity | None]]:
        """Return a row's cells, cut and padded to their widths, with their severity."""
        cells, texts = [], self.texts(row)
        for place, width in layout.items():
            column, text = self.columns[place], texts[place]
            if width < self._natural[place]:
                text = output.shorter(column, text)
            cells.append((_padded(column, text, width), column.severity(row)))
        return cells

    def titles(self, layout: dict[int, int]) -> list[str]:
        """Return the titles of the columns, cut and padded to their widths."""
        return [
            _padded(self.columns[place], self.columns[place].title, width) for place, width in layout.items()
        ]


def _padded(column: Column[R], text: str, width: int) -> str:
    text = output.shortened_to(text, width)
    return text.rjust(width) if column.right else text.ljust(width)


def _printable(text: str) -> str:
    """Return a text without the characters that would control a terminal."""
    return text if text.isprintable() else "".join(each if each.isprintable() else "?" for each in text)
