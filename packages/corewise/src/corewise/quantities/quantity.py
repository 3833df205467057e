"""Units as types, and Kubernetes quantities: read and printed as apimachinery's ``resource.Quantity`` does.

A quantity is a decimal number with a suffix: decimal SI (``n u m "" k M G T P E``), binary SI (``Ki`` to
``Ei``) or a decimal exponent (``e3``). Values are kept as exact integers of 1e-9 (nano), the finest step the
API has; finer input is rounded up in magnitude. A magnitude written in binary SI is capped to 2**63-1 (so
``12Ei`` is 9223372036854775807); the others are not. The canonical form has no fraction and the largest
suffix of its family that keeps it so; a binary amount below 1024 or with a fraction is printed in decimal SI.

Refused though apimachinery takes it: a text without any digit (there ``m`` is 0), and an exponent beyond 63.

kube-apiserver accepts amounts of any size from everybody who may create pods; the scheduler's columns, and
reports in JSON, are 64 bits wide. So every amount is bounded where it is read: ``LARGEST_MILLI`` and
``LARGEST_AMOUNT`` are more than any machine has, and less than what overflows in a sum. A pod's amount that
cannot be read counts as the largest too: if it counted as none, a pod that owns CPUs would own none. Such a
pod fills its node, so nothing more is placed there, and the reason AmountTooLarge says so.

Units cost nothing at run time; the type checker keeps them apart.

Source: k8s.io/apimachinery/pkg/api/resource/quantity.go.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from typing import Final, NewType

RawMilli = NewType("RawMilli", int)
"""Thousandths of a physical CPU, as the kernel counts CPUs."""

AmplifiedMilli = NewType("AmplifiedMilli", int)
"""Thousandths of a schedulable CPU: raw x amplification ratio, what the scheduler sees and pods request."""

Bytes = NewType("Bytes", int)
Microseconds = NewType("Microseconds", int)
Seconds = NewType("Seconds", float)

LONGEST_PERIOD: Final = Microseconds(1_000_000)
"""The longest period of a CFS quota that the kernel takes."""

MILLI: Final = 1000
"""Milli-CPU in a CPU."""

NANO: Final = 10**9
_NANO_POWER = 9
_LARGEST_BINARY = 2**63 - 1
_KIBI = 1024

_GRAMMAR = re.compile(r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<fraction>[0-9]*))?(?P<suffix>.*)", re.DOTALL)
_EXPONENT = re.compile(r"[eE][+-]?[0-9]{1,9}")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_DECIMAL_SUFFIX = {power: suffix for suffix, power in _DECIMAL.items()}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_BINARY_DESCENDING = sorted(_BINARY.items(), key=lambda item: -item[1])
_LARGEST_DECIMAL_SUFFIX = 18
_LARGEST_EXPONENT = 63
_LONGEST = 64


class QuantityError(ValueError):
    """The text is not a Kubernetes quantity."""


class Format(Enum):
    """The family of suffixes a quantity was written with, and is printed with."""

    DECIMAL_SI = "decimalSI"
    BINARY_SI = "binarySI"
    DECIMAL_EXPONENT = "decimalExponent"


@dataclass(frozen=True, slots=True, order=True)
class Quantity:
    """An exact amount of something, in units of 1e-9, with the suffix family it was written in.

    Equality and order are those of the amount: ``Quantity.parse("1000m") == Quantity.parse("1")``.
    """

    nano: int
    format: Format = field(default=Format.DECIMAL_SI, compare=False)

    @classmethod
    def parse(cls, text: str) -> Quantity:
        """Read a quantity.

        Raises:
            QuantityError: if the text is not a quantity; the message shows one that is.
        """
        match = _GRAMMAR.fullmatch(text) if len(text) <= _LONGEST else None
        if match is None or not (match["whole"] or match["fraction"]):
            raise QuantityError(f"{text[:_LONGEST]!r} is not a quantity: write 500m, 2, 1.5 or 16Gi")
        factor, power, form = _scale(match["suffix"], text)
        digits = int((match["whole"] or "") + (match["fraction"] or ""))
        nano = _scaled_up(digits * factor, power - len(match["fraction"] or "") + _NANO_POWER)
        if form is Format.BINARY_SI:
            nano = min(nano, _LARGEST_BINARY * NANO)
            form = Format.DECIMAL_SI if 0 < nano < NANO else form
        return cls(-nano if match["sign"] == "-" else nano, form)

    @classmethod
    def of_milli(cls, milli: int) -> Quantity:
        """Return a CPU amount given in milli-CPU."""
        return cls(milli * (NANO // MILLI))

    @classmethod
    def of_units(cls, units: int, like: Quantity | None = None) -> Quantity:
        """Return an amount of whole units (bytes, pods), printed in the suffix family of ``like``."""
        return cls(units * NANO, like.format if like else Format.DECIMAL_SI)

    @property
    def milli(self) -> int:
        """The amount in thousandths, rounded away from zero, as ``Quantity.MilliValue`` of the API does."""
        return _away_from_zero(self.nano, NANO // MILLI)

    @property
    def units(self) -> int:
        """The amount in whole units, rounded away from zero, as ``Quantity.Value`` of the API does."""
        return _away_from_zero(self.nano, NANO)

    def __str__(self) -> str:
        if self.format is Format.BINARY_SI and self.nano % NANO == 0 and abs(self.nano) >= _KIBI * NANO:
            return _print_binary(self.nano // NANO)
        return _print_decimal(self.nano, exponent=self.format is Format.DECIMAL_EXPONENT)


def _scale(suffix: str, text: str) -> tuple[int, int, Format]:
    """Return the binary factor and the power of ten that a suffix stands for."""
    if suffix in _DECIMAL:
        return 1, _DECIMAL[suffix], Format.DECIMAL_SI
    if suffix in _BINARY:
        return 1 << _BINARY[suffix], 0, Format.BINARY_SI
    if _EXPONENT.fullmatch(suffix):
        power = int(suffix[1:])
        if abs(power) > _LARGEST_EXPONENT:
            raise QuantityError(f"{text!r} has an exponent beyond {_LARGEST_EXPONENT}")
        return 1, power, Format.DECIMAL_EXPONENT
    raise QuantityError(
        f"{text!r} is not a quantity: unknown suffix {suffix!r}; the suffixes are "
        "n u m k M G T P E, Ki Mi Gi Ti Pi Ei, or an exponent such as e3"
    )


def _scaled_up(number: int, power: int) -> int:
    """Return ceil(number x 10**power)."""
    return number * 10**power if power >= 0 else _away_from_zero(number, 10**-power)


def _away_from_zero(number: int, divisor: int) -> int:
    return -(-number // divisor) if number >= 0 else number // divisor


def _print_binary(units: int) -> str:
    for suffix, power in _BINARY_DESCENDING:
        if units % (1 << power) == 0:
            return f"{units >> power}{suffix}"
    return str(units)


def _print_decimal(nano: int, *, exponent: bool) -> str:
    if nano == 0:
        return "0"
    power = -_NANO_POWER
    while nano % 1000 == 0:
        nano //= 1000
        power += 3
    if exponent or power > _LARGEST_DECIMAL_SUFFIX:
        return f"{nano}e{power}" if power else str(nano)
    return f"{nano}{_DECIMAL_SUFFIX[power]}"


_CPU: Final = "cpu"
LARGEST_MILLI: Final = 10**10
"""Milli-CPU: ten million CPUs. Linux runs on up to 8192, and a ratio of 10.00 makes 81920 of them. Times the
largest ratio that a record may state (10**6, in hundredths) it still fits into 64 bits; whole CPUs, so that
a pod which owns as many owns them all."""

LARGEST_AMOUNT: Final = 2**52
"""Of everything else, in its units: 4 PiB of memory."""


def bounded(resource: str, amount: int) -> int:
    """Return an amount (of cpu in milli) within 0 and the largest."""
    most = LARGEST_MILLI if resource == _CPU else LARGEST_AMOUNT
    return 0 if amount < 0 else min(amount, most)


def largest(resource: str) -> Quantity:
    """Return the largest amount of a resource."""
    return Quantity.of_milli(LARGEST_MILLI) if resource == _CPU else Quantity(LARGEST_AMOUNT * NANO)


def requested(resource: str, text: str | int) -> Quantity:
    """Read an amount that a pod states, once for all pods that state it; the largest if it cannot be read."""
    return largest(resource) if _is_too_long(text) else _requested(resource, text)


def _is_too_long(text: str | int) -> bool:
    """Whether a text is longer than any amount, and would only fill a cache."""
    return isinstance(text, str) and len(text) > _LONGEST


@lru_cache(maxsize=8192)
def _requested(resource: str, text: str | int) -> Quantity:
    try:
        return min(Quantity.parse(str(text)), largest(resource))
    except QuantityError:
        return largest(resource)


def requested_amounts(texts: Mapping[str, str | int] | None) -> dict[str, Quantity]:
    """Read the amounts that a pod requests; one that cannot be read counts as the largest."""
    return {resource: requested(resource, text) for resource, text in (texts or {}).items()}


def offered(text: str | int) -> Quantity | None:
    """Read an amount that a node offers, once for all nodes that state it; None if it cannot be read."""
    return None if _is_too_long(text) else _offered(text)


@lru_cache(maxsize=8192)
def _offered(text: str | int) -> Quantity | None:
    try:
        return Quantity.parse(str(text))
    except QuantityError:
        return None


def offered_amounts(texts: Mapping[str, str | int] | None) -> dict[str, Quantity]:
    """Read the amounts that a node offers; one that cannot be read is not offered."""
    return {
        resource: amount for resource, text in (texts or {}).items() if (amount := offered(text)) is not None
    }
