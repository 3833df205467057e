"""Load curves: each shape goes from its low to its high end, and never beyond either."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewise_lab.load import Load, Shape


def test_a_wave_swings_between_its_ends() -> None:
    load = Load(1.0, 3.0, 60.0)
    assert load.at(0) == pytest.approx(1.0)
    assert load.at(30) == pytest.approx(3.0)
    assert load.at(0, phase=0.5) == pytest.approx(3.0)


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        (Shape.SQUARE, [1.0, 1.0, 3.0, 3.0, 1.0, 1.0, 3.0]),
        (Shape.RAMP, [1.0, 1.5, 2.0, 2.5, 3.0, 3.0, 3.0]),
        (Shape.STEP, [1.0, 1.0, 1.0, 1.0, 3.0, 3.0, 3.0]),
    ],
)
def test_the_other_shapes_are_what_their_names_say(shape: Shape, expected: list[float]) -> None:
    load = Load(1.0, 3.0, 40.0, shape)
    assert [load.at(seconds) for seconds in range(0, 70, 10)] == expected


def test_a_phase_shifts_waves_only() -> None:
    assert Load(0.0, 1.0, 10.0, Shape.STEP).at(5.0, phase=0.9) == 0.0


@given(
    st.sampled_from(Shape),
    st.floats(0, 100),
    st.floats(0, 100),
    st.floats(0.1, 1000),
    st.floats(0, 1e6),
    st.floats(0, 1),
)
def test_a_load_is_never_outside_its_ends(
    shape: Shape, low: float, more: float, period: float, seconds: float, phase: float
) -> None:
    load = Load(low, low + more, period, shape)
    assert low - 1e-6 <= load.at(seconds, phase) <= low + more + 1e-6
