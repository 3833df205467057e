"""Whose turn it is to be scheduled, and when a pod that found no node has another one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewise_lab.scheduling_queue import LONGEST_DELAY, LONGEST_REST, SchedulingQueue


def taken(queue: SchedulingQueue, now: float) -> list[str]:
    """Everybody whose turn it is, in order."""
    found = []
    while (uid := queue.take(now)) is not None:
        found.append(uid)
    return found


def refused_once() -> SchedulingQueue:
    queue = SchedulingQueue()
    queue.add("a", 0)
    assert queue.take(0.0) == "a"
    queue.refused("a")
    return queue


@given(st.lists(st.integers(-3, 3), max_size=30))
def test_highest_priority_goes_first_then_earliest_arrival(priorities: list[int]) -> None:
    queue = SchedulingQueue()
    for number, priority in enumerate(priorities):
        queue.add(str(number), priority)
    wanted = sorted(range(len(priorities)), key=lambda number: (-priorities[number], number))
    assert taken(queue, 0.0) == [str(number) for number in wanted]


def test_refused_pod_rests_until_change_and_delay_pass() -> None:
    queue = refused_once()
    assert queue.is_idle
    assert queue.is_refused("a")
    assert taken(queue, LONGEST_REST - 0.1) == []
    queue.changed()
    assert taken(queue, 0.9) == []
    assert queue.next_due() == pytest.approx(1.0)
    assert taken(queue, 1.0) == ["a"]


def test_refused_pod_is_eventually_retried_without_any_change() -> None:
    queue = refused_once()
    assert taken(queue, LONGEST_REST) == ["a"]


def test_delays_double_up_to_the_longest() -> None:
    queue, now, delays = SchedulingQueue(), 0.0, []
    queue.add("a", 0)
    assert queue.take(now) == "a"
    for _ in range(6):
        queue.failed("a")
        due = queue.next_due()
        assert due is not None
        delays.append(due - now)
        now = due
        assert queue.take(now) == "a"
    assert delays == [1.0, 2.0, 4.0, 8.0, LONGEST_DELAY, LONGEST_DELAY]


def test_changed_pod_goes_immediately_and_keeps_its_place() -> None:
    queue = refused_once()
    queue.add("b", 0)
    queue.add("a", 0)
    assert taken(queue, 0.0) == ["a", "b"]


def test_pod_changed_during_its_try_is_tried_again() -> None:
    queue = SchedulingQueue()
    queue.add("a", 0)
    assert queue.take(0.0) == "a"
    queue.add("a", 0)
    assert queue.take(0.0) is None, "no one is in two hands"
    queue.refused("a")
    assert taken(queue, 0.0) == ["a"]


def test_deleted_pod_has_no_turn_however_it_waited() -> None:
    queue = refused_once()
    queue.add("b", 0)
    queue.changed()
    queue.remove("a")
    queue.remove("b")
    assert taken(queue, 1e9) == []
    assert (len(queue), queue.is_idle) == (0, True)


def test_all_pods_may_be_tried_regardless_of_delay() -> None:
    queue = refused_once()
    queue.add("b", 5)
    assert queue.take(0.0) == "b"
    queue.failed("b")
    queue.try_all()
    assert not queue.is_idle
    assert taken(queue, 0.0) == ["b", "a"]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["add", "take", "refused", "failed", "changed", "all", "gone"]),
            st.sampled_from("abc"),
        ),
        max_size=60,
    )
)
def test_no_pod_is_ever_lost_or_held_twice(steps: list[tuple[str, str]]) -> None:
    queue, here, hands, now = SchedulingQueue(), set[str](), set[str](), 0.0
    for step, uid in steps:
        now += 0.7
        match step:
            case "add":
                queue.add(uid, 0)
                here.add(uid)
            case "take":
                got = queue.take(now)
                assert got not in hands
                hands |= {got} if got else set()
            case "refused" | "failed":
                getattr(queue, step)(uid)
                hands.discard(uid)
            case "changed":
                queue.changed()
            case "all":
                queue.try_all()
            case _:
                queue.remove(uid)
                here.discard(uid)
                hands.discard(uid)
    for uid in list(hands):
        queue.refused(uid)
    assert set(taken(queue, now + LONGEST_REST)) == here
