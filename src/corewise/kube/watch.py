"""Watching: the stream of changes as typed events.

How a watch ends says what to do next:

| the stream | here | next |
|---|---|---|
| ends after a whole line | the iterator ends | watch on from the last version |
| is cut, inside a line or in the middle of the transfer | ``TransportError`` | the same, after a pause |
| carries an ERROR event, or the request is refused | ``APIError`` (410: ``Gone``) | list again if ``Gone`` |
| carries a line beyond the cap | ``LineTooLongError`` | list again |
| carries what is no event | ``DecodeError`` | watch on, after a pause |

A peer that vanishes without a word is noticed by TCP keep-alive after half a minute, and at the latest when
the watch has lived longer than it was asked to.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from typing import TypeVar

from corewise.kube.decoding import Bookmark, Undecodable, WatchEvent, decode_event
from corewise.kube.errors import TransportError
from corewise.kube.lines import LineSplitter
from corewise.kube.resources import Resource
from corewise.kube.transport import Request, Transport

T = TypeVar("T")

GRACE = 30.0
"""Seconds a server may take beyond ``timeoutSeconds`` to end a watch."""


async def watch_events(
    transport: Transport, resource: Resource[T], request: Request, timeout_seconds: int
) -> AsyncGenerator[WatchEvent[T] | Bookmark | Undecodable, None]:
    """What ``Client.watch`` gives."""
    async with transport.stream(request, longest=timeout_seconds + GRACE) as chunks:
        async for line in _lines(chunks, request):
            yield decode_event(resource, line)


async def _lines(chunks: AsyncIterator[bytes], request: Request) -> AsyncIterator[bytes]:
    splitter = LineSplitter()
    async for chunk in chunks:
        for line in splitter.feed(chunk):
            yield line
    if splitter.pending:
        raise TransportError(f"{request.label}: the watch was cut inside an event")
