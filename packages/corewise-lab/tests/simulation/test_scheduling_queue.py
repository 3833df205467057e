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
def test_the_largest_priority_is_first_and_of_equal_ones_who_came_first(priorities: list[int]) -> None:
    queue = SchedulingQueue()
    for number, priority in enumerate(priorities):
        queue.add(str(number), priority)
    wanted = sorted(range(len(priorities)), key=lambda number: (-priorities[number], number))
    assert taken(queue, 0.0) == [str(number) for number in wanted]


def test_a_refused_pod_rests_until_something_changes_and_its_delay_is_over() -> None:
    queue = refused_once()
    assert queue.is_idle
    assert queue.is_refused("a")
    assert taken(queue, LONGEST_REST - 0.1) == []
    queue.changed()
    assert taken(queue, 0.9) == []
    assert queue.next_due() == pytest.approx(1.0)
    assert taken(queue, 1.0) == ["a"]


def test_a_refused_pod_is_tried_again_some_day_even_if_nothing_changes() -> None:
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


def test_a_pod_that_is_changed_has_its_turn_at_once_and_keeps_its_place() -> None:
    queue = refused_once()
    queue.add("b", 0)
    queue.add("a", 0)
    assert taken(queue, 0.0) == ["a", "b"]


def test_a_pod_that_is_changed_while_it_is_tried_is_tried_once_more() -> None:
    queue = SchedulingQueue()
    queue.add("a", 0)
    assert queue.take(0.0) == "a"
    queue.add("a", 0)
    assert queue.take(0.0) is None, "no one is in two hands"
    queue.refused("a")
    assert taken(queue, 0.0) == ["a"]


def test_a_pod_that_is_gone_has_no_turn_however_it_waited() -> None:
    queue = refused_once()
    queue.add("b", 0)
    queue.changed()
    queue.remove("a")
    queue.remove("b")
    assert taken(queue, 1e9) == []
    assert (len(queue), queue.is_idle) == (0, True)


def test_all_may_be_tried_at_once_whatever_their_delay() -> None:
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
def test_whatever_happens_nobody_is_lost_and_nobody_in_two_hands(steps: list[tuple[str, str]]) -> None:
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
