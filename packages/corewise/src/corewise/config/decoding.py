"""From JSON or YAML with positions to typed values, with every problem reported and none raised.

A Decoder walks the tree that :func:`corewise.config.json_text.read_json` or
:func:`corewise.config.yaml_text.read_yaml` has read. Each of its methods takes a Place and returns the value
there, or None if the place is empty (absent or null) or wrong; what is wrong is then in ``problems``. Unknown
keys are warnings, since configuration outlives programs; in a ``strict`` text they are errors, so that a
typing mistake is not taken for the default. Everything else is an error. Of either, ``MOST_PROBLEMS`` are
kept and the others counted, so that no text makes more work, or a longer answer, than it is long.

A number is exact: 0.6 in steps of 0.01 is 60. One with more decimal places than are counted is not rounded;
the problem names the nearest that is allowed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from itertools import islice
from typing import Generic, TypeVar

from corewise.config.json_text import BROKEN, Items, Located, Members, Path, TextReading, Value, path_text
from corewise.quantities import WHOLE, Ratio, Share

T = TypeVar("T")
E = TypeVar("E", bound=StrEnum)
MOST_PROBLEMS = 100
"""How many errors of a text are listed, and how many warnings; the others are counted."""
_LONGEST_SHOWN = 40
_LONGEST_PATH = 500
_PERCENT = 100


class Severity(StrEnum):
    """An error makes an entry of the text unusable, and for some keys the whole text; a warning does not."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem at one place of a text, and what to write there. Line and column count from 1."""

    severity: Severity
    line: int
    column: int
    path: str
    message: str

    def __str__(self) -> str:
        where = f"line {self.line}, column {self.column}"
        return f"{where}: {self.path}: {self.message}" if self.path else f"{where}: {self.message}"


@dataclass(frozen=True, slots=True)
class Parsed(Generic[T]):
    """A value, None if the text has errors, and all problems in the order of the text.

    ``rest`` is what the text says apart from its errors; None if it is not JSON, or has a member twice.
    """

    value: T | None
    problems: tuple[Problem, ...]
    rest: T | None = None

    @property
    def errors(self) -> tuple[Problem, ...]:
        return tuple(each for each in self.problems if each.severity is Severity.ERROR)

    @property
    def warnings(self) -> tuple[Problem, ...]:
        return tuple(each for each in self.problems if each.severity is Severity.WARNING)


@dataclass(frozen=True, slots=True)
class Place:
    """A value, its path, and the offset to name when it is wrong."""

    value: Value
    path: Path
    offset: int

    @classmethod
    def of(cls, located: Located, path: Path) -> Place:
        return cls(located.value, path, located.offset)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is to be decoded here: absent, null, or already reported as broken."""
        return self.value is None or self.value is BROKEN


class Decoder:
    """Typed access to a reading; collects problems."""

    def __init__(self, reading: TextReading, *, strict: bool = False) -> None:
        self._strict = strict
        self._positions = reading.positions
        self.is_complete = reading.complete
        self._is_sound = reading.complete and not reading.faults
        self.problems = [
            Problem(Severity.ERROR, fault.line, fault.column, fault.path, fault.message)
            for fault in reading.faults
        ]
        self._counts = {Severity.ERROR: len(self.problems), Severity.WARNING: 0}
        self._last: dict[Severity, tuple[int, int]] = {}
        self._looked_up = 0
        self.root = Place.of(reading.root or Located(BROKEN, 0), ())

    def finish(self, value: T) -> Parsed[T]:
        """Return the value, unless there are errors, with the problems in the order of the text."""
        problems = sorted(self.problems, key=lambda each: (each.line, each.column))
        for severity, place in self._last.items():
            left = self._counts[severity] - sum(each.severity is severity for each in self.problems)
            message = f"and {left:,} more {severity}{'s' * (left > 1)}, not listed here"
            problems.append(Problem(severity, *place, "", message))
        failed = self.error_count > 0
        return Parsed(None if failed else value, tuple(problems), value if self._is_sound else None)

    def position(self, place: Place) -> tuple[int, int]:
        return self._positions.at(place.offset)

    @property
    def error_count(self) -> int:
        """The number of errors so far."""
        return self._counts[Severity.ERROR]

    def near(self, word: str, known: Iterable[str]) -> str:
        """Return the suggestion of :func:`did_you_mean`, for as many words as problems are listed."""
        self._looked_up += 1
        return did_you_mean(word, known) if self._looked_up <= 2 * MOST_PROBLEMS else ""

    def error(self, place: Place, message: str) -> None:
        self._report(place, message, Severity.ERROR)

    def warn(self, place: Place, message: str) -> None:
        self._report(place, message, Severity.WARNING)

    def _report(self, place: Place, message: str, severity: Severity) -> None:
        line, column = self.position(place)
        self._counts[severity] += 1
        if self._counts[severity] > MOST_PROBLEMS:
            self._last[severity] = max((line, column), self._last.get(severity, (0, 0)))
            return
        path = path_text(place.path)
        if len(path) > _LONGEST_PATH:
            path = f"{path[:_LONGEST_PATH]}…"
        self.problems.append(Problem(severity, line, column, path, message))

    def entries(self, place: Place) -> list[tuple[Place, Place]]:
        """Return the key and the value of each member of an object."""
        if place.is_empty:
            return []
        if not isinstance(place.value, Members):
            self.error(place, f"must be an object {{...}}, not {shown(place.value)}")
            return []
        return [
            (Place(member.key, (*place.path, member.key), member.offset), Place.of(member.value, path))
            for member in place.value
            for path in [(*place.path, member.key)]
        ]

    def fields(self, place: Place, known: Iterable[str]) -> Fields:
        """Return the known members of an object; report each of the others."""
        names = list(known)
        found: dict[str, Place] = {}
        for key, value in self.entries(place):
            name = str(key.path[-1])
            if name in names:
                found[name] = value
                continue
            near = self.near(name, names)
            if self._strict:
                self.error(
                    key, f"unknown key{near}" if near else f"unknown key: known here are {', '.join(names)}"
                )
            else:
                self.warn(key, f"unknown key{near}")
        return Fields(place, found)

    def items(self, place: Place) -> list[Place]:
        if place.is_empty:
            return []
        if not isinstance(place.value, Items):
            self.error(place, f"must be a list [...], not {shown(place.value)}")
            return []
        return [Place.of(item, (*place.path, index)) for index, item in enumerate(place.value)]

    def text(self, place: Place) -> str | None:
        if place.is_empty or isinstance(place.value, str):
            return place.value if isinstance(place.value, str) else None
        self.error(place, f"must be a string in double quotes, not {shown(place.value)}")
        return None

    def flag(self, place: Place) -> bool | None:
        if place.is_empty or isinstance(place.value, bool):
            return place.value if isinstance(place.value, bool) else None
        self.error(place, f"must be true or false, without quotes, not {shown(place.value)}")
        return None

    def choice(self, place: Place, choices: type[E]) -> E | None:
        """Read one of the values of an enum."""
        word = self.text(place)
        known = [each.value for each in choices]
        if word is None or word in known:
            return None if word is None else choices(word)
        hint = self.near(word, known) or f": write {' or '.join(known)}"
        self.error(place, f"{shown(word)} is not a known value{hint}")
        return None

    def ratio(
        self, place: Place, smallest: Ratio, largest: Ratio, hint: str = "", hint_above: str = ""
    ) -> Ratio | None:
        """Read a JSON number in ``smallest``..``largest``; a third decimal is cut off, with a warning."""
        form = NumberForm(f"{smallest}..{largest}", 2, two_places, hint, cuts=True, hint_above=hint_above)
        hundredths = self._number(place, Decimal(str(smallest)), Decimal(str(largest)), form)
        return None if hundredths is None else Ratio(hundredths)

    def share(
        self, place: Place, smallest: Share, largest: Share = WHOLE, *, places: int = 4, hint: str = ""
    ) -> Share | None:
        """Read a JSON number with at most ``places`` decimal places in ``smallest``..``largest``."""
        form = NumberForm(
            f"{smallest}..{largest}", places, lambda text: str(Share.parse(text)), hint, is_share=True
        )
        steps = self._number(place, Decimal(str(smallest)), Decimal(str(largest)), form)
        return None if steps is None else Share(steps * 10 ** (4 - places))

    def whole(self, place: Place, smallest: int, largest: int, hint: str = "") -> int | None:
        """Read a whole JSON number in ``smallest``..``largest``."""
        form = NumberForm(f"{smallest}..{largest}", 0, lambda text: str(int(text)), hint)
        return self._number(place, Decimal(smallest), Decimal(largest), form)

    def _number(self, place: Place, low: Decimal, high: Decimal, form: NumberForm) -> int | None:
        """Return the number in units of its last decimal place."""
        if place.is_empty:
            return None
        if not isinstance(place.value, Decimal):
            self.error(place, f"{not_a_number(place.value, form)} in {form.allowed}")
            return None
        # What is cut off does not count: 10.009 is 10.00.
        beyond = place.value >= high + Decimal(1).scaleb(-form.places) if form.cuts else place.value > high
        if place.value < low or beyond:
            hint = form.hint if place.value < low else form.hint_above
            why = f": {hint}" if hint else ""
            if form.is_share and high < place.value <= _PERCENT and place.value == int(place.value):
                why = f": {int(place.value)} % is {(place.value / _PERCENT):.2f}"
            self.error(place, f"{shown(place.value)} is outside {form.allowed}{why}")
            return None
        steps = steps_of(place.value, form.places)
        if steps.denominator != 1 and form.cuts:
            counted = form.printed(str(Decimal(int(steps)).scaleb(-form.places)))
            self.warn(place, f"{shown(place.value)} has more than {form.described}: it counts as {counted}")
        elif steps.denominator != 1:
            near = form.printed(str(Decimal(round(steps)).scaleb(-form.places)))
            more = f"has more than {form.described}" if form.places else "is not a whole number"
            self.error(place, f"{shown(place.value)} {more}: write {near}")
            return None
        return int(steps)


@dataclass(frozen=True, slots=True)
class Fields:
    """The known members of one object."""

    owner: Place
    found: dict[str, Place]

    def __getitem__(self, name: str) -> Place:
        """Return the place of a member; an empty place if it is absent."""
        return self.found.get(name) or Place(None, (*self.owner.path, name), self.owner.offset)


@dataclass(frozen=True, slots=True)
class NumberForm:
    """The numbers allowed at a place: the range in words, decimal places, how one is printed.

    ``hint`` is about a smaller number, ``hint_above`` about a larger one. ``cuts``: further decimals are cut
    off, with a warning; else they are an error. ``is_share``: 0.6, not 60.
    """

    allowed: str
    places: int
    printed: Callable[[str], str]
    hint: str
    cuts: bool = False
    is_share: bool = False
    hint_above: str = ""

    @property
    def described(self) -> str:
        return f"{'two' if self.places == 2 else 'four'} decimal places"

    @property
    def wanted(self) -> str:
        return f"write one with at most {self.described}" if self.places else "write a whole one"


def listed(messages: Iterable[str]) -> list[str]:
    """Return ``MOST_PROBLEMS`` messages, and how many more there are."""
    every = iter(messages)
    first = list(islice(every, MOST_PROBLEMS))
    left = sum(1 for _ in every)
    return [*first, f"and {left:,} more, not listed here"] if left else first


def either(stated: T | None, default: T) -> T:
    """Return a value that was read, or the default where the place was empty or wrong."""
    return default if stated is None else stated


def two_places(text: str) -> str:
    """Print a ratio, which has two decimal places."""
    return str(Ratio.parse(text))


def steps_of(number: Decimal, places: int) -> Fraction:
    """Return a number of no great size in units of a decimal place. Of a speck (1e-999999999) a half does."""
    if 0 < number.copy_abs() < Decimal(1).scaleb(-places):
        return Fraction(1, 2)
    return Fraction(number) * 10**places if number else Fraction(0)


def shown(value: Value) -> str:
    """Print a JSON value for a message, at no great length."""
    match value:
        case Members():
            return "an object"
        case Items():
            return "a list"
        case bool():
            return str(value).lower()
        case str():
            return f'"{value[:_LONGEST_SHOWN]}"'
        case _:
            return str(value)[:_LONGEST_SHOWN]


def not_a_number(value: Value, form: NumberForm) -> str:
    """Return the correction of a value that is not a number; the range follows."""
    if not isinstance(value, str):
        return f"must be a number, not {shown(value)}: write one"
    text = value.strip()
    try:
        return f"{shown(value)} is text: write the number without quotes, {form.printed(text)},"
    except ValueError:
        pass
    with_point = text.replace(",", ".")
    try:
        return f"{shown(value)} is text, and has a comma: write the number {form.printed(with_point)},"
    except ValueError:
        return f"{shown(value)} is not a number: {form.wanted}"


def did_you_mean(word: str, known: Iterable[str], closeness: float = 0.6) -> str:
    """Return ``: did you mean "enable"?`` for the known word nearest to an unknown one, or nothing."""
    found = nearest_words(word, known, closeness)
    return f': did you mean "{found[0]}"?' if found else ""


def nearest_words(word: str, known: Iterable[str], closeness: float = 0.6, most: int = 1) -> list[str]:
    """Return the known words spelled most like a word, in upper or lower case, the nearest first."""
    from difflib import get_close_matches  # noqa: PLC0415 - only for what is misspelled

    by_lower = {name.lower(): name for name in known}
    return [by_lower[each] for each in get_close_matches(word.lower(), by_lower, n=most, cutoff=closeness)]
