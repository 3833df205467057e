"""The one quota of all offline pods: stepped both ways, exact at the end, never 0 and never "max".

===========================  ====================================  =============================
what is there                what was applied                      the step starts at
===========================  ====================================  =============================
max, or above allocatable    nothing yet (start, restart)          allocatable
a quota                      nothing yet (restart)                 the quota
a quota                      the same                              the quota
anything else                a quota (somebody changed it)         what was applied; repaired
===========================  ====================================  =============================
"""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewise.quantities import Share
from corewise.suppression.batch_limits import SMALLEST_QUOTA
from corewise.suppression.quotas import Adjustment, adjust, floor_of, largest_step, quota_of
from corewise.vocabulary.reasons import Reason

PERIOD = 100_000
TENTH = Share.parse("0.1")


def adjusted(
    present: int | None,
    target: int,
    *,
    applied: int | None = None,
    period: int = PERIOD,
    allocatable: int = 16_000,
    step: Share = TENTH,
) -> Adjustment:
    return adjust(present, applied, period, target_milli=target, allocatable_milli=allocatable, step=step)


def course(start: int | None, target: int, period: int = PERIOD) -> list[int]:
    """Return the quotas of adjustments under a constant target, until they stay."""
    quotas: list[int] = []
    present, applied = start, None
    while len(quotas) < 3 or quotas[-1] != quotas[-2]:
        applied = present = adjusted(present, target, applied=applied, period=period).quota
        quotas.append(present)
    return quotas[:-1]


def test_the_example_of_the_design() -> None:
    assert course(None, 4000) == [
        1_440_000,
        1_280_000,
        1_120_000,
        960_000,
        800_000,
        640_000,
        480_000,
        400_000,
    ]


def test_growing_is_stepped_as_shrinking_is() -> None:
    assert course(400_000, 9600) == [560_000, 720_000, 880_000, 960_000]


@pytest.mark.parametrize(
    ("present", "applied", "target", "quota", "start", "repaired", "reason"),
    [
        # no quota yet, or one above what there is
        (None, None, 4000, 1_440_000, 1_600_000, False, Reason.SUPPRESSION_STEPPED_DOWN),
        (9_999_999, None, 4000, 1_440_000, 1_600_000, False, Reason.SUPPRESSION_STEPPED_DOWN),
        # a restart goes on from the file
        (640_000, None, 4000, 480_000, 640_000, False, Reason.SUPPRESSION_STEPPED_DOWN),
        (400_000, None, 4000, 400_000, 400_000, False, Reason.SUPPRESSION_AT_TARGET),
        # the last step lands on the target
        (480_000, 480_000, 4000, 400_000, 480_000, False, Reason.SUPPRESSION_AT_TARGET),
        (300_000, 300_000, 4000, 400_000, 300_000, False, Reason.SUPPRESSION_AT_TARGET),
        (200_000, 200_000, 4000, 360_000, 200_000, False, Reason.SUPPRESSION_STEPPED_UP),
        # somebody writes the slice: it goes on from what was applied
        (None, 640_000, 4000, 480_000, 640_000, True, Reason.SUPPRESSION_STEPPED_DOWN),
        (1_600_000, 400_000, 4000, 400_000, 400_000, True, Reason.SUPPRESSION_AT_TARGET),
        (1000, 400_000, 4000, 400_000, 400_000, True, Reason.SUPPRESSION_AT_TARGET),
        (None, 400_000, 9000, 560_000, 400_000, True, Reason.SUPPRESSION_STEPPED_UP),
        # what was applied may be more than the node has become
        (1_900_000, 1_900_000, 16_000, 1_600_000, 1_600_000, False, Reason.SUPPRESSION_AT_TARGET),
        (None, 1_900_000, 4000, 1_440_000, 1_600_000, True, Reason.SUPPRESSION_STEPPED_DOWN),
        # nothing offered is the floor, and so is next to nothing
        (100_000, 100_000, 0, 1000, 100_000, False, Reason.SUPPRESSION_AT_FLOOR),
        (1000, 1000, 0, 1000, 1000, False, Reason.SUPPRESSION_AT_FLOOR),
        (1000, 1000, 9, 1000, 1000, False, Reason.SUPPRESSION_AT_FLOOR),
        (500_000, 500_000, 0, 340_000, 500_000, False, Reason.SUPPRESSION_STEPPED_DOWN),
        # less than the kernel takes is lifted to the floor; a target beyond the node is the node
        (7, None, 0, 1000, 1000, False, Reason.SUPPRESSION_AT_FLOOR),
        (1_600_000, 1_600_000, 99_000, 1_600_000, 1_600_000, False, Reason.SUPPRESSION_AT_TARGET),
    ],
)
def test_one_adjustment(
    present: int | None,
    applied: int | None,
    target: int,
    quota: int,
    start: int,
    repaired: bool,
    reason: Reason,
) -> None:
    found = adjusted(present, target, applied=applied)
    assert (found.quota, found.start, found.repaired, found.reason) == (quota, start, repaired, reason)


def test_foreign_period_is_kept_and_amounts_follow_it() -> None:
    found = adjusted(400_000, 4000, applied=200_000, period=50_000)
    assert (found.quota, found.target, found.repaired) == (200_000, 200_000, True)
    squeezed = adjusted(1000, 0, applied=500, period=50_000)
    assert (squeezed.quota, squeezed.repaired) == (SMALLEST_QUOTA, True)
    assert course(None, 4000, period=50_000)[:2] == [720_000, 640_000]


def test_node_too_small_for_steps_reaches_its_target() -> None:
    finest = Share(1)
    assert largest_step(10, PERIOD, finest) == 1
    present = 1010
    for _ in range(10):
        present = adjusted(present, 0, allocatable=20, step=finest).quota
    assert present == SMALLEST_QUOTA


@pytest.mark.parametrize(("period", "floor"), [(50_000, 1000), (100_000, 1000), (1_000_000, 10_000)])
def test_floor_is_one_percent_or_the_kernels_least(period: int, floor: int) -> None:
    found = adjusted(floor, 0, period=period)
    assert (floor_of(period), found.quota, found.reason) == (floor, floor, Reason.SUPPRESSION_AT_FLOOR)


def test_a_node_without_cpu_has_the_floor() -> None:
    assert adjusted(None, 0, allocatable=0).quota == SMALLEST_QUOTA
    assert adjusted(None, 4000, allocatable=-5).quota == SMALLEST_QUOTA


@pytest.mark.parametrize("period", [0, -1])
def test_no_period_is_a_mistake_of_the_caller(period: int) -> None:
    with pytest.raises(ValueError, match="must be above 0"):
        adjusted(1000, 0, period=period)


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (
            adjusted(None, 4000),
            "quota 1440000 us of 100000 us (14.4 CPUs), one step down from 16 CPUs towards 4 CPUs",
        ),
        (
            adjusted(None, 4000, applied=640_000),
            (
                "somebody set it to max instead of 640000 us, which is restored; "
                "quota 480000 us of 100000 us (4.8 CPUs), one step down from 6.4 CPUs towards 4 CPUs"
            ),
        ),
        (
            adjusted(200_000, 9000),
            "quota 360000 us of 100000 us (3.6 CPUs), one step up from 2 CPUs towards 9 CPUs",
        ),
        (adjusted(400_000, 4000), "quota 400000 us of 100000 us (4 CPUs), the amount offered"),
        (
            adjusted(1000, 0),
            "quota 1000 us of 100000 us (0.01 CPUs), the smallest: no more than that is offered",
        ),
    ],
)
def test_an_adjustment_says_why_with_the_numbers(found: Adjustment, why: str) -> None:
    assert found.why == why


quotas = st.integers(1000, 30_000_000)
presents = st.none() | quotas
periods = st.integers(1000, 1_000_000)
milli = st.integers(0, 256_000)
allocatables = st.integers(1, 256_000)
steps = st.integers(1, 10_000).map(Share)
coarse_steps = st.integers(200, 10_000).map(Share)


@given(presents, presents, periods, milli, allocatables, steps)
def test_quota_stays_between_the_minimum_and_the_node(
    present: int | None,
    applied: int | None,
    period: int,
    target: int,
    allocatable: int,
    step: Share,
) -> None:
    found = adjusted(present, target, applied=applied, period=period, allocatable=allocatable, step=step)
    top = quota_of(allocatable, period)
    for quota in (found.quota, found.start, found.target):
        assert SMALLEST_QUOTA <= quota <= top
    assert found.repaired is (applied is not None and applied != present)
    moved, largest = found.quota - found.start, largest_step(allocatable, period, step)
    assert abs(moved) <= largest
    assert min(found.start, found.target) <= found.quota <= max(found.start, found.target)


@given(presents, periods, milli, allocatables, coarse_steps)
def test_constant_target_is_reached_stepwise_and_kept(
    present: int | None, period: int, target: int, allocatable: int, step: Share
) -> None:
    first = adjusted(present, target, period=period, allocatable=allocatable, step=step)
    needed = -(-abs(first.start - first.target) // largest_step(allocatable, period, step))
    seen, applied = [first.start], None
    for _ in range(needed + 2):
        found = adjust(
            present,
            applied,
            period,
            target_milli=target,
            allocatable_milli=allocatable,
            step=step,
        )
        present = applied = found.quota
        seen.append(found.quota)
    assert seen[needed:] == [first.target] * 3
    assert first.target not in seen[:needed]
    rises = {after > before for before, after in pairwise(seen) if after != before}
    assert len(rises) <= 1


@given(st.data())
def test_foreign_writes_to_slice_do_not_delay_target(data: st.DataObject) -> None:
    """Foreign writes before some of the ticks, a restart never: the course is that without them."""
    start, target = data.draw(quotas), data.draw(st.integers(0, 16_000))
    undisturbed = course(start, target)
    present: int | None = adjusted(start, target).quota
    seen = [present]
    for _ in undisturbed[1:]:
        applied = seen[-1]
        present = data.draw(st.just(applied) | presents)
        found = adjusted(present, target, applied=applied)
        assert found.repaired is (present != applied)
        seen.append(found.quota)
    assert seen == undisturbed
