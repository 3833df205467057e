"""Ratios are whole hundredths, and amplification is exact."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from corewise.quantities import ONE, Ratio, RatioError, amplify, deamplified_ceil, ratio_product

ratios = st.integers(100, 1000).map(Ratio)
amounts = st.integers(0, 2**63 - 1)

REFUSED = [
    *("", "NaN", "nan", "inf", "one", "1,2", "1e0", "+1", "-1", " 1", "1 ", "1.", ".5", "0x1", "1_0"),
    *("1.005", "1.2.3", "\N{ARABIC-INDIC DIGIT ONE}", "9" * 10),
]


@pytest.mark.parametrize(
    ("text", "hundredths"),
    [("1", 100), ("1.2", 120), ("1.20", 120), ("1.2000", 120), ("0.99", 99), ("5.01", 501), ("10.00", 1000)],
)
def test_a_plain_decimal_number_is_a_ratio(text: str, hundredths: int) -> None:
    assert Ratio.parse(text) == Ratio(hundredths)


@pytest.mark.parametrize("text", REFUSED)
def test_anything_else_is_refused_with_the_text_named(text: str) -> None:
    with pytest.raises(RatioError) as refusal:
        Ratio.parse(text)
    assert repr(text) in str(refusal.value)


@given(st.integers(0, 10**6))
def test_printed_ratio_has_two_decimals_and_round_trips(hundredths: int) -> None:
    text = str(Ratio(hundredths))
    assert Ratio.parse(text) == Ratio(hundredths)
    assert len(text.partition(".")[2]) == 2


@pytest.mark.parametrize(
    ("value", "printed"),
    [
        ("1.2", "1.20"),
        ("1.005", "1.00"),
        ("1.015", "1.02"),
        ("1.0051", "1.01"),
        ("1.00500000000000000000000000000000000000001", "1.01"),
        ("1e-999999", "0.00"),
        ("-0.0", "0.00"),
    ],
)
def test_other_programs_numbers_are_rounded_half_even_once(value: str, printed: str) -> None:
    assert str(Ratio.rounded(Decimal(value))) == printed


@pytest.mark.parametrize("value", ["NaN", "sNaN", "Infinity", "-0.01", "1e9", "1e999999"])
def test_numbers_that_are_no_ratio_are_refused(value: str) -> None:
    with pytest.raises(RatioError):
        Ratio.rounded(Decimal(value))


@given(ratios, ratios)
@example(Ratio(105), Ratio(110))
@example(Ratio(115), Ratio(110))
def test_a_product_is_rounded_half_even_to_hundredths(a: Ratio, b: Ratio) -> None:
    exact = Fraction(a.hundredths, 100) * Fraction(b.hundredths, 100)
    assert ratio_product(a, b).hundredths == round(exact * 100)
    assert ratio_product(a, ONE) == a


@given(amounts, ratios)
def test_amplified_amounts_round_down_and_back_up(amount: int, ratio: Ratio) -> None:
    exact = Fraction(ratio.hundredths, 100)
    amplified = amplify(amount, ratio)
    assert amplified <= amount * exact < amplified + 1
    needed = deamplified_ceil(amount, ratio)
    assert needed - 1 < amount / exact <= needed or amount == needed == 0
    assert deamplified_ceil(amplified, ratio) <= amount


@given(amounts, amounts, ratios)
def test_amplification_keeps_order(a: int, b: int, ratio: Ratio) -> None:
    assert (amplify(a, ratio) <= amplify(b, ratio)) or a > b
    assert amplify(a, ONE) == a
    assert amplify(a, ratio) >= a


@given(st.text(max_size=20))
def test_any_text_is_a_ratio_or_refused(text: str) -> None:
    try:
        ratio = Ratio.parse(text)
    except RatioError:
        return
    assert ratio.hundredths >= 0
