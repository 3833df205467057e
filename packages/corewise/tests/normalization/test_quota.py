"""CFS quota of CPUShare pods, by examples and by its laws."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewise.normalization.quota import SMALLEST_QUOTA, ContainerLimit, PodLimits, container_quota, pod_quota
from corewise.quantities import ONE, AmplifiedMilli, Microseconds, Ratio

PERIOD = Microseconds(100_000)


def milli(value: int | None) -> AmplifiedMilli | None:
    return None if value is None else AmplifiedMilli(value)


def container(value: int | None, *, sidecar: bool = False) -> ContainerLimit:
    return ContainerLimit(milli(value), sidecar)


def pod(
    *limits: int | None,
    init_containers: tuple[ContainerLimit, ...] = (),
    pod_level: int | None = None,
    overhead: int = 0,
) -> PodLimits:
    own = tuple(container(each) for each in limits)
    return PodLimits(own, init_containers, milli(pod_level), AmplifiedMilli(overhead))


def quota(limits: PodLimits, ratio: int = 100) -> int | None:
    return pod_quota(limits, period=PERIOD, ratio=Ratio(ratio))


@pytest.mark.parametrize(
    ("limit", "ratio", "period", "expected"),
    [
        (1000, 120, 100_000, 83_334),
        (2000, 120, 100_000, 166_667),
        (2300, 115, 100_000, 200_000),
        (10, 120, 100_000, 1000),
        (1000, 100, 100_000, 100_000),
        (1500, 500, 100_000, 30_000),
        (1, 100, 100_000, 1000),
        (333, 100, 50_000, 16_650),
        (333, 100, 1_000, 1000),
        (1999, 100, 1_001, 2000),
        (None, 120, 100_000, None),
        (0, 120, 100_000, None),
    ],
)
def test_container_quota_is_its_limit_divided_by_ratio(
    limit: int | None, ratio: int, period: int, expected: int | None
) -> None:
    assert container_quota(milli(limit), period=Microseconds(period), ratio=Ratio(ratio)) == expected


def test_a_container_without_a_limit_has_the_pods() -> None:
    level = AmplifiedMilli(3000)
    assert container_quota(None, period=PERIOD, ratio=Ratio(150), pod_level=level) == 200_000
    assert container_quota(milli(1500), period=PERIOD, ratio=Ratio(150), pod_level=level) == 100_000


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        (pod(1000, 500), 150_000),
        (pod(1000, None), None),
        (pod(1000, 0), None),
        (pod(), None),
        # an init container that needs more than all others together
        (pod(500, init_containers=(container(2000),)), 200_000),
        (pod(500, init_containers=(container(200), container(300))), 50_000),
        (pod(500, init_containers=(container(None),)), None),
        # sidecars run along, and count for the init containers that start after them
        (pod(500, init_containers=(container(300, sidecar=True),)), 80_000),
        (pod(500, init_containers=(container(300, sidecar=True), container(700))), 100_000),
        (pod(500, init_containers=(container(700), container(300, sidecar=True))), 80_000),
        (pod(500, init_containers=(container(100, sidecar=True), container(200, sidecar=True))), 80_000),
        (pod(500, init_containers=(container(None, sidecar=True),)), None),
        # as kubelet has it, these count with the limit of the sidecar before them
        (pod(500, init_containers=(container(300, sidecar=True), container(None))), 80_000),
        (pod(500, init_containers=(container(300, sidecar=True), container(None, sidecar=True))), 80_000),
        # overhead comes on top of a limit, and is none by itself
        (pod(1000, overhead=250), 125_000),
        (pod(None, overhead=250), None),
        # a limit of the pod itself takes the place of the sum
        (pod(None, None, pod_level=4000), 400_000),
        (pod(1000, 1000, pod_level=1500), 150_000),
        (pod(None, pod_level=1000, overhead=100), 110_000),
        (pod(1000, pod_level=0), 100_000),
    ],
)
def test_pod_limit_is_what_kubelet_derives_from_spec(limits: PodLimits, expected: int | None) -> None:
    assert quota(limits) == expected
    if expected is not None:
        assert quota(limits, 120) == math.ceil(Fraction(expected * 100, 120))


@pytest.mark.parametrize(("ratio", "period"), [(99, 100_000), (0, 100_000), (100, 0), (100, -1)])
def test_ratio_below_one_or_missing_period_is_refused(ratio: int, period: int) -> None:
    with pytest.raises(ValueError, match="must be at least"):
        container_quota(AmplifiedMilli(1000), period=Microseconds(period), ratio=Ratio(ratio))
    with pytest.raises(ValueError, match="must be at least"):
        pod_quota(pod(1000), period=Microseconds(period), ratio=Ratio(ratio))


ratios = st.integers(100, 500).map(Ratio)
periods = st.integers(1_000, 1_000_000).map(Microseconds)
limits = st.integers(1, 512_000).map(AmplifiedMilli)
containers = st.lists(st.builds(ContainerLimit, st.none() | limits), min_size=1, max_size=4).map(tuple)
init_containers = st.lists(st.builds(ContainerLimit, st.none() | limits, st.booleans()), max_size=4).map(
    tuple
)


@given(limits, periods, ratios)
def test_quota_is_exact_and_respects_limit_and_floor(
    limit: AmplifiedMilli, period: Microseconds, ratio: Ratio
) -> None:
    result = container_quota(limit, period=period, ratio=ratio)
    assert result is not None
    exact = Fraction(limit * period // 1000) / Fraction(ratio.hundredths, 100)
    assert result == max(SMALLEST_QUOTA, math.ceil(exact))


@given(limits, periods, ratios, ratios)
def test_a_faster_cpu_never_gets_more_time(
    limit: AmplifiedMilli, period: Microseconds, a: Ratio, b: Ratio
) -> None:
    slow, fast = sorted((a, b))
    with_slow = container_quota(limit, period=period, ratio=slow)
    with_fast = container_quota(limit, period=period, ratio=fast)
    assert with_slow is not None
    assert with_fast is not None
    assert with_fast <= with_slow
    base = container_quota(limit, period=period, ratio=ONE)
    assert base == max(SMALLEST_QUOTA, limit * period // 1000)


@given(containers, init_containers, st.integers(0, 1000).map(AmplifiedMilli), periods, ratios)
def test_pod_quota_is_never_below_a_containers_quota(
    own: tuple[ContainerLimit, ...],
    init: tuple[ContainerLimit, ...],
    overhead: AmplifiedMilli,
    period: Microseconds,
    ratio: Ratio,
) -> None:
    parent = pod_quota(PodLimits(own, init, overhead=overhead), period=period, ratio=ratio)
    if parent is None:
        return
    assert all(each.limit for each in own)
    for each in own + init:
        child = container_quota(each.limit, period=period, ratio=ratio)
        assert child is None or child <= parent
