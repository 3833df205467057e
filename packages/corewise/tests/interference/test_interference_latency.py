"""A node's latency curve: learned from snapshots that vary, missing where they don't."""

from __future__ import annotations

import math

import numpy as np
import pytest

from corewise.interference.latency import LatencyHistory, load_term, predicted_latency
from corewise.interference.pressure import Pressure
from interference.nodes import pressure

IDLE, SLOPE = 90e-9, 12e-9


def snapshot(*shares: float, noise: float = 0.0) -> Pressure:
    term = load_term(np.array(shares), np.ones(len(shares)))
    return pressure(
        len(shares),
        memorybandwidth_capacity=[100e9] * len(shares),
        memorybandwidth_used=[share * 100e9 for share in shares],
        memorylatency=((IDLE + SLOPE * term) * (1 + noise)).tolist(),
    )


def taught(*rounds: tuple[float, ...]) -> LatencyHistory:
    history = LatencyHistory.empty(len(rounds[0]))
    for shares in rounds:
        history = history.observed(snapshot(*shares))
    return history


def test_a_curve_is_recovered_from_load_that_varied() -> None:
    history = taught(*((share, 0.5) for share in (0.1, 0.3, 0.5, 0.6, 0.7, 0.8)))
    idle, slope = history.curves()
    assert idle[0] == pytest.approx(IDLE)
    assert slope[0] == pytest.approx(SLOPE)
    assert math.isnan(idle[1])
    assert math.isnan(slope[1])


def test_too_few_or_missing_samples_teach_nothing() -> None:
    history = taught((0.1,), (0.5,), (0.8,))
    assert np.isnan(history.curves()[0]).all()
    history = taught(*[(0.1,), (0.5,), (0.8,)] * 2)
    assert not np.isnan(history.curves()[0]).any()
    gaps = history
    for _ in range(500):
        gaps = gaps.observed(pressure(1))
    assert gaps.curves()[0].tolist() == history.curves()[0].tolist()


def test_prediction_follows_the_curve_or_else_the_measurement() -> None:
    history = taught(*((share, 0.5) for share in (0.1, 0.3, 0.5, 0.6, 0.7, 0.8)))
    now = history.learned(snapshot(0.5, 0.5))
    predicted = predicted_latency(now, np.array([25e9, 25e9]))
    assert predicted.tolist() == pytest.approx([IDLE + SLOPE * 3, IDLE + SLOPE])


def test_a_curve_keeps_rising_beyond_the_capacity() -> None:
    terms = load_term(np.array([0.5, 0.94, 0.95, 0.96, 1.0, 1.2]), np.ones(6))
    assert (np.diff(terms) > 0).all()
    assert terms[0] == 1
    assert np.isfinite(terms).all()


def test_errors_of_measurement_alone_teach_no_curve() -> None:
    random = np.random.default_rng(1)
    history = LatencyHistory.empty(3)
    for _ in range(200):
        shares = np.array([0.2, 0.6, 0.9]) * random.normal(1, 0.01, 3)
        history = history.observed(snapshot(*shares.tolist(), noise=float(random.normal(0, 0.01))))
    assert np.isnan(history.curves()[1]).all()


def test_an_idle_latency_that_the_node_states_stays() -> None:
    history = taught(*((share,) for share in (0.1, 0.3, 0.5, 0.6, 0.7, 0.8)))
    stated = pressure(1, memorylatency_idle=[70e-9])
    assert history.learned(stated).memorylatency_idle.tolist() == [70e-9]


def test_a_history_follows_its_nodes_to_other_rows() -> None:
    history = taught(*((share, 0.5) for share in (0.1, 0.3, 0.5, 0.6, 0.7, 0.8)))
    moved = history.rows(np.array([-1, 1, 0]))
    assert np.isnan(moved.curves()[0]).tolist() == [True, True, False]
    assert LatencyHistory.empty(0).rows(np.array([-1])).size == 1


def test_latency_that_falls_with_load_has_no_slope() -> None:
    history = LatencyHistory.empty(1)
    for share in (0.1, 0.2, 0.4, 0.6, 0.8, 0.9):
        falling = pressure(
            1,
            memorybandwidth_capacity=[1.0],
            memorybandwidth_used=[share],
            memorylatency=[2e-7 - share * 1e-7],
        )
        history = history.observed(falling)
    assert history.curves()[1].tolist() == [0.0]
