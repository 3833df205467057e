"""The internal event bus: the newest event only; a failure is tried again, never after a newer event."""

from __future__ import annotations

import pytest

from corewise.agent.colocation.bus import Bus
from corewise.kernel.errors import Busy


class Listener:
    """Hears events; ``fails`` so many times first."""

    def __init__(self, fails: int = 0) -> None:
        self.fails = fails
        self.tried: list[int] = []
        self.handled: list[int] = []

    def handle(self, event: int) -> None:
        self.tried.append(event)
        if self.fails:
            self.fails -= 1
            raise Busy("cpu.max", "not now")
        self.handled.append(event)


def test_an_event_is_handled_once() -> None:
    bus, listener = Bus[int](), Listener()
    bus.subscribe("a", listener.handle)
    bus.publish(1)
    assert not bus.deliver()
    assert not bus.deliver()
    assert listener.handled == [1]


def test_who_comes_late_sees_the_newest_only() -> None:
    bus, listener = Bus[int](), Listener()
    bus.subscribe("a", listener.handle)
    for event in (1, 2, 3):
        bus.publish(event)
    bus.deliver()
    assert listener.handled == [3]


def test_a_failed_handler_is_tried_again_with_the_same_event_or_with_a_newer_one() -> None:
    bus, listener = Bus[int](), Listener(fails=2)
    bus.subscribe("a", listener.handle)
    bus.publish(1)
    assert list(bus.deliver()) == ["a"]
    assert list(bus.deliver()) == ["a"]
    bus.publish(2)
    assert not bus.deliver()
    assert not bus.deliver()
    assert (listener.tried, listener.handled) == ([1, 1, 2], [2])


def test_one_failure_is_nobody_elses() -> None:
    bus, broken, sound = Bus[int](), Listener(fails=9), Listener()
    bus.subscribe("broken", broken.handle)
    bus.subscribe("sound", sound.handle)
    bus.publish(1)
    assert list(bus.deliver()) == ["broken"]
    bus.deliver()
    assert sound.handled == [1]


def test_an_event_that_a_handler_publishes_is_not_lost() -> None:
    bus, seen = Bus[int](), list[int]()

    def handle(event: int) -> None:
        seen.append(event)
        if event == 1:
            bus.publish(2)

    bus.subscribe("a", handle)
    bus.publish(1)
    bus.deliver()
    bus.deliver()
    assert seen == [1, 2]


def test_a_bug_is_no_failure() -> None:
    bus = Bus[int]()

    def bug(_event: int) -> None:
        raise ZeroDivisionError

    bus.subscribe("a", bug)
    bus.publish(1)
    with pytest.raises(ZeroDivisionError):
        bus.deliver()
