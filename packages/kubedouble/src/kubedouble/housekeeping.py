"""The work of controllers after a delete: emptying namespaces, and removing dependents.

- A terminating Namespace is emptied; when nothing is left, its finalizer goes, and with it the Namespace.
- An Event is deleted an hour after it was last written, as ``--event-ttl`` has it.
- An object whose owners (ownerReferences) are all gone is deleted. With propagation policy Foreground the
  owner waits until its dependents are gone; with Orphan they are kept and forget their owner. A dependent
  with another owner that stays forgets the one that goes. An object of the whole cluster cannot depend on
  one in a namespace: such a reference deletes nothing.

It works from the state of the store; a change only wakes it.

Source: k8s.io/kubernetes/pkg/controller/{namespace,garbagecollector}.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from itertools import takewhile
from typing import Any

from kubedouble.cluster import Cluster
from kubedouble.deletion import FOREGROUND, ORPHAN, Options, delete_stored, finish_if_released
from kubedouble.resources import ResourceInfo
from kubedouble.store import Change, Key, Object, Stored
from kubedouble.strategies import without

EVENT_TTL = timedelta(hours=1)
_SWEEP_SECONDS = 60.0

Place = tuple[str, Key]
"""Storage key and object key."""


class Housekeeper:
    """Deletes the objects that deletions leave behind."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._wake = asyncio.Event()
        self._dependents: dict[str, set[Place]] = {}
        self._orphans: set[Place] = set()
        self._terminating: set[Key] = set()
        self._held: set[Place] = set()
        self._events: dict[Key, datetime] = {}
        cluster.store.listen(self._note)
        for table in cluster.store.tables():
            for stored in table.scan():
                self._note(table.storage, Change("ADDED", stored, None))

    async def run(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_SWEEP_SECONDS):
                    await self._wake.wait()
            self._wake.clear()
            self.work()

    def work(self) -> None:
        """Do all that can be done now."""
        while self._orphans:
            self._delete_if_orphaned(self._orphans.pop())
        for place in sorted(self._held):
            self._release_owner(place)
        for key in sorted(self._terminating):
            self._empty_namespace(key)
        self._expire_events(self._cluster.clock() - EVENT_TTL)

    def _note(self, storage: str, change: Change) -> None:
        """Remember the work that a change may leave."""
        place = (storage, change.stored.key)
        before = change.previous.object["metadata"] if change.previous else {}
        metadata = change.stored.object["metadata"]
        gone = change.type == "DELETED"
        self._index(place, before, {} if gone else metadata)
        if gone:
            self._orphans.update(self._dependents.get(metadata["uid"], ()))
        elif set(_owners(metadata)) - set(_owners(before)):
            self._orphans.add(place)
        self._mark(place, metadata, gone=gone)
        if self._orphans or self._held or self._terminating:
            self._wake.set()

    def _index(self, place: Place, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
        old, new = set(_owners(before)), set(_owners(after))
        for uid in old - new:
            self._dependents[uid].discard(place)
            if not self._dependents[uid]:
                del self._dependents[uid]
        for uid in new - old:
            self._dependents.setdefault(uid, set()).add(place)

    def _mark(self, place: Place, metadata: Mapping[str, Any], *, gone: bool) -> None:
        leaving = bool(metadata.get("deletionTimestamp")) and not gone
        finalizers = metadata.get("finalizers") or ()
        _keep(self._held, place, wanted=leaving and (FOREGROUND in finalizers or ORPHAN in finalizers))
        if place[0] == "namespaces":
            _keep(self._terminating, place[1], wanted=leaving)
        if place[0] == "events":
            self._events.pop(place[1], None)
            if not gone:
                self._events[place[1]] = self._cluster.clock()

    def _expire_events(self, before: datetime) -> None:
        """Delete the events last written before a time; the oldest stand first."""
        for key in [*takewhile(lambda key: self._events[key] < before, self._events)]:
            self._cluster.store.remove("events", key)

    def _find(self, place: Place) -> tuple[ResourceInfo, Stored] | None:
        storage, key = place
        resource = self._cluster.registry.of_storage(storage)
        stored = self._cluster.store.get(storage, *key)
        return (resource, stored) if resource and stored else None

    def _delete_if_orphaned(self, place: Place) -> None:
        found = self._find(place)
        if found is None or found[1].object["metadata"].get("deletionTimestamp"):
            return
        resource, stored = found
        references = stored.object["metadata"].get("ownerReferences") or ()
        if references and not any(self._owner_exists(reference, stored.key[0]) for reference in references):
            delete_stored(self._cluster, resource, stored, Options())

    def _owner_exists(self, reference: Mapping[str, Any], namespace: str) -> bool:
        group = reference["apiVersion"].rpartition("/")[0]
        resource = self._cluster.registry.of_kind(group, reference["kind"])
        if resource is None:
            return True  # an owner of a kind not served here is no reason to delete
        if resource.namespaced and not namespace:
            return True
        owner = self._cluster.stored(resource, namespace if resource.namespaced else "", reference["name"])
        return owner is not None and owner.object["metadata"]["uid"] == reference["uid"]

    def _release_owner(self, place: Place) -> None:
        """Let an owner go whose dependents are deleted or have forgotten it."""
        found = self._find(place)
        if found is None:
            return
        resource, owner = found
        metadata = owner.object["metadata"]
        finalizers = metadata.get("finalizers") or ()
        for dependent in sorted(self._dependents.get(metadata["uid"], ())):
            self._settle(dependent, metadata["uid"], forget=ORPHAN in finalizers)
        if not self._dependents.get(metadata["uid"]):
            left = [name for name in finalizers if name not in {FOREGROUND, ORPHAN}]
            self._put(resource, owner, {**owner.object, "metadata": {**metadata, "finalizers": left}})

    def _settle(self, place: Place, owner: str, *, forget: bool) -> None:
        found = self._find(place)
        if found is None:
            return
        resource, stored = found
        metadata = stored.object["metadata"]
        left = [each for each in metadata["ownerReferences"] if each["uid"] != owner]
        if not forget and not any(self._owner_exists(reference, stored.key[0]) for reference in left):
            if not metadata.get("deletionTimestamp"):
                policy = "Foreground" if self._dependents.get(metadata["uid"]) else ""
                delete_stored(self._cluster, resource, stored, Options(policy=policy))
            return
        others = without(metadata, "ownerReferences")
        metadata = {**others, "ownerReferences": left} if left else others
        self._put(resource, stored, {**stored.object, "metadata": metadata})

    def _empty_namespace(self, key: Key) -> None:
        found = self._find(("namespaces", key))
        if found is None:
            return
        remaining = False
        for resource, stored in self._content(key[1]):
            if stored.object["metadata"].get("deletionTimestamp"):
                remaining = True
            else:
                remaining |= not delete_stored(self._cluster, resource, stored, Options()).gone
        resource, namespace = found
        if not remaining and (namespace.object["spec"].get("finalizers") or ()):
            spec = {**namespace.object["spec"], "finalizers": []}
            self._put(resource, namespace, {**namespace.object, "spec": spec})

    def _content(self, namespace: str) -> Iterator[tuple[ResourceInfo, Stored]]:
        for table in self._cluster.store.tables():
            resource = self._cluster.registry.of_storage(table.storage)
            if resource is not None and resource.namespaced:
                for stored in list(table.scan(namespace)):
                    yield resource, stored

    def _put(self, resource: ResourceInfo, stored: Stored, obj: Object) -> None:
        if finish_if_released(self._cluster, resource, stored, obj) is None:
            self._cluster.store.put(resource.storage_key, stored.key, obj)


def _owners(metadata: Mapping[str, Any]) -> Iterator[str]:
    return (reference["uid"] for reference in metadata.get("ownerReferences") or ())


def _keep(kept: set[Any], member: Any, *, wanted: bool) -> None:
    if wanted:
        kept.add(member)
    else:
        kept.discard(member)
