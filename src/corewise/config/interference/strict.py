"""Members of an object of which every one must be known: a slip of the pen is not the default."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from enum import StrEnum
from typing import TypeVar

from corewise.config.decoding import Decoder, Fields, Place, Severity, did_you_mean
from corewise.config.json_numbers import shown

E = TypeVar("E", bound=StrEnum)


def strict_fields(decoder: Decoder, place: Place, known: Iterable[str]) -> Fields:
    """Return the known members of an object; tell each of the others as an error."""
    names = list(known)
    found: dict[str, Place] = {}
    for key, value in decoder.entries(place):
        name = str(key.path[-1])
        if name in names:
            found[name] = value
        else:
            near = did_you_mean(name, names) or f": known here are {', '.join(names)}"
            decoder.tell(key, f"unknown key{near}")
    return Fields(place, found)


def number(decoder: Decoder, place: Place, low: int, high: int) -> Decimal | None:
    """Read a number in ``low``..``high``, exactly."""
    if place.is_empty:
        return None
    if not isinstance(place.value, Decimal):
        decoder.tell(place, f"must be a number in {low}..{high} without quotes, not {shown(place.value)}")
        return None
    if not low <= place.value <= high:
        decoder.tell(place, f"{shown(place.value)} is outside {low}..{high}")
        return None
    return place.value


def word(decoder: Decoder, place: Place, choices: type[E], default: E) -> E:
    """Read one of the values of an enum."""
    found = decoder.choice(place, choices)
    return default if found is None else found


def warn(decoder: Decoder, place: Place, message: str) -> None:
    """Tell a problem that leaves the text usable."""
    decoder.tell(place, message, Severity.WARNING)
