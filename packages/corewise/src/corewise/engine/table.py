"""Columns that grow: arrays with one place for each row, and more room than rows; and the nodes' labels.

Rows never move while they are used; the place of a row that is given back is used again. Growing makes new
arrays: ``version`` changes, and whoever holds views of the old ones takes new ones.

Of the labels each key is one column of numbers that stand for values. Which nodes a requirement holds for
is then a comparison of a column with a few numbers. Gt and Lt look at each distinct value once. Source:
k8s.io/component-helpers/scheduling/corev1/nodeaffinity.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corewise.amplification.numa import BoolColumn, IntColumn
from corewise.engine.facts import NodeRequirement, Term

Measures = NDArray[np.float64]
"""A column of measured values; NaN where there is none."""

ABSENT = -1
_FIRST_ROOM = 64
_EMPTY = {"i": 0, "b": False, "f": np.nan}
"""What a place without a value has, by the kind of the column's numbers."""
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")


class Table:
    """Named columns of numbers (0 at first), flags (false), measures (NaN), and blocks of numbers."""

    def __init__(self) -> None:
        self._room = _FIRST_ROOM
        self._arrays: dict[str, NDArray[Any]] = {}
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
        for array in self._arrays.values():
            array[..., row] = _EMPTY[array.dtype.kind]
        self._unused.append(row)

    def numbers(self, name: str) -> IntColumn:
        """Return a column of numbers, made if there is none of that name."""
        return self._column(name, np.int64)

    def flags(self, name: str) -> BoolColumn:
        """Return a column of flags, made if there is none of that name."""
        return self._column(name, np.bool_)

    def measures(self, name: str) -> Measures:
        """Return a column of measures, made if there is none of that name."""
        return self._column(name, np.float64)

    def block(self, name: str, rows: int = 0) -> IntColumn:
        """Return a block of at least ``rows`` columns of numbers."""
        block = self._arrays.get(name)
        if block is None or len(block) < rows:
            wider = np.zeros((rows, self._room), dtype=np.int64)
            if block is not None:
                wider[: len(block)] = block
            self._arrays[name] = block = wider
            self.version += 1
        return block[:, : self.used]

    def set_number(self, name: str, row: int, value: int) -> None:
        """Set one place of a column of numbers, made if there is none of that name."""
        if name not in self._arrays:
            self.numbers(name)
        self._arrays[name][row] = value

    def set_flag(self, name: str, row: int, *, value: bool) -> None:
        """Set one place of a column of flags, made if there is none of that name."""
        if name not in self._arrays:
            self.flags(name)
        self._arrays[name][row] = value

    def number(self, name: str, row: int) -> int:
        """Return one place of a column of numbers; 0 if there is no such column."""
        column = self._arrays.get(name)
        return 0 if column is None else int(column[row])

    def _column(self, name: str, of: type[np.generic]) -> NDArray[Any]:
        array = self._arrays.get(name)
        if array is None:
            array = self._arrays[name] = np.zeros(self._room, dtype=of)
            array[:] = _EMPTY[array.dtype.kind]
            self.version += 1
        return array[: self.used]

    def _grow(self) -> None:
        more = self._room
        self._room *= 2
        for name, array in self._arrays.items():
            places = (*((0, 0) for _ in array.shape[1:]), (0, more))
            self._arrays[name] = np.pad(array, places, constant_values=_EMPTY[array.dtype.kind])
        self.version += 1


@dataclass(slots=True)
class LabelColumn:
    """The values of one key; ``rows`` has ABSENT for nodes without it, and none for the newest ones."""

    rows: IntColumn
    numbers: dict[str, int] = field(default_factory=dict)

    def put(self, row: int, value: str | None) -> None:
        """Set the value of a node; rows that are not there yet are nodes without the key."""
        if row >= len(self.rows):
            more = max(row + 1 - len(self.rows), len(self.rows))
            self.rows = np.pad(self.rows, (0, more), constant_values=ABSENT)
        self.rows[row] = ABSENT if value is None else self.numbers.setdefault(value, len(self.numbers))

    def of(self, size: int) -> IntColumn:
        """Return the rows of the first ``size`` nodes."""
        short = size - len(self.rows)
        return np.pad(self.rows, (0, short), constant_values=ABSENT) if short > 0 else self.rows[:size]

    def some(self, rows: slice | NDArray[np.intp], size: int) -> LabelColumn:
        """Return the column of some of the first ``size`` nodes."""
        return LabelColumn(self.of(size)[rows], self.numbers)

    def one_of(self, values: tuple[str, ...], size: int) -> BoolColumn:
        """Return the nodes with one of these values."""
        numbers = [self.numbers[value] for value in values if value in self.numbers]
        return np.isin(self.of(size), numbers)

    def compared(self, operator: str, bound: int, size: int) -> BoolColumn:
        """Return the nodes whose value is a whole number greater (Gt) or less (Lt) than ``bound``."""
        values = [(int(text), number) for text, number in self.numbers.items() if _INTEGER.fullmatch(text)]
        holds = [number for value, number in values if (value > bound if operator == "Gt" else value < bound)]
        return np.isin(self.of(size), holds)


@dataclass(frozen=True, slots=True)
class Selection:
    """The nodes' labels and names, to select by."""

    columns: Mapping[str, LabelColumn]
    index: Mapping[str, int]
    size: int

    def all_of(self, requirements: tuple[NodeRequirement, ...]) -> BoolColumn:
        """Return the nodes for which every requirement holds."""
        chosen = np.ones(self.size, dtype=np.bool_)
        for requirement in requirements:
            chosen &= self._holds(requirement)
        return chosen

    def any_of(self, terms: tuple[Term, ...]) -> BoolColumn:
        """Return the nodes that at least one term matches."""
        chosen = np.zeros(self.size, dtype=np.bool_)
        for term in terms:
            if term:
                chosen |= self.all_of(term)
        return chosen

    def _holds(self, requirement: NodeRequirement) -> BoolColumn:
        if requirement.field:
            named = self._named(requirement.values)
            return ~named if requirement.operator == "NotIn" else named
        column = self.columns.get(requirement.key)
        nowhere = np.zeros(self.size, dtype=np.bool_)
        match requirement.operator:
            case "In":
                return column.one_of(requirement.values, self.size) if column else nowhere
            case "NotIn":
                return ~column.one_of(requirement.values, self.size) if column else ~nowhere
            case "Exists":
                return column.of(self.size) != ABSENT if column else nowhere
            case "DoesNotExist":
                return column.of(self.size) == ABSENT if column else ~nowhere
            case _:
                return self._compared(requirement, column)

    def _compared(self, requirement: NodeRequirement, column: LabelColumn | None) -> BoolColumn:
        bound = requirement.values[0] if len(requirement.values) == 1 else ""
        if column is None or not _INTEGER.fullmatch(bound):
            return np.zeros(self.size, dtype=np.bool_)
        return column.compared(requirement.operator, int(bound), self.size)

    def _named(self, names: tuple[str, ...]) -> BoolColumn:
        named = np.zeros(self.size, dtype=np.bool_)
        named[[self.index[name] for name in names if name in self.index]] = True
        return named
