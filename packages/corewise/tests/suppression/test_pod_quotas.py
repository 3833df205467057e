"""A quota for each offline pod: when a task begins and ends, which pods it takes, and how far.

utilization           suppressing            recovering             nothing goes on
====================  =====================  =====================  ====================
above high            goes on                becomes suppressing    suppressing begins
low to high           goes on                (at low: goes on)      nothing
recover to low        ends                   goes on                nothing
below recover         becomes recovering     goes on                recovering begins
nothing adjustable    ends                   ends                   nothing begins
"""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewise.config.colocation import SuppressionSettings
from corewise.quantities import Share
from corewise.suppression.batch_limits import SMALLEST_QUOTA
from corewise.suppression.offer import Pinned, Usage
from corewise.suppression.quotas import PodQuota, Task, cycle, utilization_of
from corewise.vocabulary.reasons import Reason

PERIOD = 100_000
SETTINGS = SuppressionSettings()
BETWEEN, HIGH, LOW = Reason.UTILIZATION_BETWEEN, Reason.UTILIZATION_HIGH, Reason.UTILIZATION_LOW


def pod(key: str, limit: int, present: int | None, period: int = PERIOD) -> PodQuota:
    return PodQuota(key, limit, present, period)


def test_owner_not_measured_yet_counts_among_others() -> None:
    usage = Usage(4500, 0, (Pinned(4000, 0, is_known=False),), 0, 0)
    assert utilization_of(usage, 8) == Fraction(4500, 8000)


@pytest.mark.parametrize(
    ("used", "pinned", "percent"),
    [
        (4000, [], 25),
        (4000, [(12_000, 0)], 100),
        (12_000, [(12_000, 12_000)], 0),
        (8000, [(4000, 1000), (8000, 5000)], 50),
        # what a CPUSet pod uses beyond its request, it uses on shared CPUs
        (14_000, [(12_000, 13_000)], 50),
        # the counters of node and pods are not read in one instant
        (3990, [(12_000, 4000)], 0),
        (15_000, [(12_000, 10_000)], 100),
        # pods own every CPU, or more: CPUs went offline
        (0, [(16_000, 0)], 100),
        (1000, [(17_000, 500)], 100),
    ],
)
def test_utilization_is_that_of_shared_cpus(used: int, pinned: list[tuple[int, int]], percent: int) -> None:
    usage = Usage(used, 0, tuple(Pinned(*each) for each in pinned), 0, 0)
    assert utilization_of(usage, 16) == Fraction(percent, 100)


MIDDLE = (pod("a", 400_000, 200_000),)
"""A pod that can be moved both ways."""

PERCENT = {
    "above high": 81,
    "at high": 80,
    "between high and low": 70,
    "at low": 60,
    "between low and recover": 50,
    "at recover": 40,
    "below recover": 39,
}


@pytest.mark.parametrize(
    ("where", "suppressing", "recovering", "nothing"),
    [
        ("above high", Task.SUPPRESSING, Task.SUPPRESSING, Task.SUPPRESSING),
        ("at high", Task.SUPPRESSING, Task.NONE, Task.NONE),
        ("between high and low", Task.SUPPRESSING, Task.NONE, Task.NONE),
        ("at low", Task.SUPPRESSING, Task.RECOVERING, Task.NONE),
        ("between low and recover", Task.NONE, Task.RECOVERING, Task.NONE),
        ("at recover", Task.NONE, Task.RECOVERING, Task.NONE),
        ("below recover", Task.RECOVERING, Task.RECOVERING, Task.RECOVERING),
    ],
)
def test_a_task_begins_and_ends_by_the_thresholds(
    where: str, suppressing: Task, recovering: Task, nothing: Task
) -> None:
    utilization = Fraction(PERCENT[where], 100)
    before = (Task.SUPPRESSING, Task.RECOVERING, Task.NONE)
    for task, expected in zip(before, (suppressing, recovering, nothing), strict=True):
        found = cycle(task, utilization, MIDDLE, SETTINGS)
        assert found.task is expected
        moves = {Task.SUPPRESSING: 160_000, Task.RECOVERING: 240_000}
        assert [each.quota for each in found.changes] == ([moves[expected]] if expected in moves else [])
        assert found.reason is {Task.SUPPRESSING: HIGH, Task.RECOVERING: LOW, Task.NONE: BETWEEN}[expected]


@pytest.mark.parametrize("task", Task)
@pytest.mark.parametrize(
    ("utilization", "present"),
    [(Fraction(9, 10), 40_000), (Fraction(1, 10), 400_000), (Fraction(1, 10), None)],
)
def test_a_task_that_can_move_nobody_ends(task: Task, utilization: Fraction, present: int | None) -> None:
    found = cycle(task, utilization, [pod("a", 400_000, present)], SETTINGS)
    assert (found.task, found.changes, found.reason) == (Task.NONE, (), Reason.NOTHING_ADJUSTABLE)
    assert cycle(task, utilization, [], SETTINGS).task is Task.NONE


PODS = (
    pod("half-small", 200_000, 100_000),
    pod("half-large", 400_000, 200_000),
    pod("whole", 300_000, None),
    pod("tie-b", 100_000, 90_000),
    pod("tie-a", 100_000, 90_000),
    pod("least", 1_000_000, 110_000),
    pod("floor", 100_000, 10_000),
    pod("other-period", 200_000, 100_000, 50_000),
    pod("no-limit", 0, 50_000),
)


def moved(utilization: int, pods: int, task: Task = Task.NONE) -> list[str]:
    settings = SuppressionSettings(pods_a_cycle=pods)
    return [each.key for each in cycle(task, Fraction(utilization, 100), PODS, settings).changes]


def test_least_suppressed_then_largest_pods_are_suppressed_first() -> None:
    order = ["whole", "tie-a", "tie-b", "half-large", "other-period", "half-small", "least"]
    assert moved(90, 100) == order
    assert moved(90, 3) == order[:3]


def test_most_suppressed_then_smallest_pods_are_raised_first() -> None:
    order = ["floor", "least", "half-small", "half-large", "other-period", "tie-a", "tie-b"]
    assert moved(10, 100) == order
    assert moved(10, 5) == order[:5]


@pytest.mark.parametrize(
    ("limit", "present", "lowered", "raised"),
    [
        (400_000, None, 360_000, None),
        (400_000, 400_000, 360_000, None),
        (400_000, 999_999, 360_000, None),
        (400_000, 390_000, 350_000, 400_000),
        (400_000, 50_000, 40_000, 90_000),
        (400_000, 40_000, None, 80_000),
        # one that somebody set below the smallest quota comes back to it
        (400_000, 1000, None, 41_000),
        (4_000_000, 1000, None, 401_000),
        # ten percent of these is less than the kernel takes, or not a whole number
        (5000, 1400, 1000, 1900),
        (5000, 1000, None, 1500),
        (12_345, 1300, 1235, 2534),
        (12_345, 1235, None, 2469),
        (1000, 1000, None, None),
        (600, None, None, None),
    ],
)
def test_pod_moves_by_limit_fractions_keeping_a_tenth(
    limit: int, present: int | None, lowered: int | None, raised: int | None
) -> None:
    pods = [pod("a", limit, present)]
    down = cycle(Task.NONE, Fraction(1), pods, SETTINGS).changes
    up = cycle(Task.NONE, Fraction(0), pods, SETTINGS).changes
    assert [each.quota for each in down] == ([] if lowered is None else [lowered])
    assert [each.quota for each in up] == ([] if raised is None else [raised])


def test_limit_too_small_for_a_step_still_moves() -> None:
    finest = SuppressionSettings(quota_step=Share(1))
    (change,) = cycle(Task.NONE, Fraction(1), [pod("a", 2000, None)], finest).changes
    assert change.quota == 1999


def test_a_change_says_why_with_the_numbers() -> None:
    (change,) = cycle(Task.NONE, Fraction(8567, 10_000), [pod("a", 400_000, None)], SETTINGS).changes
    assert change.why == "node utilization 85.6 %: from 4 to 3.6 CPUs of the limit 4"


keys = st.text("abc", min_size=1, max_size=2)
pods = st.lists(
    st.builds(
        PodQuota, keys, st.integers(0, 10**7), st.none() | st.integers(0, 2 * 10**7), st.integers(1, 10**6)
    ),
    max_size=8,
    unique_by=lambda each: each.key,
)
settings = st.builds(
    SuppressionSettings, quota_step=st.integers(1, 10_000).map(Share), pods_a_cycle=st.integers(1, 6)
)
utilizations = st.fractions(0, 2)


@given(st.sampled_from(Task), utilizations, pods, settings)
def test_changes_go_one_way_within_step_and_bounds(
    task: Task, utilization: Fraction, several: list[PodQuota], chosen: SuppressionSettings
) -> None:
    found = cycle(task, utilization, several, chosen)
    known = {each.key: each for each in several}
    assert (found.task is Task.NONE) is (not found.changes)
    assert len(found.changes) <= chosen.pods_a_cycle
    for change in found.changes:
        one = known[change.key]
        assert max(SMALLEST_QUOTA, one.limit / 10) <= change.quota <= max(one.limit, SMALLEST_QUOTA)
        assert (change.quota < one.quota) is (found.task is Task.SUPPRESSING)
        step = max(1, chosen.quota_step.of(one.limit))
        assert change.quota - one.quota <= step or change.quota == one.floor
        assert one.quota - change.quota <= step


@given(pods.flatmap(lambda each: st.tuples(st.just(each), st.permutations(each))), settings, utilizations)
def test_order_of_pods_does_not_matter(
    orders: tuple[list[PodQuota], list[PodQuota]], chosen: SuppressionSettings, utilization: Fraction
) -> None:
    one, other = (cycle(Task.NONE, utilization, order, chosen) for order in orders)
    assert one == other


@given(pods, st.builds(SuppressionSettings, pods_a_cycle=st.integers(1, 6)))
def test_busy_node_suppresses_all_and_idle_restores_all(
    several: list[PodQuota], chosen: SuppressionSettings
) -> None:
    """Ten steps of 10 % take a pod from one end to the other; pods may have to wait for their turn."""
    cycles = 11 * len(several) + 1
    lowered = run(several, Fraction(9, 10), chosen, cycles)
    assert all(each.quota <= each.floor for each in lowered if each.limit)
    raised = run(lowered, Fraction(1, 10), chosen, cycles)
    assert all(each.quota == each.top for each in raised if each.limit)


def run(
    several: list[PodQuota], utilization: Fraction, chosen: SuppressionSettings, cycles: int
) -> list[PodQuota]:
    task, now = Task.NONE, {each.key: each for each in several}
    for _ in range(cycles):
        found = cycle(task, utilization, list(now.values()), chosen)
        task = found.task
        for change in found.changes:
            one = now[change.key]
            now[change.key] = PodQuota(one.key, one.limit, change.quota, one.period)
    assert task is Task.NONE
    return list(now.values())
