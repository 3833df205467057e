"""The plant: nobody above its cap, no CPU idle while wanted, shares by weight, compute = time x speed."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewise.local.plant import Container, Load, Workload, run, spread, step, water_fill

amounts = st.floats(min_value=0, max_value=1000)
weights = st.floats(min_value=0.01, max_value=10_000)
claims = st.lists(st.tuples(amounts | st.just(math.inf), weights), min_size=1, max_size=12)
totals = st.floats(min_value=0.1, max_value=500)
SLACK = 1e-6


@given(claims, totals)
def test_all_cpus_are_given_out_as_long_as_somebody_can_use_them(
    claims: list[tuple[float, float]], total: float
) -> None:
    caps = [cap for cap, _ in claims]
    shares = water_fill(caps, [weight for _, weight in claims], total)
    assert math.fsum(shares) == pytest.approx(min(total, math.fsum(caps)), rel=SLACK, abs=SLACK)


@given(claims, totals)
def test_nobody_gets_more_than_its_cap_or_less_than_nothing(
    claims: list[tuple[float, float]], total: float
) -> None:
    shares = water_fill([cap for cap, _ in claims], [weight for _, weight in claims], total)
    assert all(0 <= share <= cap + SLACK for share, (cap, _) in zip(shares, claims, strict=True))


@given(claims, totals)
def test_those_below_their_cap_have_shares_by_weight(claims: list[tuple[float, float]], total: float) -> None:
    shares = water_fill([cap for cap, _ in claims], [weight for _, weight in claims], total)
    levels = [
        share / weight
        for share, (cap, weight) in zip(shares, claims, strict=True)
        if share < cap * (1 - SLACK) - SLACK
    ]
    assert not levels or max(levels) == pytest.approx(min(levels), rel=1e-4, abs=SLACK)


@given(claims, totals, st.floats(min_value=0, max_value=100))
def test_more_cpus_never_give_anybody_less(
    claims: list[tuple[float, float]], total: float, more: float
) -> None:
    caps, by_weight = [cap for cap, _ in claims], [weight for _, weight in claims]
    before, after = water_fill(caps, by_weight, total), water_fill(caps, by_weight, total + more)
    assert all(new >= old - SLACK for old, new in zip(before, after, strict=True))


@given(claims, totals, st.floats(min_value=0, max_value=100))
def test_a_higher_cap_never_costs_its_owner_anything(
    claims: list[tuple[float, float]], total: float, more: float
) -> None:
    caps, by_weight = [cap for cap, _ in claims], [weight for _, weight in claims]
    before = water_fill(caps, by_weight, total)[0]
    assert water_fill([caps[0] + more, *caps[1:]], by_weight, total)[0] >= before - SLACK


def test_a_quota_bounds_cpu_time_and_the_speed_makes_compute_of_it() -> None:
    (share,) = step([Container(demand=10.0, weight=1.0, quota=2.0)], cpus=8.0, speed=1.5)
    assert (share.cpu_time, share.compute, share.held_back) == (2.0, 3.0, True)


def test_a_container_that_wants_little_gets_it_and_is_not_held_back() -> None:
    (share,) = step([Container(demand=3.0, weight=1.0, quota=4.0)], cpus=8.0, speed=2.0)
    assert (share.cpu_time, share.compute, share.held_back) == (1.5, 3.0, False)


def workload(*, quota: float, load: Load, counts: bool = True) -> Workload:
    return Workload(requested=2.0, weight=1.0, quota=quota, load=load, phase=0.0, counts=counts)


def test_a_requested_cpu_is_worth_the_speed_without_normalization_and_one_with_it() -> None:
    busy = Load(4.0, 4.0)
    off = run([workload(quota=2.0, load=busy)], cpus=8.0, speed=2.5, seconds=(0.0,))
    on = run([workload(quota=2.0 / 2.5, load=busy)], cpus=8.0, speed=2.5, seconds=(0.0,))
    assert (off.per_requested, on.per_requested) == (2.5, 1.0)


def test_an_idle_container_says_nothing_about_its_machine() -> None:
    delivered = run([workload(quota=2.0, load=Load(0.5, 0.5))], cpus=8.0, speed=1.0, seconds=(0.0,))
    assert delivered.per_requested is None
    assert delivered.compute == 1.0


def test_only_the_steps_in_which_a_container_is_held_back_count() -> None:
    swinging = run([workload(quota=2.0, load=Load(0.0, 4.0, 4.0))], cpus=8.0, speed=1.0, seconds=(0.0, 2.0))
    assert swinging.per_requested == 1.0
    assert swinging.compute == 1.0, "none in the first step, two baseline CPUs in the second"


def test_containers_that_do_not_count_take_part_all_the_same() -> None:
    busy = Load(4.0, 4.0)
    both = [workload(quota=math.inf, load=busy, counts=False), workload(quota=2.0, load=busy)]
    delivered = run(both, cpus=2.0, speed=1.0, seconds=(0.0,))
    assert delivered.per_requested == 0.5


def test_a_load_swings_between_its_ends() -> None:
    load = Load(1.0, 3.0, 60.0)
    assert load.at(0) == pytest.approx(1.0)
    assert load.at(30) == pytest.approx(3.0)
    assert load.at(0, phase=0.5) == pytest.approx(3.0)


def test_a_constant_load_is_worked_out_once_and_gives_the_same() -> None:
    constant = [workload(quota=1.0, load=Load(4.0, 4.0))]
    one = run(constant, cpus=4.0, speed=1.0, seconds=(0.0,))
    assert run(constant, cpus=4.0, speed=1.0, seconds=tuple(map(float, range(50)))) == one


@pytest.mark.parametrize(
    ("values", "expected"), [([], None), ([2.0], 1.0), ([1.0, 3.0], 3.0), ([0.0, 1.0], None)]
)
def test_the_spread_is_the_largest_over_the_smallest(values: list[float], expected: float | None) -> None:
    assert spread(values) == expected
