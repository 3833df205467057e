"""Ratios as whole hundredths, and the exact arithmetic of amplification.

A normalization or amplification ratio has two decimals and is at least 1.00. Two ratios differ if and only if
their hundredths differ. Rounding happens in three places and each says how: products of ratios half-even,
amplified amounts down (never promise what is not there), amounts needed up.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal

_RATIO = re.compile(r"[0-9]{1,9}(?:\.[0-9]+)?")
_HUNDRED = 100
_HUNDREDTH = Decimal("0.01")


class RatioError(ValueError):
    """The text is not a ratio: a plain decimal number such as "1.20"."""


@dataclass(frozen=True, slots=True, order=True)
class Ratio:
    """A non-negative ratio in hundredths: ``Ratio(120)`` is 1.20.

    The type allows every size; what a ratio may be where (at least 1.00, at most 5.00 or 10.00) is a rule of
    the capability that uses it.
    """

    hundredths: int

    @classmethod
    def parse(cls, text: str) -> Ratio:
        """Read a plain decimal number ("1", "1.2", "1.20").

        Digits beyond the second decimal must be zeros: a ratio is never silently rounded on the way in.

        Raises:
            RatioError: for anything else, among it "NaN", "1,2", "1e0", "+1", " 1" and "1.005".
        """
        if not _RATIO.fullmatch(text):
            raise RatioError(f"{text!r} is not a ratio: write a decimal number with two places, such as 1.20")
        whole, _, fraction = text.partition(".")
        if fraction[2:].strip("0"):
            raise RatioError(f"{text!r} has more than two decimal places: a ratio counts in hundredths")
        return cls(int(whole) * _HUNDRED + int((fraction + "00")[:2]))

    @classmethod
    def rounded(cls, value: Decimal) -> Ratio:
        """Round half-even to hundredths, for values that arrive as JSON numbers from other programs.

        Raises:
            RatioError: if the value is negative, infinite, NaN or absurdly large.
        """
        if not value.is_finite() or value < 0 or value >= Decimal(10**9):
            raise RatioError(f"{value} is not a ratio: write a decimal number with two places, such as 1.20")
        return cls(int(value.quantize(_HUNDREDTH, rounding=ROUND_HALF_EVEN).scaleb(2)))

    def __str__(self) -> str:
        return f"{self.hundredths // _HUNDRED}.{self.hundredths % _HUNDRED:02d}"


ONE = Ratio(_HUNDRED)


def ratio_product(a: Ratio, b: Ratio) -> Ratio:
    """Multiply two ratios and round half-even to hundredths."""
    quotient, remainder = divmod(a.hundredths * b.hundredths, _HUNDRED)
    half = _HUNDRED // 2
    round_up = remainder > half or (remainder == half and quotient % 2 == 1)
    return Ratio(quotient + round_up)


def amplify(amount: int, ratio: Ratio) -> int:
    """Return floor(amount x ratio), exactly. The amount is in milli-CPU or bytes; so is the result."""
    return amount * ratio.hundredths // _HUNDRED


def deamplified_ceil(amount: int, ratio: Ratio) -> int:
    """Return ceil(amount / ratio), exactly.

    Raises:
        ZeroDivisionError: if the ratio is 0.00.
    """
    return -(-amount * _HUNDRED // ratio.hundredths)
