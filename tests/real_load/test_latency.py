"""The measurement of latency: its schedule and figures, and short trials on this machine's kernel."""

from __future__ import annotations

import random

import pytest

from corewise.kernel.cgroups.layout import Version
from experiments.suppression_proof import latency, requests
from experiments.suppression_proof.latency_figures import Trial, interval, quantile, schedule, table
from experiments.suppression_proof.real import ALONE, machine
from kernel.cgroup_writes import layout_here


@pytest.mark.parametrize("shape", ["steady", "square"])
def test_requests_of_1_to_5_ms_match_load(shape: str) -> None:
    plan = schedule(random.Random(1), 2000, 0.5, shape)  # noqa: S311
    assert sum(cost for _, cost in plan) / 2000 == pytest.approx(0.5, rel=0.03)
    assert all(0.001 <= cost <= 0.005 for _, cost in plan)
    late = sum(at % 10 >= 5 for at, _ in plan) / len(plan)
    assert late == pytest.approx(0.65 if shape == "square" else 0.5, abs=0.01)


def test_a_quantile_is_a_value_that_was_measured() -> None:
    assert [quantile(range(1, 1001), part) for part in (0.5, 0.99, 0.999)] == [500, 990, 999]
    assert quantile([7], 0.999) == 7


def test_interval_contains_mean_and_narrows_with_repetitions() -> None:
    few, many = (interval([1.0, 3.0] * count, random.Random(1)) for count in (3, 100))  # noqa: S311
    assert few[0] <= many[0] < 2 < many[1] <= few[1]
    assert many[1] - many[0] < few[1] - few[0]


def test_repetitions_of_an_arm_are_one_row() -> None:
    trials = [Trial("alone", 0.2, "steady", (3.0, each, 9.0), 0.0, 0.01, 99) for each in (5.0, 7.0)]
    row = "| 20% steady | alone | 2 | 3.00 (3.00-3.00) | 6.00 (5.00-7.00) | 9.00 (9.00-9.00)"
    assert table(trials, ["weights only", "alone"], "alone").splitlines()[2:] == [
        f"{row} | 1.00 (1.00-1.00) | 0.00 (0.00-0.00) | 1.0% |"
    ]


def test_arms_are_compared_within_the_same_repetition() -> None:
    p99 = {"weights only": (10.0, 20.0), "option 1": (5.0, 20.0)}
    trials = [Trial(arm, 0.2, "steady", (1.0, each, 30.0), 0.5, 0.0, 99) for arm in p99 for each in p99[arm]]
    shown = table(trials, [*p99], "weights only").splitlines()[3]
    assert "| 0.75 (0.50-1.00) |" in shown


def test_each_arm_runs_on_real_cgroups() -> None:
    if layout_here(Version.V1, Version.V2) is None:
        pytest.skip("needs root and a writable cgroup hierarchy with cpu and memory")
    speed = requests.hashes_per_second()
    with machine(own_load=False) as on:
        for arm in latency.ARMS:
            shown = latency.trial(on, arm, 0.2, "steady", seconds=2, warm_up=1, seed=1, speed=speed)
            assert shown.requests > 0
            assert shown.latency[0] > 0
            assert (shown.offline == 0) == (arm == ALONE)
