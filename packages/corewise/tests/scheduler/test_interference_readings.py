"""Which queries are asked, which node a series belongs to, and what of an answer is usable."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewise.config.interference.metrics import Metric, Preset
from corewise.config.interference.model import InterferenceConfiguration
from corewise.config.interference.reading import parse_interference
from corewise.interference.pressure import ZERO_IS_MISSING
from corewise.prometheus.client import QueryResult, Sample
from corewise.scheduler.observing.readings import NodeIdentity, NodeNames, Observation, Reading, State, read
from corewise.scheduler.observing.sources import Source, sources

NOW = 1_000_000.0
NODES = NodeNames(map(NodeIdentity, ("n1", "n2", "n3")))
SOURCE = Source(Metric.MEMORY_BANDWIDTH, "q", "node", 60.0)


def configured(section: str) -> InterferenceConfiguration:
    parsed = parse_interference(f"interference: {{{section}}}")
    assert parsed.value is not None, parsed.errors
    return parsed.value


def answer(*pairs: tuple[str, float], at: float = 500.0) -> QueryResult:
    return QueryResult(at, tuple(Sample({"node": name}, value) for name, value in pairs))


@pytest.mark.parametrize("preset", list(Preset))
def test_preset_queries_are_complete_with_node_and_window(preset: Preset) -> None:
    for source in sources(configured(f"window: 120s, metrics: {{preset: {preset}, nodeLabel: host}}")):
        for query in (source.query, source.last_samples):
            assert "$" not in query
            assert "by (host)" in query
        assert source.samples.partition("{")[0] in source.query
        assert "[120s" in source.query or "rate" not in source.query
        assert source.origin == f"interference.metrics.{source.metric} (preset {preset})"


def test_mpki_is_ratio_of_rates_not_averaged_ratios() -> None:
    found = [template.query for template in Metric.LLC_MPKI.spec.queries.values()]
    assert len(found) == 4
    rate = r"rate\([^()]*\)"
    matched = r"(on \(\$node\) group_left \(\) )?"
    form = rf"1000 \* sum by \(\$node(, level)?\) \({rate}\) / {matched}sum by \(\$node\) \({rate}\)"
    assert all(re.search(form, query) and "avg" not in query for query in found)


def test_written_query_replaces_the_presets_query() -> None:
    own = "memorybandwidth: {query: 'sum by ($node) (x[$window])', unit: MiB/s, maximumAge: 30s}"
    asked = {each.metric: each for each in sources(configured(f"metrics: {{preset: pcm, {own}}}"))}
    written = asked[Metric.MEMORY_BANDWIDTH]
    assert written.query == "sum by (node) (x[300s])"
    assert (written.factor, written.maximum_age, written.last_samples) == (2**20, 30.0, "")
    assert written.origin == "line 1: interference.metrics.memorybandwidth"
    assert asked[Metric.LLC_MPKI].maximum_age == 300.0


def test_what_no_decision_reads_is_not_asked() -> None:
    def asked(section: str) -> set[Metric]:
        return {each.metric for each in sources(configured(section))}

    plain = asked("window: 60s")
    assert asked("relative: true") - plain == {Metric.LLC_CAPACITY, Metric.MEMORY_LATENCY_IDLE}
    assert asked("latencyModel: curve") - plain == {Metric.MEMORY_LATENCY_IDLE}
    takes, minds = "a: {profile: {llc: 8MiB}}", "b: {affinity: {llc_mpki: 1}}"
    assert asked(f"profiles: {{{takes}}}") == asked(f"profiles: {{{minds}}}") == plain
    assert asked(f"profiles: {{{takes}, {minds}}}") - plain == {Metric.LLC_CAPACITY}
    assert asked("metrics: {cpu: {query: x}}") == {Metric.CPU}


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("n1", 0),
        ("n1:9100", 0),
        ("host-1", 0),
        ("10.0.0.1:9100", 0),
        ("[fd00::1]:9100", 0),
        ("fd00::1", 0),
        ("n2", 1),
        ("shared", None),
        ("", None),
        ("n1.example", None),
        ("10.0.0.1:port", None),
    ],
)
def test_label_names_node_by_name_hostname_or_address(text: str, place: int | None) -> None:
    nodes = NodeNames(
        [
            NodeIdentity("n1", ("host-1", "10.0.0.1", "fd00::1", "shared")),
            NodeIdentity("n2", ("n1", "10.0.0.2", "shared")),
        ]
    )
    assert nodes.place(text) == place


def test_each_node_has_base_unit_value_and_age() -> None:
    source = replace(SOURCE, factor=1000.0, last_samples="l")
    reading = read(source, NODES, answer(("n1", 2.0), ("n2:99", 3.0)), answer(("n1", 490.0)), NOW)
    assert reading.values[:2].tolist() == [2000.0, 3000.0]
    assert reading.sampled.tolist() == [NOW - 10, NOW - 60, NOW - 60]
    assert reading.states(NOW, 60.0) == {**dict.fromkeys(State, 0), State.FRESH: 2, State.ABSENT: 1}
    assert reading.states(NOW + 51, 60.0)[State.STALE] == 2
    assert reading.oldest(NOW, 60.0) == 60.0
    assert reading.oldest(NOW + 1000, 60.0) is None


def test_node_without_a_value_has_no_sample_time() -> None:
    found = answer(("n1", 2.0), ("n2", math.nan))
    for metric in (Metric.MEMORY_BANDWIDTH, Metric.LLC_MPKI):
        source = replace(SOURCE, metric=metric)
        observation = Observation(
            NOW, NODES.names, (source,), {metric: read(source, NODES, found, None, NOW)}
        )
        for _, sampled in observation.measured().columns.values():
            assert np.isnan(sampled).tolist() == [False, True, True]


@pytest.mark.parametrize("series", list(Metric))
def test_exporters_zero_for_unsupported_readings_counts_as_missing(series: Metric) -> None:
    source = replace(SOURCE, metric=series)
    reading = read(source, NODES, answer(("n1", 0.0), ("n2", 2.0**64 - 1), ("n3", 1.0)), None, NOW)
    assert np.isnan(reading.values).tolist() == [source.metric.column in ZERO_IS_MISSING, True, False]
    assert reading.invalid.tolist() == [source.metric.column in ZERO_IS_MISSING, True, False]


anything = st.floats(allow_nan=True, allow_infinity=True) | st.sampled_from([0.0, 1.0, -1.0])
names = st.sampled_from(["n1", "n2", "n3", "n3:1", "n4", ""])


@given(st.lists(st.tuples(names, anything), max_size=8))
def test_each_node_has_one_state_using_sound_values(
    pairs: list[tuple[str, float]],
) -> None:
    reading = read(SOURCE, NODES, answer(*pairs), None, NOW)
    assert sum(reading.states(NOW, 60.0).values()) == len(NODES)
    used = reading.values[~np.isnan(reading.values)]
    assert all(math.isfinite(each) and each > 0 for each in used)
    assert not (reading.ambiguous & ~np.isnan(reading.values)).any()
    named = [NODES.place(name) for name, _ in pairs]
    assert reading.unmatched == named.count(None)
    for place in range(len(NODES)):
        assert bool(reading.ambiguous[place]) == (named.count(place) > 1)


def test_misses_come_with_the_level_of_their_cache() -> None:
    source = Source(Metric.LLC_MPKI, "q", "node", 60.0)
    labeled = ({"node": "n1", "level": "LL"}, {"node": "n2", "level": "L2"}, {"node": "n3"})
    samples = tuple(Sample(labels, 1.0) for labels in labeled)
    reading = read(source, NODES, QueryResult(500.0, samples), None, NOW)
    levels, _ = (
        Observation(NOW, NODES.names, (source,), {source.metric: reading})
        .measured()
        .columns["llc_mpki_level"]
    )
    assert np.array_equal(levels, [np.nan, 2.0, np.nan], equal_nan=True)


def test_values_follow_their_nodes_through_arrivals_and_departures() -> None:
    reading = read(SOURCE, NODES, answer(("n1", 5.0), ("n3", 7.0)), None, NOW)
    moved = reading.rows(np.array([2, -1, 0]))
    assert moved.values[[0, 2]].tolist() == [7.0, 5.0]
    assert np.isnan(moved.values[1])
    assert moved.states(NOW, 60.0)[State.ABSENT] == 1
    assert Reading.nothing(0).rows(np.array([-1])).states(NOW, 1.0)[State.ABSENT] == 1
