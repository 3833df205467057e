"""What one requested CPU is worth: by kind of machine, without and with corewise."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewise.quantities import ONE, Ratio
from corewise.views.worth import KindWorth, MachineSpeed, WorthRange, worth_of

CASES: list[tuple[str, str | None, str, str | None]] = [
    ("normalized: what was requested", "2.00", "2.00", "1.00"),
    ("not normalized: its speed shows", "2.00", "1.00", "2.00"),
    ("offers more than its speed gives", "1.50", "1.65", "0.91"),
    ("the baseline", "1.00", "1.00", "1.00"),
    ("rounded half up", "1.00", "1.60", "0.63"),
    ("speed unknown", None, "1.00", None),
]


@pytest.mark.parametrize(
    ("speed", "amplification", "worth"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_worth_is_speed_divided_by_amplification(
    speed: str | None, amplification: str, worth: str | None
) -> None:
    known = None if speed is None else Ratio.parse(speed)
    machine = MachineSpeed("m", True, True, known, Ratio.parse(amplification))
    assert machine.worth == (None if worth is None else Ratio.parse(worth))
    (row,) = worth_of([machine])
    assert row.off == (None if speed is None else WorthRange(speed, speed))
    assert row.on == (None if worth is None else WorthRange(worth, worth))


@given(st.integers(100, 500), st.integers(100, 1000))
def test_worth_differs_by_half_a_hundredth_at_most(speed: int, amplification: int) -> None:
    worth = MachineSpeed("m", True, True, Ratio(speed), Ratio(amplification)).worth
    assert worth is not None
    assert abs(Fraction(worth.hundredths) - Fraction(100 * speed, amplification)) <= Fraction(1, 2)


def test_kinds_are_in_order_of_speed_unknown_last() -> None:
    fast, slow = Ratio.parse("2.00"), ONE
    rows = worth_of(
        [
            MachineSpeed("odd", True, True, None, ONE),
            MachineSpeed("fast", True, True, fast, fast),
            MachineSpeed("fast", False, True, fast, ONE),
            MachineSpeed("slow", True, True, slow, slow),
            MachineSpeed("slow", True, True, slow, Ratio.parse("1.25")),
        ]
    )
    assert rows == [
        KindWorth("slow", "slow", 2, WorthRange("1.00", "1.00"), WorthRange("0.80", "1.00")),
        KindWorth("fast", "fast", 1, WorthRange("2.00", "2.00"), WorthRange("1.00", "1.00")),
        KindWorth("fast, HT off", "fast, HT off", 1, WorthRange("2.00", "2.00"), WorthRange("2.00", "2.00")),
        KindWorth("odd", "odd", 1, None, None),
    ]
