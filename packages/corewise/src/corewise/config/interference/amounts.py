"""Amounts with their units, read exactly: ``5GB/s``, ``4MiB``, ``95ns``, ``1%``, ``5m``.

A unit is part of an amount and never guessed: a number without one is an error, except 0. ``G`` is 10^9 and
``Gi`` 2^30, as everywhere in Kubernetes; ``B`` is bytes. Parts of a byte are rounded up, as Kubernetes does.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from types import MappingProxyType

from corewise.config.decoding import Decoder, Place, did_you_mean, shown
from corewise.config.json_text import Located, Positions, TextReading
from corewise.quantities import MILLI, Quantity, QuantityError


def number(decoder: Decoder, place: Place, low: int, high: int) -> Decimal | None:
    """Read a number in ``low``..``high``, exactly."""
    if place.is_empty:
        return None
    if not isinstance(place.value, Decimal):
        decoder.error(place, f"must be a number in {low}..{high} without quotes, not {shown(place.value)}")
        return None
    if not low <= place.value <= high:
        decoder.error(place, f"{shown(place.value)} is outside {low}..{high}")
        return None
    return place.value


_AMOUNT = re.compile(r"([+-]?)([0-9]{1,18}(?:\.[0-9]{1,18})?) ?([^0-9.+\-\s]\S{0,15})?")
_PREFIXES = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
_BYTES = {f"{prefix}B": Fraction(factor) for prefix, factor in {**_PREFIXES, **_BINARY}.items()}
_DECIMAL = ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k"))
_NANO_PER_MILLI = 10**6
MOST_CPUS = 100_000


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit, and how much of the base unit it is."""

    name: str
    factor: float


@dataclass(frozen=True, slots=True)
class UnitScale:
    """The units of one kind of amount, and the range that is allowed, in base units."""

    units: Mapping[str, Fraction]
    example: str
    low: Fraction
    high: Fraction
    allowed: str


BANDWIDTH = UnitScale(
    units=MappingProxyType({f"{name}/s": factor for name, factor in _BYTES.items()}),
    example="5GB/s",
    low=Fraction(0),
    high=Fraction(100 * 10**12),
    allowed="0..100TB/s",
)
BYTES = UnitScale(
    units=MappingProxyType(_BYTES),
    example="0.2GB or 4MiB",
    low=Fraction(0),
    high=Fraction(4096 * 2**40),
    allowed="0..4096TiB",
)
LATENCY_UNITS: Mapping[str, Fraction] = MappingProxyType(
    {"ns": Fraction(1, 10**9), "us": Fraction(1, 10**6), "ms": Fraction(1, 1000), "s": Fraction(1)}
)
PERCENT = UnitScale(
    units=MappingProxyType({"%": Fraction(1, 100)}),
    example="1%",
    low=Fraction(0),
    high=Fraction(1, 2),
    allowed="0%..50%",
)
_TIME = {"ms": Fraction(1, 1000), "s": Fraction(1), "m": Fraction(60), "h": Fraction(3600)}


def duration(low: int, high: int, allowed: str) -> UnitScale:
    """Return the scale of a duration between two numbers of seconds."""
    return UnitScale(MappingProxyType(_TIME), "30s or 5m", Fraction(low), Fraction(high), allowed)


def amount(decoder: Decoder, place: Place, scale: UnitScale) -> Fraction | None:
    """Read an amount in base units; None if the place is empty or wrong."""
    if place.is_empty:
        return None
    if isinstance(place.value, Decimal) and place.value == 0:
        return _checked(decoder, place, scale, Fraction(0))
    match = _AMOUNT.fullmatch(place.value) if isinstance(place.value, str) else None
    if match is None or match[3] is None:
        decoder.error(place, _no_amount(place, scale))
        return None
    sign, number, unit = match.groups()
    factor = scale.units.get(unit)
    if factor is None:
        near = did_you_mean(unit, scale.units) or ":"
        message = (
            f'{shown(place.value)} has the unit "{unit}"{near} the units here are {", ".join(scale.units)}'
        )
        decoder.error(place, message)
        return None
    return _checked(decoder, place, scale, Fraction(f"{sign}{number}") * factor)


def whole_amount(decoder: Decoder, place: Place, scale: UnitScale) -> int | None:
    """Read an amount in whole base units; a part of one is rounded up."""
    value = amount(decoder, place, scale)
    return None if value is None else math.ceil(value)


def float_amount(decoder: Decoder, place: Place, scale: UnitScale) -> float | None:
    """Read an amount that need not be exact: a time, a tolerance."""
    value = amount(decoder, place, scale)
    return None if value is None else float(value)


def milli_cpus(decoder: Decoder, place: Place) -> int | None:
    """Read CPUs as Kubernetes writes them, ``1``, ``0.5`` or ``500m``, in milli-CPU."""
    if place.is_empty:
        return None
    try:
        nano = Quantity.parse(str(place.value)).nano
    except QuantityError:
        decoder.error(place, f"must be CPUs such as 1, 0.5 or 500m, not {shown(place.value)}")
        return None
    if nano < 0 or nano > MOST_CPUS * MILLI * _NANO_PER_MILLI or nano % _NANO_PER_MILLI:
        decoder.error(place, f"{shown(place.value)} is not in 0..{MOST_CPUS} CPUs, in steps of 1m")
        return None
    return nano // _NANO_PER_MILLI


def unit_of(decoder: Decoder, place: Place, units: Mapping[str, Fraction]) -> Unit | None:
    """Read the name of a unit in which a series is."""
    name = decoder.text(place)
    if name is None:
        return None
    if name not in units:
        near = did_you_mean(name, units) or ":"
        decoder.error(
            place, f"{shown(name)} is not a unit of this series{near} the units are {', '.join(units)}"
        )
        return None
    return Unit(name, float(units[name]))


def _no_amount(place: Place, scale: UnitScale) -> str:
    if isinstance(place.value, Decimal):
        return f"{shown(place.value)} has no unit: write {scale.example}"
    if isinstance(place.value, str) and _AMOUNT.fullmatch(place.value):
        return f"{shown(place.value)} has no unit: write {scale.example}"
    return f"must be a number with its unit such as {scale.example}, not {shown(place.value)}"


def _checked(decoder: Decoder, place: Place, scale: UnitScale, value: Fraction) -> Fraction | None:
    if scale.low <= value <= scale.high:
        return value
    decoder.error(place, f"{shown(place.value)} is outside {scale.allowed}")
    return None


def parse_bandwidth(text: str) -> int | str:
    """Return bytes/s, or what is wrong with the text."""
    decoder = Decoder(TextReading(Located(text.strip(), 0), (), complete=True, positions=Positions(text)))
    amount = whole_amount(decoder, decoder.root, BANDWIDTH)
    if decoder.problems:
        return decoder.problems[0].message
    return amount or f'"{text[:40]}" is not a bandwidth: write it as 107GB/s'


def bytes_text(number: float, per: str = "") -> str:
    """Return an amount of bytes with a decimal prefix: "9.95 GB", "10 GB/s"."""
    factor, prefix = next((each for each in _DECIMAL if abs(number) >= each[0]), (1, ""))
    return f"{number / factor:.4g} {prefix}B{per}"
