"""Shares are whole ten-thousandths of an amount, and taking one is exact."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewise.quantities import NOTHING, WHOLE, Share, ShareError

shares = st.integers(0, 10_000).map(Share)

REFUSED = [
    *("", "NaN", "inf", "60%", "0,6", "1e0", "+1", "-0.1", " 1", "1 ", "1.", ".5", "0x1", "0_1"),
    *("1.0001", "2", "0.00001", "0.60001", "\N{ARABIC-INDIC DIGIT ONE}", "9" * 10),
]


@pytest.mark.parametrize(
    ("text", "ten_thousandths", "printed"),
    [
        ("0", 0, "0.00"),
        ("0.6", 6000, "0.60"),
        ("0.60", 6000, "0.60"),
        ("0.6000000", 6000, "0.60"),
        ("0.125", 1250, "0.125"),
        ("0.0001", 1, "0.0001"),
        ("1", 10_000, "1.00"),
        ("1.0000", 10_000, "1.00"),
    ],
)
def test_plain_decimal_up_to_one_is_a_share(text: str, ten_thousandths: int, printed: str) -> None:
    assert Share.parse(text) == Share(ten_thousandths)
    assert str(Share(ten_thousandths)) == printed


@pytest.mark.parametrize("text", REFUSED)
def test_anything_else_is_refused_with_the_text_named(text: str) -> None:
    with pytest.raises(ShareError) as refusal:
        Share.parse(text)
    assert repr(text) in str(refusal.value)


@pytest.mark.parametrize("ten_thousandths", [-1, 10_001])
def test_share_outside_zero_to_one_is_refused(ten_thousandths: int) -> None:
    with pytest.raises(ShareError):
        Share(ten_thousandths)


@pytest.mark.parametrize(
    ("value", "printed"),
    [("0.6", "0.60"), ("0.00005", "0.00"), ("0.00015", "0.0002"), ("1e-999999", "0.00"), ("1.0", "1.00")],
)
def test_other_programs_numbers_are_rounded_half_even_once(value: str, printed: str) -> None:
    assert str(Share.rounded(Decimal(value))) == printed


@pytest.mark.parametrize("value", ["NaN", "sNaN", "Infinity", "-0.0001", "1.00001", "1e999999"])
def test_numbers_that_are_no_share_are_refused(value: str) -> None:
    with pytest.raises(ShareError):
        Share.rounded(Decimal(value))


@given(shares, st.integers(0, 2**63 - 1))
def test_share_of_amount_is_exact_and_rounded_down(share: Share, amount: int) -> None:
    taken = share.of(amount)
    assert taken <= amount * share.fraction < taken + 1
    assert NOTHING.of(amount) == 0
    assert WHOLE.of(amount) == amount


@given(shares, shares)
def test_printed_share_round_trips_and_orders_by_value(a: Share, b: Share) -> None:
    assert Share.parse(str(a)) == a
    assert a.fraction == Fraction(str(a))
    assert (a < b) is (a.fraction < b.fraction)
