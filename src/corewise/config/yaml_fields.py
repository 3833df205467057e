"""Reading YAML written by hand: every problem at once, each with line, column, what is allowed, did-you-mean.

A :class:`Fields` is one mapping of the document. Each reader method takes a key, checks the value, notes a
problem where it is wrong, and returns a value of the right type in every case, so that reading goes on. The
caller looks at the problems in the end and uses the values only if there are none.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from corewise.config.configuration import Problem, Severity
from corewise.config.decoding import shown
from corewise.config.json_text import BROKEN, Items, Located, Members, Positions
from corewise.config.yaml_text import read_yaml
from corewise.quantities import Quantity, QuantityError

REQUIRED: Any = object()
_NAME = re.compile("[a-z0-9]([a-z0-9-]{0,198}[a-z0-9])?")


def read_document(text: str, problems: list[Problem]) -> Fields | None:
    """Parse one YAML document that must be a mapping; note a problem and return None if it is not."""
    reading = read_yaml(text)
    problems += [
        Problem(Severity.ERROR, fault.line, fault.column, fault.path, fault.message)
        for fault in reading.faults
    ]
    root = reading.root
    if root is None:
        return None
    if not isinstance(root.value, Members):
        problems.append(
            Problem(Severity.ERROR, 1, 1, "", "the document must be a mapping (key: value lines)")
        )
        return None
    return Fields(root.value, root.offset, "", reading.positions, problems)


@dataclass
class Fields:
    """One mapping of a document, with its place and the path that leads to it."""

    members: Members
    offset: int
    path: str
    positions: Positions
    problems: list[Problem]
    _asked: set[str] = field(default_factory=set)

    def __contains__(self, key: str) -> bool:
        return any(member.key == key for member in self.members)

    def note(self, message: str, *, key: str = "", offset: int | None = None) -> None:
        """Note a problem of this mapping, or of one of its keys."""
        if offset is None:
            offset = next((each.value.offset for each in self.members if each.key == key), self.offset)
        path = ".".join(part for part in (self.path, key) if part)
        self.problems.append(Problem(Severity.ERROR, *self.positions.at(offset), path, message))

    def text(self, key: str, default: str = REQUIRED) -> str:
        value = self._get(key, default, str, "text", fallback="")
        return str(value)

    def object_name(self, key: str) -> str:
        """Read the beginning of objects' names: what Kubernetes takes, with room for a number behind it."""
        value = self.text(key)
        if value and not _NAME.fullmatch(value):
            self.note(
                f"{value!r} is no name: up to 200 of a-z, 0-9 and '-', a letter or digit at its ends", key=key
            )
        return value

    def boolean(self, key: str, *, default: bool = REQUIRED) -> bool:
        return bool(self._get(key, default, bool, "true or false", fallback=False))

    def integer(self, key: str, default: int = REQUIRED, *, low: int, high: int) -> int:
        wanted = f"a whole number from {low} to {high}"
        value = self._get(key, default, Decimal, wanted, fallback=low)
        if value != Decimal(value).to_integral_value():
            self.note(f"must be {wanted}", key=key)
            return low
        if not low <= value <= high:
            self.note(f"{shown(value)} is out of range: {low} to {high}", key=key)
            return low
        return int(value)

    def number(self, key: str, default: float = REQUIRED, *, low: float, high: float) -> float:
        value = self._get(key, default, Decimal, f"a number from {low:g} to {high:g}", fallback=low)
        if not low <= value <= high:
            self.note(f"{shown(value)} is out of range: {low:g} to {high:g}", key=key)
            return low
        return float(value)

    def quantity(self, key: str, default: str = REQUIRED) -> Quantity:
        place = self._place(key, default)
        value = place.value if place is not None else "0" if default is REQUIRED else default
        if isinstance(value, bool) or not isinstance(value, str | Decimal):
            self.note("must be a quantity such as 500m, 2 or 16Gi", key=key)
            return Quantity(0)
        try:
            parsed = Quantity.parse(str(value))
        except QuantityError as error:
            self.note(str(error), key=key)
            return Quantity(0)
        if parsed.nano < 0:
            self.note("a quantity here must not be negative", key=key)
        return parsed

    def choice(self, key: str, default: str, *, allowed: tuple[str, ...]) -> str:
        value = self.text(key, default)
        if value not in allowed:
            self.note(f"{value!r} is not known{_near(value, allowed)}", key=key)
        return value

    def texts(self, key: str) -> dict[str, str]:
        """Read a mapping of text to text (labels, ConfigMap data)."""
        place = self._place(key, None)
        members = place.value if place is not None else Members()
        if not isinstance(members, Members) or not all(isinstance(each.value.value, str) for each in members):
            self.note("must map text to text; put quotes around numbers and true/false", key=key)
            return {}
        return {each.key: str(each.value.value) for each in members}

    def mapping(self, key: str) -> Fields | None:
        """Read a nested mapping, or None if the key is absent or not one (which is noted)."""
        place = self._place(key, None)
        if place is None:
            return None
        if not isinstance(place.value, Members):
            self.note("must be a mapping", key=key)
            return None
        return self._below(place.value, place.offset, key)

    def items(self, key: str, default: Any = None) -> Iterator[Fields]:
        """Read a list of mappings."""
        place = self._place(key, default)
        if place is None:
            return
        if not isinstance(place.value, Items):
            self.note("must be a list", key=key)
            return
        for index, item in enumerate(place.value):
            if isinstance(item.value, Members):
                yield self._below(item.value, item.offset, f"{key}[{index}]")
            else:
                self.note(f"item {index} must be a mapping", key=key, offset=item.offset)

    def finish(self) -> None:
        """Note every key nobody asked for."""
        for member in self.members:
            if member.key not in self._asked:
                near = _near(member.key, tuple(self._asked))
                self.note(f"unknown key {member.key!r}{near}", offset=member.offset)

    def _below(self, members: Members, offset: int, step: str) -> Fields:
        path = f"{self.path}.{step}" if self.path else step
        return Fields(members, offset, path, self.positions, self.problems)

    def _place(self, key: str, default: Any) -> Located | None:
        """Return what stands at a key; None if it is absent, or broken, which has been told."""
        self._asked.add(key)
        found = next((each.value for each in self.members if each.key == key), None)
        if found is None and default is REQUIRED:
            self.note(f"{key!r} is missing")
        return None if found is not None and found.value is BROKEN else found

    def _get(self, key: str, default: Any, kind: type, wanted: str, *, fallback: Any) -> Any:
        place = self._place(key, default)
        if place is None:
            return fallback if default is REQUIRED else default
        if type(place.value) is not kind:
            self.note(f"must be {wanted}", key=key)
            return fallback if default is REQUIRED else default
        return place.value


def _near(name: str, known: tuple[str, ...]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return (
        f"; did you mean {near[0]!r}?" if near else f"; known here: {', '.join(sorted(filter(None, known)))}"
    )
