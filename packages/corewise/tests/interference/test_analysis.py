"""The off-line analysis recovers planted affinities and profiles, and refuses what a history does not say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corewise.config.interference.metrics import Metric
from corewise.interference.analysis import (
    FEWEST,
    Confidence,
    MetricRange,
    Pace,
    TypeFinding,
    affinities,
    analyze,
)
from corewise.interference.history import (
    THROTTLED,
    History,
    PodRecord,
    Run,
    Slicing,
    TimeSeries,
    runs_by_cpi,
    runs_by_duration,
)
from corewise.vocabulary.reasons import Reason
from interference.simulated_history import BASE, DEFAULT, RANGES, USE, Planted, planted_history

WITHIN = 10
"""Points by which a recovered affinity may miss the planted one, with 200 runs that scatter by 3 %."""

NOTHING = dict.fromkeys(RANGES, 0)
SENSITIVE = {
    Metric.MEMORY_BANDWIDTH: 60,
    Metric.MEMORY_LATENCY: 60,
    Metric.LLC_OCCUPANCY: 0,
    Metric.LLC_MPKI: 0,
    Metric.CPU: 50,
}


def found(planted: Planted) -> dict[str, TypeFinding]:
    return {each.type: each for each in analyze(planted_history(planted), DEFAULT)}


def errors(finding: TypeFinding, planted: Mapping[Metric, int]) -> Mapping[str, int]:
    return {metric: abs(finding.affinity[metric].value - planted[metric]) for metric in planted}


@settings(max_examples=12)
@given(
    seed=st.integers(0, 10_000),
    values=st.lists(st.integers(0, 100), min_size=len(RANGES), max_size=len(RANGES)),
    cpi=st.booleans(),
)
def test_planted_affinities_are_recovered_within_ten_points(seed: int, values: list[int], cpi: bool) -> None:
    planted = dict(zip(RANGES, values, strict=True))
    (finding,) = found(Planted({"sort": planted}, seed=seed, cpi=cpi)).values()
    assert finding.pace is (Pace.CPI if cpi else Pace.DURATION)
    assert finding.refusal is None
    assert max(errors(finding, planted).values()) <= WITHIN


def test_document_affinities_are_recovered_beside_an_insensitive_type() -> None:
    both = found(Planted({"incept-no-leak": SENSITIVE, "steady": NOTHING}))
    assert max(errors(both["incept-no-leak"], SENSITIVE).values()) <= WITHIN
    assert max(errors(both["steady"], NOTHING).values()) <= WITHIN
    confidences = {both["incept-no-leak"].confidence(metric) for metric in RANGES}
    assert confidences == {Confidence.HIGH}


@given(st.integers(0, 10_000))
@settings(max_examples=5)
def test_pod_usage_is_recovered_without_its_warm_up(seed: int) -> None:
    (finding,) = found(Planted({"sort": NOTHING}, seed=seed, runs=20)).values()
    assert finding.use.keys() == USE.keys()
    for what, amount in USE.items():
        assert finding.use[what].mean == pytest.approx(amount, rel=0.01)
        assert finding.use[what].p95 == pytest.approx(amount * (1 + 1.645 * 0.05), rel=0.02)
        assert finding.use[what].pods == 20


def test_durations_alone_give_affinities_and_no_profile() -> None:
    (finding,) = found(Planted({"sort": SENSITIVE}, used=False)).values()
    assert not finding.use
    assert max(errors(finding, SENSITIVE).values()) <= WITHIN


def test_never_varied_pressure_is_reported_and_keeps_default() -> None:
    (finding,) = found(Planted({"sort": SENSITIVE}, flat=frozenset({Metric.LLC_MPKI}))).values()
    assert finding.refusal is None
    flat = finding.affinity[Metric.LLC_MPKI]
    assert flat.value == DEFAULT[Metric.LLC_MPKI]
    assert "never varied" in flat.why_default
    assert finding.confidence(Metric.LLC_MPKI) is Confidence.NONE


def test_type_without_any_varied_pressure_is_refused() -> None:
    (finding,) = found(Planted({"sort": SENSITIVE}, flat=frozenset(RANGES))).values()
    assert finding.refusal is not None
    assert finding.refusal.reason is Reason.PRESSURE_NEVER_VARIED
    assert "memorybandwidth: never varied" in finding.refusal.message
    assert not finding.affinity
    assert finding.use["cpu"].mean == pytest.approx(USE["cpu"], rel=0.01), (
        "what it uses is known all the same"
    )


def test_type_on_one_quiet_node_is_refused() -> None:
    history = planted_history(Planted({"sort": SENSITIVE}))
    quiet = {
        name: TimeSeries(each.times, np.full_like(each.values, each.values.mean()))
        for name, each in history.nodes["n0"].items()
    }
    alone = replace(
        history,
        nodes={**history.nodes, "quiet": quiet},
        pods=[replace(pod, node="quiet") for pod in history.pods],
    )
    (finding,) = analyze(alone, DEFAULT)
    assert finding.refusal is not None
    assert finding.refusal.reason is Reason.PRESSURE_NEVER_VARIED
    assert "saw 0% of the cluster's range" in finding.refusal.message


@pytest.mark.parametrize("runs", [0, 1, FEWEST - 1])
def test_few_runs_are_refused_with_their_number(runs: int) -> None:
    history = planted_history(Planted({"sort": SENSITIVE}, runs=FEWEST))
    unfinished = [replace(pod, end=None) for pod in history.pods[runs:]]
    (finding,) = analyze(replace(history, pods=[*history.pods[:runs], *unfinished]), DEFAULT)
    assert finding.refusal is not None
    assert finding.refusal.reason is Reason.TOO_FEW_RUNS
    assert finding.refusal.message.startswith(f"{runs} runs" if runs else "no pod finished")


def test_few_runs_are_believed_less_than_many() -> None:
    (few,) = found(Planted({"sort": NOTHING}, runs=15, noise=0.001)).values()
    (many,) = found(Planted({"sort": NOTHING}, runs=200, noise=0.001)).values()
    assert few.affinity[Metric.CPU].value == pytest.approx(50 * 10 / (15 + 10), abs=3)
    assert many.affinity[Metric.CPU].value == pytest.approx(50 * 10 / (200 + 10), abs=2)


def test_noise_is_not_taken_for_an_effect() -> None:
    (finding,) = found(Planted({"sort": NOTHING}, noise=0.3, runs=400)).values()
    assert max(each.value for each in finding.affinity.values()) <= WITHIN


def test_odd_runs_are_left_out_and_counted() -> None:
    history = planted_history(Planted({"sort": SENSITIVE}))
    stuck = [replace(pod, end=pod.start + 50 * BASE) for pod in history.pods[:3]]
    (finding,) = analyze(replace(history, pods=[*stuck, *history.pods[3:]]), DEFAULT)
    assert finding.odd == 3
    assert max(errors(finding, SENSITIVE).values()) <= WITHIN


def test_metrics_that_move_as_one_share_their_effect() -> None:
    history = planted_history(Planted({"sort": {**NOTHING, Metric.MEMORY_BANDWIDTH: 80}}))
    low, high = RANGES[Metric.MEMORY_BANDWIDTH]
    twin = {
        name: {**node, Metric.MEMORY_LATENCY: _like(node[Metric.MEMORY_BANDWIDTH], 1e-7 / (high - low))}
        for name, node in history.nodes.items()
    }
    (finding,) = analyze(replace(history, nodes=twin), DEFAULT)
    one, other = finding.affinity[Metric.MEMORY_BANDWIDTH], finding.affinity[Metric.MEMORY_LATENCY]
    assert one.value == other.value == pytest.approx(40, abs=WITHIN)
    assert one.inseparable_from == (Metric.MEMORY_LATENCY,)


def _like(series: TimeSeries, factor: float) -> TimeSeries:
    return TimeSeries(series.times, series.values * factor)


def test_node_speed_is_factored_out_of_durations() -> None:
    history = planted_history(Planted({"sort": SENSITIVE}))
    speed = {name: 2.0 if number % 2 else 1.0 for number, name in enumerate(history.nodes)}
    faster = [
        replace(pod, end=pod.start + ((pod.end or 0.0) - pod.start) / speed[pod.node]) for pod in history.pods
    ]
    (finding,) = analyze(replace(history, pods=faster, speed=speed), DEFAULT)
    assert max(errors(finding, SENSITIVE).values()) <= WITHIN
    (unknown,) = analyze(replace(history, pods=faster), DEFAULT)
    assert unknown.affinity[Metric.CPU].spread > 2 * finding.affinity[Metric.CPU].spread


@pytest.mark.parametrize(
    ("speed", "ratio", "throttled", "pace"),
    [
        (1.0, None, None, 600.0),
        (1.0, None, 1.0, 600.0),
        (2.0, None, None, 1200.0),
        (2.0, None, 0.0, 1200.0),
        (2.0, None, 1.0, 600.0),
        (2.0, None, 0.5, 900.0),
        (2.0, 1.2, None, 1200.0),
        (2.0, 1.2, 1.0, 1000.0),
        (2.0, 1.01, 0.0, 1200.0),
        (2.0, 1.0, None, 1200.0),
        (2.0, 1.0, 1.0, 1200.0),
        (1.0, 1.2, None, 600.0),
    ],
)
def test_work_bounded_by_divided_quota_is_no_faster(
    speed: float, ratio: float | None, throttled: float | None, pace: float
) -> None:
    """Bounded by its quota divided by the ratio, a pod does as much there as on a node of ratio 1.00.

    ``speed`` is its node's ratio, ``ratio`` its quota's: None is unknown, and 1.0 not divided.
    """
    times = np.arange(0.0, 600.0, 60.0)
    series = {} if throttled is None else {THROTTLED: TimeSeries(times, np.full_like(times, throttled))}
    pod = PodRecord("default/a", "a", "n1", 0.0, 600.0, series, ratio=ratio)
    (run,) = runs_by_duration(History(0.0, 3600.0, {}, [pod], {"n1": speed}), [pod])
    assert run.pace == pytest.approx(pace)


def test_divided_quotas_are_not_taken_for_slow_work() -> None:
    """Half of the nodes are twice as fast, and every pod is bounded by its quota there."""
    history = planted_history(Planted({"sort": SENSITIVE}))
    speed = {name: 2.0 if number % 2 else 1.0 for number, name in enumerate(history.nodes)}
    bounded = [
        replace(
            pod,
            use={**pod.use, THROTTLED: replace(pod.use["cpu"], values=np.ones_like(pod.use["cpu"].values))},
        )
        for pod in history.pods
    ]
    (finding,) = analyze(replace(history, pods=bounded, speed=speed), DEFAULT)
    assert max(errors(finding, SENSITIVE).values()) <= WITHIN


def test_unlike_nodes_compare_by_share_of_their_capacity() -> None:
    history = planted_history(Planted({"sort": SENSITIVE}, used=False))
    metric = str(Metric.MEMORY_BANDWIDTH)
    larger = {name: 4.0 if number % 2 else 1.0 for number, name in enumerate(history.nodes)}
    mixed = replace(
        history,
        nodes={
            name: {**node, metric: _like(node[metric], larger[name])} for name, node in history.nodes.items()
        },
    )
    stated = {name: {metric: factor * 100e9} for name, factor in larger.items()}
    (relative,) = analyze(replace(mixed, against=stated), DEFAULT)
    assert max(errors(relative, SENSITIVE).values()) <= WITHIN
    stated.pop("n0")
    (absolute,) = analyze(replace(mixed, against=stated), DEFAULT)
    (plain,) = analyze(mixed, DEFAULT)
    assert absolute.affinity == plain.affinity, "one node does not state it, so none is compared by it"
    assert plain.affinity[metric].correlation < relative.affinity[metric].correlation


def test_metric_that_few_nodes_have_is_not_used() -> None:
    history = planted_history(Planted({"sort": SENSITIVE}))
    without = {
        name: node if name == "n0" else {m: s for m, s in node.items() if m != Metric.LLC_MPKI}
        for name, node in history.nodes.items()
    }
    (finding,) = analyze(replace(history, nodes=without), DEFAULT)
    assert finding.affinity[Metric.LLC_MPKI].why_default == "unknown for most runs"
    assert (
        max(errors(finding, {m: v for m, v in SENSITIVE.items() if m != Metric.LLC_MPKI}).values()) <= WITHIN
    )


def test_pod_bandwidth_puts_no_pressure_on_itself() -> None:
    times = np.arange(0.0, 3600.0, 60.0)
    own = TimeSeries(times, np.full_like(times, 4e9))
    nodes = {"n1": {"memorybandwidth": TimeSeries(times, np.full_like(times, 10e9))}}
    pod = PodRecord("default/a", "a", "n1", 0.0, 3600.0, {"memoryBandwidth": own})
    (run,) = runs_by_duration(History(0.0, 3600.0, nodes, [pod]), [pod])
    assert run.pressure == {"memorybandwidth": pytest.approx(6e9)}


def test_job_begun_before_history_is_not_a_run() -> None:
    pods = [PodRecord("default/a", "a", "n1", start, 7000.0) for start in (3599.0, 3600.0)]
    assert len(runs_by_duration(History(3600.0, 9000.0, {"n1": {}}, pods), pods)) == 1


def test_episodes_begin_after_warm_up_and_are_whole() -> None:
    times = np.arange(0.0, 10_000.0, 60.0)
    pod = PodRecord("default/a", "a", "n1", 0.0, None, {"cpi": TimeSeries(times, np.ones_like(times))})
    runs = runs_by_cpi(History(0.0, 7800.0, {"n1": {}}, [pod]), [pod], Slicing(600.0, 3600.0))
    assert [run.pace for run in runs] == [1.0, 1.0]


@given(
    st.lists(
        st.tuples(st.floats(0.1, 1e6), st.lists(st.floats(0, 1e12), min_size=2, max_size=2)), max_size=60
    )
)
def test_affinities_are_always_integers_from_0_to_100(
    samples: list[tuple[float, list[float]]],
) -> None:
    default = {"memorybandwidth": 50, "cpu": 0}
    runs = [Run("p", "n", pace, dict(zip(default, pressure, strict=True))) for pace, pressure in samples]
    scales = {metric: MetricRange.of(np.array([run.pressure[metric] for run in runs])) for metric in default}
    for each in affinities(runs, scales, default).values():
        assert 0 <= each.value <= 100
        assert np.isfinite([each.effect, each.correlation, each.spread]).all()


@given(st.lists(st.tuples(st.floats(), st.floats()), max_size=50), st.booleans())
def test_values_that_cannot_be_are_missing(points: list[tuple[float, float]], zero_is_missing: bool) -> None:
    series = TimeSeries.of(points, zero_is_missing=zero_is_missing)
    assert np.isfinite(series.values).all()
    assert (series.values >= 0).all()
    assert not zero_is_missing or (series.values > 0).all()
    assert (np.diff(series.times) >= 0).all()
