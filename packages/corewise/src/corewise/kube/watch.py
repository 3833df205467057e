r"""Watching: the stream of changes as typed events.

How a watch ends says what to do next:

| the stream | here | next |
|---|---|---|
| ends after a whole line | the iterator ends | watch on from the last version |
| is cut, inside a line or in the middle of the transfer | ``TransportError`` | the same, after a pause |
| carries an ERROR event, or the request is refused | ``APIError`` (410: ``Gone``) | list again if ``Gone`` |
| carries a line beyond the cap | ``LineTooLongError`` | list again |
| carries what is not an event | ``DecodeError`` | watch on, after a pause |

A peer that vanishes without a word is noticed by TCP keep-alive after half a minute, and at the latest when
the watch has lived longer than it was asked to.

Invariant: for any way to cut a stream into chunks, the lines are the same: those of ``stream.split(b"\n")``,
without the empty ones. What follows the last newline is not a line: a watch that ends there was cut. A line
may be as long as an object can be: etcd takes 1.5 MiB of an object by default, some run with more. The cap
keeps a server that never sends a newline from filling the memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import TypeVar

from corewise.kube.clock import next_beat
from corewise.kube.decoding import Bookmark, Undecodable, WatchEvent, decode_event
from corewise.kube.errors import LineTooLongError, TransportError
from corewise.kube.resources import Resource
from corewise.kube.transport import READ_BUFFER, Chunks, Request, Transport

LONGEST_LINE = 16 << 20
"""Bytes; ten times what etcd accepts of one object."""


class LineSplitter:
    """Splits chunks into whole lines; keeps the rest, without copying it again for every chunk."""

    def __init__(self, longest: int = LONGEST_LINE) -> None:
        self._longest = longest
        self._parts: list[bytes] = []
        self._size = 0

    @property
    def pending(self) -> int:
        """Bytes of the line that has begun and not ended."""
        return self._size

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that this chunk ends.

        Raises:
            LineTooLongError: the line that has begun is beyond the cap; the splitter is of no use any more.
        """
        first, *others = chunk.split(b"\n")
        self._keep(first)
        if not others:
            return []
        *lines, rest = others
        lines.insert(0, b"".join(self._parts))
        self._parts.clear()
        self._size = 0
        if len(chunk) > self._longest:
            self._check(max(map(len, lines)))
        self._keep(rest)
        return [line for line in lines if line]

    def _keep(self, part: bytes) -> None:
        if not part:
            return
        self._parts.append(part)
        self._size += len(part)
        self._check(self._size)

    def _check(self, size: int) -> None:
        if size > self._longest:
            raise LineTooLongError(f"a watch event is longer than {self._longest} bytes")


class Gathering:
    """Has the changes of a watch pile up in the kernel, so that one waking of the program takes in many.

    A change that comes alone is taken in at once, and those that come after it at the next beat of
    ``seconds``, when there are ``MANY`` bytes of them, or when somebody asks.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._held: tuple[Chunks, asyncio.TimerHandle] | None = None
        self._asking = 0
        self._steps = 0
        """How often the watch went on: who waits for it to be done sees by this that it is not."""

    def begin(self, chunks: Chunks) -> None:
        """Leave what comes in the kernel from now on, unless somebody asks just now."""
        if not self._asking and chunks.gather(MANY):
            loop = asyncio.get_running_loop()
            self._held = chunks, loop.call_at(next_beat(loop.time(), self._seconds), self.end)

    def end(self) -> None:
        """Have what has come, and what comes next, read as soon as it is there."""
        if self._held:
            chunks, timer = self._held
            self._held = None
            timer.cancel()
            chunks.gather(1)

    def step(self) -> None:
        """Note that the watch goes on: more may have come."""
        self._steps += 1
        self.end()

    async def drain(self) -> None:
        """Have what has arrived taken in now."""
        self._asking += 1
        try:
            self.end()
            idle = 0
            while idle < _IDLE_TURNS:
                before = self._steps
                await asyncio.sleep(0)
                idle = idle + 1 if self._steps == before else 0
        finally:
            self._asking -= 1


MANY = 1 << 19
"""Bytes: 100 pods of 5 KB. Linux enlarges the receive buffer for them, up to half the maximum of tcp_rmem."""
_IDLE_TURNS = 6
"""Turns of the event loop in which a watch that does not go on has nothing more to take in."""
_MORE = READ_BUFFER // 8
"""Bytes of a chunk after which more may have arrived: it was read in one piece, of 64 KiB with TLS."""


T = TypeVar("T")

GRACE = 30.0
"""Seconds a server may take beyond ``timeoutSeconds`` to end a watch."""


async def watch_events(
    transport: Transport,
    resource: Resource[T],
    request: Request,
    timeout_seconds: int,
    *,
    on_open: Callable[[], None] | None,
    gathering: Gathering | None,
) -> AsyncGenerator[WatchEvent[T] | Bookmark | Undecodable, None]:
    """Yield the events of ``Client.watch``."""
    async with transport.stream(request, longest=timeout_seconds + GRACE) as chunks:
        if on_open is not None:
            on_open()
        try:
            async for lines in _lines(chunks, request, gathering):
                for line in lines:
                    yield decode_event(resource, line)
        finally:
            if gathering:
                gathering.end()  # another watch may come over the same connection


async def _lines(
    chunks: AsyncIterator[bytes], request: Request, gathering: Gathering | None
) -> AsyncIterator[list[bytes]]:
    splitter = LineSplitter()
    async for chunk in chunks:
        if gathering:
            gathering.step()
        yield splitter.feed(chunk)
        if gathering and not splitter.pending and len(chunk) < _MORE and isinstance(chunks, Chunks):
            gathering.begin(chunks)
    if splitter.pending:
        raise TransportError(f"{request.label}: the watch was cut inside an event")
