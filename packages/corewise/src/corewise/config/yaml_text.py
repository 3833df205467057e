"""YAML: the one place that reads it, within limits, so that no text ends a program or takes its memory.

:func:`read_yaml` reads configuration: values with their places, exact numbers, faults instead of exceptions.
What comes out is what :func:`corewise.config.json_text.read_json` gives, so that the same Decoder reads both.
Plain scalars mean what YAML 1.1 says they mean, with three exceptions that are faults, since no one who
writes configuration means them: numbers in other forms than digits and a point (``010``, ``1:30``,
``.nan``), merge keys (``<<``), and tags. A key given twice is a fault; so is a second document.

JSON within YAML is written as a block (``|``, ``>``) or in quotes, with escapes and folded lines. To say at
which line and column of the *file* the 17th character of the *value* stands, :func:`yaml_scalar` walks the
source of the scalar and its value side by side. The walk checks every character; if the two do not fit, all
positions are that of the scalar's start, which is coarse but never wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import yaml

from corewise.config.json_text import (
    BROKEN,
    DEEPEST,
    LONGEST_NUMBER,
    MOST_FAULTS,
    Fault,
    Items,
    Located,
    Member,
    Members,
    Path,
    Positions,
    TextReading,
    Value,
    beyond_limits,
    number_of,
    path_text,
)

LARGEST_TEXT = 8 << 20
MOST_VALUES = 500_000
DEEPEST_OBJECT = 100
"""Levels of what is not corewise's own; schemas of custom resources are deeper than any configuration."""

_SAFE: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_LONGEST_SHOWN = 40
_NUMBER = re.compile(r"[-+]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_STANDARD = "tag:yaml.org,2002:"
_NUMBERS = frozenset({f"{_STANDARD}int", f"{_STANDARD}float"})
_TRUE = frozenset({"true", "yes", "on"})
_MERGE = "<<"


class NotYAMLError(ValueError):
    """The text is not YAML: ``problem`` is at ``offset``. Printed, it says where."""

    def __init__(self, message: str, problem: str, offset: int) -> None:
        super().__init__(message)
        self.problem = problem
        self.offset = offset


class LimitError(NotYAMLError):
    """The text may be YAML, and is refused: too large, too deep, or too many values with its aliases."""


def read_yaml(text: str) -> TextReading:
    """Read one YAML document; an empty one is an empty value."""
    positions = Positions(text)
    try:
        with _checked(text, DEEPEST):
            document = yaml.compose(text, Loader=_SAFE)
    except NotYAMLError as error:
        fault = Fault(*positions.at(error.offset), "", error.problem)
        return TextReading(None, (fault,), complete=False, positions=positions)
    converter = _Converter(positions)
    root = Located(None, 0) if document is None else converter.convert(document, ())
    return TextReading(root, tuple(converter.faults), complete=True, positions=positions)


def read_objects(text: str) -> list[TextReading]:
    """Return each document of a text of several, and each item of a List; none if it is not YAML."""
    positions, objects = Positions(text), []
    try:
        with _checked(text, DEEPEST_OBJECT):
            documents = list(yaml.compose_all(text, Loader=_SAFE))
    except NotYAMLError:
        return []
    for document in filter(None, documents):
        converter = _Converter(positions)
        root = converter.convert(document, ())
        members = root.value if isinstance(root.value, Members) else ()
        items = next((each.value.value for each in members if each.key == "items"), None)
        roots = items if isinstance(items, Items) else (root,)
        objects += [TextReading(each, tuple(converter.faults), True, positions) for each in roots]
    return objects


def read_texts(text: str, scalars: dict[int, yaml.ScalarNode]) -> Iterator[Located]:
    """Yield the documents of a text that is not only for corewise: scalars are text, nothing is a fault.

    ``scalars`` gets each scalar by its offset, to find the place of a character within it.

    Raises:
        NotYAMLError: if it is not YAML, or beyond the limits.
    """
    with _checked(text, DEEPEST_OBJECT):
        for document in yaml.compose_all(text, Loader=_SAFE):
            if document is not None:
                yield _as_texts(document, scalars, {})


def _as_texts(node: yaml.Node, scalars: dict[int, yaml.ScalarNode], done: dict[int, Located]) -> Located:
    if id(node) in done:
        return done[id(node)]
    offset = node.start_mark.index
    value: Value = None
    match node:
        case yaml.MappingNode():
            value = Members(
                Member(str(key.value), key.start_mark.index, _as_texts(each, scalars, done))
                for key, each in node.value
                if isinstance(key, yaml.ScalarNode)
            )
        case yaml.SequenceNode():
            value = Items(_as_texts(item, scalars, done) for item in node.value)
        case yaml.ScalarNode() if node.tag != f"{_STANDARD}null":
            scalars[offset] = node
            value = str(node.value)
    done[id(node)] = Located(value, offset)
    return done[id(node)]


def load_document(
    text: str | bytes, loader: type[PlainLoader] | None = None, deepest: int = DEEPEST_OBJECT
) -> Any:
    """Return the one document of a text as plain values; None if it is empty. Times stay text, as in JSON.

    Raises:
        NotYAMLError: if it is not YAML, beyond the limits, or has a value that its tag does not allow.
    """
    with _checked(text, deepest):
        return yaml.load(text, Loader=loader or PlainLoader)  # noqa: S506 - both are safe loaders


def load_documents(text: str | bytes) -> list[Any]:
    """Return all documents of a text as plain values; raises as load_document."""
    with _checked(text, DEEPEST_OBJECT):
        return list(yaml.load_all(text, Loader=PlainLoader))


@contextmanager
def _checked(text: str | bytes, deepest: int) -> Iterator[None]:
    """Check the limits of a text before it is composed; what goes wrong with it is a NotYAMLError."""
    try:
        _check_limits(text, deepest)
        yield
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        offset = mark.index if mark is not None else getattr(error, "position", 0)
        what = getattr(error, "problem", None) or getattr(error, "reason", None) or "it cannot be read"
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark is not None else ""
        raise NotYAMLError(f"{where}{what}", f"not YAML: {what}", min(offset, len(text))) from error


def _check_limits(text: str | bytes, deepest: int) -> None:
    """Refuse what would take the stack or the memory to compose, to construct, or to walk afterwards.

    libyaml composes recursively, in C: 100,000 brackets overflow the stack, and no exception can be caught.
    Its events come one by one, so the first that goes too far ends the reading.

    Raises:
        yaml.YAMLError: if it is not YAML.
        LimitError: if it is beyond the limits.
    """
    _check_text(text)
    extent = _Extent()
    event: Any
    for event in yaml.parse(text, Loader=_SAFE):
        if extent.count(event) > deepest:
            raise _beyond(f"nested deeper than {deepest} levels", event.start_mark)
        if extent.values > MOST_VALUES:
            raise _beyond(f"more than {MOST_VALUES} values, with what aliases stand for", event.start_mark)


def _beyond(problem: str, mark: yaml.Mark) -> LimitError:
    return LimitError(f"{problem}, line {mark.line + 1}, column {mark.column + 1}", problem, mark.index)


class _Extent:
    """The number of values in a text, and the depth of each.

    An alias counts as many values, and is as deep, as what it stands for: ten lines of ten aliases each
    would be 10^10 values.
    """

    def __init__(self) -> None:
        self.values = 0
        self._open = [_Open(None, 0, 0)]
        self._anchored: dict[str | None, tuple[int, int]] = {}

    def count(self, event: Any) -> int:
        """Count an event; return the level of what it adds, 0 if nothing.

        Raises:
            LimitError: if it is an alias of a value that it is part of.
        """
        parent = self._open[-1]
        level = parent.level
        match event:
            case yaml.CollectionStartEvent():
                level += 1
                self._open.append(_Open(event.anchor, level, self.values))
                self.values += 1
            case yaml.CollectionEndEvent():
                self._open.pop()
                self._open[-1].deepest = max(self._open[-1].deepest, parent.deepest)
                self._anchored[parent.anchor] = self.values - parent.before, parent.deepest - level + 1
                return 0
            case yaml.ScalarEvent():
                self._anchored[event.anchor] = 1, 0
                self.values += 1
            case yaml.AliasEvent():
                if any(each.anchor == event.anchor for each in self._open):
                    mark: Any = event.start_mark
                    raise _beyond(f"*{event.anchor} is inside the value that it names", mark)
                values, levels = self._anchored.get(event.anchor, (1, 0))
                self.values += values
                level += levels
            case _:
                return 0
        parent.deepest = max(parent.deepest, level)
        return level


@dataclass(slots=True)
class _Open:
    """A container whose end is still to be read; ``before`` counts the values before it."""

    anchor: str | None
    level: int
    before: int
    deepest: int = field(init=False)

    def __post_init__(self) -> None:
        self.deepest = self.level


def _check_text(text: str | bytes) -> None:
    if len(text) > LARGEST_TEXT:
        problem = f"longer than {LARGEST_TEXT >> 20} MiB"
        raise LimitError(problem, problem, 0)
    if isinstance(text, str) and (half := _SURROGATE.search(text)):
        reason = "half of a surrogate pair stands alone"
        raise yaml.reader.ReaderError("<unicode string>", half.start(), ord(half[0]), "unicode", reason)


class PlainLoader(_SAFE):  # type: ignore[misc]
    """The C loader, where there is one. Times stay text; what a tag does not allow is a YAMLError."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:  # noqa: FBT001, FBT002 - as called
        if node.tag in _NUMBERS and len(node.value) > LONGEST_NUMBER:
            raise _not_of_its_tag(node)
        try:
            return super().construct_object(node, deep)
        except (ValueError, LookupError, OverflowError) as error:
            raise _not_of_its_tag(node) from error


PlainLoader.add_constructor(f"{_STANDARD}timestamp", PlainLoader.construct_scalar)


def _not_of_its_tag(node: yaml.Node) -> yaml.YAMLError:
    shown = f"{node.value[:_LONGEST_SHOWN]!r}" if isinstance(node, yaml.ScalarNode) else "this"
    kind = node.tag.removeprefix(_STANDARD)
    return yaml.constructor.ConstructorError(
        problem=f"{shown} is not a valid {kind}", problem_mark=node.start_mark
    )


class _Converter:
    """Turns YAML nodes into the values that JSON has."""

    def __init__(self, positions: Positions) -> None:
        self.faults: list[Fault] = []
        self._positions = positions
        self._done: dict[int, Located] = {}

    def convert(self, node: yaml.Node, path: Path) -> Located:
        known = self._done.get(id(node))
        if known is not None:
            return known
        self._done[id(node)] = Located(self._value(node, path), node.start_mark.index)
        return self._done[id(node)]

    def _fault(self, node: yaml.Node, path: Path, message: str) -> None:
        at = self._positions.at(node.start_mark.index)
        if len(self.faults) < MOST_FAULTS:
            self.faults.append(Fault(*at, path_text(path), message))
        elif len(self.faults) == MOST_FAULTS:
            self.faults.append(Fault(*at, "", "too many faults: the rest is not listed"))

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
        if _NUMBER.fullmatch(text):
            if (number := number_of(text)) is not None:
                return number
            self._fault(node, path, beyond_limits(text))
            return BROKEN
        message = f"{text[:30]!r} is not a plain number: write digits with at most one point, such as 1.20"
        self._fault(node, path, f"{message}, or quotes around what is meant as text")
        return BROKEN


_BREAK = re.compile(r"\r\n|[\n\r\x85\u2028\u2029]")
_FOLD = re.compile(r"[ \t]*(?:(?:\r\n|[\n\r\x85\u2028\u2029])[ \t]*)+")
_ESCAPE = re.compile(r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[^\r\n\x85\u2028\u2029])")
_CONTINUATION = re.compile(r"\\(?:\r\n|[\n\r\x85\u2028\u2029])[ \t]*")
_SURROGATES = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")
_BLANK = re.compile(r"[ \t]*")


def json_string(source: str, start: int, value: str) -> Sequence[int]:
    """Return the offset of each character of a JSON string whose opening quote is at ``start``."""
    places: list[int] = []
    at = start + 1
    while len(places) < len(value):
        places.append(at)
        unit = _SURROGATES.match(source, at) or _ESCAPE.match(source, at)
        at = unit.end() if unit else at + 1
    return [*places, at]


def yaml_scalar(source: str, node: yaml.ScalarNode) -> Sequence[int]:
    """Return the offset of each character of a YAML scalar's value, and of its end."""
    start, end = node.start_mark.index, node.end_mark.index
    if node.style in {"|", ">"}:
        places = _block(source, start, end, node.value)
    else:
        places = _flow(source, start, end, node.value, node.style or "")
    return places or [start] * (len(node.value) + 1)


def _flow(source: str, start: int, end: int, value: str, quote: str) -> list[int]:
    """Align a plain or quoted scalar; lines are folded, and in double quotes there are escapes."""
    places: list[int] = []
    at = start + len(quote)
    while len(places) < len(value) and at < end:
        continuation = _CONTINUATION.match(source, at) if quote == '"' else None
        fold = _FOLD.match(source, at)
        if continuation:
            at = continuation.end()
        elif fold:
            breaks = len(_BREAK.findall(fold[0]))
            places += [at] * max(1, breaks - 1)
            at = fold.end()
        else:
            places.append(at)
            at += _width(source, at, quote)
    return [*places, min(at, end)] if len(places) == len(value) else []


def _width(source: str, at: int, quote: str) -> int:
    if quote == '"' and (escape := _ESCAPE.match(source, at)):
        return len(escape[0])
    return 2 if quote == "'" and source.startswith("''", at) else 1


def _block(source: str, start: int, end: int, value: str) -> list[int]:
    """Align a literal or folded block: its lines follow the header, all indented alike."""
    header = _BREAK.search(source, start)
    if header is None:
        return []
    lines = _lines(source, header.end(), end)
    indent = _indent(source, lines, value)
    places: list[int] = []
    for first, last in lines:
        for at in range(min(first + indent, last), last):
            if value[len(places) : len(places) + 1] != source[at]:
                return []
            places.append(at)
        if value[len(places) : len(places) + 1] in {" ", "\n"}:
            places.append(last)
    return [*places, end] if len(places) == len(value) else []


def _lines(source: str, start: int, end: int) -> list[tuple[int, int]]:
    lines = []
    for found in _BREAK.finditer(source, start, end):
        lines.append((start, found.start()))
        start = found.end()
    return [*lines, (start, end)] if start < end else lines


def _indent(source: str, lines: list[tuple[int, int]], value: str) -> int:
    """Return the indentation: what the first line that is not blank has more than in the value."""
    for first, last in lines:
        blank = _BLANK.match(source, first, last)
        width = blank.end() - first if blank else 0
        if first + width < last:
            text = value.lstrip("\n")
            return width - (len(text) - len(text.lstrip(" \t")))
    return 0
