"""A local copy of a resource that follows the cluster: list once, then watch until canceled.

Invariants:
- ``run`` ends only when it is canceled. Every ``KubeError`` is a pause with jittered exponential backoff.
- A watch that ends in order, or is cut, goes on from the last version seen; nothing is listed again. A
  version that is too old (410), a line beyond the cap, or five failures in a row lead to a new list.
- A new list replaces the copy at once: what is gone is reported as deleted, what has the same version is left
  alone, object and all. So while a list arrives, memory holds one page beside the copy, not all twice.
- An object that cannot be decoded never takes its good predecessor away; ``problems`` names it until it can.
- ``on_change(old, new)`` is called after ``items`` has changed: old is None when the object is new, new is
  None when it is gone. It must be quick, and what it raises ends ``run``, as a bug should.
- ``prepare(new)`` is awaited before the copy has a new object, one at a time: what takes long happens there.
- A change at which ``on_change`` raised is not lost: the next ``run`` takes it back, lists again and delivers
  it again, after all others, so that one object which a listener cannot take keeps no other one back.
- ``stale`` says so whenever the copy, or what its listener made of it, may be behind the cluster.

Watches are asked to end after 5 to 10 minutes, a random time each, so that after an API server's restart
clients do not keep coming back together.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, ItemsView, Iterator, Mapping
from contextlib import aclosing
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from corewise.kube.client import PAGE_SIZE, Client
from corewise.kube.clock import SYSTEM_CLOCK, Clock
from corewise.kube.decoding import Bookmark, DecodedList, EventType, Undecodable, WatchEvent
from corewise.kube.errors import Gone, KubeError, LineTooLongError, NotFound
from corewise.kube.objects import KubeObject
from corewise.kube.resources import Resource
from corewise.kube.transport import LONGEST_WAIT, Backoff
from corewise.kube.watch import Gathering

T = TypeVar("T", bound=KubeObject)
Key = str | tuple[str, str]
"""``name`` of a cluster-scoped object, ``(namespace, name)`` of a namespaced one."""

SHORTEST_WATCH = 300
RELIST_AFTER = 5
STALE_AFTER = 60.0
"""Seconds without an answer while the API server refuses or cannot be reached."""
_LONGEST_SILENCE = 2 * SHORTEST_WATCH + STALE_AFTER
BACKOFF = Backoff(first=0.5, longest=LONGEST_WAIT)
_QUICK_END = 1.0
_MOST_NAMED = 3
_POLL = 0.2

_log = logging.getLogger(__name__)


class Cache(Generic[T]):
    """The objects of one resource, kept current by ``run``."""

    def __init__(
        self,
        client: Client,
        resource: Resource[T],
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        page_size: int = PAGE_SIZE,
        prepare: Callable[[T], Awaitable[None]] | None = None,
        on_change: Callable[[T | None, T | None], None] | None = None,
        gathering: Gathering | None = None,
        clock: Clock = SYSTEM_CLOCK,
        rng: random.Random | None = None,
    ) -> None:
        self._client = client
        self._resource = resource
        self._namespace = namespace
        self._label_selector = label_selector
        self._field_selector = field_selector
        self._page_size = page_size
        self._prepare = prepare
        self._listeners = [] if on_change is None else [on_change]
        self._gathering = gathering
        self._clock = clock
        self._rng = rng or random.Random()  # noqa: S311 - spreads watches in time, guards nothing
        self._items: dict[Key, T] = {}
        self._problems: dict[Key, str] = {}
        self._version = ""
        self._failures = 0
        self._running = False
        self._undelivered: dict[Key, T | None] = {}
        """The changes at which the listener raised, with the state that it knows."""
        self.items: Mapping[Key, T] = MappingProxyType(self._items)
        self.problems: Mapping[Key, str] = MappingProxyType(self._problems)
        self.synced = asyncio.Event()
        self.last_contact: float | None = None
        self.last_error: KubeError | None = None

    @property
    def plural(self) -> str:
        return self._resource.plural

    def get(self, name: str, namespace: str = "") -> T | None:
        return self._items.get(self._key(namespace, name))

    def listen(self, listener: Callable[[T | None, T | None], None]) -> None:
        """Call one more listener, after the others, with the old and the new state of every change."""
        self._listeners.append(listener)

    @property
    def silence(self) -> float | None:
        """Seconds since the API server last answered; None before the first list."""
        return None if self.last_contact is None else self._clock.monotonic() - self.last_contact

    def stale(self) -> str:
        """Return the reason the copy may be behind the cluster; "" if it is current, or is not listed yet."""
        silence = self.silence
        if not self.synced.is_set() or silence is None or isinstance(self.last_error, NotFound):
            return ""
        what = self._resource.plural
        if self._undelivered:
            names = ", ".join(sorted(map(_name, self._undelivered))[:_MOST_NAMED])
            return f"the view of {what} is stale: a change of {names} could not be taken in (see the log)"
        if not self._running:
            return f"the view of {what} is stale: nothing follows them (see the log)"
        if self.last_error is not None and silence > STALE_AFTER:
            return f"the view of {what} is {silence:.0f} s old: {self.last_error}"
        if silence > _LONGEST_SILENCE:
            return f"the view of {what} is {silence:.0f} s old: the API server is silent"
        return ""

    async def run(self) -> None:
        """Follow the cluster until canceled."""
        self._take_back()
        self._running = True
        try:
            await self._follow()
        finally:
            self._running = False

    def _take_back(self) -> None:
        """Return to what the listener knows, and have everything listed again, if it missed something."""
        for key, known in self._undelivered.items():
            self._version = ""
            if known is None:
                self._items.pop(key, None)
            else:
                self._items[key] = known

    async def _follow(self) -> None:
        while True:
            try:
                if not self._version:
                    await self.relist()
                await self._watch()
            except KubeError as error:
                self._failed(error)
                asked = min(error.retry_after or 0.0, LONGEST_WAIT)
                await self._clock.sleep(max(asked, BACKOFF.delay(self._failures, self._rng)))

    async def relist(self) -> None:
        """List the resource, and replace the copy.

        Raises:
            KubeError: if it cannot be listed.
        """
        listing = await self._client.list(
            self._resource,
            self._namespace,
            label_selector=self._label_selector,
            field_selector=self._field_selector,
            page_size=self._page_size,
            held=self._held,
        )
        self._contact()
        if self._prepare is not None:
            for item in listing.items:
                if self._items.get(self._key_of(item)) is not item:
                    await self._prepare(item)
        self._replace(listing)
        self._version = listing.resource_version
        self.synced.set()

    async def _watch(self) -> None:
        started = self._clock.monotonic()
        quiet = True
        async with aclosing(self._open_watch()) as events:
            async for event in events:
                self._contact()
                if self._prepare and isinstance(event, WatchEvent) and event.type is not EventType.DELETED:
                    await self._prepare(event.object)
                self._take(event)
                quiet = False
        self._contact()
        if quiet and self._clock.monotonic() - started < _QUICK_END:
            # A server, or a proxy, that ends every watch at once must not make this a busy loop.
            await self._clock.sleep(BACKOFF.delay(1, self._rng))

    def _open_watch(self) -> AsyncGenerator[WatchEvent[T] | Bookmark | Undecodable, None]:
        return self._client.watch(
            self._resource,
            self._version,
            self._namespace,
            label_selector=self._label_selector,
            field_selector=self._field_selector,
            timeout_seconds=SHORTEST_WATCH + self._rng.randrange(SHORTEST_WATCH),
            on_open=self._opened,
            gathering=self._gathering,
        )

    def _opened(self) -> None:
        """Note that a watch follows changes again. That alone is no contact: it may be cut at once."""
        self.last_error = None

    def _contact(self) -> None:
        self.last_contact = self._clock.monotonic()
        self.last_error = None
        self._failures = 0

    def _failed(self, error: KubeError) -> None:
        self._failures += 1
        known = isinstance(error, NotFound) and isinstance(self.last_error, NotFound)
        self.last_error = error
        # The first cut is an API server's restart or a load balancer's habit; a person should see the second.
        # A cluster without an optional kind is asked again and again, and said once to have none.
        level = logging.WARNING if self._failures > 1 or not error.retryable else logging.INFO
        if not known:
            _log.log(level, "following %s: %s", self._resource.plural, error.log_text)
        if isinstance(error, Gone | LineTooLongError) or self._failures >= RELIST_AFTER:
            self._version = ""

    def _take(self, event: WatchEvent[T] | Bookmark | Undecodable) -> None:
        match event:
            case WatchEvent(EventType.DELETED, gone):
                self._version = gone.metadata.resource_version
                self._remove(self._key_of(gone), gone)
            case WatchEvent(_, current):
                self._version = current.metadata.resource_version
                self._put(self._key_of(current), current)
            case Bookmark(version):
                self._version = version
            case Undecodable():
                self._version = event.resource_version or self._version
                self._report(event)

    def _held(self, item: T) -> T:
        """Return the copy's object in place of one of the same version."""
        known = self._items.get(self._key_of(item))
        if known is None or known.metadata.resource_version != item.metadata.resource_version:
            return item
        return known

    def _replace(self, listing: DecodedList[T]) -> None:
        fresh = {self._key_of(item): item for item in listing.items}
        broken = {self._key(bad.namespace, bad.name) for bad in listing.undecodable}
        for key in self._items.keys() - fresh.keys() - broken:
            self._remove(key, self._items[key])
        for key in self._problems.keys() - broken:
            del self._problems[key]
        for key in sorted(fresh, key=self._undelivered.__contains__):
            item = fresh[key]
            known = self._items.get(key)
            if known is None or known.metadata.resource_version != item.metadata.resource_version:
                self._put(key, item)
        for bad in listing.undecodable:
            self._report(bad)
        self._undelivered.clear()

    def _put(self, key: Key, item: T) -> None:
        old = self._items.get(key)
        self._items[key] = item
        self._problems.pop(key, None)
        self._tell(key, old, old, item)

    def _remove(self, key: Key, last: T) -> None:
        self._problems.pop(key, None)
        known = self._items.pop(key, None)
        if known is not None:
            self._tell(key, known, last, None)

    def _tell(self, key: Key, known: T | None, old: T | None, new: T | None) -> None:
        if self._listeners:
            self._undelivered[key] = known
            for listener in self._listeners:
                listener(old, new)
            del self._undelivered[key]

    def _report(self, bad: Undecodable) -> None:
        key = self._key(bad.namespace, bad.name)
        if bad.type is EventType.DELETED:
            known = self._items.get(key)
            if known is not None:
                self._remove(key, known)
            self._problems.pop(key, None)
            return
        label = self._resource.label(bad.name or "(of unreadable name)", bad.namespace)
        if self._problems.get(key) != bad.message:
            _log.warning("%s cannot be read, the last good state stays: %s", label, bad.message)
        self._problems[key] = bad.message

    def _key_of(self, item: T) -> Key:
        return self._key(item.metadata.namespace, item.metadata.name)

    def _key(self, namespace: str, name: str) -> Key:
        return (namespace, name) if self._resource.namespaced else name


class Caches:
    """The caches of one program, by the plural of their resource.

    A resource that the API server does not have (no such custom resource is installed) counts as listed.
    """

    def __init__(self, *caches: Cache[Any]) -> None:
        self._caches = {cache.plural: cache for cache in caches}

    def items(self) -> ItemsView[str, Cache[Any]]:
        """The caches with their plurals."""
        return self._caches.items()

    @property
    def unlisted(self) -> list[str]:
        """The resources still to be listed."""
        return [
            name
            for name, cache in self.items()
            if not cache.synced.is_set() and not isinstance(cache.last_error, NotFound)
        ]

    def problems(self) -> Iterator[str]:
        """Yield the resources not listed yet, and the copies that may be behind the cluster."""
        yield from (f"{name} have not been listed yet" for name in self.unlisted)
        yield from filter(None, (cache.stale() for _, cache in self.items()))

    async def listed(self, clock: Clock) -> None:
        """Wait until everything has been listed."""
        while self.unlisted:
            await clock.sleep(_POLL)

    async def run(self) -> None:
        """Follow the cluster until canceled."""
        async with asyncio.TaskGroup() as group:
            for name, loop in self.loops():
                group.create_task(loop(), name=f"cache {name}")

    def loops(self) -> Iterator[tuple[str, Callable[[], Coroutine[Any, Any, None]]]]:
        """The caches' loops, each by its plural, for a program that restarts each by itself."""
        return ((name, cache.run) for name, cache in self.items())


def _name(key: Key) -> str:
    return key if isinstance(key, str) else "/".join(key)
