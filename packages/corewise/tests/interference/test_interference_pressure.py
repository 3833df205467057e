"""What counts as missing, and nodes that move to other rows."""

from __future__ import annotations

import math

import numpy as np
import pytest

from corewise.interference.pressure import COLUMNS, ZERO_IS_MISSING, Pressure


@pytest.mark.parametrize("column", COLUMNS)
def test_what_cannot_be_is_missing_in_every_column(column: str) -> None:
    given = [math.nan, math.inf, -math.inf, -1.0, 1e300, 0.0, 5.0]
    cleaned = getattr(Pressure.of(7, {column: given}).cleaned(), column)
    zero_is_missing = column in ZERO_IS_MISSING
    assert np.isnan(cleaned).tolist() == [True, True, True, True, True, zero_is_missing, False]


def test_0_is_valid_only_for_utilization_misses_memory() -> None:
    assert set(COLUMNS) - ZERO_IS_MISSING == {
        *("cpu", "llc_mpki", "llc_mpki_level", "memory_available", "memorylatency_slope")
    }


def test_columns_that_are_not_given_are_missing_everywhere() -> None:
    assert np.isnan(Pressure.of(3, {"cpu": [1.0, 1.0, 1.0]}).memorylatency).all()


def test_column_of_unknown_name_or_size_is_refused() -> None:
    with pytest.raises(KeyError, match="cpus"):
        Pressure.of(1, {"cpus": [1.0]})
    with pytest.raises(ValueError, match="for 2 nodes"):
        Pressure.of(2, {"cpu": [1.0]})


def test_rows_follow_their_nodes_and_start_unknown() -> None:
    moved = Pressure.of(2, {"cpu": [0.1, 0.2]}).rows(np.array([1, -1, 0]))
    assert moved.cpu.tolist()[::2] == [0.2, 0.1]
    assert math.isnan(moved.cpu[1])
    assert Pressure.of(0, {}).rows(np.array([-1])).size == 1
