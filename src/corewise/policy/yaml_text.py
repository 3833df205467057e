"""YAML read as configuration: values with their places, exact numbers, faults instead of exceptions.

What comes out is what :func:`corewise.policy.json_text.read_json` gives, so that the same Decoder reads both.
Plain scalars mean what YAML 1.1 says they mean, with three exceptions that are faults, since nobody who
writes configuration means them: numbers in other forms than digits and a point (``010``, ``1:30``,
``.nan``), merge keys (``<<``), and tags. A key given twice is a fault; so is a second document.
"""

from __future__ import annotations

import re
from decimal import Decimal, DecimalException
from typing import Any

import yaml

from corewise.policy.json_text import DEEPEST
from corewise.policy.json_tree import (
    BROKEN,
    Fault,
    Items,
    Located,
    Member,
    Members,
    Path,
    Positions,
    Reading,
    Value,
    path_text,
)

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NUMBER = re.compile(r"[-+]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_STANDARD = "tag:yaml.org,2002:"
_TRUE = frozenset({"true", "yes", "on"})
_MERGE = "<<"


def read_yaml(text: str) -> Reading:
    """Read one YAML document; an empty one is an empty value."""
    positions = Positions(text)
    try:
        fault = too_deep(text, positions)
        document = None if fault else yaml.compose(text, Loader=_LOADER)
    except yaml.YAMLError as error:
        fault = _not_yaml(error, positions, len(text))
    if fault:
        return Reading(None, (fault,), complete=False, positions=positions)
    converter = _Converter(positions)
    root = Located(None, 0) if document is None else converter.convert(document, ())
    return Reading(root, tuple(converter.faults), complete=True, positions=positions)


def too_deep(text: str, positions: Positions) -> Fault | None:
    """Return a fault where containers are nested too deep to be composed, which takes the stack."""
    depth = 0
    event: Any
    for event in yaml.parse(text, Loader=_LOADER):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > DEEPEST:
            at = positions.at(event.start_mark.index)
            return Fault(*at, "", f"nested deeper than {DEEPEST} levels")
    return None


def _not_yaml(error: yaml.YAMLError, positions: Positions, end: int) -> Fault:
    mark = getattr(error, "problem_mark", None)
    offset = mark.index if mark is not None else getattr(error, "position", 0)
    what = getattr(error, "problem", None) or getattr(error, "reason", None) or "it cannot be read"
    return Fault(*positions.at(min(offset, end)), "", f"not YAML: {what}")


class _Converter:
    """Turns YAML nodes into the values that JSON has. A node that contains itself is broken."""

    def __init__(self, positions: Positions) -> None:
        self.faults: list[Fault] = []
        self._positions = positions
        self._done: dict[int, Located] = {}

    def convert(self, node: yaml.Node, path: Path) -> Located:
        known = self._done.get(id(node))
        if known is not None:
            return known
        offset = node.start_mark.index
        self._done[id(node)] = Located(BROKEN, offset)
        self._done[id(node)] = Located(self._value(node, path), offset)
        return self._done[id(node)]

    def _fault(self, node: yaml.Node, path: Path, message: str) -> None:
        at = self._positions.at(node.start_mark.index)
        self.faults.append(Fault(*at, path_text(path), message))

    def _value(self, node: yaml.Node, path: Path) -> Value:
        kind = node.tag.removeprefix(_STANDARD)
        match node:
            case yaml.MappingNode() if kind == "map":
                return self._members(node, path)
            case yaml.SequenceNode() if kind == "seq":
                return Items(self.convert(item, (*path, place)) for place, item in enumerate(node.value))
            case yaml.ScalarNode() if node.tag.startswith(_STANDARD):
                return self._scalar(node, kind, path)
            case _:
                self._fault(node, path, f"the tag {node.tag.replace(_STANDARD, '!!')} is not used here")
                return BROKEN

    def _members(self, node: yaml.MappingNode, path: Path) -> Members:
        found: dict[str, Member] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                self._fault(key, path, "a key must be text")
                continue
            name = str(key.value)
            here = (*path, name)
            if name == _MERGE and not key.style:
                self._fault(key, path, "merge keys (<<) are not read here: write the values out")
            elif name in found:
                line = self._positions.at(found[name].offset)[0]
                self._fault(key, here, f"the key is given twice, first in line {line}")
            else:
                found[name] = Member(name, key.start_mark.index, self.convert(value, here))
        return Members(found.values())

    def _scalar(self, node: yaml.ScalarNode, kind: str, path: Path) -> Value:
        text = str(node.value)
        plain = not node.style
        if kind == "null":
            return None
        if kind == "bool":
            return text.lower() in _TRUE
        if kind in {"int", "float"} or (plain and _NUMBER.fullmatch(text)):
            return self._number(node, text, path)
        return text

    def _number(self, node: yaml.ScalarNode, text: str, path: Path) -> Value:
        try:
            if _NUMBER.fullmatch(text):
                return Decimal(text)
        except DecimalException:  # the exponent is beyond what decimal can hold
            pass
        message = f"{text[:30]!r} is no plain number: write digits with at most one point, such as 1.20"
        self._fault(node, path, f"{message}, or quotes around what is meant as text")
        return BROKEN
