"""Labels of the nodes: for each key one column of numbers that stand for values.

Which nodes a requirement holds for is then a comparison of a column with a few numbers. Gt and Lt look at
each distinct value once. Source: k8s.io/component-helpers/scheduling/corev1/nodeaffinity.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from corewise.amplification import Column, Flags
from corewise.engine.pods import NodeRequirement, Term

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
