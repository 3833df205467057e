"""Kubernetes objects as narrow frozen structs: only the fields that corewise reads.

Why narrow: a watch delivers every pod of a cluster again and again, and what is not decoded costs neither
time nor heap. So a struct of this module must **never be sent back whole** with PUT: the fields it does not
name would be lost. Change objects with ``Client.patch`` or server-side apply; create those that have more
fields from plain dicts.

Invariants:
- Decoded objects are never changed, so equal parts of many objects are kept once: the pods of a Deployment
  have the same labels, owners and requests, and their own copies would be more than half of a cached pod.
  Measured on pods of 8.7 KB: 3.2 KiB of heap each without sharing, 1.2 KiB with it, at 97,000 decoded a
  second instead of 145,000. Of the pods that manager and scheduler cache (10 KB), containers and their states
  are shared whole, and annotations that are never read are forgotten: 0.4 and 0.6 KiB each instead of 1.5 and
  1.8, for a sixth more time to decode one. Maps that a program made itself are copied before they are shared.
  A pool forgets what fewer than two objects hold, whenever it has doubled: so it is never larger than what it
  saves, and what is shared stays shared, however many pods come and go.
- ``gc=False`` is safe: JSON has no cycles, so these structs cannot take part in one.
- Times stay text, as the API sent them: few are read, and parsing them all would double the cost of decoding.
- Unknown fields are ignored, so that a newer API server is no error.
- A field that has its default is left alone: each one that is set again costs as much as ten bytes of JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from sys import getrefcount, intern
from types import MappingProxyType
from typing import Any, Protocol, TypeVar

import msgspec
from msgspec.structs import force_setattr

T = TypeVar("T")

EMPTY_MAP: Mapping[str, str] = MappingProxyType({})
"""Every empty map of strings."""
POOL_SIZE = 1024


class _Pool(dict[Any, Any]):
    """Values by their content; ``largest``: how many there may be before it looks which ones are shared."""

    largest = POOL_SIZE

    def keep(self, key: Any, value: T) -> T:
        """Return the value that is kept for a key: this one, if there is none yet."""
        if len(self) >= self.largest:
            self._forget_unshared()
        known: T = self.setdefault(key, value)
        return known

    def _forget_unshared(self) -> None:
        self[_HELD_BY_NOBODY] = []
        references = {key: getrefcount(value) for key, value in self.items()}
        nobody = references[_HELD_BY_NOBODY]
        for key, count in references.items():
            if count < nobody + 2:
                del self[key]
        self.largest = max(POOL_SIZE, 2 * len(self))


_HELD_BY_NOBODY = object()
_maps, _structs = _Pool(), _Pool()
_encode = msgspec.json.Encoder().encode


def shared_map(value: Mapping[str, str]) -> Mapping[str, str]:
    """An equal map that is not to be changed."""
    if not value:
        return EMPTY_MAP
    key = tuple(value.items())
    known: Mapping[str, str] | None = _maps.get(key)
    if known is None:
        known = _maps.keep(key, _shared_texts(value))
    return known


def _shared_texts(value: Mapping[str, str]) -> dict[str, str]:
    return {shared_text(name): shared_text(text) for name, text in value.items()}


def shared_structs(value: tuple[T, ...] | None) -> tuple[T, ...] | None:
    """An equal tuple of structs of one type, which may have maps in them, and so no hash."""
    if not value:
        return value
    return _structs.keep((type(value[0]), _encode(value)), value)


def shared_struct(value: T) -> T:
    """An equal struct, which may have maps in it, and so no hash."""
    return _structs.keep((type(value), _encode(value)), value)


def shared_text(value: str) -> str:
    """Return an equal plain string; the interpreter keeps these, and frees those no longer referenced."""
    return intern(str(value))


EMPTY = EMPTY_MAP
"""What an absent map of strings is."""


class Struct(msgspec.Struct, rename="camel", frozen=True, gc=False, omit_defaults=True):
    """The form of every struct here: camelCase on the wire, defaults left out."""


class OwnerReference(Struct, frozen=True):
    """The object on whose deletion this one goes too."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool = False


class ObjectMeta(Struct, frozen=True):
    """metav1.ObjectMeta."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: Mapping[str, str] = EMPTY
    annotations: Mapping[str, str] = EMPTY
    owner_references: tuple[OwnerReference, ...] = ()

    def __post_init__(self) -> None:
        force_setattr(self, "namespace", shared_text(self.namespace))
        if self.creation_timestamp is not None:
            force_setattr(self, "creation_timestamp", shared_text(self.creation_timestamp))
        if self.labels is not EMPTY:
            force_setattr(self, "labels", shared_map(self.labels))
        if self.owner_references:
            force_setattr(self, "owner_references", shared_structs(self.owner_references))


NO_META = ObjectMeta()


def keep_annotations(meta: ObjectMeta, names: frozenset[str]) -> None:
    """Forget the annotations of an object that no program here reads; each pod has others of its own."""
    if meta.annotations:
        kept = {name: text for name, text in meta.annotations.items() if name in names}
        force_setattr(meta, "annotations", kept or EMPTY)


def share_annotations(meta: ObjectMeta) -> None:
    """Keep one copy of what many objects state alike, such as how the CPUs of a machine type are arranged."""
    if meta.annotations:
        force_setattr(meta, "annotations", _shared_texts(meta.annotations))


class KubeObject(Protocol):
    """The interface of every decoded object."""

    @property
    def metadata(self) -> ObjectMeta: ...


class PartialObject(Struct, frozen=True):
    """The metadata of an object of any kind: ``PODS.typed(PartialObject)`` where nothing else is read."""

    metadata: ObjectMeta = NO_META


class Namespace(Struct, frozen=True):
    """core/v1 Namespace."""

    metadata: ObjectMeta = NO_META


class PriorityClass(Struct, frozen=True):
    """scheduling.k8s.io/v1 PriorityClass."""

    metadata: ObjectMeta = NO_META
    value: int = 0
    preemption_policy: str = "PreemptLowerPriority"


class RawObject(Struct, frozen=True):
    """An object whose spec is read elsewhere, as text."""

    metadata: ObjectMeta = NO_META
    spec: msgspec.Raw = msgspec.Raw(b"{}")


class ConfigMap(Struct, frozen=True):
    """core/v1 ConfigMap, the text part of it."""

    metadata: ObjectMeta = NO_META
    data: Mapping[str, str] = EMPTY


class Secret(Struct, frozen=True):
    """core/v1 Secret; values are bytes, base64 on the wire."""

    metadata: ObjectMeta = NO_META
    type: str = "Opaque"
    data: Mapping[str, bytes] = MappingProxyType({})


class ResourceRequirements(Struct, frozen=True):
    """core/v1 ResourceRequirements: quantities as text."""

    requests: Mapping[str, str] = EMPTY
    limits: Mapping[str, str] = EMPTY

    def __post_init__(self) -> None:
        if self.requests is not EMPTY:
            force_setattr(self, "requests", shared_map(self.requests))
        if self.limits is not EMPTY:
            force_setattr(self, "limits", shared_map(self.limits))


NO_RESOURCES = ResourceRequirements()


class ZoneResource(Struct, frozen=True):
    """topology.node.k8s.io/v1alpha1 ResourceInfo: quantities may be numbers in a custom resource."""

    name: str
    capacity: str | int
    allocatable: str | int
    available: str | int


class TopologyZone(Struct, frozen=True):
    """topology.node.k8s.io/v1alpha1 Zone: one NUMA node."""

    name: str
    type: str
    resources: tuple[ZoneResource, ...] = ()


class NodeResourceTopology(Struct, frozen=True):
    """topology.node.k8s.io/v1alpha1 NodeResourceTopology: cluster-scoped, named as its node."""

    metadata: ObjectMeta = NO_META
    zones: tuple[TopologyZone, ...] = ()


class LeaseSpec(Struct, frozen=True):
    """coordination.k8s.io/v1 LeaseSpec; times are RFC 3339 with microseconds."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class Lease(Struct, frozen=True):
    """coordination.k8s.io/v1 Lease."""

    metadata: ObjectMeta = NO_META
    spec: LeaseSpec = LeaseSpec()


class ObjectReference(Struct, frozen=True, omit_defaults=False):
    """core/v1 ObjectReference: what an event is about; its apiVersion must be stated, default or not."""

    kind: str
    name: str
    namespace: str = ""
    uid: str = ""
    api_version: str = "v1"


class EventSource(Struct, frozen=True):
    """core/v1 EventSource."""

    component: str = ""
    host: str = ""


class Event(Struct, frozen=True):
    """core/v1 Event."""

    involved_object: ObjectReference
    metadata: ObjectMeta = NO_META
    reason: str = ""
    message: str = ""
    type: str = ""
    count: int = 0
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    source: EventSource = EventSource()
    reporting_component: str = ""
    reporting_instance: str = ""
