"""A user reads each thing once in a quarter of an hour, with a count, and no event is worth a failure."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from corewise.kube import events
from corewise.kube.client import Client
from corewise.kube.errors import Forbidden, KubeError, NotFound, Status, TransportError
from corewise.kube.events import QUIET_SECONDS, EventRecorder
from corewise.kube.objects import ObjectReference
from corewise.kube.transport import Request
from kube.fake_api import CONFIG, MemoryTransport
from virtual_time import VirtualClock, run_virtual

NODE = ObjectReference(kind="Node", name="n1", uid="u1")


class EventServer:
    """Keeps events; fails with ``error`` while that is set."""

    def __init__(self) -> None:
        self.events: dict[str, dict[str, Any]] = {}
        self.methods: list[str] = []
        self.error: KubeError | None = None

    async def send(self, request: Request) -> bytes:
        self.methods.append(request.method)
        if self.error:
            raise self.error
        body = msgspec.json.decode(request.body or b"{}")
        if request.method == "POST":
            assert request.path == f"/api/v1/namespaces/{body['metadata']['namespace']}/events"
            self.events[body["metadata"]["name"]] = body
            return msgspec.json.encode(body)
        name = request.path.rpartition("/")[2]
        if name not in self.events:
            raise NotFound(Status(code=404))
        self.events[name] |= body
        return msgspec.json.encode(self.events[name])

    @property
    def only(self) -> dict[str, Any]:
        (event,) = self.events.values()
        return event


def recorded(
    test: Callable[[EventRecorder, EventServer], Awaitable[None]], queue_length: int = 10
) -> EventServer:
    server = EventServer()

    async def main() -> None:
        client = Client(CONFIG, transport=MemoryTransport(server.send))
        recorder = EventRecorder(
            client,
            component="corewise-manager",
            instance="m-1",
            clock=VirtualClock(),
            queue_length=queue_length,
        )
        writing = asyncio.create_task(recorder.run())
        await test(recorder, server)
        await recorder.flush()
        writing.cancel()

    run_virtual(main())
    return server


def test_event_states_reporter_reason_object_and_time() -> None:
    async def test(recorder: EventRecorder, _: EventServer) -> None:
        recorder.emit(NODE, "UnknownCPUModel", "no ratio", warning=True)

    event = recorded(test).only
    assert event == {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": event["metadata"]["name"], "namespace": "default"},
        "involvedObject": {"apiVersion": "v1", "kind": "Node", "namespace": "", "name": "n1", "uid": "u1"},
        "reason": "UnknownCPUModel",
        "message": "no ratio",
        "type": "Warning",
        "count": 1,
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:00:00Z",
        "source": {"component": "corewise-manager"},
        "reportingComponent": "corewise-manager",
        "reportingInstance": "m-1",
    }
    assert re.fullmatch(r"n1\.[0-9a-f]{16}", event["metadata"]["name"])


def test_events_use_objects_namespace_or_default_when_clusterwide() -> None:
    async def test(recorder: EventRecorder, _: EventServer) -> None:
        recorder.emit(ObjectReference(kind="Pod", name="p", namespace="a"), "R", "m", warning=False)
        recorder.emit(NODE, "R", "m", warning=False)

    server = recorded(test)
    assert {event["metadata"]["namespace"] for event in server.events.values()} == {"a", "default"}
    assert {event["type"] for event in server.events.values()} == {"Normal"}


def test_same_reason_is_reported_once_within_fifteen_minutes() -> None:
    async def test(recorder: EventRecorder, _: EventServer) -> None:
        for second in range(int(QUIET_SECONDS)):
            recorder.emit(NODE, "R", f"text {second // 100}", warning=True)
            await asyncio.sleep(1)
        assert (recorder.written, recorder.held_back) == (1, 899)

    assert recorded(test).methods == ["POST"]


def test_other_reasons_and_objects_are_reported_at_once() -> None:
    async def test(recorder: EventRecorder, _: EventServer) -> None:
        recorder.emit(NODE, "R", "m", warning=True)
        recorder.emit(NODE, "S", "m", warning=True)
        recorder.emit(ObjectReference(kind="Node", name="n1", uid="another"), "R", "m", warning=True)
        await recorder.flush()
        assert recorder.written == 3

    recorded(test)


def test_later_repeat_raises_count_by_all_suppressed_events() -> None:
    async def test(recorder: EventRecorder, _: EventServer) -> None:
        for _minute in range(31):
            recorder.emit(NODE, "R", "m", warning=True)
            await asyncio.sleep(60)

    server = recorded(test)
    assert server.methods == ["POST", "PATCH", "PATCH"]
    assert server.only["count"] == 31
    assert server.only["firstTimestamp"] == "2026-01-01T00:00:00Z"
    assert server.only["lastTimestamp"] == "2026-01-01T00:30:00Z"


def test_afterwards_another_text_is_a_new_event() -> None:
    async def test(recorder: EventRecorder, _: EventServer) -> None:
        recorder.emit(NODE, "R", "one", warning=True)
        await asyncio.sleep(QUIET_SECONDS)
        recorder.emit(NODE, "R", "two", warning=True)

    server = recorded(test)
    assert sorted((event["message"], event["count"]) for event in server.events.values()) == [
        ("one", 1),
        ("two", 1),
    ]


def test_event_that_expired_in_the_cluster_is_recreated() -> None:
    async def test(recorder: EventRecorder, server: EventServer) -> None:
        recorder.emit(NODE, "R", "m", warning=True)
        await asyncio.sleep(QUIET_SECONDS)
        server.events.clear()
        recorder.emit(NODE, "R", "m", warning=True)

    server = recorded(test)
    assert server.methods == ["POST", "PATCH", "POST"]
    assert server.only["message"] == "m"


@pytest.mark.parametrize(
    ("error", "tries"),
    [(TransportError("away"), 2), (Forbidden(Status(code=403)), 1)],
    ids=["away", "forbidden"],
)
def test_undelivered_events_may_repeat_but_refused_may_not(error: KubeError, tries: int) -> None:
    async def test(recorder: EventRecorder, server: EventServer) -> None:
        server.error = error
        recorder.emit(NODE, "R", "m", warning=True)
        await recorder.flush()
        server.error = None
        recorder.emit(NODE, "R", "m", warning=True)

    assert len(recorded(test).methods) == tries


def test_refusals_are_logged_once_not_per_node(caplog: pytest.LogCaptureFixture) -> None:
    async def test(recorder: EventRecorder, server: EventServer) -> None:
        server.error = Forbidden(Status(code=403, message="events are forbidden"))
        for number in range(10):
            recorder.emit(ObjectReference(kind="Node", name=f"n{number}"), "R", "m", warning=True)
        await recorder.flush()
        assert recorder.dropped == 10

    recorded(test)
    assert len([record for record in caplog.records if "forbidden" in record.message]) == 1


def test_events_beyond_queue_capacity_drop_and_may_repeat() -> None:
    async def test(recorder: EventRecorder, _: EventServer) -> None:
        for number in range(5):
            recorder.emit(ObjectReference(kind="Node", name=f"n{number}"), "R", "m", warning=True)
        assert recorder.dropped == 3
        await recorder.flush()
        recorder.emit(ObjectReference(kind="Node", name="n4"), "R", "m", warning=True)

    assert len(recorded(test, queue_length=2).events) == 3


def test_full_queue_is_logged_at_once_then_rarely(caplog: pytest.LogCaptureFixture) -> None:
    def told() -> list[str]:
        lines = [record.message for record in caplog.records if "queue of 2 was full" in record.message]
        return re.findall(r"attempts: \d+", " ".join(lines))

    async def test(recorder: EventRecorder, _: EventServer) -> None:
        for number in range(5):  # nothing is written meanwhile
            recorder.emit(ObjectReference(kind="Node", name=f"n{number}"), "R", "m", warning=True)
        assert told() == ["attempts: 1"]
        await asyncio.sleep(60)
        recorder.emit(ObjectReference(kind="Node", name="n5"), "R", "m", warning=True)
        await recorder.flush()
        assert told() == ["attempts: 1", "attempts: 2"]

    recorded(test, queue_length=2)


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "REMEMBERED", 3)

    async def test(recorder: EventRecorder, _: EventServer) -> None:
        for number in range(10):
            recorder.emit(ObjectReference(kind="Node", name=f"n{number}"), "R", "m", warning=True)
        assert len(recorder._last) == 3

    recorded(test)


def test_message_over_the_api_limit_is_truncated() -> None:
    async def test(recorder: EventRecorder, _: EventServer) -> None:
        recorder.emit(NODE, "R", "x" * 2000, warning=True)

    message = recorded(test).only["message"]
    assert len(message) == 1024
    assert message.endswith("x…")
