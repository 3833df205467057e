"""What a requested CPU is worth: compute = time x nominal speed, counted while a container is held back."""

from __future__ import annotations

import math

import pytest

from corewise_lab.load import Load
from corewise_lab.measurement import Workload, run, spread


def workload(*, quota: float, load: Load, counts: bool = True) -> Workload:
    return Workload(requested=2.0, weight=1.0, quota=quota, load=load, phase=0.0, counts=counts)


def test_quota_bounds_time_and_speed_makes_compute() -> None:
    got = run([workload(quota=2.0, load=Load(5.0, 5.0))], cpus=8.0, speed=1.5, seconds=(0.0,))
    assert (got.compute, got.per_requested) == (3.0, 1.5)


def test_container_wanting_little_gets_it_without_throttling() -> None:
    got = run([workload(quota=4.0, load=Load(1.5, 1.5))], cpus=8.0, speed=2.0, seconds=(0.0,))
    assert (got.compute, got.per_requested) == (3.0, None)


def test_normalization_makes_a_requested_cpu_worth_one() -> None:
    busy = Load(4.0, 4.0)
    off = run([workload(quota=2.0, load=busy)], cpus=8.0, speed=2.5, seconds=(0.0,))
    on = run([workload(quota=2.0 / 2.5, load=busy)], cpus=8.0, speed=2.5, seconds=(0.0,))
    assert (off.per_requested, on.per_requested) == (2.5, 1.0)


def test_an_idle_container_says_nothing_about_its_machine() -> None:
    delivered = run([workload(quota=2.0, load=Load(0.5, 0.5))], cpus=8.0, speed=1.0, seconds=(0.0,))
    assert delivered.per_requested is None
    assert delivered.compute == 1.0


def test_only_steps_with_a_throttled_container_count() -> None:
    swinging = run([workload(quota=2.0, load=Load(0.0, 4.0, 4.0))], cpus=8.0, speed=1.0, seconds=(0.0, 2.0))
    assert swinging.per_requested == 1.0
    assert swinging.compute == 1.0, "none in the first step, two baseline CPUs in the second"


def test_uncounted_containers_still_take_part() -> None:
    busy = Load(4.0, 4.0)
    both = [workload(quota=math.inf, load=busy, counts=False), workload(quota=2.0, load=busy)]
    delivered = run(both, cpus=2.0, speed=1.0, seconds=(0.0,))
    assert delivered.per_requested == 0.5


def test_constant_load_is_computed_once_with_equal_results() -> None:
    constant = [workload(quota=1.0, load=Load(4.0, 4.0))]
    one = run(constant, cpus=4.0, speed=1.0, seconds=(0.0,))
    assert run(constant, cpus=4.0, speed=1.0, seconds=tuple(map(float, range(50)))) == one


@pytest.mark.parametrize(
    ("values", "expected"), [([], None), ([2.0], 1.0), ([1.0, 3.0], 3.0), ([0.0, 1.0], None)]
)
def test_the_spread_is_the_largest_over_the_smallest(values: list[float], expected: float | None) -> None:
    assert spread(values) == expected
