"""Events: what a user sees of corewise in ``kubectl describe``.

Rules:
- One event per object and reason in 15 minutes. What is said again within that time is counted; the first
  time after it, the same text raises ``count`` of the event that exists by all that was held back, and
  another text is a new event.
- ``emit`` never waits and never raises. It puts into a queue of bounded length; what does not fit is dropped
  and counted, and the log says so, at most once a minute. ``run`` writes; what the API server refuses is
  logged and forgotten: an event is never worth a failure. What did not reach the API server may be said again
  at once.
- Events about cluster-scoped objects live in the namespace "default", as client-go has it.

The verbs needed are create and patch on events.

Source: https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/event-v1/ and client-go's
tools/record (names, namespaces, the correlator's counts).
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from dataclasses import dataclass

from corewise.kube.client import Client
from corewise.kube.clock import SYSTEM_CLOCK, Clock, rfc3339
from corewise.kube.errors import KubeError, NotFound
from corewise.kube.objects import Event, EventSource, ObjectMeta, ObjectReference
from corewise.kube.resources import EVENTS

QUIET_SECONDS = 900.0
"""Between two writes about the same object and reason."""
QUEUE_LENGTH = 1000
REMEMBERED = 20_000
"""Pairs of object and reason that are remembered; beyond, the one longest silent is forgotten."""
_LOGGED_EVERY = 60.0
"""Seconds between two lines of the log about a full queue."""
_MESSAGE_LIMIT = 1024

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _LastEvent:
    """The last Event about an object and a reason, and the number of times it was repeated since."""

    message: str
    written_at: float
    event: Event | None = None
    held_back: int = 0


@dataclass(frozen=True, slots=True)
class _Job:
    regarding: ObjectReference
    reason: str
    message: str
    warning: bool
    count: int
    last: _LastEvent


class EventRecorder:
    """Writes events about objects in the name of ``component``; ``instance`` tells replicas apart."""

    def __init__(
        self,
        client: Client,
        *,
        component: str,
        instance: str,
        clock: Clock = SYSTEM_CLOCK,
        queue_length: int = QUEUE_LENGTH,
    ) -> None:
        self._client = client
        self._component = component
        self._instance = instance
        self._clock = clock
        self._queue: asyncio.Queue[_Job] = asyncio.Queue(queue_length)
        self._last: OrderedDict[tuple[str, str, str, str, str], _LastEvent] = OrderedDict()
        self.written = 0
        self.held_back = 0
        self.dropped = 0
        self._refused = 0
        self._left_out = 0
        """Attempts to put an Event into the full queue that the log has not stated yet."""
        self._left_out_logged = float("-inf")

    def emit(self, regarding: ObjectReference, reason: str, message: str, *, warning: bool) -> None:
        """Say ``message`` about an object, unless the same reason was given less than 15 minutes ago."""
        message = message if len(message) <= _MESSAGE_LIMIT else message[: _MESSAGE_LIMIT - 1] + "…"
        key = (regarding.kind, regarding.namespace, regarding.name, regarding.uid, reason)
        now = self._clock.monotonic()
        last = self._last.get(key)
        if last is not None and now - last.written_at < QUIET_SECONDS:
            last.held_back += 1
            self.held_back += 1
            return
        count = last.held_back + 1 if last else 1
        event = last.event if last and last.message == message else None
        fresh = _LastEvent(message, now, event)
        try:
            self._queue.put_nowait(_Job(regarding, reason, message, warning, count if event else 1, fresh))
        except asyncio.QueueFull:
            self.dropped += 1
            self._left_out += 1
            self._log_left_out()
            return
        self._last[key] = fresh
        self._last.move_to_end(key)
        if len(self._last) > REMEMBERED:
            self._last.popitem(last=False)

    async def run(self) -> None:
        while True:
            job = await self._queue.get()
            try:
                job.last.event = await self._write(job)
                self.written += 1
                self._refused = 0
            except KubeError as error:
                self._failed(job, error)
            finally:
                self._queue.task_done()
            self._log_left_out()

    def _log_left_out(self) -> None:
        now = self._clock.monotonic()
        if not self._left_out or now - self._left_out_logged < _LOGGED_EVERY:
            return
        _log.warning(
            "Events were not written, as the queue of %d was full (attempts: %d): the API server takes Events"
            " slower than they come. See whether it rejects requests: kubectl get --raw /metrics | "
            "grep ^apiserver_flowcontrol_rejected",
            self._queue.maxsize,
            self._left_out,
        )
        self._left_out, self._left_out_logged = 0, now

    def _failed(self, job: _Job, error: KubeError) -> None:
        self.dropped += 1
        self._refused += 1
        if error.retryable:
            job.last.written_at = float("-inf")
        # One missing permission would otherwise fill the log with as many lines as there are nodes.
        level = logging.WARNING if self._refused == 1 else logging.DEBUG
        _log.log(level, "event %s about %s is lost: %s", job.reason, job.regarding.name, error)

    async def flush(self) -> None:
        """Wait until all that was emitted has been written; for the end of a program."""
        await self._queue.join()

    async def _write(self, job: _Job) -> Event:
        known = job.last.event
        if known is not None:
            meta = known.metadata
            body = {"count": known.count + job.count, "lastTimestamp": rfc3339(self._clock.now())}
            try:
                return await self._client.patch(EVENTS, meta.name, body, namespace=meta.namespace)
            except NotFound:
                _log.debug("event %s has expired, a new one is written", meta.name)
        moment = self._clock.now()
        namespace = job.regarding.namespace or "default"
        nanoseconds = int(moment.timestamp() * 1_000_000) * 1000
        event = Event(
            metadata=ObjectMeta(name=f"{job.regarding.name}.{nanoseconds:x}", namespace=namespace),
            involved_object=job.regarding,
            reason=job.reason,
            message=job.message,
            type="Warning" if job.warning else "Normal",
            count=job.count,
            first_timestamp=rfc3339(moment),
            last_timestamp=rfc3339(moment),
            source=EventSource(component=self._component),
            reporting_component=self._component,
            reporting_instance=self._instance,
        )
        return await self._client.create(EVENTS, event, namespace)
