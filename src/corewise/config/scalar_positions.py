"""Where in a file each character of a quoted, folded or indented text stands.

JSON within YAML is written as a block (``|``, ``>``) or in quotes, with escapes and folded lines. To say at
which line and column of the *file* the 17th character of the *value* stands, the source of the scalar and its
value are walked side by side. The walk checks every character; where the two do not fit, all positions
are that of the scalar's start, which is coarse but never wrong.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import yaml

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
