"""The filter: strictly more than overprovisioning x profile, of bandwidth and of memory."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewise.config.interference.model import (
    BANDWIDTH_PER_CORE,
    DefaultProfile,
    InterferenceConfiguration,
    Profile,
)
from corewise.interference.filtering import PodRequests, Selected, filter_nodes, select_profile
from interference.nodes import GB, pressure, seen, weights


def of(**profile: int) -> Selected:
    """What a profile of a type states."""
    return Selected("stream", Profile(**profile), {})


STREAM = of(memory_bandwidth=5 * GB, memory=2 * 10**8)
CONFIG = InterferenceConfiguration()
STRICT = InterferenceConfiguration(missing_passes=False)


def test_document_stream_needs_over_10_gbs_and_400mb() -> None:
    measured = pressure(
        4,
        memorybandwidth_capacity=[30 * GB, 30 * GB, 30 * GB, 30 * GB],
        memorybandwidth_used=[19 * GB, 20 * GB, 19 * GB, 20 * GB - 1],
        memory_available=[1 * GB, 1 * GB, 4 * 10**8, 4 * 10**8 + 1],
    )
    filtered = filter_nodes(seen(measured), STREAM, CONFIG)
    assert (filtered.bandwidth.right, filtered.memory.right) == (10e9, 4e8)
    assert filtered.bandwidth.left.tolist() == [11e9, 10e9, 11e9, 10e9 + 1]
    assert filtered.bandwidth.passes.tolist() == [True, False, True, True]
    assert filtered.memory.passes.tolist() == [True, True, False, True]
    assert filtered.passes.tolist() == [True, False, False, True]


def test_counterweights_reduce_measured_sides_not_what_is_needed() -> None:
    measured = pressure(
        2, memorybandwidth_capacity=[40e9] * 2, memorybandwidth_used=[20e9] * 2, memory_available=[1e9] * 2
    )
    placed = weights(2, memory_bandwidth=[0.0, 10e9], memory=[0.0, 0.6e9])
    filtered = filter_nodes(seen(measured, placed), STREAM, CONFIG)
    assert filtered.bandwidth.left.tolist() == [20e9, 10e9]
    assert filtered.memory.left.tolist() == [1e9, 0.4e9]
    assert filtered.passes.tolist() == [True, False]
    assert filtered.bandwidth.right == 10e9


@pytest.mark.parametrize("missing_passes", [True, False])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -1.0, 0.0])
def test_impossible_value_counts_as_missing_and_follows_configuration(
    bad: float, missing_passes: bool
) -> None:
    measured = pressure(
        2,
        memorybandwidth_capacity=[100e9, 100e9],
        memorybandwidth_used=[bad, 1e9],
        memory_available=[1e9, 1e9],
    )
    filtered = filter_nodes(seen(measured), STREAM, replace(CONFIG, missing_passes=missing_passes))
    assert filtered.bandwidth.missing.tolist() == [True, False]
    assert filtered.passes.tolist() == [missing_passes, True]


def test_memory_available_of_0_means_a_full_node() -> None:
    measured = pressure(1, memory_available=[0.0])
    filtered = filter_nodes(seen(measured), of(memory=1), CONFIG)
    assert not filtered.memory.missing.any()
    assert not filtered.passes.any()


def test_an_unknown_capacity_is_missing() -> None:
    measured = pressure(1, memorybandwidth_used=[5e9], memory_available=[1e9])
    filtered = filter_nodes(seen(measured), STREAM, STRICT)
    assert filtered.bandwidth.missing.all()
    assert not filtered.passes.any()


def test_a_dimension_that_needs_nothing_is_not_asked() -> None:
    filtered = filter_nodes(seen(pressure(2)), of(cpu=1000), STRICT)
    assert not filtered.bandwidth.asked
    assert filtered.passes.all()


@pytest.mark.parametrize(
    ("stated", "requested", "needed"),
    [(None, 31 * 2**30, 31 * 2**30), (None, 0, 0), (2**30, 31 * 2**30, 2 * 2**30)],
)
def test_memory_of_a_request_is_not_multiplied(stated: int | None, requested: int, needed: int) -> None:
    """A pod without a profile, which requests half of an idle node or more, fits there."""
    config = InterferenceConfiguration(default=DefaultProfile(memory=stated))
    selected = select_profile({}, PodRequests(cpu=1000, memory=requested), config)
    assert isinstance(selected, Selected)
    filtered = filter_nodes(seen(pressure(1, memory_available=[62.0 * 2**30])), selected, config)
    assert filtered.memory.right == needed
    assert filtered.bandwidth.right == 2 * BANDWIDTH_PER_CORE
    assert filtered.passes.all()


@given(
    st.integers(1, 10**12),
    st.integers(0, 10**12),
    st.integers(0, 10**11),
    st.fractions(1, 4, max_denominator=10),
)
def test_equality_does_not_pass_whatever_the_amounts(
    capacity: int, used: int, profile: int, factor: Fraction
) -> None:
    needed = factor * profile
    measured = pressure(1, memorybandwidth_capacity=[float(capacity)], memorybandwidth_used=[float(used)])
    config = replace(STRICT, overprovisioning=factor)
    filtered = filter_nodes(seen(measured), of(memory_bandwidth=profile), config)
    expected = profile == 0 or (used > 0 and float(capacity - used) > float(needed))
    assert filtered.passes.tolist() == [expected]
