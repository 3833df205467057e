"""Quantities are what apimachinery's resource.Quantity makes of them.

The cases are those of k8s.io/apimachinery/pkg/api/resource/quantity_test.go where it has them.
"""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from corewise.quantities import Quantity, QuantityError
from corewise.quantities.quantity import NANO, Format

LARGEST_BINARY = 2**63 - 1

PARSED = {
    "0": (0, Format.DECIMAL_SI),
    "0Ki": (0, Format.BINARY_SI),
    "1": (1, Format.DECIMAL_SI),
    "1Ki": (1024, Format.BINARY_SI),
    "7Mi": (7 * 1024**2, Format.BINARY_SI),
    "3Ei": (3 * 1024**6, Format.BINARY_SI),
    "5n": (Fraction(5, 10**9), Format.DECIMAL_SI),
    "4u": (Fraction(4, 10**6), Format.DECIMAL_SI),
    "3m": (Fraction(3, 1000), Format.DECIMAL_SI),
    "50k": (50_000, Format.DECIMAL_SI),
    "2P": (2 * 10**15, Format.DECIMAL_SI),
    "1E": (10**18, Format.DECIMAL_SI),
    "12E": (12 * 10**18, Format.DECIMAL_SI),
    "1E-3": (Fraction(1, 1000), Format.DECIMAL_EXPONENT),
    "1e3": (1000, Format.DECIMAL_EXPONENT),
    "1E18": (10**18, Format.DECIMAL_EXPONENT),
    "1.3E+6": (1_300_000, Format.DECIMAL_EXPONENT),
    "0.5e-2": (Fraction(5, 1000), Format.DECIMAL_EXPONENT),
    "100.035k": (100_035, Format.DECIMAL_SI),
    "0.00050k": (Fraction(1, 2), Format.DECIMAL_SI),
    "0.1m": (Fraction(1, 10_000), Format.DECIMAL_SI),
    "100.035Ki": (Fraction(10_243_584, 100), Format.BINARY_SI),
    "0.05Gi": (Fraction(536_870_912, 10), Format.BINARY_SI),
    # finer than nano: up in magnitude
    "3.001n": (Fraction(4, 10**9), Format.DECIMAL_SI),
    "1.1E-9": (Fraction(2, 10**9), Format.DECIMAL_EXPONENT),
    "0.0000000001": (Fraction(1, 10**9), Format.DECIMAL_SI),
    "0.00000012345": (Fraction(124, 10**9), Format.DECIMAL_SI),
    "0.000000000001Ki": (Fraction(2, 10**9), Format.DECIMAL_SI),
    # binary SI saturates
    "9Ei": (LARGEST_BINARY, Format.BINARY_SI),
    "12Ei": (LARGEST_BINARY, Format.BINARY_SI),
    "9223372036854775807Ki": (LARGEST_BINARY, Format.BINARY_SI),
    # decimals do not
    "18446744073709551616": (2**64, Format.DECIMAL_SI),
    ".001": (Fraction(1, 1000), Format.DECIMAL_SI),
    "1.": (1, Format.DECIMAL_SI),
    "1.G": (10**9, Format.DECIMAL_SI),
}

PRINTED = {
    "1024Mi": "1Gi",
    "300Mi": "300Mi",
    "307200Ki": "300Mi",
    "1025024Mi": "1001Gi",
    "5Ki": "5Ki",
    "0.5Ki": "512",
    "1000M": "1G",
    "1000m": "1",
    "0.5": "500m",
    "1.08": "1080m",
    "1000u": "1m",
    "1080000000n": "1080m",
    ".001Ki": "1024m",
    ".000000001Ki": "1024n",
    "0.001T": "1G",
    "1234567M": "1234567M",
    "1000E": "1e21",
    "1.001Ki": "1025024m",
    "00": "0",
    "0Gi": "0",
    ".001e12": "1e9",
    "1000e-12": "1e-9",
    "1e1": "10",
    "1e4": "10e3",
    "1e21": "1e21",
    "80e-3": "80e-3",
    "12Ei": "9223372036854775807",
    "1000000Ki": "1000000Ki",
}

REFUSED = [
    "",
    " ",
    " 1",
    "1 ",
    "1.1.M",
    "1+1.0M",
    "0.1mi",
    "0.1am",
    "aoeu",
    ".5i",
    "1i",
    "-3.01i",
    "-3.01e-",
    "1e",
    "1,5",
    "NaN",
    "Inf",
    "0x10",
    "1_000",
    "m",
    ".",
    "+",
    "--1",
    "1KiB",
    "1K",
    "1g",
    "1e1.5",
    "1e99999999999",
    "1e64",
    "\N{ARABIC-INDIC DIGIT ONE}",
    "1\n",
    "9" * 65,
]


@pytest.mark.parametrize(("text", "expected"), PARSED.items())
def test_quantity_has_amount_and_suffix_the_server_reads(
    text: str, expected: tuple[Fraction | int, Format]
) -> None:
    amount, form = expected
    for sign, factor in (("", 1), ("+", 1), ("-", -1)):
        quantity = Quantity.parse(sign + text)
        assert Fraction(quantity.nano, NANO) == amount * factor
        assert quantity.format is form


@pytest.mark.parametrize(("text", "canonical"), PRINTED.items())
def test_a_quantity_is_printed_in_canonical_form(text: str, canonical: str) -> None:
    assert str(Quantity.parse(text)) == canonical
    assert str(Quantity.parse(canonical)) == canonical
    if canonical != "0":
        assert str(Quantity.parse("-" + text)) == "-" + canonical


@pytest.mark.parametrize("text", REFUSED)
def test_non_quantity_is_refused_and_its_text_named(text: str) -> None:
    with pytest.raises(QuantityError) as refusal:
        Quantity.parse(text)
    assert repr(text[:64])[:-1] in str(refusal.value)


def test_milli_and_unit_rounding_is_away_from_zero() -> None:
    assert Quantity.parse("1500u").milli == 2
    assert Quantity.parse("-1500u").milli == -2
    assert Quantity.parse("1.5").units == 2
    assert Quantity.parse("-1.5").units == -2
    assert Quantity.parse("250m").milli == 250
    assert Quantity.parse("16Gi").units == 16 * 1024**3


def test_amounts_are_equal_whatever_their_suffix() -> None:
    assert Quantity.parse("1000m") == Quantity.parse("1") == Quantity.parse("1e0")
    assert hash(Quantity.parse("1Ki")) == hash(Quantity.parse("1024"))
    assert Quantity.parse("1023") < Quantity.parse("1Ki") < Quantity.parse("1025")


def test_derived_amount_prints_in_its_sources_suffix_family() -> None:
    assert str(Quantity.of_units(2 * 1024**3, like=Quantity.parse("1Ki"))) == "2Gi"
    assert str(Quantity.of_units(2 * 1024**3)) == "2147483648"
    assert str(Quantity.of_milli(1500)) == "1500m"
    assert str(Quantity.of_milli(2000)) == "2"


decimals = st.builds(
    Quantity,
    st.integers(-(2**63 - 1), 2**63 - 1),
    st.sampled_from([Format.DECIMAL_SI, Format.DECIMAL_EXPONENT]),
)
binaries = st.builds(
    lambda units, shift: Quantity(units * 1024**shift * NANO, Format.BINARY_SI),
    st.integers(-4096, 4096),
    st.integers(0, 5),
)


@given(decimals | binaries)
def test_printing_and_parsing_again_keeps_the_amount(quantity: Quantity) -> None:
    text = str(quantity)
    assert Quantity.parse(text) == quantity
    assert str(Quantity.parse(text)) == text
    assert "." not in text


@given(st.text(alphabet="0123456789.+-eEinumkKMGTP ", max_size=12) | st.text(max_size=80))
@example("1e-999999999")
@example("E")
def test_any_text_is_a_quantity_or_refused(text: str) -> None:
    try:
        quantity = Quantity.parse(text)
    except QuantityError:
        return
    assert Quantity.parse(str(quantity)) == quantity
    assert abs(quantity.milli * NANO) >= abs(quantity.nano * 1000)
