"""Neighbors: what a pod does to the caches of the pods on a node counts against that node.

| the pod and the pods there | deduction |
|---|---|
| takes no cache, or those there mind nothing | 0; the score is that of the positions alone |
| 16 MiB of 32, beside affinities of 40 + 40 | 10 x 1/2 x 80 = 400 |
| the same where the size of the cache is unknown, and the pods there keep 48 MiB | 10 x 16/64 x 80 = 200 |
| pods of no known type | count for nothing |
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewise.config.interference.metrics import RANKED
from corewise.config.interference.model import (
    AffinityPoints,
    InterferenceConfiguration,
    Profile,
    equal_affinity,
)
from corewise.interference.neighbors import CacheStake, CacheStakes, Neighbors, displaced, stake_of
from corewise.interference.outlook import Weights, outlook
from corewise.interference.pressure import Pressure
from corewise.interference.score import Scores, rank_nodes, score_nodes
from interference.nodes import FOUR, INCEPT, pressure

CONFIG = InterferenceConfiguration()
MEBI = 1 << 20
GRAPH = Profile(memory_bandwidth=800, llc=8 * MEBI)
HOG = 16 * MEBI
MINDS = dict(zip(RANKED, (0, 15, 40, 40, 0), strict=True))
NOTHING = equal_affinity(0)


def there(*stakes: tuple[int, int]) -> CacheStakes:
    """The stakes of nodes: MiB and affinity of each."""
    llc, affinity = zip(*stakes, strict=True)
    return CacheStakes(np.array(llc) * float(MEBI), np.array(affinity, dtype=np.float64))


def scores(
    measured: Pressure, neighbors: CacheStakes, llc: int, affinity: AffinityPoints = NOTHING
) -> Scores:
    nodes = outlook(measured, Weights.none(measured.size), CONFIG, neighbors)
    among = np.ones(measured.size, dtype=np.bool_)
    found = score_nodes(nodes, affinity, CONFIG, among, llc)
    ranked = rank_nodes(nodes, affinity, CONFIG, among, llc).scores
    assert ranked.normalized.tolist() == found.normalized.tolist()
    assert ranked.deduction.tolist() == found.deduction.tolist()
    return found


def test_stake_is_cache_and_affinities_to_it() -> None:
    assert stake_of(GRAPH, MINDS) == CacheStake(8 * MEBI, 80)
    assert stake_of(Profile(cpu=1), equal_affinity(0)) is None


@pytest.mark.parametrize(
    ("capacity", "wanted", "share"),
    [
        pytest.param(32, 8, 0.5, id="of the cache"),
        pytest.param(32, 48, 0.5, id="whatever others keep there"),
        pytest.param(math.nan, 48, 0.25, id="of what all keep where its size is unknown"),
        pytest.param(8, 0, 1.0, id="all of one that is smaller"),
    ],
)
def test_pod_takes_its_share_of_the_cache(capacity: float, wanted: int, share: float) -> None:
    taken = displaced(HOG, there((wanted, 80)), np.array([capacity * MEBI]))
    assert taken.tolist() == [share]


def test_pod_without_cache_takes_none() -> None:
    assert displaced(0, there((0, 80)), np.array([math.nan])).tolist() == [0.0]


def test_deduction_is_what_neighbors_lose() -> None:
    measured = pressure(3, llc_capacity=[32.0 * MEBI, math.nan, 32.0 * MEBI])
    found = scores(measured, there((8, 80), (48, 80), (8, 0)), HOG)
    assert found.deduction.tolist() == [400, 200, 0]
    assert (found.best, found.largest) == (0, 400)
    assert found.normalized.tolist() == [0, 50, 100]


def test_hog_avoids_pods_whose_cache_it_takes() -> None:
    """By bandwidth alone the first node is best: nothing there uses any."""
    measured = pressure(
        2,
        memorybandwidth_capacity=[100e9] * 2,
        memorybandwidth_used=[1e9, 30e9],
        llc_capacity=[32.0 * MEBI] * 2,
    )
    hog = dict(zip(RANKED, (80, 0, 0, 0, 0), strict=True))
    assert scores(measured, CacheStakes.none(2), HOG, hog).normalized.tolist() == [100, 50]
    beside = scores(measured, there((24, 240), (16, 0)), HOG, hog)
    assert beside.raw.tolist() == [800, 400]
    assert beside.deduction.tolist() == [1200, 0]
    assert beside.normalized.tolist() == [40, 80]


def test_documents_example_keeps_610_beside_neighbors() -> None:
    alone = scores(FOUR, CacheStakes.none(4), 4 * MEBI, INCEPT)
    assert (alone.raw[0], alone.best, alone.normalized[0]) == (610, 1700, 36)
    some = scores(FOUR, there((12, 0), (12, 100), (0, 0), (0, 0)), 4 * MEBI, INCEPT)
    assert (some.raw[0], some.best, some.largest) == (610, 1700, 250)
    assert some.normalized[0] == round((610 + 250) * 100 / 1950)


def test_nodes_not_handed_in_score_nothing() -> None:
    nodes = outlook(FOUR, Weights.none(4), CONFIG, there((8, 80), (8, 900), (8, 0), (8, 0)))
    among = np.array([True, False, True, False])
    found = score_nodes(nodes, NOTHING, CONFIG, among, HOG)
    assert found.normalized.tolist() == [0, 0, 100, 0]
    assert found.largest == found.deduction[0]


@pytest.mark.parametrize("points", [(0.0,), (4.0, 1.0), None])
def test_deductions_are_in_first_points(points: tuple[float, ...] | None) -> None:
    config = replace(CONFIG, points=points)
    measured = pressure(1, llc_capacity=[32.0 * MEBI])
    nodes = outlook(measured, Weights.none(1), config, there((8, 80)))
    found = score_nodes(nodes, NOTHING, config, np.ones(1, dtype=np.bool_), HOG)
    assert found.largest == 40 * (10.0 if points is None else points[0])


def test_version_changes_with_pods_that_have_a_stake() -> None:
    neighbors = Neighbors()
    neighbors.put("plain", 0, None)
    assert neighbors.version == 0
    neighbors.put("a", 0, CacheStake(1, 2))
    known = neighbors.version
    neighbors.put("a", 0, CacheStake(1, 2))
    assert neighbors.version == known > 0
    before = neighbors.at(1)
    neighbors.remove("a")
    assert neighbors.version > known
    assert (before.llc.tolist(), neighbors.at(1).llc.tolist()) == ([1], [0])


stakes = st.one_of(st.none(), st.builds(CacheStake, st.integers(0, 2**52), st.integers(0, 200)))
steps = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 200), stakes), max_size=40)


@given(steps)
def test_sums_are_those_of_the_pods_there(given_steps: list[tuple[int, int, CacheStake | None]]) -> None:
    neighbors, kept = Neighbors(), dict[str, tuple[int, CacheStake]]()
    for which, row, stake in given_steps:
        pod = f"p{which}"
        kept.pop(pod, None)
        if row % 3:
            neighbors.put(pod, row, stake)
            if stake is not None:
                kept[pod] = row, stake
        else:
            neighbors.remove(pod)
    sums = neighbors.at(201)
    for column, of in ((sums.llc, 0), (sums.affinity, 1)):
        expected = [sum(stake[of] for row, stake in kept.values() if row == each) for each in range(201)]
        assert column.tolist() == expected


@given(
    st.lists(st.tuples(st.integers(0, 100), st.integers(0, 1000)), min_size=4, max_size=4), st.integers(0, 64)
)
def test_scores_stay_between_0_and_100(given_stakes: list[tuple[int, int]], llc: int) -> None:
    found = scores(FOUR, there(*given_stakes), llc * MEBI, INCEPT)
    assert ((found.normalized >= 0) & (found.normalized <= 100)).all()
    assert (found.deduction >= 0).all()
    assert found.raw[0] == 610
