"""Shares as whole ten-thousandths: what part of an amount is taken, 0.0000 to 1.0000.

A Ratio says how many times as much one thing is as another and starts at 1.00; a Share never exceeds the
whole. Taking a share rounds down: never more than there is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal
from fractions import Fraction

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
            raise ShareError(f"{self.ten_thousandths} ten-thousandths are no share: {_FORM}")

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
