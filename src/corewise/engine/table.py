"""Columns that grow: arrays with one place for each row, and more room than rows.

Rows are never moved while they are used; the place of a row that is given back is used again. Growing makes
new arrays, so ``version`` tells whoever holds views of them to take new ones.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from corewise.amplification import Column, Flags

Measures = NDArray[np.float64]
"""A column of measured values; NaN where there is none."""

_FIRST_ROOM = 64


class Table:
    """Named columns of numbers (0 at first), flags (false), measures (NaN) and blocks of number columns."""

    def __init__(self) -> None:
        self._room = _FIRST_ROOM
        self._numbers: dict[str, Column] = {}
        self._flags: dict[str, Flags] = {}
        self._measures: dict[str, Measures] = {}
        self._blocks: dict[str, Column] = {}
        self._unused: list[int] = []
        self.used = 0
        self.version = 0

    def add_row(self) -> int:
        """Return the place of a row, empty."""
        if self._unused:
            return self._unused.pop()
        if self.used == self._room:
            self._grow()
        self.used += 1
        self.version += 1
        return self.used - 1

    def free_row(self, row: int) -> None:
        """Empty a row and give its place back."""
        for numbers in self._numbers.values():
            numbers[row] = 0
        for flags in self._flags.values():
            flags[row] = False
        for measures in self._measures.values():
            measures[row] = np.nan
        for block in self._blocks.values():
            block[:, row] = 0
        self._unused.append(row)

    def numbers(self, name: str) -> Column:
        """Return a column of numbers, made if there is none of that name."""
        if name not in self._numbers:
            self._numbers[name] = np.zeros(self._room, dtype=np.int64)
            self.version += 1
        return self._numbers[name][: self.used]

    def flags(self, name: str) -> Flags:
        """Return a column of flags, made if there is none of that name."""
        if name not in self._flags:
            self._flags[name] = np.zeros(self._room, dtype=np.bool_)
            self.version += 1
        return self._flags[name][: self.used]

    def measures(self, name: str) -> Measures:
        """Return a column of measures, made if there is none of that name."""
        if name not in self._measures:
            self._measures[name] = np.full(self._room, np.nan)
            self.version += 1
        return self._measures[name][: self.used]

    def block(self, name: str, rows: int = 0) -> Column:
        """Return a block of at least ``rows`` columns of numbers."""
        block = self._blocks.get(name)
        if block is None or len(block) < rows:
            wider = np.zeros((rows, self._room), dtype=np.int64)
            if block is not None:
                wider[: len(block)] = block
            self._blocks[name] = block = wider
            self.version += 1
        return block[:, : self.used]

    def set_number(self, name: str, row: int, value: int) -> None:
        """Set one place of a column of numbers, made if there is none of that name."""
        column = self._numbers.get(name)
        if column is None:
            self.numbers(name)
            column = self._numbers[name]
        column[row] = value

    def number(self, name: str, row: int) -> int:
        """Return one place of a column of numbers; 0 if there is no such column."""
        column = self._numbers.get(name)
        return 0 if column is None else int(column[row])

    def _grow(self) -> None:
        more = self._room
        self._room *= 2
        self._numbers = {name: np.pad(column, (0, more)) for name, column in self._numbers.items()}
        self._flags = {name: np.pad(column, (0, more)) for name, column in self._flags.items()}
        self._measures = {
            name: np.pad(column, (0, more), constant_values=np.nan) for name, column in self._measures.items()
        }
        self._blocks = {name: np.pad(block, ((0, 0), (0, more))) for name, block in self._blocks.items()}
        self.version += 1
