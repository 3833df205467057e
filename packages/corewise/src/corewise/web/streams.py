"""The feeds of open pages: tables and documents, sent whole once, then only their changes.

One ``Feed`` per path serves every page that shows it: what it sends is made once. A page that reads more
slowly than the cluster changes gets no queue: what it has missed is one fresh ``all``.

The events are those of ``text/event-stream``: ``all`` has everything, ``change`` the rows of a table that
are new or have changed and the names of those that are gone, ``lost`` says why the cluster cannot be
followed. A comment every 15 s shows a page that the connection lives.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from corewise.kube.clock import Clock
from corewise.vocabulary.errors import OperationalError

TOGETHER, _LONGEST = 0.25, 1.5
"""Seconds in which changes are collected into one event: the longer, the more work an event is."""
_REST = 4
"""How many times as long as its work a feed rests, so that open pages take a fifth of a core at most."""
DOCUMENTS_EVERY = 1.0
"""Seconds between two looks at a document: it may have to ask the API server."""
COMMENT_EVERY = 15.0
_LOST_EVERY = 5.0
_COMMENT = b": still here\n\n"
_encode = msgspec.json.encode

Read = Callable[[], Awaitable[Mapping[str, Any]]]


class Lost(Protocol):
    """The reason why the cluster cannot be followed, and the seconds since it last answered."""

    @property
    def message(self) -> str: ...
    @property
    def seconds(self) -> int: ...


def event(name: str, data: Any) -> bytes:
    """Return one server-sent event."""
    return b"event: %s\ndata: %s\n\n" % (name.encode(), _encode(data))


@dataclass(slots=True, eq=False)
class _Reader:
    """One open page. ``pending`` are the messages not yet sent to it; None: send it the full state."""

    pending: list[bytes] | None
    news: asyncio.Event


class Feed:
    """One path. ``read`` returns it as it is now; of a table, a row is the same object until it changes."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self._reading = asyncio.Lock()
        self._readers: set[_Reader] = set()
        self._rows: dict[str, object] = {}
        self._rest: bytes = b""
        self._shown: Mapping[str, Any] = {}
        self._whole: bytes | None = None
        self._is_lost = False
        self.read_at = 0.0

    @property
    def is_read(self) -> bool:
        return bool(self._readers)

    async def first(self) -> None:
        """Look, unless it has been done; raises as ``refresh``."""
        if not self._shown:
            await self.refresh()

    async def refresh(self) -> None:
        """Look again, and tell what has changed.

        Raises:
            LookupError: if the object is gone.
            KubeError: if the API server does not say what has to be asked for.
        """
        async with self._reading:
            shown = await self._read()
        if self._is_lost:  # for a page, only a message with data ends that
            self._is_lost = False
            self._tell(None)
        rows = shown.get("rows")
        rest = _encode({key: value for key, value in shown.items() if key != "rows"})
        if rows is not None and rows is self._shown.get("rows") and rest == self._rest:
            return
        now = {row["name"]: row for row in rows or ()}
        changed = [row for name, row in now.items() if self._rows.get(name) is not row]
        gone = [name for name in self._rows if name not in now]
        if not changed and not gone and rest == self._rest:
            return
        is_first = not self._shown
        self._shown, self._rows, self._rest, self._whole = shown, now, rest, None
        if rows is None or is_first:
            self._tell(None)
        else:
            self._tell(event("change", {**shown, "rows": changed, "gone": gone}))

    def _tell(self, message: bytes | None) -> None:
        """Queue a message for every reader; None, or a reader that still has one queued: the full state."""
        for reader in self._readers:
            reader.pending = [message] if message is not None and reader.pending == [] else None
            reader.news.set()

    def _all(self) -> bytes:
        """Return everything as one event, made once for all readers."""
        if self._whole is None:
            self._whole = event("all", self._shown)
        return self._whole

    def lost(self, message: bytes) -> None:
        """Tell every reader that its data are stale, until they are read again."""
        self._is_lost = True
        for reader in self._readers:
            if reader.pending == []:
                reader.pending = [message]
                reader.news.set()

    def join(self) -> _Reader:
        """Add a page; it is to be sent everything."""
        reader = _Reader(None, asyncio.Event())
        reader.news.set()
        self._readers.add(reader)
        return reader

    def leave(self, reader: _Reader) -> None:
        """Forget a page."""
        self._readers.discard(reader)

    async def events(self, reader: _Reader) -> AsyncIterator[bytes]:
        """Yield the messages for a page, beginning with the full state."""
        while True:
            try:
                async with asyncio.timeout(COMMENT_EVERY):
                    await reader.news.wait()
            except TimeoutError:
                yield _COMMENT
                continue
            reader.news.clear()
            messages, reader.pending = reader.pending, []
            for message in [self._all()] if messages is None else messages:
                yield message


class Feeds:
    """Every path that is followed; ``lost`` says why the cluster cannot be, if it cannot."""

    def __init__(self, clock: Clock, lost: Callable[[], Lost | None]) -> None:
        self._clock, self._lost = clock, lost
        self._feeds: dict[str, Feed] = {}
        self._changed = asyncio.Event()

    def changed(self) -> None:
        """Mark that something may have changed."""
        self._changed.set()

    @asynccontextmanager
    async def opened(self, path: str, read: Read) -> AsyncIterator[AsyncIterator[bytes]]:
        """Yield the messages for a page that shows this path.

        Raises:
            LookupError: if there is no such object.
            KubeError: if the API server does not say what has to be asked for.
        """
        feed = self._feeds.setdefault(path, Feed(read))
        reader = feed.join()  # before anything is awaited: a feed without readers is forgotten
        try:
            await feed.first()
            yield feed.events(reader)
        finally:
            feed.leave(reader)

    async def run(self) -> None:
        """Keep all that is followed current, until canceled."""
        was_lost, told, pause = False, 0.0, TOGETHER
        while True:
            try:
                async with asyncio.timeout(1.0):
                    await self._changed.wait()
            except TimeoutError:
                pass
            await self._clock.sleep(pause)
            self._changed.clear()
            self._feeds = {path: feed for path, feed in self._feeds.items() if feed.is_read}
            lost, now = self._lost(), self._clock.monotonic()
            if lost is not None and (not was_lost or now - told >= _LOST_EVERY):
                told, message = now, event("lost", {"message": lost.message, "seconds": lost.seconds})
                for feed in self._feeds.values():
                    feed.lost(message)
            if lost is None:
                await self._refresh()
                spent = self._clock.monotonic() - now
                pause = min(_LONGEST, max(TOGETHER, _REST * spent))
            was_lost = lost is not None

    async def _refresh(self) -> None:
        for path, feed in list(self._feeds.items()):
            now = self._clock.monotonic()
            if not path.startswith("tables/") and now - feed.read_at < DOCUMENTS_EVERY:
                self._changed.set()
                continue
            feed.read_at = now
            try:
                await feed.refresh()
            except (LookupError, OperationalError) as error:
                feed.lost(event("lost", {"message": str(error), "seconds": 0}))
