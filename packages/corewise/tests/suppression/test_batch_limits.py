"""Weights, quotas and memory limits of offline pods, as kubelet would make them of batch resources."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewise.quantities import ONE, Microseconds, Ratio
from corewise.suppression.batch_limits import (
    LARGEST_SHARES,
    SMALLEST_QUOTA,
    SMALLEST_SHARES,
    BatchContainer,
    BatchPod,
    period_beside,
    quota,
    shares,
    weight,
)

PERIOD = 100_000


@pytest.mark.parametrize(
    ("present", "idle", "period", "base_period"),
    [
        (100_000, True, 1_000_000, 100_000),
        (100_000, False, 100_000, 100_000),
        (1_000_000, True, 1_000_000, 100_000),
        (1_000_000, False, 100_000, 100_000),
        (50_000, True, 50_000, None),
        (50_000, False, 50_000, None),
    ],
)
def test_period_is_long_beside_idle_pods_unless_foreign(
    present: int, idle: bool, period: int, base_period: int | None
) -> None:
    assert period_beside(Microseconds(present), idle=idle) == (period, base_period)


@pytest.mark.parametrize(
    ("request_milli", "v1", "v2"),
    [
        (0, 2, 1),
        (1, 2, 1),
        (2, 2, 1),
        (3, 3, 1),
        (100, 102, 4),
        (1000, 1024, 39),
        (4000, 4096, 157),
        (256_000, 262_144, 10_000),
        (999_000, 262_144, 10_000),
    ],
)
def test_batch_request_gets_the_weight_kubelet_would_compute(request_milli: int, v1: int, v2: int) -> None:
    assert shares(request_milli) == v1
    assert weight(request_milli) == v2


@pytest.mark.parametrize(
    ("limit", "ratio", "period", "expected"),
    [
        (None, "1.00", PERIOD, None),
        (0, "1.00", PERIOD, None),
        (4000, "1.00", PERIOD, 400_000),
        (4000, "1.50", PERIOD, 266_667),
        (1000, "1.20", PERIOD, 83_334),
        (4000, "2.00", 50_000, 100_000),
        (8, "1.00", PERIOD, 1000),
        (1, "5.00", PERIOD, 1000),
    ],
)
def test_limit_is_time_divided_by_normalization_ratio(
    limit: int | None, ratio: str, period: int, expected: int | None
) -> None:
    assert quota(limit, period=period, normalization=Ratio.parse(ratio)) == expected


@pytest.mark.parametrize(("ratio", "period"), [(Ratio(99), PERIOD), (ONE, 0), (ONE, -1)])
def test_ratio_below_one_or_missing_period_raises_valueerror(ratio: Ratio, period: int) -> None:
    with pytest.raises(ValueError, match="must be at least"):
        quota(1000, period=period, normalization=ratio)


def container(
    request: int | None, limit: int | None, memory: int | None = None, *, sidecar: bool = False
) -> BatchContainer:
    return BatchContainer("c", request, limit, memory, sidecar)


def limited(limit: int | None, *, sidecar: bool = False) -> BatchContainer:
    return container(None, limit, limit, sidecar=sidecar)


@pytest.mark.parametrize(
    ("pod", "limit", "request_milli"),
    [
        (BatchPod((limited(1000), limited(500))), 1500, 1500),
        (BatchPod((container(200, 1000), limited(500))), 1500, 700),
        (BatchPod((limited(1000), limited(None))), None, 1000),
        (BatchPod((limited(1000), limited(0))), None, 1000),
        (BatchPod((container(800, None),)), None, 800),
        (BatchPod(()), None, 0),
        # init containers count if one of them needs more than all that runs later
        (BatchPod((limited(500),), (limited(2000),)), 2000, 2000),
        (BatchPod((limited(500),), (limited(200), limited(300))), 500, 500),
        (BatchPod((limited(500),), (limited(None),)), None, 500),
        # sidecars run along, and count for the init containers that start after them
        (BatchPod((limited(500),), (limited(300, sidecar=True),)), 800, 800),
        (BatchPod((limited(500),), (limited(300, sidecar=True), limited(700))), 1000, 1000),
        (BatchPod((limited(500),), (limited(700), limited(300, sidecar=True))), 800, 800),
        (BatchPod((limited(500),), (limited(None, sidecar=True),)), None, 500),
        (BatchPod((limited(500),), (limited(300, sidecar=True), limited(None))), 800, 800),
    ],
)
def test_pod_limit_and_request_combine_containers_like_kubelet(
    pod: BatchPod, limit: int | None, request_milli: int
) -> None:
    assert pod.cpu_limit == limit
    assert pod.cpu_request == request_milli
    if all(each.cpu_limit == each.memory_limit for each in pod.containers):
        assert pod.memory_limit == limit


def test_any_container_requesting_batch_cpu_makes_pod_offline() -> None:
    assert BatchPod((container(None, None),), (container(None, 100),)).is_offline
    assert BatchPod((container(100, None),)).is_offline
    assert not BatchPod((container(None, None, 1 << 30),)).is_offline


@pytest.mark.parametrize(
    ("one", "tiny"),
    [
        (container(8, 8), True),
        (container(None, 9), True),
        (container(9, None), True),
        (container(10, 10), False),
        (container(8000, 8), True),
        (container(None, None), False),
        (container(0, 0), False),
    ],
)
def test_amount_below_one_percent_of_cpu_is_tiny(one: BatchContainer, tiny: bool) -> None:
    assert one.is_tiny is tiny


limits = st.none() | st.integers(0, 512_000)
ratios = st.integers(100, 500).map(Ratio)
periods = st.integers(1000, 1_000_000)
containers = st.lists(st.builds(limited, limits), min_size=1, max_size=4).map(tuple)
inits = st.lists(st.builds(limited, limits, sidecar=st.booleans()), max_size=4).map(tuple)


@given(containers, inits, periods, ratios)
def test_pod_quota_and_weight_cover_each_containers_own(
    own: tuple[BatchContainer, ...], init: tuple[BatchContainer, ...], period: int, ratio: Ratio
) -> None:
    pod = BatchPod(own, init)
    whole = quota(pod.cpu_limit, period=period, normalization=ratio)
    for each in own + init:
        part = quota(each.cpu_limit, period=period, normalization=ratio)
        assert whole is None or part is None or part <= whole
        assert shares(each.requested) <= shares(pod.cpu_request)
        assert weight(each.requested) <= weight(pod.cpu_request)


@given(st.integers(1, 512_000), periods, ratios)
def test_quota_is_exact_and_respects_the_kernel_minimum(limit: int, period: int, ratio: Ratio) -> None:
    exact = Fraction(limit * period // 1000) / Fraction(ratio.hundredths, 100)
    assert quota(limit, period=period, normalization=ratio) == max(SMALLEST_QUOTA, math.ceil(exact))


@given(st.integers(0, 10**6))
def test_weights_are_within_what_the_kernel_takes(request_milli: int) -> None:
    assert SMALLEST_SHARES <= shares(request_milli) <= LARGEST_SHARES
    assert 1 <= weight(request_milli) <= 10_000
