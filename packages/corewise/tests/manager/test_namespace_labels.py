"""Namespaces whose label normalize-cpuset is neither true nor false are reported, again if they change.

label of the namespace      reported
absent, true, false         no
True, yes, empty            an Event on the namespace, and the log
that of many namespaces     the same; what does not fit into the queue of Events follows a minute later

An Event that was not written, or has expired, is written again while the label is wrong.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import msgspec
import pytest

from corewise.actions import EmitEvent
from corewise.kube.client import Client
from corewise.kube.errors import TransportError
from corewise.kube.events import EventRecorder
from corewise.kube.objects import Namespace, ObjectMeta, ObjectReference
from corewise.kube.resources import EVENTS, NAMESPACES
from corewise.kube.transport import Request
from corewise.manager.namespace_labels import NamespaceLabels, unread_labels
from corewise.vocabulary.names import NORMALIZE_CPUSET
from corewise.vocabulary.reasons import Reason
from kube.fake_api import CONFIG, MemoryTransport
from manager.world import World, eventually, until
from virtual_time import VirtualClock, run_virtual


@pytest.mark.parametrize(
    ("value", "meant"),
    [
        (None, ""),
        ("true", ""),
        ("false", ""),
        ("True", "true"),
        ("yes", "true"),
        ("", "true"),
        ("No", "false"),
    ],
)
def test_only_true_and_false_are_read(value: str | None, meant: str) -> None:
    labels = {} if value is None else {NORMALIZE_CPUSET: value}
    found = [*unread_labels([Namespace(ObjectMeta(name="jobs", labels=labels))])]
    assert [(each.regarding_kind, each.name, each.warning) for each in found] == [
        ("Namespace", "jobs", True)
    ] * bool(meant)
    for each in found:
        assert f'{NORMALIZE_CPUSET}="{value}" is neither true nor false' in each.message
        assert each.message.endswith(f"kubectl label --overwrite namespace jobs {NORMALIZE_CPUSET}={meant}")


async def test_unread_label_is_an_event_and_logged(world: World, caplog: pytest.LogCaptureFixture) -> None:
    async def told(text: str) -> bool:
        events = await world.client.list(EVENTS, "default")
        return any(
            each.reason == Reason.NORMALIZE_LABEL_INVALID
            and each.involved_object.kind == "Namespace"
            and text in each.message
            for each in events
        )

    body = {"metadata": {"name": "jobs", "labels": {NORMALIZE_CPUSET: "True"}}}
    await world.client.create(NAMESPACES, body)
    async with world.manager():
        await eventually(lambda: told('="True" is neither'))
        change = {"metadata": {"labels": {NORMALIZE_CPUSET: "yes"}}}
        await world.client.patch(NAMESPACES, "jobs", change)
        await until(lambda: '="yes" is neither true nor false' in caplog.text)


class EventsOnly:
    """An API server that takes Events, each after ``seconds``; the first ``failing`` requests fail."""

    def __init__(self, *, failing: int = 0, seconds: float = 0.0) -> None:
        self.failing, self.seconds = failing, seconds
        self.events: dict[str, Any] = {}

    async def send(self, request: Request) -> bytes:
        await asyncio.sleep(self.seconds)
        if self.failing:
            self.failing -= 1
            raise TransportError("away")
        body = msgspec.json.decode(request.body or b"{}")
        if request.method == "POST":
            self.events[body["metadata"]["name"]] = body
            return msgspec.json.encode(body)
        return msgspec.json.encode(self.events[request.path.rpartition("/")[2]] | body)

    def has_all(self, names: Iterable[str]) -> bool:
        return {*names} <= {each["involvedObject"]["name"] for each in self.events.values()}


def watched(
    server: EventsOnly,
    namespaces: list[Namespace],
    test: Callable[[NamespaceLabels, EventRecorder], Awaitable[None]],
    queue_length: int = 10,
) -> None:
    """Run the watch with a recorder of Events, in virtual time."""

    async def main() -> None:
        clock = VirtualClock()
        client = Client(CONFIG, transport=MemoryTransport(server.send))
        recorder = EventRecorder(client, component="m", instance="m", clock=clock, queue_length=queue_length)

        def record(each: EmitEvent) -> None:
            about = ObjectReference(kind=each.regarding_kind, name=each.name, uid=each.uid)
            recorder.emit(about, each.reason, each.message, warning=each.warning)

        labels = NamespaceLabels(lambda: namespaces, record, clock)
        async with asyncio.TaskGroup() as group:
            loops = [group.create_task(recorder.run()), group.create_task(labels.run())]
            await test(labels, recorder)
            for each in loops:
                each.cancel()

    run_virtual(main())


def unread(name: str) -> Namespace:
    return Namespace(ObjectMeta(name=name, uid=name, labels={NORMALIZE_CPUSET: "True"}))


@pytest.mark.parametrize("wrong", [1, 10, 11, 95])
def test_every_namespace_has_its_event_however_many(wrong: int) -> None:
    namespaces, server = [unread(f"n{each}") for each in range(wrong)], EventsOnly()

    async def test(_: NamespaceLabels, __: EventRecorder) -> None:
        await asyncio.sleep(600)

    watched(server, namespaces, test)
    assert server.has_all(f"n{each}" for each in range(wrong))


def test_event_that_was_not_written_is_said_again() -> None:
    server = EventsOnly(failing=1)

    async def test(_: NamespaceLabels, __: EventRecorder) -> None:
        await asyncio.sleep(61)

    watched(server, [unread("jobs")], test)
    assert server.has_all(["jobs"])


def test_event_is_written_again_before_it_expires() -> None:
    async def test(_: NamespaceLabels, recorder: EventRecorder) -> None:
        for quarter in range(1, 5):
            await asyncio.sleep(899)
            assert recorder.written == quarter

    watched(EventsOnly(), [unread("jobs")], test)


def test_other_events_that_wait_hold_up_no_report(caplog: pytest.LogCaptureFixture) -> None:
    server, namespaces = EventsOnly(seconds=0.01), [unread("jobs")]

    async def test(_: NamespaceLabels, recorder: EventRecorder) -> None:
        for number in range(1000):
            recorder.emit(ObjectReference(kind="Node", name=f"n{number}"), "R", "m", warning=True)
            await asyncio.sleep(0.008)

    watched(server, namespaces, test, queue_length=1000)
    assert server.has_all(["jobs"])
    assert "namespace jobs" in caplog.text


def test_corrected_label_is_not_reported_again() -> None:
    server, namespaces = EventsOnly(), [unread("jobs")]

    async def test(labels: NamespaceLabels, recorder: EventRecorder) -> None:
        await asyncio.sleep(1)
        namespaces[:] = [Namespace(ObjectMeta(name="jobs", labels={NORMALIZE_CPUSET: "true"}))]
        labels.changed()
        await asyncio.sleep(3600)
        assert (recorder.written, recorder.held_back) == (1, 0)

    watched(server, namespaces, test)
