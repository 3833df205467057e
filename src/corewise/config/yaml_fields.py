"""Reading YAML written by hand: every problem at once, each with line, column, what is allowed, did-you-mean.

A :class:`Fields` is one mapping of the document. Each reader method takes a key, checks the value, notes a
problem where it is wrong, and returns a value of the right type in every case, so that reading goes on. The
caller looks at the problems in the end and uses the values only if there are none.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from corewise.config.configuration import Problem, Severity
from corewise.config.json_tree import Positions
from corewise.config.yaml_text import compose_document, construct, not_yaml
from corewise.quantities import Quantity, QuantityError

REQUIRED: Any = object()
_NAME = re.compile("[a-z0-9]([a-z0-9-]{0,198}[a-z0-9])?")


def _problem(line: int, column: int, path: str, message: str) -> Problem:
    return Problem(Severity.ERROR, line, column, path, message)


def read_document(text: str, problems: list[Problem]) -> Fields | None:
    """Parse one YAML document that must be a mapping; note a problem and return None if it is not."""
    try:
        node = compose_document(text)
    except yaml.YAMLError as error:
        offset, message = not_yaml(error, len(text))
        problems.append(_problem(*Positions(text).at(offset), "", message))
        return None
    if not isinstance(node, yaml.MappingNode):
        problems.append(_problem(1, 1, "", "the document must be a mapping (key: value lines)"))
        return None
    return Fields(node, "", problems)


def _value(node: yaml.Node) -> Any:
    """Return the plain Python value of a node, or None if it has none."""
    try:
        return construct(node)
    except yaml.YAMLError:
        return None


@dataclass
class Fields:
    """One mapping of a document, with the path that leads to it."""

    node: yaml.MappingNode
    path: str
    problems: list[Problem]
    _asked: set[str] = field(default_factory=set)

    def __contains__(self, key: str) -> bool:
        return any(k.value == key for k, _ in self.node.value)

    def note(self, message: str, *, key: str = "", node: yaml.Node | None = None) -> None:
        """Note a problem of this mapping, or of one of its keys."""
        at = node or next((v for k, v in self.node.value if k.value == key), self.node)
        mark = at.start_mark
        path = ".".join(part for part in (self.path, key) if part)
        self.problems.append(_problem(mark.line + 1, mark.column + 1, path, message))

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
        value = self._get(key, default, int, f"a whole number from {low} to {high}", fallback=low)
        if not low <= value <= high:
            self.note(f"{value} is out of range: {low} to {high}", key=key)
            return low
        return int(value)

    def number(self, key: str, default: float = REQUIRED, *, low: float, high: float) -> float:
        value = self._get(key, default, (int, float), f"a number from {low:g} to {high:g}", fallback=low)
        if not (math.isfinite(value) and low <= value <= high):
            self.note(f"{value} is out of range: {low:g} to {high:g}", key=key)
            return low
        return float(value)

    def quantity(self, key: str, default: str = REQUIRED) -> Quantity:
        value = self._get(key, default, (str, int), "a quantity such as 500m, 2 or 16Gi", fallback="0")
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
        node = self._node(key, None)
        if node is None:
            return {}
        value = _value(node)
        if not isinstance(value, dict) or not all(isinstance(x, str) for pair in value.items() for x in pair):
            self.note("must map text to text; put quotes around numbers and true/false", key=key)
            return {}
        return value

    def mapping(self, key: str) -> Fields | None:
        """Read a nested mapping, or None if the key is absent or not one (which is noted)."""
        node = self._node(key, None)
        if node is None:
            return None
        if not isinstance(node, yaml.MappingNode):
            self.note("must be a mapping", key=key)
            return None
        return Fields(node, f"{self.path}.{key}" if self.path else key, self.problems)

    def items(self, key: str, default: Any = None) -> Iterator[Fields]:
        """Read a list of mappings."""
        node = self._node(key, default)
        if node is None:
            return
        if not isinstance(node, yaml.SequenceNode):
            self.note("must be a list", key=key)
            return
        for index, item in enumerate(node.value):
            if isinstance(item, yaml.MappingNode):
                path = f"{key}[{index}]"
                yield Fields(item, f"{self.path}.{path}" if self.path else path, self.problems)
            else:
                self.note(f"item {index} must be a mapping", key=key, node=item)

    def finish(self) -> None:
        """Note every key nobody asked for, and every key given twice."""
        seen: set[str] = set()
        for key, _ in self.node.value:
            name = str(key.value)
            if name in seen:
                self.note(f"{name!r} is given twice", node=key)
            elif name not in self._asked:
                self.note(f"unknown key {name!r}{_near(name, tuple(self._asked))}", node=key)
            seen.add(name)

    def _node(self, key: str, default: Any) -> yaml.Node | None:
        self._asked.add(key)
        found = next((v for k, v in self.node.value if k.value == key), None)
        if found is None and default is REQUIRED:
            self.note(f"{key!r} is missing")
        return found

    def _get(
        self, key: str, default: Any, kind: type | tuple[type, ...], wanted: str, *, fallback: Any
    ) -> Any:
        node = self._node(key, default)
        if node is None:
            return fallback if default is REQUIRED else default
        value = _value(node)
        is_wrong_bool = isinstance(value, bool) and kind is not bool
        if is_wrong_bool or not isinstance(value, kind):
            self.note(f"must be {wanted}", key=key)
            return fallback if default is REQUIRED else default
        return value


def _near(name: str, known: tuple[str, ...]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return (
        f"; did you mean {near[0]!r}?" if near else f"; known here: {', '.join(sorted(filter(None, known)))}"
    )
