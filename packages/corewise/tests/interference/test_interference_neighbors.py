"""Neighbors: the cache that a pod takes from the pods on a node counts against that node.

| the pod, and the node | the node loses |
|---|---|
| the pod takes no cache, or those there mind nothing | nothing: the score is that of the positions alone |
| it takes 16 MiB of 32, beside affinities of 40 + 40 | 10 x 1/2 x 80 = 400 points |
| it takes 16 MiB of 32, beside ten such pods | 10 x 1/2 x 400 = 2000 points, the most there are |
| it would lose more points than it has | all of them |
| the size of the cache is unknown | nothing |
| pods there of no known type | count for nothing |
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewise.config.interference.metrics import RANKED
from corewise.config.interference.model import AffinityPoints, InterferenceConfiguration, equal_affinity
from corewise.interference.neighbors import MOST_MINDED, Neighbors, cache_affinity, displaced
from corewise.interference.outlook import Weights, outlook
from corewise.interference.pressure import Pressure
from corewise.interference.score import Scores, points_text, rank_nodes, score_nodes
from interference.nodes import FOUR, INCEPT, pressure

CONFIG = InterferenceConfiguration()
MEBI = 1 << 20
HOG = 16 * MEBI
NOTHING = equal_affinity(0)


def scores(measured: Pressure, neighbors: list[int], llc: int, affinity: AffinityPoints = NOTHING) -> Scores:
    """Score nodes with a pod each that has this affinity to the cache."""
    there = Neighbors()
    for row, each in enumerate(neighbors):
        there.put(f"on {row}", row, each)
    nodes = outlook(measured, Weights.none(measured.size), CONFIG, there.at(measured.size))
    among = np.ones(measured.size, dtype=np.bool_)
    found = score_nodes(nodes, affinity, CONFIG, among, llc)
    ranked = rank_nodes(nodes, affinity, CONFIG, among, llc).scores
    assert ranked.normalized.tolist() == found.normalized.tolist()
    assert ranked.deduction.tolist() == found.deduction.tolist()
    return found


def of_size(*mebibytes: float, **columns: list[float]) -> Pressure:
    return pressure(len(mebibytes), llc_capacity=[each * MEBI for each in mebibytes], **columns)


def test_cache_affinity_is_that_to_both_metrics() -> None:
    assert cache_affinity(dict(zip(RANKED, (1, 15, 40, 30, 2), strict=True))) == 70


@pytest.mark.parametrize(
    ("llc", "capacity", "share"),
    [
        pytest.param(HOG, 32.0, 0.5, id="of the cache"),
        pytest.param(HOG, 8.0, 1.0, id="all of a smaller one"),
        pytest.param(0, 32.0, 0.0, id="none without llc"),
    ],
)
def test_pod_takes_its_share_of_the_cache(llc: int, capacity: float, share: float) -> None:
    assert displaced(llc, np.array([capacity * MEBI])).tolist() == [share]


def test_deduction_is_what_neighbors_lose() -> None:
    found = scores(of_size(32, 64, 32), [80, 80, 0], HOG)
    assert found.deduction.tolist() == [400, 200, 0]
    assert (found.best, found.raw.tolist()) == (4000, [4000] * 3)
    assert found.normalized.tolist() == [90, 95, 100]


def test_cache_of_unknown_size_loses_nothing() -> None:
    found = scores(of_size(math.nan, 32), [80, 80], HOG)
    assert found.deduction.tolist() == [0, 400]
    unknown = scores(of_size(math.nan, math.nan), [80, 800], HOG, INCEPT)
    assert unknown.deduction.tolist() == [0, 0]


def test_deduction_is_never_more_than_two_pods() -> None:
    found = scores(of_size(32, 64), [800, 800], HOG)
    assert found.deduction.tolist() == [10 * MOST_MINDED / 2, 10 * MOST_MINDED / 4]


def test_hog_avoids_pods_whose_cache_it_takes() -> None:
    """By bandwidth alone the first node is best: nothing there uses any."""
    measured = of_size(32, 32, memorybandwidth_capacity=[100e9] * 2, memorybandwidth_used=[1e9, 30e9])
    hog = dict(zip(RANKED, (80, 0, 0, 0, 0), strict=True))
    assert scores(measured, [0, 0], HOG, hog).normalized.tolist() == [100, 50]
    beside = scores(measured, [240, 0], HOG, hog)
    assert beside.raw.tolist() == [800, 400]
    assert beside.deduction.tolist() == [1200, 0]
    assert beside.normalized.tolist() == [0, 50]


@given(st.integers(0, 10**6))
def test_crowded_node_changes_no_other_score(crowded: int) -> None:
    """Nor does the first pod that minds."""
    measured = of_size(32, 32, 32, 32, memorybandwidth_capacity=[100e9] * 4)
    measured = replace(measured, memorybandwidth_used=FOUR.memorybandwidth_used)
    for others in ([0, 0, 0], [0, 40, 80]):
        some = scores(measured, [0, *others], HOG, INCEPT)
        worse = scores(measured, [crowded, *others], HOG, INCEPT)
        assert worse.normalized[1:].tolist() == some.normalized[1:].tolist()
        assert worse.normalized[0] <= some.normalized[0]


def test_small_cache_elsewhere_changes_no_score() -> None:
    measured = of_size(256, 256, 8, memorybandwidth_capacity=[100e9] * 3)
    measured = replace(measured, memorybandwidth_used=np.array([1e9, 30e9, 60e9]))
    hog = dict(zip(RANKED, (80, 0, 0, 0, 0), strict=True))
    assert scores(measured, [0, 0, 80], HOG, hog).normalized.tolist() == [100, 50, 0]


def test_documents_example_keeps_610_beside_neighbors() -> None:
    known = replace(FOUR, llc_capacity=np.full(4, 32.0 * MEBI))
    alone = scores(known, [0, 0, 0, 0], 4 * MEBI, INCEPT)
    assert (alone.raw[0], alone.best, alone.normalized[0]) == (610, 1700, 36)
    some = scores(known, [0, 80, 0, 0], 4 * MEBI, INCEPT)
    assert (some.raw[0], some.best, some.normalized[0]) == (610, 1700, 36)
    assert some.deduction.tolist() == [0, 100, 0, 0]


def test_nodes_not_handed_in_score_nothing() -> None:
    known = replace(FOUR, llc_capacity=np.full(4, 32.0 * MEBI))
    nodes = outlook(known, Weights.none(4), CONFIG, np.array([80.0, 400.0, 0.0, 0.0]))
    among = np.array([True, False, True, False])
    found = score_nodes(nodes, NOTHING, CONFIG, among, HOG)
    assert found.normalized.tolist() == [90, 0, 100, 0]


@pytest.mark.parametrize("points", [(0.0,), (4.0, 1.0), None])
def test_deductions_are_in_first_points(points: tuple[float, ...] | None) -> None:
    nodes = outlook(of_size(32), Weights.none(1), CONFIG, np.array([80.0]))
    config = replace(CONFIG, points=points)
    found = score_nodes(nodes, NOTHING, config, np.ones(1, dtype=np.bool_), HOG)
    assert found.deduction[0] == 40 * (10.0 if points is None else points[0])


@pytest.mark.parametrize(
    ("points", "text"), [(610.0, "610"), (-0.0, "0"), (12345.678, "12345.68"), (2e6, "2000000")]
)
def test_points_are_written_without_an_exponent(points: float, text: str) -> None:
    assert points_text(points) == text


def test_version_changes_with_pods_that_mind() -> None:
    neighbors = Neighbors()
    neighbors.put("plain", 0, 0)
    assert neighbors.version == 0
    neighbors.put("a", 0, 2)
    known = neighbors.version
    neighbors.put("a", 0, 2)
    assert neighbors.version == known > 0
    before = neighbors.at(1)
    neighbors.remove("a")
    assert neighbors.version > known
    assert (before.tolist(), neighbors.at(1).tolist()) == ([2], [0])


steps = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 200), st.integers(0, 200)), max_size=40)


@given(steps)
def test_sums_are_those_of_the_pods_there(given_steps: list[tuple[int, int, int]]) -> None:
    neighbors, kept = Neighbors(), dict[str, tuple[int, int]]()
    for which, row, affinity in given_steps:
        pod = f"p{which}"
        kept.pop(pod, None)
        if row % 3:
            neighbors.put(pod, row, affinity)
            kept[pod] = row, affinity
        else:
            neighbors.remove(pod)
    sums = [sum(each for row, each in kept.values() if row == number) for number in range(201)]
    assert neighbors.at(201).tolist() == [min(each, MOST_MINDED) for each in sums]


@given(st.lists(st.integers(0, 1000), min_size=4, max_size=4), st.integers(0, 64), st.integers(1, 64))
def test_scores_stay_between_0_and_100(neighbors: list[int], llc: int, capacity: int) -> None:
    known = replace(FOUR, llc_capacity=np.full(4, float(capacity * MEBI)))
    found = scores(known, neighbors, llc * MEBI, INCEPT)
    assert ((found.normalized >= 0) & (found.normalized <= 100)).all()
    assert (found.deduction >= 0).all()
    assert found.raw[0] == 610
