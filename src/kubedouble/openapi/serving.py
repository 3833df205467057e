"""The OpenAPI documents of what is served now, made when they are asked for and kept until that changes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from kubedouble.openapi import gnostic
from kubedouble.openapi.definitions import V2, V3, Dialect, definitions
from kubedouble.openapi.paths import paths
from kubedouble.resources import ResourceInfo
from kubedouble.schema.structure import Schema

JSON = dict[str, Any]
_JSON = "application/json"
_PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_PROTOBUFS = (_PROTOBUF, "application/com.github.proto-openapi.spec.v2@v1.0+protobuf")
_INFO = {"title": "Kubernetes", "version": "v1"}
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Answer:
    """A document. ``etag`` names its content."""

    body: bytes
    content_type: str
    etag: str


class OpenAPI:
    """Answers requests below ``/openapi``."""

    def __init__(
        self, resources: Callable[[], Iterable[ResourceInfo]], schema_of: Callable[[ResourceInfo], Schema]
    ) -> None:
        self._resources = resources
        self._schema_of = schema_of
        self._known: tuple[tuple[ResourceInfo, Schema], ...] = ()
        self._made: dict[tuple[str, str], Answer] = {}

    def answer(self, path: str, accept: str) -> Answer | None:
        """Return the document at a path, in a form that the client takes; None if there is none there."""
        self._refresh()
        parts = [part for part in path.split("/") if part]
        match parts:
            case ["openapi", "v2"]:
                binary = any(form in accept for form in _PROTOBUFS)
                return self._kept("v2", _PROTOBUF if binary else _JSON, self._version_2)
            case ["openapi", "v3"]:
                return self._kept("v3", _JSON, self._index)
            case ["openapi", "v3", *rest] if "/".join(rest) in self._group_versions():
                place = "/".join(rest)
                return self._version_3(place)
            case _:
                return None

    def _refresh(self) -> None:
        kinds = tuple((each, self._schema_of(each)) for each in self._resources())
        if kinds != self._known:
            self._known = kinds
            self._made.clear()

    def _kept(self, name: str, content_type: str, make: Callable[[str], bytes]) -> Answer:
        key = (name, content_type)
        if key not in self._made:
            body = make(content_type)
            self._made[key] = Answer(body, content_type, _hash(body))
        return self._made[key]

    def _group_versions(self) -> list[str]:
        return list(dict.fromkeys(_place(each) for each, _ in self._known))

    def _version_2(self, content_type: str) -> bytes:
        document = {"swagger": "2.0", "info": _INFO, **_content(self._known, V2)}
        return gnostic.document(document) if content_type == _PROTOBUF else _encode(document)

    def _index(self, _: str) -> bytes:
        listed = {}
        for place in self._group_versions():
            listed[place] = {"serverRelativeURL": f"/openapi/v3/{place}?hash={self._version_3(place).etag}"}
        return _encode({"paths": listed})

    def _version_3(self, place: str) -> Answer:
        return self._kept(place, _JSON, lambda _: self._group_version(place))

    def _group_version(self, place: str) -> bytes:
        kinds = tuple((each, schema) for each, schema in self._known if _place(each) == place)
        content = _content(kinds, V3)
        components = {"schemas": content["definitions"]}
        return _encode(
            {"openapi": "3.0.0", "info": _INFO, "paths": content["paths"], "components": components}
        )


def _content(kinds: tuple[tuple[ResourceInfo, Schema], ...], dialect: Dialect) -> JSON:
    return {"paths": paths(kinds, dialect), "definitions": definitions(dict(kinds), dialect)}


def _place(resource: ResourceInfo) -> str:
    return f"apis/{resource.group}/{resource.version}" if resource.group else f"api/{resource.version}"


def _hash(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest().upper()
