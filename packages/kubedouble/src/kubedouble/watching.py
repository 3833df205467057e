"""Watches: a stream of changes from a version on.

A watch starts with the state as it is (no version, "0", or ``sendInitialEvents``) or right after a version;
if that is no longer remembered, the stream carries one ERROR event with a 410 Status and ends, as
kube-apiserver's watch cache has it. An object that begins or ceases to match the selectors is ADDED or
DELETED for this watcher. A watcher that falls behind is cut off and has to start again.

Source: kubernetes.io/docs/reference/using-api/api-concepts/#semantics-for-watch and KEP-3157 (streaming
lists).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

from aiohttp import web

from kubedouble import forms
from kubedouble.cluster import Cluster
from kubedouble.errors import expired
from kubedouble.listing import check_match, select, version_parameter
from kubedouble.requests import Call
from kubedouble.store import QUEUE, Change, Expired, Stored, Subscription

SHORTEST_SECONDS = 1800
"""A watch without timeoutSeconds ends after this time or up to twice as much: not all at once."""
_BATCH = 256 * 1024

Shown = Literal["ADDED", "MODIFIED", "DELETED"]


class Watch:
    """One watcher: its selection, and the events still to send."""

    def __init__(self, cluster: Cluster, call: Call, transport: asyncio.BaseTransport | None = None) -> None:
        self.user = call.user.name
        self._cluster = cluster
        self._transport = transport
        self._resource = call.resource
        self._namespace = call.namespace
        self._form = forms.negotiate(call)
        self._headed = True
        self._selection = select(call)
        self._bookmarks = call.flag("allowWatchBookmarks")
        self._asked = version_parameter(call)
        self._initial = _wants_initial_state(call, self._asked)
        self._announce_end = call.flag("sendInitialEvents")
        self._wake = asyncio.Event()
        self._closed = False
        self._subscription = Subscription(self._wake.set, QUEUE)
        self._table = cluster.store.table(call.resource.storage_key)
        self._scope = self._table.scope_of(call.namespace, self._selection.fields or {})

    def close(self) -> None:
        """End the stream after what was already offered."""
        self._closed = True
        self._wake.set()

    def cut(self) -> None:
        """Break the connection, as a network that fails does."""
        if isinstance(self._transport, asyncio.Transport):
            self._transport.abort()

    async def run(self, response: web.StreamResponse, seconds: float) -> None:
        """Send the stream until its time is over, it is closed, or it fell behind."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        beginning = self._begin()
        try:
            await self._send(response, beginning)
            while not (self._closed or self._subscription.behind) and (left := deadline - loop.time()) > 0:
                await self._wait(min(left, self._cluster.bookmark_seconds))
                await self._send(response, self._next())
        finally:
            self._table.unsubscribe(self._scope, self._subscription)

    def _begin(self) -> Iterator[bytes]:
        """Subscribe, and return the lines that the stream starts with; no change falls between the two."""
        self._table.subscribe(self._scope, self._subscription)
        version = self._cluster.store.version
        if self._initial:
            fields = self._selection.fields
            state = [
                s for s in self._table.scan(self._namespace, fields) if self._selection.matches(s.object)
            ]
            return self._initial_lines(state, version)
        try:
            missed = self._table.since(self._asked or version)
        except Expired as error:
            self._closed = True
            return iter([forms.error_line(expired(str(error)).status())])
        return self._lines(missed)

    def _initial_lines(self, state: list[Stored], version: int) -> Iterator[bytes]:
        for stored in state:
            yield forms.event_line(self._resource, stored, "ADDED", self._form, headed=self._take_head())
        if self._announce_end and self._bookmarks:
            yield forms.bookmark_line(self._resource, version, self._form, initial_end=True)

    def _next(self) -> Iterator[bytes]:
        self._wake.clear()
        pending = self._subscription.pending
        if not pending:
            if self._bookmarks and not self._closed:
                yield forms.bookmark_line(self._resource, self._cluster.store.version, self._form)
            return
        changes = list(pending)
        pending.clear()
        yield from self._lines(changes)

    def _lines(self, changes: list[Change]) -> Iterator[bytes]:
        for change in changes:
            if change.version <= self._asked:
                continue
            if self._namespace and change.stored.key[0] != self._namespace:
                continue
            kind = self._kind_of(change)
            if kind == "DELETED" and change.type != "DELETED" and change.previous is not None:
                yield self._ceased(change, change.previous)
            elif kind:
                yield forms.event_line(
                    self._resource, change.stored, kind, self._form, headed=self._take_head()
                )

    def _kind_of(self, change: Change) -> Shown | None:
        """Return the type of a change for this watcher."""
        if self._selection.everything:
            return change.type
        matches = self._selection.matches
        before = change.previous is not None and matches(change.previous.object)
        after = change.type != "DELETED" and matches(change.stored.object)
        if after:
            return "MODIFIED" if before else "ADDED"
        return "DELETED" if before else None

    def _ceased(self, change: Change, previous: Stored) -> bytes:
        """Show an object that no longer matches: its last matching state, at the version of the change."""
        obj = {
            **previous.object,
            "metadata": {**previous.object["metadata"], "resourceVersion": str(change.version)},
        }
        stored = replace(previous, object=obj, body=forms.body_of(obj), version=change.version)
        return forms.event_line(self._resource, stored, "DELETED", self._form, headed=self._take_head())

    def _take_head(self) -> bool:
        headed, self._headed = self._headed, False
        return headed

    async def _wait(self, seconds: float) -> None:
        if self._wake.is_set():
            return
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            return

    async def _send(self, response: web.StreamResponse, lines: Iterator[bytes]) -> None:
        batch: list[bytes] = []
        size = 0
        for line in lines:
            batch.append(line)
            size += len(line)
            if size >= _BATCH:
                await response.write(b"".join(batch))
                batch.clear()
                size = 0
        if batch:
            await response.write(b"".join(batch))


async def watch(cluster: Cluster, call: Call, request: web.BaseRequest) -> web.StreamResponse:
    """Answer a watch.

    Raises:
        StatusError: if the options make no sense; once the stream has begun nothing is raised.
    """
    check_match(call, watching=True)
    stream = Watch(cluster, call, request.transport)
    seconds = call.number("timeoutSeconds") or SHORTEST_SECONDS * (1 + random.random())  # noqa: S311 - spread
    response = web.StreamResponse(
        headers={"Content-Type": "application/json", "Cache-Control": "no-cache, private"}
    )
    response.enable_chunked_encoding()
    cluster.watches.add(stream)
    try:
        await response.prepare(request)
        await stream.run(response, seconds)
        await response.write_eof()
    except ConnectionError:
        pass  # the client is gone, which is how most watches end
    finally:
        cluster.watches.discard(stream)
    return response


def _wants_initial_state(call: Call, asked: int) -> bool:
    if "sendInitialEvents" in call.query:
        return call.flag("sendInitialEvents")
    return not asked
