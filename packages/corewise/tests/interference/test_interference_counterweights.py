"""Counterweights: never negative, gone at expiry or when the pod ends, and a restart makes no old pod new."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewise.config.interference.model import CounterweightSettings, Decay, Profile
from corewise.interference.outlook import Counterweights

STREAM = Profile(memory_bandwidth=5_000, memory=200, cpu=1000, llc=40)
STEP = CounterweightSettings(360.0, Decay.STEP)
LINEAR = CounterweightSettings(360.0, Decay.LINEAR)


def bandwidth(placed: Counterweights, now: float, size: int = 3) -> list[float]:
    return [float(each) for each in placed.at(now, size).memory_bandwidth]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (STEP, {0: 5000, 180: 5000, 359: 5000, 360: 0, 900: 0}),
        (LINEAR, {0: 5000, 180: 2500, 270: 1250, 360: 0, 900: 0}),
    ],
)
def test_a_counterweight_decays_until_it_expires(
    settings: CounterweightSettings, expected: dict[float, float]
) -> None:
    placed = Counterweights(settings)
    placed.put("a", 1, STREAM, 1000.0)
    for age, weight in expected.items():
        assert bandwidth(placed, 1000.0 + age) == [0, weight, 0]


def test_all_four_amounts_count() -> None:
    placed = Counterweights(STEP)
    placed.put("a", 0, STREAM, 0.0)
    placed.put("b", 0, STREAM, 0.0)
    at = placed.at(1.0, 1)
    assert [column.tolist() for column in (at.memory_bandwidth, at.memory, at.cpu, at.llc)] == [
        [10_000],
        [400],
        [2000],
        [80],
    ]


def test_a_pod_that_ends_is_gone_at_once() -> None:
    placed = Counterweights(STEP)
    placed.put("a", 0, STREAM, 0.0)
    placed.put("b", 0, STREAM, 0.0)
    placed.remove("a")
    placed.remove("a")
    assert bandwidth(placed, 1.0, 1) == [5000]
    assert "a" not in placed
    assert len(placed) == 1


def test_a_restart_makes_no_old_pod_new() -> None:
    placed = Counterweights(LINEAR)
    placed.put("old", 0, STREAM, placed_at=0.0)
    placed.put("young", 1, STREAM, placed_at=900.0)
    assert bandwidth(placed, 1000.0) == [0, pytest.approx(5000 * (1 - 100 / 360)), 0]


def test_a_pod_told_again_does_not_start_anew() -> None:
    placed = Counterweights(LINEAR)
    placed.put("a", 0, STREAM, 100.0)
    placed.put("a", 0, STREAM, 280.0)
    assert bandwidth(placed, 280.0) == [2500, 0, 0]


def test_pod_placed_on_another_node_leaves_the_first() -> None:
    placed = Counterweights(LINEAR)
    placed.put("a", 0, STREAM, 100.0)
    placed.put("a", 2, STREAM, 280.0)
    assert bandwidth(placed, 280.0) == [0, 0, 5000]


def test_lagging_clock_makes_no_pod_heavier() -> None:
    placed = Counterweights(LINEAR)
    placed.put("a", 0, STREAM, 100.0)
    assert bandwidth(placed, 40.0) == [5000, 0, 0]


def test_expiry_of_0_is_no_counterweight() -> None:
    for decay in Decay:
        placed = Counterweights(CounterweightSettings(0.0, decay))
        placed.put("a", 0, STREAM, 100.0)
        assert bandwidth(placed, 100.0) == [0, 0, 0]


def test_removed_node_takes_its_counterweights_with_it() -> None:
    placed = Counterweights(STEP)
    placed.put("a", 1, STREAM, 0.0)
    placed.put("b", 2, STREAM, 0.0)
    placed.remove_node(1)
    assert bandwidth(placed, 1.0) == [0, 0, 5000]


steps = st.one_of(
    st.tuples(st.just("put"), st.integers(0, 150), st.integers(0, 4)),
    st.tuples(st.just("remove"), st.integers(0, 150), st.just(0)),
    st.tuples(st.just("expire"), st.just(0), st.just(0)),
    st.tuples(st.just("remove_node"), st.just(0), st.integers(0, 4)),
)


@given(st.lists(steps, max_size=60), st.sampled_from(list(Decay)))
def test_sums_match_the_present_pods_and_stay_nonnegative(
    history: list[tuple[str, int, int]], decay: Decay
) -> None:
    settings = CounterweightSettings(30.0, decay)
    placed = Counterweights(settings)
    model: dict[str, tuple[int, float]] = {}
    for now, (action, number, row) in enumerate(history):
        pod = str(number)
        if action == "put":
            known = model.get(pod)
            model[pod] = row, known[1] if known and known[0] == row else float(now)
            placed.put(pod, row, STREAM, float(now))
        elif action == "remove":
            model.pop(pod, None)
            placed.remove(pod)
        elif action == "expire":
            model = {pod: each for pod, each in model.items() if now - each[1] < settings.expiry}
            placed.expire(float(now))
        else:
            model = {pod: each for pod, each in model.items() if each[0] != row}
            placed.remove_node(row)
    end = float(len(history))
    expected = np.zeros(5)
    for row, since in model.values():
        age = end - since
        expected[row] += 5000 * (age < 30 if decay is Decay.STEP else max(0.0, 1 - age / 30))
    assert bandwidth(placed, end, 5) == pytest.approx(expected.tolist())
    assert set(model) == {pod for pod in map(str, range(151)) if pod in placed}
    assert (placed.at(end, 5).memory_bandwidth >= 0).all()
