"""The objects, their versions, and who hears of changes.

One counter gives every change in the store its resourceVersion, as etcd's revision does. A table holds the
objects of one kind; an object is immutable once stored, and is encoded once: the same bytes answer every
get, list and watch. They leave out ``apiVersion`` and ``kind``, which depend on the group and version of the
request.

A table remembers its last changes. From them a watch starts in the past, and a list continues at the
version it began with. Older versions have expired.

A change is recorded before it is made: a change that cannot be recorded (on a full disk) does not happen.
Then all listeners are called; one that raises keeps no other from this change and the next ones.

Subscriptions are indexed by what they can see, so that a change costs as much as it has readers, however
many watchers there are. No await stands in this module: a change and its delivery are one step.

Authentication, authorization and admission read and never write, so they depend on :class:`Reader` alone.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import msgspec

from kubedouble.selectors import field_value

HISTORY = 16384
"""The number of last changes that a table remembers at least, by default."""
QUEUE = 16384
"""A watcher may be this many changes behind."""
INDEXED: Mapping[str, str] = {"pods": "spec.nodeName"}
"""Storage key -> the field by which objects and subscriptions are indexed."""

Key = tuple[str, str]
"""Namespace ("" if the kind has none) and name."""
Object = dict[str, Any]
"""A Kubernetes object. Once stored it is shared by all who read it, and must never be changed."""
Scope = tuple[str, ...]
"""What a subscription sees: (), ("namespace", ns), ("object", ns, name) or ("field", value)."""

_encode = msgspec.json.Encoder().encode


class Reader(Protocol):
    """Reads stored objects. They are the stored objects themselves: never change them."""

    def get(self, group: str, resource: str, namespace: str, name: str) -> Object | None:
        """Return one object by its plural and name; ``namespace`` is "" for cluster-scoped kinds."""
        ...

    def list(self, group: str, resource: str) -> Iterable[Object]:
        """Return all objects of a kind, of all namespaces."""
        ...


def resource_versions(objects: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return a key that changes whenever an object is created, changed or deleted, for compiled forms."""
    return tuple([item["metadata"]["resourceVersion"] for item in objects])


@dataclass(frozen=True, slots=True)
class Stored:
    """One version of one object. ``body`` is its JSON without apiVersion and kind."""

    key: Key
    object: Object
    body: bytes
    version: int


@dataclass(frozen=True, slots=True)
class Change:
    """One step of the store's history.

    After DELETED, ``stored`` is the last state, with the version of the deletion.
    """

    type: Literal["ADDED", "MODIFIED", "DELETED"]
    stored: Stored
    previous: Stored | None

    @property
    def version(self) -> int:
        return self.stored.version


class Expired(Exception):  # noqa: N818 - the condition's own name in the API
    """The version asked for is older than what is remembered."""

    def __init__(self, asked: int, oldest: int) -> None:
        super().__init__(f"too old resource version: {asked} ({oldest})")
        self.asked = asked
        self.oldest = oldest


class Subscription:
    """The changes one watcher has yet to take, in order. ``behind`` is set when it fell too far back."""

    def __init__(self, wake: Callable[[], None], limit: int) -> None:
        self.pending: deque[Change] = deque()
        self.behind = False
        self._wake = wake
        self._limit = limit

    def offer(self, change: Change) -> None:
        if len(self.pending) >= self._limit:
            self.behind = True
        else:
            self.pending.append(change)
        self._wake()


class Table:
    """The objects of one kind, in key order, with their recent history."""

    def __init__(self, storage: str, version: int, history: int = HISTORY) -> None:
        self.storage = storage
        self._objects: dict[Key, Stored] = {}
        self._keys: list[Key] = []
        self._changes: list[Change] = []
        self._versions: list[int] = []
        self._forgotten = version
        self._history = history
        self._index_field = INDEXED.get(storage, "")
        self._index: dict[str, set[Key]] = {}
        self._subscriptions: dict[Scope, set[Subscription]] = {}

    def __len__(self) -> int:
        return len(self._objects)

    def get(self, namespace: str, name: str) -> Stored | None:
        return self._objects.get((namespace, name))

    def scan(self, namespace: str = "", fields: Mapping[str, str] | None = None) -> Iterator[Stored]:
        """Walk the objects that can match, in key order, by the narrowest index there is."""
        for key in self._candidates(namespace, fields or {}):
            yield self._objects[key]

    def listed(
        self,
        version: int,
        namespace: str = "",
        fields: Mapping[str, str] | None = None,
        after: Key | None = None,
    ) -> tuple[int, Iterator[Stored]]:
        """Walk the objects as they were at a version, in key order, after a key; say how many there are.

        A page costs as much as is taken of it: a list of 200,000 objects has hundreds of pages.

        Raises:
            Expired: if that version is no longer remembered.
        """
        before: dict[Key, Stored | None] = {}
        for change in self.since(version):
            before.setdefault(change.stored.key, change.previous)
        keys = self._candidates(namespace, {} if before else fields or {})
        if after is not None:
            keys = keys[bisect_right(keys, after) :]
        for key, stored in before.items():
            if (after is not None and key <= after) or (namespace and key[0] != namespace):
                continue
            place = bisect_left(keys, key)
            is_there = key in keys[place : place + 1]
            if stored is None and is_there:
                del keys[place]
            elif stored is not None and not is_there:
                keys.insert(place, key)
        return len(keys), (before.get(key) or self._objects[key] for key in keys)

    def since(self, version: int) -> list[Change]:
        """Return the changes after a version.

        Raises:
            Expired: if some of them are no longer remembered.
        """
        if version < self._forgotten:
            raise Expired(version, self._forgotten)
        return self._changes[bisect_right(self._versions, version) :]

    def subscribe(self, scope: Scope, subscription: Subscription) -> None:
        self._subscriptions.setdefault(scope, set()).add(subscription)

    def unsubscribe(self, scope: Scope, subscription: Subscription) -> None:
        subscribers = self._subscriptions.get(scope, set())
        subscribers.discard(subscription)
        if not subscribers:
            self._subscriptions.pop(scope, None)

    def scope_of(self, namespace: str, fields: Mapping[str, str]) -> Scope:
        """Return the narrowest scope in which everything selected is seen."""
        if "metadata.name" in fields:
            return ("object", namespace, fields["metadata.name"])
        if self._index_field and self._index_field in fields:
            return ("field", fields[self._index_field])
        return ("namespace", namespace) if namespace else ()

    def apply(self, change: Change) -> None:
        """Make a change part of the table and tell those who see it. Only the store calls this."""
        key = change.stored.key
        self._reindex(key, change.previous, None if change.type == "DELETED" else change.stored)
        if change.type == "DELETED":
            del self._objects[key]
            del self._keys[bisect_left(self._keys, key)]
        else:
            if change.type == "ADDED":
                insort(self._keys, key)
            self._objects[key] = change.stored
        self._remember(change)
        for scope in self._scopes(change):
            for subscription in self._subscriptions.get(scope, ()):
                subscription.offer(change)

    def forget(self, version: int) -> None:
        """Remember no change up to a version."""
        kept = bisect_right(self._versions, version)
        del self._changes[:kept]
        del self._versions[:kept]
        self._forgotten = version

    def _candidates(self, namespace: str, fields: Mapping[str, str]) -> list[Key]:
        if self._index_field in fields:
            keys = sorted(self._index.get(fields[self._index_field], ()))
            return [key for key in keys if not namespace or key[0] == namespace]
        if "metadata.name" in fields and (namespace or not self._keys or not self._keys[0][0]):
            key = (namespace, fields["metadata.name"])
            return [key] if key in self._objects else []
        if not namespace:
            return list(self._keys)
        start = bisect_left(self._keys, (namespace, ""))
        return self._keys[start : bisect_left(self._keys, (namespace + "\0", ""))]

    def _reindex(self, key: Key, old: Stored | None, new: Stored | None) -> None:
        if not self._index_field:
            return
        if old is not None:
            value = field_value(self.storage, old.object, self._index_field)
            self._index[value].discard(key)
            if not self._index[value]:
                del self._index[value]
        if new is not None:
            value = field_value(self.storage, new.object, self._index_field)
            self._index.setdefault(value, set()).add(key)

    def _remember(self, change: Change) -> None:
        self._changes.append(change)
        self._versions.append(change.version)
        if len(self._changes) > 2 * self._history:
            self.forget(self._versions[self._history - 1])

    def _scopes(self, change: Change) -> set[Scope]:
        namespace, name = change.stored.key
        scopes: set[Scope] = {(), ("object", namespace, name), ("object", "", name)}
        if namespace:
            scopes.add(("namespace", namespace))
        if self._index_field:
            states = (change.stored, change.previous)
            values = (field_value(self.storage, s.object, self._index_field) for s in states if s)
            scopes.update(("field", value) for value in values)
        return scopes


class Store:
    """All tables, and the one counter of versions."""

    def __init__(self, version: int = 1, history: int = HISTORY) -> None:
        self.version = version
        self._start = version
        self._tables: dict[str, Table] = {}
        self._history = history
        self._listeners: list[Callable[[str, Change], None]] = []
        self._deliveries: deque[tuple[Callable[[str, Change], None], str, Change]] = deque()
        self._delivering = False
        self._record: Callable[[str, Change], None] = _keep_no_record

    def table(self, storage: str) -> Table:
        if storage not in self._tables:
            self._tables[storage] = Table(storage, self._start, self._history)
        return self._tables[storage]

    def tables(self) -> list[Table]:
        return list(self._tables.values())

    def record(self, recorder: Callable[[str, Change], None]) -> None:
        """Call a function with the storage key and the change before each, which is not made if it raises."""
        self._record = recorder

    def listen(self, listener: Callable[[str, Change], None]) -> None:
        """Call a function with the storage key and the change, after each change.

        A listener may change the store; all listeners receive all changes in the order they happened.
        """
        self._listeners.append(listener)

    def get(self, storage: str, namespace: str, name: str) -> Stored | None:
        return self.table(storage).get(namespace, name)

    def put(self, storage: str, key: Key, obj: Object) -> Stored:
        """Store a new object, or a new version of one; it must not be changed afterwards."""
        previous = self.table(storage).get(*key)
        stored = _stored(key, obj, self.version + 1)
        self._commit(storage, Change("MODIFIED" if previous else "ADDED", stored, previous))
        return stored

    def remove(self, storage: str, key: Key) -> Stored:
        """Delete an object that is there, and return its last state with the version of its deletion."""
        previous = self.table(storage).get(*key)
        if previous is None:
            raise KeyError(key)
        last = _stored(key, previous.object, self.version + 1)
        self._commit(storage, Change("DELETED", last, previous))
        return last

    def restore(self, storage: str, key: Key, obj: Object | None, version: int) -> None:
        """Repeat a change that was written down: an object at a version, or ``None`` for its deletion."""
        self.version = version - 1
        if obj is not None:
            self.put(storage, key, obj)
        elif self.table(storage).get(*key) is not None:
            self.remove(storage, key)
        self.version = version

    def forget(self) -> None:
        """Take the present as the beginning: what was before it has expired."""
        self._start = self.version
        for table in self._tables.values():
            table.forget(self.version)

    def _commit(self, storage: str, change: Change) -> None:
        self._record(storage, change)
        self.version = change.version
        self.table(storage).apply(change)
        self._deliveries.extend((listener, storage, change) for listener in self._listeners)
        if self._delivering:
            return  # made by a listener: told when all have heard of what came before
        self._delivering = True
        try:
            self._deliver()
        finally:
            self._delivering = False

    def _deliver(self) -> None:
        try:
            while self._deliveries:
                listener, storage, change = self._deliveries.popleft()
                listener(storage, change)
        finally:
            if self._deliveries:
                self._deliver()


def _keep_no_record(_storage: str, _change: Change) -> None:
    """Let the change happen."""


def _stored(key: Key, obj: Object, version: int) -> Stored:
    complete = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(version)}}
    body = {name: value for name, value in complete.items() if name not in {"apiVersion", "kind"}}
    return Stored(key, complete, _encode(body), version)
