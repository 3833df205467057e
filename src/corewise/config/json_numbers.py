"""JSON numbers as whole numbers of their last decimal place, and what to say of those that are not.

A number is exact: 0.6 in steps of 0.01 is 60. One with more places than are counted is not rounded, but told
with the nearest that is allowed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from corewise.config.json_tree import Items, Members, Value
from corewise.quantities import Ratio

_LONGEST_SHOWN = 40


@dataclass(frozen=True, slots=True)
class Form:
    """What numbers are allowed at a place: the range in words, decimal places, how one is printed."""

    allowed: str
    places: int
    printed: Callable[[str], str]
    hint: str

    @property
    def described(self) -> str:
        return f"{_COUNTS[self.places]} decimal places"

    @property
    def wanted(self) -> str:
        return f"write one with at most {self.described}" if self.places else "write a whole one"


_COUNTS = {2: "two", 4: "four"}


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


def not_a_number(value: Value, form: Form) -> str:
    """Say what to write instead of a value that is no number; the range is to follow."""
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
