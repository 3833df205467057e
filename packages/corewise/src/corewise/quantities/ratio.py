"""Ratios in whole hundredths and shares in whole ten-thousandths, and the exact arithmetic of amplification.

A normalization or amplification ratio has two decimals and is at least 1.00. Two ratios differ if and only if
their hundredths differ. Of what a user states, in the ConfigMap or in the annotation of the amplification
ratio, further decimals are cut off with a warning: so a ratio never offers more than was stated. Rounding
happens in three places and each says how: products and quotients of ratios half-even, amplified amounts down
(never promise what is not there), amounts needed up.

A share is a part of an amount, 0.0000 to 1.0000. Taking a share rounds down: never more than there is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal
from fractions import Fraction

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


def ratio_quotient(a: Ratio, b: Ratio) -> Ratio:
    """Divide two ratios and round half-even to hundredths.

    Raises:
        ZeroDivisionError: if the second ratio is 0.00.
    """
    return Ratio(round(Fraction(a.hundredths * _HUNDRED, b.hundredths)))


def amplify(amount: int, ratio: Ratio) -> int:
    """Return floor(amount x ratio), exactly. The amount is in milli-CPU or bytes; so is the result."""
    return amount * ratio.hundredths // _HUNDRED


def deamplified_ceil(amount: int, ratio: Ratio) -> int:
    """Return ceil(amount / ratio), exactly.

    Raises:
        ZeroDivisionError: if the ratio is 0.00.
    """
    return -(-amount * _HUNDRED // ratio.hundredths)


_SHARE = re.compile(r"[0-9]{1,9}(?:\.[0-9]+)?")
_WHOLE = 10_000
_PLACES = 4
_LEAST_PLACES = 2
_STEP = Decimal("0.0001")
_FORM = "write a decimal number from 0.00 to 1.00, such as 0.60"


class ShareError(ValueError):
    """Not a share: a plain decimal number from 0 to 1 with at most four places."""


@dataclass(frozen=True, slots=True, order=True)
class Share:
    """A part of a whole in ten-thousandths: ``Share(6000)`` is 0.60.

    Raises:
        ShareError: outside 0..10000.
    """

    ten_thousandths: int

    def __post_init__(self) -> None:
        if not 0 <= self.ten_thousandths <= _WHOLE:
            raise ShareError(f"{self.ten_thousandths} ten-thousandths are not a share: {_FORM}")

    @classmethod
    def parse(cls, text: str) -> Share:
        """Read a plain decimal number ("0.6", "0.60", "1").

        Digits beyond the fourth decimal must be zeros: a share is never silently rounded on the way in.

        Raises:
            ShareError: for anything else, among it "NaN", "60%", "1.01", "-0.1" and "0.00001".
        """
        if not _SHARE.fullmatch(text):
            raise ShareError(f"{text!r} is not a share: {_FORM}")
        whole, _, fraction = text.partition(".")
        if fraction[_PLACES:].strip("0"):
            raise ShareError(f"{text!r} has more than four decimal places")
        ten_thousandths = int(whole) * _WHOLE + int((fraction + "0" * _PLACES)[:_PLACES])
        if ten_thousandths > _WHOLE:
            raise ShareError(f"{text!r} is more than the whole: {_FORM}")
        return cls(ten_thousandths)

    @classmethod
    def rounded(cls, value: Decimal) -> Share:
        """Round half-even to four places, for numbers that other programs state.

        Raises:
            ShareError: if the value is not in 0..1.
        """
        if not value.is_finite() or not 0 <= value <= 1:
            raise ShareError(f"{value} is not a share: {_FORM}")
        return cls(int(value.quantize(_STEP, rounding=ROUND_HALF_EVEN).scaleb(_PLACES)))

    @property
    def fraction(self) -> Fraction:
        """The exact value."""
        return Fraction(self.ten_thousandths, _WHOLE)

    def of(self, amount: int) -> int:
        """Return floor(amount x share), exactly, in the unit of the amount."""
        return amount * self.ten_thousandths // _WHOLE

    def __str__(self) -> str:
        whole, rest = divmod(self.ten_thousandths, _WHOLE)
        digits = f"{rest:04d}".rstrip("0").ljust(_LEAST_PLACES, "0")
        return f"{whole}.{digits}"


NOTHING = Share(0)
WHOLE = Share(_WHOLE)
