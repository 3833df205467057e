"""Positions and points: groups from the best on, ties share, and the order of nodes makes no difference."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewise.interference.score import award, positions, worth

POINTS = (10.0, 5.0, 1.0)
values = st.lists(
    st.one_of(st.just(math.nan), st.integers(-50, 50).map(float), st.floats(-1e12, 1e12)), max_size=30
)
tolerances = st.sampled_from([0.0, 0.01, 0.02, 0.3])


def ranked(*given_values: float, tolerance: float = 0.0) -> list[int]:
    return [int(each) for each in positions(np.array(given_values), tolerance)]


def naive(given_values: list[float], tolerance: float) -> list[int]:
    """The design's words, one node after the other."""
    order = sorted({value for value in given_values if not math.isnan(value)}, reverse=True)
    found: dict[float, int] = {}
    leader, better = None, 0
    for value in order:
        if leader is None or leader - value > tolerance * abs(leader) * (1 + 1e-9):
            leader, position = value, better + 1
        found[value] = position
        better += given_values.count(value)
    return [0 if math.isnan(value) else found[value] for value in given_values]


@pytest.mark.parametrize(
    ("given_values", "tolerance", "expected"),
    [
        ((30.0, 20.0, 10.0), 0.0, [1, 2, 3]),
        ((20.0, 30.0, 20.0, 10.0), 0.0, [2, 1, 2, 4]),
        ((100.0, 99.0, 98.9), 0.01, [1, 1, 3]),
        ((100.0, 99.0, 98.1, 97.0), 0.01, [1, 1, 3, 4]),
        ((-100.0, -102.0, -102.1), 0.02, [1, 1, 3]),
        ((-100e-9, -102e-9), 0.02, [1, 1]),
        ((0.0, -1e-12, 0.0), 0.02, [1, 3, 1]),
        ((math.nan, 5.0, math.nan), 0.01, [0, 1, 0]),
        ((), 0.01, []),
        ((7.0, 7.0, 7.0), 0.0, [1, 1, 1]),
    ],
)
def test_node_joins_group_whose_first_member_is_near(
    given_values: tuple[float, ...], tolerance: float, expected: list[int]
) -> None:
    assert ranked(*given_values, tolerance=tolerance) == expected


def test_chain_of_near_nodes_is_not_one_group() -> None:
    assert ranked(100.0, 99.2, 98.4, 97.6, tolerance=0.01) == [1, 1, 3, 3]


@given(values, tolerances)
def test_positions_are_those_of_the_designs_words(given_values: list[float], tolerance: float) -> None:
    assert positions(np.array(given_values), tolerance).tolist() == naive(given_values, tolerance)


@given(values, tolerances, st.randoms(use_true_random=False))
def test_the_order_of_the_nodes_makes_no_difference(
    given_values: list[float], tolerance: float, random: object
) -> None:
    shuffled = list(range(len(given_values)))
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    before = positions(np.array(given_values), tolerance)
    after = positions(np.array(given_values)[shuffled] if shuffled else np.array([]), tolerance)
    assert after.tolist() == [int(before[place]) for place in shuffled]


@given(
    values,
    tolerances,
    st.sampled_from([POINTS, (3.0,), (4.0, 4.0, 2.0, 0.0), tuple(np.arange(40.0)[::-1]), None]),
)
def test_points_are_those_of_the_positions(
    given_values: list[float], tolerance: float, points: tuple[float, ...] | None
) -> None:
    column = np.array(given_values)
    awarded = award(column, tolerance, points)
    assert awarded.tolist() == pytest.approx(worth(positions(column, tolerance), points).tolist())


@given(values, tolerances)
def test_a_better_value_never_has_fewer_points(given_values: list[float], tolerance: float) -> None:
    awarded = award(np.array(given_values), tolerance, POINTS)
    order = [place for place in np.argsort(given_values) if not math.isnan(given_values[place])]
    assert (np.diff(awarded[order]) >= 0).all()


def test_linear_points_fall_from_10_to_0() -> None:
    column = np.array([40.0, 30.0, math.nan, 20.0, 10.0, 0.0])
    assert award(column, 0.0, None).tolist() == [10.0, 7.5, 0.0, 5.0, 2.5, 0.0]
    assert award(np.array([5.0]), 0.0, None).tolist() == [10.0]
    assert award(np.array([5.0, 5.0]), 0.0, None).tolist() == [10.0, 10.0]
