"""Columns that grow: arrays with one place for each row, and more room than rows.

Rows are never moved while they are used; the place of a row that is given back is used again. Growing makes
new arrays, so ``version`` tells whoever holds views of them to take new ones.

Labels of the nodes: for each key one column of numbers that stand for values.

Which nodes a requirement holds for is then a comparison of a column with a few numbers. Gt and Lt look at
each distinct value once. Source: k8s.io/component-helpers/scheduling/corev1/nodeaffinity.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from corewise.amplification import Column, Flags
from corewise.engine.facts import NodeRequirement, Term

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


ABSENT = -1
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")


@dataclass(slots=True)
class LabelColumn:
    """The values of one key; ``rows`` has ABSENT for nodes without it, and none for the newest ones."""

    rows: Column
    numbers: dict[str, int] = field(default_factory=dict)

    def put(self, row: int, value: str | None) -> None:
        """Set the value of a node; rows that are not there yet are nodes without the key."""
        if row >= len(self.rows):
            more = max(row + 1 - len(self.rows), len(self.rows))
            self.rows = np.pad(self.rows, (0, more), constant_values=ABSENT)
        self.rows[row] = ABSENT if value is None else self.numbers.setdefault(value, len(self.numbers))

    def of(self, size: int) -> Column:
        """Return the rows of the first ``size`` nodes."""
        short = size - len(self.rows)
        return np.pad(self.rows, (0, short), constant_values=ABSENT) if short > 0 else self.rows[:size]

    def only(self, row: int) -> LabelColumn:
        """Return the column of one node; its row there is 0."""
        return LabelColumn(self.rows[row : row + 1], self.numbers)

    def one_of(self, values: tuple[str, ...], size: int) -> Flags:
        """Return the nodes with one of these values."""
        numbers = [self.numbers[value] for value in values if value in self.numbers]
        return np.isin(self.of(size), numbers)

    def compared(self, operator: str, bound: int, size: int) -> Flags:
        """Return the nodes whose value is a whole number greater (Gt) or less (Lt) than ``bound``."""
        holds = [number for text, number in self.numbers.items() if _compares(text, operator, bound)]
        return np.isin(self.of(size), holds)


def _compares(text: str, operator: str, bound: int) -> bool:
    if not _INTEGER.fullmatch(text):
        return False
    return int(text) > bound if operator == "Gt" else int(text) < bound


@dataclass(frozen=True, slots=True)
class Selection:
    """The nodes' labels and names, to select by."""

    columns: Mapping[str, LabelColumn]
    index: Mapping[str, int]
    size: int

    def all_of(self, requirements: tuple[NodeRequirement, ...]) -> Flags:
        """Return the nodes for which every requirement holds."""
        chosen = np.ones(self.size, dtype=np.bool_)
        for requirement in requirements:
            chosen &= self._holds(requirement)
        return chosen

    def any_of(self, terms: tuple[Term, ...]) -> Flags:
        """Return the nodes that at least one term matches."""
        chosen = np.zeros(self.size, dtype=np.bool_)
        for term in terms:
            if term:
                chosen |= self.all_of(term)
        return chosen

    def _holds(self, requirement: NodeRequirement) -> Flags:
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

    def _compared(self, requirement: NodeRequirement, column: LabelColumn | None) -> Flags:
        bound = requirement.values[0] if len(requirement.values) == 1 else ""
        if column is None or not _INTEGER.fullmatch(bound):
            return np.zeros(self.size, dtype=np.bool_)
        return column.compared(requirement.operator, int(bound), self.size)

    def _named(self, names: tuple[str, ...]) -> Flags:
        named = np.zeros(self.size, dtype=np.bool_)
        named[[self.index[name] for name in names if name in self.index]] = True
        return named
