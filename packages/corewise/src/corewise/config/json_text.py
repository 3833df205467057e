"""JSON read strictly: the position of every value, exact numbers, and all faults at once.

This JSON is written by hand into a ConfigMap. So a fault says where it is and what to write instead, and
reading goes on after it where that is safe: a second fault is better reported now than on the second try.
Where it is not safe the rest of the text is given up, and what was read before still counts.

Numbers are decimals, never binary floats. Their length and exponent are bounded: as an integer,
``1e30000000`` has thirty million digits. An object keeps its members in the order of the text; a key given
twice is a fault. Lines and columns count from 1, columns in characters. YAML is read into the same values
(:mod:`corewise.config.yaml_text`).

Whatever the text, reading ends with a Reading and never with an exception; nesting is limited.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple, TypeAlias

_FIELD = re.compile(r"[a-z][A-Za-z0-9]*")

Path: TypeAlias = tuple[str | int, ...]


class Broken:
    """Stands for a value whose text is not JSON; its fault is reported."""


BROKEN = Broken()


@dataclass(frozen=True, slots=True)
class Located:
    """A value and the offset at which it starts."""

    value: Value
    offset: int


class Member(NamedTuple):
    """One ``key: value`` of an object; ``offset`` is that of the key."""

    key: str
    offset: int
    value: Located


class Members(tuple[Member, ...]):
    """The members of an object in the order written; every key is there once."""

    __slots__ = ()


class Items(tuple[Located, ...]):
    """The items of an array."""

    __slots__ = ()


Value: TypeAlias = Members | Items | str | Decimal | bool | Broken | None


@dataclass(frozen=True, slots=True)
class Fault:
    """One place where the text is not the JSON it should be."""

    line: int
    column: int
    path: str
    message: str


@dataclass(frozen=True, slots=True)
class TextReading:
    """The content of a text. ``root`` is None if it has none; with faults it holds the readable part.

    ``complete`` is false if the rest of the text was given up.
    """

    root: Located | None
    faults: tuple[Fault, ...]
    complete: bool
    positions: Positions


class Positions:
    """Turns offsets into lines and columns."""

    def __init__(self, text: str) -> None:
        self._starts = [0, *(found.end() for found in re.finditer("\n", text))]

    def at(self, offset: int) -> tuple[int, int]:
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1

    def offset(self, line: int, column: int) -> int:
        """Return the offset of a place."""
        return self._starts[line - 1] + column - 1


def path_text(path: Path) -> str:
    """Print a path: ``nodeConfigs[0].ratioModel["Xeon 8269CY"].baseRatio``."""
    parts: list[str] = []
    for step in path:
        if isinstance(step, int):
            parts.append(f"[{step}]")
        elif _FIELD.fullmatch(step):
            parts.append(f".{step}" if parts else step)
        else:
            quoted = step.replace("\\", "\\\\").replace('"', '\\"')
            parts.append(f'["{quoted}"]')
    return "".join(parts)


DEEPEST = 32
MOST_FAULTS = 20
LONGEST_NUMBER = 1000
LARGEST_EXPONENT = 400
"""A little more than a binary float of 64 bits holds, which is what most readers of JSON have."""

_SPACE = re.compile(r"[ \t\n\r]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_DECIMAL_COMMA = re.compile(r"-?[0-9]+,[0-9]+(?=[ \t\n\r]*[,}])")
_WORD = re.compile(r"[^\s,:\[\]{}\"]+")
_PLAIN = re.compile(r'[^"\\\x00-\x1f\ud800-\udfff]*')
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_HEX = re.compile(r"[0-9a-fA-F]{4}")
_LITERALS = {"true": True, "false": False, "null": None}
_INSTEAD = {"True": "true", "TRUE": "true", "False": "false", "FALSE": "false", "None": "null", "nil": "null"}
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def number_of(text: str) -> Decimal | None:
    """Return the number that digits with a point and an exponent state; None if it is beyond the limits."""
    if len(text) > LONGEST_NUMBER:
        return None
    digits, has_exponent, exponent = text.lower().partition("e")
    if has_exponent and abs(int(exponent)) > LARGEST_EXPONENT:
        return Decimal(0) if not digits.strip("+-0.") else None
    return Decimal(text)


def beyond_limits(text: str) -> str:
    """Return the fault of a number for which :func:`number_of` returns None."""
    return (
        f"the number {text[:30]} is out of range: at most {LONGEST_NUMBER} characters, and an exponent "
        f"from -{LARGEST_EXPONENT} to {LARGEST_EXPONENT}"
    )


def read_json(text: str) -> TextReading:
    """Read one JSON value."""
    reader = _Reader(text)
    root = reader.document()
    return TextReading(root, tuple(reader.faults), not reader.given_up, reader.positions)


class _Reader:
    """A recursive descent over the text that keeps the open containers' path.

    Giving up means going to the end of the text: every open container then ends by itself.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.given_up = False
        self.path: list[str | int] = []
        self.faults: list[Fault] = []
        self.positions = Positions(text)

    def document(self) -> Located | None:
        if not self.peek():
            self.fault(self.at, "there is no JSON here: write an object, {...}")
            return None
        root = self.value()
        if self.peek():
            self.fault(self.at, f"nothing may follow the end of the JSON value, found {self.found()}")
        return root

    def fault(self, offset: int, message: str) -> None:
        if self.given_up:
            return
        self.faults.append(Fault(*self.positions.at(offset), path_text(tuple(self.path)), message))
        if len(self.faults) >= MOST_FAULTS:
            self.give_up(offset, "too many faults: the rest was not read")

    def give_up(self, offset: int, message: str) -> None:
        """Report a fault after which the text cannot be understood."""
        if not self.given_up:
            self.faults.append(Fault(*self.positions.at(offset), path_text(tuple(self.path)), message))
        self.given_up = True
        self.at = len(self.text)

    def peek(self) -> str:
        """Skip white space; return the character that follows, or "" at the end of the text."""
        found = _SPACE.match(self.text, self.at)
        self.at = found.end() if found else self.at
        return self.text[self.at : self.at + 1]

    def found(self) -> str:
        """Name what stands at the current place, for a message."""
        word = _WORD.match(self.text, self.at)
        what = word[0] if word else self.text[self.at : self.at + 1]
        if what == '"':
            return "a string"
        return repr(what[:30]) if what else "the end of the text"

    def value(self) -> Located:
        character = self.peek()
        start = self.at
        if character and character in "{[" and len(self.path) >= DEEPEST:
            self.give_up(start, f"nested deeper than {DEEPEST} levels")
            return Located(BROKEN, start)
        match character:
            case "{":
                return Located(self.members(), start)
            case "[":
                return Located(self.items(), start)
            case '"':
                return Located(self.string(), start)
            case _:
                return Located(self.scalar(), start)

    def scalar(self) -> Value:
        start = self.at
        word = _WORD.match(self.text, start)
        if self.path and isinstance(self.path[-1], str):
            word = _DECIMAL_COMMA.match(self.text, start) or word
        if word is None:
            self.give_up(start, f"a value is expected, found {self.found()}")
            return BROKEN
        self.at = word.end()
        if word[0] in _LITERALS:
            return _LITERALS[word[0]]
        if _NUMBER.fullmatch(word[0]):
            if (number := number_of(word[0])) is not None:
                return number
            self.fault(start, beyond_limits(word[0]))
            return BROKEN
        self.fault(start, _not_a_value(word[0]))
        return BROKEN

    def items(self) -> Items:
        found: list[Located] = []
        for index in self.elements("]"):
            self.path.append(index)
            found.append(self.value())
            self.path.pop()
        return Items(found)

    def members(self) -> Members:
        found: dict[str, Member] = {}
        for _ in self.elements("}"):
            start = self.at
            if self.peek() != '"':
                self.give_up(start, f"a key in double quotes is expected, found {self.found()}")
                break
            key = self.string()
            self.path.append(key)
            value = self.member_value()
            if key in found:
                self.fault(start, f"the key is given twice, first {self.above(found[key].offset, start)}")
            found.setdefault(key, Member(key, start, value))
            self.path.pop()
        return Members(found.values())

    def member_value(self) -> Located:
        if self.peek() == ":":
            self.at += 1
        else:
            self.give_up(self.at, f"':' is expected after the key, found {self.found()}")
        return self.value()

    def elements(self, closing: str) -> Iterator[int]:
        """Step from element to element of the container that opens here, and past its end."""
        opened = self.at
        self.at += 1
        index = 0
        while self.more(opened, closing, first=index == 0):
            yield index
            index += 1
        self.at += 1

    def more(self, opened: int, closing: str, *, first: bool) -> bool:
        """Say whether another element follows; step over the comma before it."""
        character = self.peek()
        if not first and character == ",":
            comma = self.at
            self.at += 1
            character = self.peek()
            if character == closing:
                self.fault(comma, f"no ',' is allowed before {closing!r}")
        elif not first and character == '"':
            self.fault(self.at, f"',' is missing before {self.found()}")
        elif not first and character not in {closing, ""}:
            self.give_up(self.at, f"',' or {closing!r} is expected, found {self.found()}")
        if not character:
            where = self.above(opened, self.at)
            self.give_up(self.at, f"{closing!r} is missing: {self.text[opened]!r} {where} is not closed")
        return character != closing and not self.given_up

    def above(self, offset: int, place: int) -> str:
        """Return the distance above ``place``, in words: in a file around the JSON, its lines mislead."""
        lines = self.positions.at(place)[0] - self.positions.at(offset)[0]
        return f"{lines} line{'' if lines == 1 else 's'} above" if lines else "on the same line"

    def string(self) -> str:
        opened = self.at
        self.at += 1
        parts: list[str] = []
        while True:
            plain = _PLAIN.match(self.text, self.at)
            if plain:
                parts.append(plain[0])
                self.at = plain.end()
            character = self.text[self.at : self.at + 1]
            if character == '"':
                self.at += 1
                break
            if character in {"", "\n"}:
                self.give_up(opened, "the string is not closed: '\"' is missing at the end of the line")
                break
            parts.append(self.escape() if character == "\\" else self.odd_character(character))
        return "".join(parts)

    def odd_character(self, character: str) -> str:
        instead = "\\t" if character == "\t" else f"\\u{ord(character):04x}"
        self.fault(self.at, f"{character!r} may not stand in a string as it is: write {instead}")
        self.at += 1
        return " "

    def escape(self) -> str:
        start = self.at
        kind = self.text[start + 1 : start + 2]
        if kind == "u":
            return self.unicode_escape()
        self.at += 2
        if kind not in _ESCAPES:
            self.fault(start, f"{repr(kind)[1:-1]!r} cannot be escaped: a backslash is written \\\\")
        return _ESCAPES.get(kind, "\\" + kind)

    def unicode_escape(self) -> str:
        start = self.at
        unit = self.code_unit()
        if 0xD800 <= unit < 0xDC00 and self.text.startswith("\\u", self.at):
            after_high = self.at
            low = self.code_unit()
            if 0xDC00 <= low < 0xE000:
                return chr(0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00))
            self.at = after_high
        if 0xD800 <= unit < 0xE000:
            self.fault(start, "half of a surrogate pair stands alone")
            return _REPLACEMENT
        return chr(unit)

    def code_unit(self) -> int:
        digits = _HEX.match(self.text, self.at + 2)
        if digits is None:
            self.give_up(self.at, "\\u needs four hexadecimal digits")
            return ord(_REPLACEMENT)
        self.at = digits.end()
        return int(digits[0], 16)


def _not_a_value(word: str) -> str:
    if word in _INSTEAD:
        return f"{word} is not JSON: write {_INSTEAD[word]}"
    shown = word[:30]
    if word.lstrip("+-").lower() in {"nan", "inf", "infinity"}:
        return f"{shown} is not a JSON number: write a decimal number such as 1.20"
    if "," in word:
        return f"{shown} is not a JSON number: write a point, not a comma, as in {shown.replace(',', '.')}"
    if word[0] in "+-." or word[0].isdigit():
        return f"{shown!r} is not a JSON number: write digits with at most one point, such as 1.20"
    return f"{shown!r} is not JSON: write strings in double quotes"
