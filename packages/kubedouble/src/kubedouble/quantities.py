"""Quantities: amounts as objects state them.

A quantity is a decimal number with a suffix: decimal SI (``n u m "" k M G T P E``), binary SI (``Ki`` to
``Ei``) or a decimal exponent (``e3``). Amounts are exact integers of 1e-9 (nano), the finest step the API
has; finer input is rounded up in magnitude. A magnitude in binary SI is capped to 2**63-1. The canonical form
has no fraction and the largest suffix of its family that keeps it so; a binary amount below 1024 or with a
fraction is printed in decimal SI. Refused though apimachinery takes it: a text without any digit (there ``m``
is 0), and an exponent beyond 63.

Source: k8s.io/apimachinery/pkg/api/resource/{quantity,amount}.go.
"""

from __future__ import annotations

import re
from functools import lru_cache

NANO = 10**9
_GRAMMAR = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?(.*)", re.DOTALL)
_EXPONENT = re.compile(r"[eE][+-]?[0-9]{1,9}")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_DECIMAL_SUFFIX = {power: suffix for suffix, power in _DECIMAL.items()}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
LARGEST = 2**63 - 1
_LARGEST_EXPONENT = 63
_LONGEST = 64
_FINEST = -9
_DIGITS, _BINARY_DIGITS = 18, 14  # as many fit in 64 bits, says Kubernetes' parser


@lru_cache(maxsize=8192)
def parse_quantity(text: str) -> tuple[int, str]:
    """Return the amount in units of 1e-9, and its canonical text.

    Raises:
        ValueError: if the text is not a quantity.
    """
    sign, whole, fraction, suffix = _split(text)
    binary, exponent = suffix in _BINARY, _EXPONENT.fullmatch(suffix) is not None
    digits = int(whole + fraction) << _BINARY.get(suffix, 0)
    power = _power(suffix) + 9 - len(fraction)
    nano = digits * 10**power if power >= 0 else -(-digits // 10**-power)
    if binary:
        nano = min(nano, LARGEST * NANO)
    binary = binary and nano >= 1024 * NANO and nano % NANO == 0
    canonical = _binary_text(nano // NANO) if binary else _decimal_text(nano, exponent=exponent)
    return (-nano, "-" + canonical) if sign == "-" and nano else (nano, canonical)


def parse_as_stored(text: str) -> tuple[int, int, bool]:
    """Return number, power of ten, and whether Kubernetes' parser keeps them as a decimal of any length.

    It does so for what may not fit in 64 bits, for a fraction with a binary suffix, and below 1e-9. Otherwise
    it keeps a 64-bit integer.

    Raises:
        ValueError: if the text is not a quantity.
    """
    nano, _ = parse_quantity(text)
    _, whole, fraction, suffix = _split(text)
    whole, bits = whole.lstrip("0"), _BINARY.get(suffix, 0)
    number, power = int(whole + fraction or "0") << bits, _power(suffix) - len(fraction)
    if bits:
        decimal = bool(fraction) or len(whole) + bits * 3 // 10 > _BINARY_DIGITS or number > LARGEST
    else:
        decimal = len(whole + fraction) > _DIGITS or power < _FINEST
    if power < _FINEST or number > LARGEST * 10**-power:
        number, power = abs(nano), _FINEST
    return (-number if nano < 0 else number), power, decimal


def _split(text: str) -> tuple[str, str, str, str]:
    """Return sign, digits before and after the point, and suffix."""
    match = _GRAMMAR.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None or not (match[2] or match[3]):
        raise ValueError(text)
    sign, whole, fraction, suffix = match.groups(default="")
    return sign, whole, fraction, suffix


def _power(suffix: str) -> int:
    """Return the power of ten that a suffix stands for; 0 for a power of two."""
    power = (
        int(suffix[1:]) if _EXPONENT.fullmatch(suffix) else 0 if suffix in _BINARY else _DECIMAL.get(suffix)
    )
    if power is None or abs(power) > _LARGEST_EXPONENT:
        raise ValueError(suffix)
    return power


def _binary_text(units: int) -> str:
    for suffix, power in reversed(_BINARY.items()):
        if units % (1 << power) == 0:
            return f"{units >> power}{suffix}"
    return str(units)


def _decimal_text(nano: int, *, exponent: bool) -> str:
    if nano == 0:
        return "0"
    power = -9
    while nano % 1000 == 0:
        nano //= 1000
        power += 3
    if exponent or power > _DECIMAL["E"]:
        return f"{nano}e{power}" if power else str(nano)
    return f"{nano}{_DECIMAL_SUFFIX[power]}"
