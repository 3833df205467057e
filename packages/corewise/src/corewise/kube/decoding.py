"""JSON answers to typed values, so that one broken object never hides the others.

The fast path decodes a whole list, or a whole event, in one pass into the narrow structs. Only when that
fails is the same text read again item by item: what cannot be decoded becomes an ``Undecodable`` that names
the object, and everything else counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, TypeVar

import msgspec

from corewise.kube.errors import DecodeError, api_error
from corewise.kube.objects import Struct
from corewise.kube.resources import Resource
from corewise.vocabulary.errors import UNREADABLE, unreadable_text

T = TypeVar("T")


class EventType(Enum):
    """The change of an object that a watch event reports."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


@dataclass(frozen=True, slots=True)
class WatchEvent(Generic[T]):
    """One change; for DELETED, ``object`` is the last state."""

    type: EventType
    object: T


@dataclass(frozen=True, slots=True)
class Bookmark:
    """Nothing has changed up to ``resource_version``."""

    resource_version: str


@dataclass(frozen=True, slots=True)
class Undecodable:
    """An object that is not what its resource promises; ``name`` is "" where not even that can be read."""

    namespace: str
    name: str
    resource_version: str
    message: str
    type: EventType | None = None


@dataclass(frozen=True, slots=True)
class DecodedList(Generic[T]):
    """A list: its objects, the version to watch from, and what could not be decoded."""

    items: tuple[T, ...]
    resource_version: str
    undecodable: tuple[Undecodable, ...] = ()

    def __iter__(self) -> Iterator[T]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)


class _ListMeta(Struct, frozen=True):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class _List(Struct, Generic[T], frozen=True):
    metadata: _ListMeta = _ListMeta()
    items: tuple[T, ...] | None = None


class _Event(Struct, Generic[T], frozen=True):
    type: str
    object: T


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """One page of a list; ``continue_token`` is "" on the last."""

    items: tuple[T, ...]
    resource_version: str
    continue_token: str
    undecodable: tuple[Undecodable, ...]


@dataclass(frozen=True, slots=True)
class _Decoders:
    """The three decoders of a type; building one costs a hundred times more than using it."""

    single: msgspec.json.Decoder[Any]
    page: msgspec.json.Decoder[Any]
    event: msgspec.json.Decoder[Any]


_built: dict[Any, _Decoders] = {}


def _decoders(kind: Any) -> _Decoders:
    decoders = _built.get(kind)
    if decoders is None:
        decoder = msgspec.json.Decoder
        decoders = _built[kind] = _Decoders(decoder(kind), decoder(_List[kind]), decoder(_Event[kind]))
    return decoders


def decode_object(resource: Resource[T], body: bytes | msgspec.Raw, label: str) -> T:
    """One object.

    Raises:
        DecodeError: naming the object, the field and what is wrong with it.
    """
    try:
        decoded: T = _decoders(resource.type).single.decode(body)
    except UNREADABLE as error:
        raise DecodeError(f"{label}: {error}") from error
    return decoded


DEEPEST = 100
"""Levels of a document that is walked as it is. No pod has a fifth of them; Python's stack has a limit."""


def decode_value(body: bytes | msgspec.Raw, label: str) -> Any:
    """Any JSON value, as plain dicts and lists.

    Raises:
        DecodeError: if it cannot be read, or is nested deeper than ``DEEPEST`` levels.
    """
    try:
        value = msgspec.json.decode(body)
    except UNREADABLE as error:
        raise DecodeError(f"{label}: {unreadable_text(error)}") from error
    level = [value]
    for _ in range(DEEPEST):
        parts = [each for each in level if isinstance(each, dict | list)]
        if not parts:
            return value
        level = [item for each in parts for item in (each.values() if isinstance(each, dict) else each)]
    raise DecodeError(f"{label}: nested deeper than {DEEPEST} levels")


def decode_document(body: bytes | msgspec.Raw, label: str) -> dict[str, Any]:
    """A JSON object, as a plain dict; raises as :func:`decode_value`."""
    value = decode_value(body, label)
    if not isinstance(value, dict):
        raise DecodeError(f"{label}: a JSON object is expected")
    return value


def decode_page(resource: Resource[T], body: bytes) -> Page[T]:
    """One page of a list.

    Raises:
        DecodeError: when it is not a list at all; a broken item is reported in the page.
    """
    try:
        page = _decoders(resource.type).page.decode(body)
    except UNREADABLE:
        return _page_item_by_item(resource, body)
    meta = page.metadata
    return Page(page.items or (), meta.resource_version, meta.continue_, ())


def _page_item_by_item(resource: Resource[T], body: bytes) -> Page[T]:
    try:
        page = _decoders(msgspec.Raw).page.decode(body)
    except UNREADABLE as error:
        raise DecodeError(f"list of {resource.plural}: {error}") from error
    items: list[T] = []
    broken: list[Undecodable] = []
    for raw in page.items or ():
        try:
            items.append(decode_object(resource, raw, resource.plural))
        except DecodeError as error:
            broken.append(_undecodable(raw, error))
    return Page(tuple(items), page.metadata.resource_version, page.metadata.continue_, tuple(broken))


def decode_event(resource: Resource[T], line: bytes) -> WatchEvent[T] | Bookmark | Undecodable:
    """One line of a watch.

    Raises:
        APIError: the line is an ERROR event: what its Status says (``Gone`` for 410).
        DecodeError: the line is not a watch event.
    """
    try:
        event = _decoders(resource.type).event.decode(line)
        return WatchEvent(_TYPES[event.type], event.object)
    except (*UNREADABLE, KeyError):
        return _event_in_steps(resource, line)


_TYPES = {kind.value: kind for kind in EventType}


def _event_in_steps(resource: Resource[T], line: bytes) -> WatchEvent[T] | Bookmark | Undecodable:
    try:
        event = _decoders(msgspec.Raw).event.decode(line)
    except UNREADABLE as error:
        raise DecodeError(f"watch of {resource.plural}: {error}") from error
    if event.type == "ERROR":
        raise api_error(0, bytes(event.object), request=f"watch of {resource.plural}")
    if event.type == "BOOKMARK":
        return Bookmark(_identity(event.object).resource_version)
    if event.type not in _TYPES:
        raise DecodeError(f"watch of {resource.plural}: unknown event type {event.type!r}")
    try:
        return WatchEvent(_TYPES[event.type], decode_object(resource, event.object, resource.plural))
    except DecodeError as error:
        return _undecodable(event.object, error, _TYPES[event.type])


def _undecodable(raw: msgspec.Raw, error: DecodeError, kind: EventType | None = None) -> Undecodable:
    meta = _identity(raw)
    return Undecodable(meta.namespace, meta.name, meta.resource_version, error.message, kind)


class _Names(Struct, frozen=True):
    name: str = ""
    namespace: str = ""
    resource_version: str = ""


class _Named(Struct, frozen=True):
    metadata: _Names = _Names()


def _identity(raw: msgspec.Raw) -> _Names:
    """Return the readable names of an object whose other fields cannot be read."""
    try:
        named: _Named = _decoders(_Named).single.decode(raw)
    except UNREADABLE:
        return _Names()
    return named.metadata
