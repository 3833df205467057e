"""The score: the seed's 610 and 36, what is missing, relative ranking, and only the nodes handed in."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from corewise.config.interference.metrics import DEFAULT_RANKINGS, RANKED, Metric, Order, Ranking
from corewise.config.interference.model import (
    InterferenceConfiguration,
    LatencyModel,
    MetricsSettings,
    equal_affinity,
)
from corewise.interference.score import rank_nodes, score_nodes
from interference.nodes import FOUR, INCEPT, pressure, seen, weights

CONFIG = InterferenceConfiguration()
ALL = np.ones(4, dtype=np.bool_)


def test_the_documents_example_scores_610_and_36() -> None:
    ranked = rank_nodes(seen(FOUR), INCEPT, CONFIG, ALL)
    assert [int(ranked.positions[metric][0]) for metric in RANKED] == [3, 2, 1, 4, 2]
    assert [float(ranked.points[metric][0]) for metric in RANKED] == [1, 5, 10, 0, 5]
    assert (ranked.scores.raw[0], ranked.scores.best, ranked.scores.normalized[0]) == (610, 1700, 36)
    assert score_nodes(seen(FOUR), INCEPT, CONFIG, ALL).raw.tolist() == ranked.scores.raw.tolist()


def test_only_the_nodes_handed_in_are_ranked() -> None:
    ranked = rank_nodes(seen(FOUR), INCEPT, CONFIG, np.array([True, False, True, True]))
    assert [int(ranked.positions[metric][0]) for metric in RANKED] == [2, 1, 1, 3, 1]
    assert [int(ranked.positions[metric][1]) for metric in RANKED] == [0] * 5
    assert (ranked.scores.raw[1], ranked.scores.normalized[1]) == (0, 0)


def test_metric_missing_on_a_node_earns_no_points() -> None:
    measured = pressure(3, cpu=[math.nan, 0.5, 0.6], llc_mpki=[1.0, 2.0, 3.0])
    ranked = rank_nodes(seen(measured), equal_affinity(10), CONFIG, np.ones(3, dtype=np.bool_))
    assert ranked.positions[Metric.CPU].tolist() == [0, 1, 2]
    assert ranked.scores.raw.tolist() == [100, 150, 60]


def test_metric_missing_on_all_nodes_leaves_the_normalizer() -> None:
    measured = pressure(2, cpu=[0.1, 0.2])
    scores = score_nodes(seen(measured), INCEPT, CONFIG, np.ones(2, dtype=np.bool_))
    assert scores.best == 500
    assert scores.normalized.tolist() == [100, 50]


def test_without_affinities_points_or_values_everything_scores_0() -> None:
    nothing = score_nodes(seen(FOUR), equal_affinity(0), CONFIG, ALL)
    pointless = score_nodes(seen(FOUR), INCEPT, InterferenceConfiguration(points=(0.0,)), ALL)
    unknown = score_nodes(seen(pressure(4)), INCEPT, CONFIG, ALL)
    nowhere = score_nodes(seen(FOUR), INCEPT, CONFIG, ~ALL)
    for scores in (nothing, pointless, unknown, nowhere):
        assert not scores.raw.any()
        assert not scores.normalized.any()


def test_counterweights_move_only_bandwidth_occupancy_and_cpu() -> None:
    placed = weights(
        4, memory_bandwidth=[0.0, 80e9, 0.0, 0.0], cpu=[0.0, 16000.0, 0.0, 0.0], llc=[50e6, 0.0, 0.0, 0.0]
    )
    ranked = rank_nodes(seen(FOUR, placed), INCEPT, CONFIG, ALL)
    assert ranked.positions[Metric.MEMORY_BANDWIDTH].tolist() == [2, 4, 1, 3]
    assert ranked.positions[Metric.CPU].tolist() == [1, 3, 2, 4]
    assert ranked.positions[Metric.LLC_OCCUPANCY].tolist() == [4, 1, 2, 3]
    assert ranked.positions[Metric.MEMORY_LATENCY].tolist() == [2, 1, 3, 4]
    assert ranked.positions[Metric.LLC_MPKI].tolist() == [4, 3, 2, 1]


def test_misses_of_different_cache_levels_never_rank_together() -> None:
    second = [math.nan, 2.0, math.nan, 2.0]
    measured = replace(FOUR, llc_mpki_level=np.array(second), llc_mpki=np.array([2.0, 9.0, 1.0, 8.0]))
    only = dict.fromkeys(RANKED, 0) | {Metric.LLC_MPKI: 10}
    for config, points in ((CONFIG, [50, 50, 100, 100]), (replace(CONFIG, points=None), [0, 0, 100, 100])):
        ranked = rank_nodes(seen(measured), only, config, ALL)
        assert ranked.positions[Metric.LLC_MPKI].tolist() == [2, 2, 1, 1]
        assert ranked.scores.raw.tolist() == points
        assert score_nodes(seen(measured), only, config, ALL).raw.tolist() == points
    fewer = rank_nodes(seen(measured), only, CONFIG, np.array([True, True, False, True]))
    assert fewer.positions[Metric.LLC_MPKI].tolist() == [1, 2, 0, 1]
    unknown = replace(measured, llc_mpki=np.array([2.0, math.nan, 1.0, math.nan]))
    assert not seen(unknown).levels


def test_cpu_counterweight_on_unknown_size_makes_cpu_missing() -> None:
    measured = pressure(2, cpu=[0.1, 0.1])
    cpu = seen(measured, weights(2, cpu=[1000.0, 0.0])).values[Metric.CPU]
    assert np.isnan(cpu).tolist() == [True, False]


def test_relative_ranking_compares_shares_and_ratios() -> None:
    measured = pressure(
        2,
        memorybandwidth_capacity=[200e9, 50e9],
        memorybandwidth_used=[150e9, 5e9],
        memorylatency=[130e-9, 100e-9],
        memorylatency_idle=[125e-9, 70e-9],
        llc_occupancy=[30e6, 20e6],
        llc_capacity=[100e6, 25e6],
    )
    both = np.ones(2, dtype=np.bool_)
    absolute = rank_nodes(seen(measured), INCEPT, CONFIG, both)
    config = InterferenceConfiguration(relative=True)
    relative = rank_nodes(seen(measured, config=config), INCEPT, config, both)
    first = (Metric.MEMORY_BANDWIDTH, Metric.MEMORY_LATENCY, Metric.LLC_OCCUPANCY)
    assert [absolute.positions[metric].tolist() for metric in first] == [[1, 2], [2, 1], [2, 1]]
    assert [relative.positions[metric].tolist() for metric in first] == [[2, 1], [1, 2], [1, 2]]


def test_metric_without_any_stated_base_stays_absolute() -> None:
    config = InterferenceConfiguration(relative=True)
    measured = pressure(
        2, memorylatency=[1e-7, 2e-7], memorybandwidth_used=[1e9, 2e9], memorybandwidth_capacity=[9e9, 9e9]
    )
    outlook = seen(measured, config=config)
    assert outlook.relative == {Metric.MEMORY_BANDWIDTH}
    assert outlook.values[Metric.MEMORY_LATENCY].tolist() == [1e-7, 2e-7]


def test_curve_counts_new_pods_or_yields_to_measurement() -> None:
    measured = pressure(
        2,
        memorybandwidth_capacity=[100e9, 100e9],
        memorybandwidth_used=[50e9, 50e9],
        memorylatency=[101e-9, 101e-9],
        memorylatency_idle=[90e-9, math.nan],
        memorylatency_slope=[10e-9, math.nan],
    )
    config = InterferenceConfiguration(latency_model=LatencyModel.CURVE)
    latency = seen(measured, weights(2, memory_bandwidth=[25e9, 25e9]), config).values[Metric.MEMORY_LATENCY]
    assert latency.tolist() == [90e-9 + 10e-9 * 3, 101e-9]


def test_reversed_order_turns_the_ranking_and_the_counterweight() -> None:
    rankings = {**DEFAULT_RANKINGS, Metric.CPU: Ranking(Order.DESCENDING, 0.0)}
    config = InterferenceConfiguration(metrics=MetricsSettings(rankings=rankings))
    measured = pressure(2, cpu=[0.9, 0.8], cpu_cores=[10.0, 10.0])
    ranked = rank_nodes(
        seen(measured, weights(2, cpu=[2000.0, 0.0]), config), INCEPT, config, np.ones(2, dtype=np.bool_)
    )
    assert ranked.positions[Metric.CPU].tolist() == [2, 1]


columns = st.lists(st.one_of(st.just(math.nan), st.floats(0.01, 1e6)), min_size=5, max_size=5)


@given(
    columns,
    columns,
    columns,
    st.lists(st.booleans(), min_size=5, max_size=5),
    st.sampled_from([None, (10.0, 5.0, 1.0)]),
)
def test_both_scorings_agree_within_0_and_100(
    cpu: list[float],
    mpki: list[float],
    latency: list[float],
    among: list[bool],
    points: tuple[float, ...] | None,
) -> None:
    config = InterferenceConfiguration(points=points)
    nodes = seen(pressure(5, cpu=cpu, llc_mpki=mpki, memorylatency=latency), config=config)
    ranked = rank_nodes(nodes, equal_affinity(30), config, np.array(among)).scores
    fast = score_nodes(nodes, equal_affinity(30), config, np.array(among))
    assert fast.raw.tolist() == ranked.raw.tolist()
    assert ((fast.normalized >= 0) & (fast.normalized <= 100)).all()
    assert not fast.raw[~np.array(among)].any()
