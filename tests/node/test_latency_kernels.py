"""The latency experiment runs in a virtual machine whose clock counts instructions."""

from __future__ import annotations

import shutil

import pytest

from experiments.latency import kernels
from experiments.latency.arms import ALONE
from experiments.latency.guest import Plan
from node.unpacking import Unavailable
from node.virtual_machines import tools


def test_guest_measures_each_arm_of_the_plan() -> None:
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler")
    plan = Plan(first=3, repetitions=1, seconds=0.3, arms=(ALONE, "option 1"))
    try:
        _, trials = kernels.measure(tools().kernel, plan)
    except Unavailable as reason:
        pytest.skip(str(reason))
    assert {(each.arm, each.repetition, each.cpus) for each in trials} == {(ALONE, 3, 1), ("option 1", 3, 1)}
    assert all(sum(each.latencies.values()) > 50 for each in trials)
