"""The forms in which objects leave the server: as they are, as Table rows, or as metadata alone.

Clients ask with ``Accept: application/json;as=Table;v=v1;g=meta.k8s.io, application/json``; the first form
that the server has wins. JSON only: a client that offers nothing else gets 406, and client libraries fall
back.

Stored bytes leave out apiVersion and kind. A single object and a watch event get both put in front; the
items of a list have them only for custom resources, as in a real cluster. An Event is stored as one of core
``v1``; ``events.k8s.io/v1`` renames its fields.

Source: k8s.io/kubernetes/pkg/apis/events/v1/conversion.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import msgspec

from kubedouble.errors import not_acceptable
from kubedouble.requests import Call
from kubedouble.resources import ResourceInfo
from kubedouble.store import Key, Object, Stored
from kubedouble.tables import render_table

ACCEPTED = ("application/json",)
_META_VERSIONS = {"v1", "v1beta1"}

encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Form:
    """The form that objects are rendered in. ``include``: the part of its object that a Table row shows."""

    shape: Literal["object", "Table", "PartialObjectMetadata"] = "object"
    version: str = "v1"
    include: str = "Metadata"

    @property
    def meta_version(self) -> str:
        return f"meta.k8s.io/{self.version}"


PLAIN = Form()


def negotiate(call: Call) -> Form:
    """Choose the form of the response.

    Raises:
        StatusError: 406, if the client takes none that the server has.
    """
    form = _chosen(call.headers.get("Accept", ""))
    if form.shape == "Table" and (include := call.query.get("includeObject", "")):
        return Form("Table", form.version, include)
    return form


@lru_cache(maxsize=256)
def _chosen(accept: str) -> Form:
    for offer in accept.split(",") if accept.strip() else ("application/json",):
        media_type, *parameters = (part.strip() for part in offer.split(";"))
        if media_type not in {"application/json", "application/*", "*/*"}:
            continue
        options = dict(parameter.partition("=")[::2] for parameter in parameters)
        shape = options.get("as", "")
        if not shape:
            return PLAIN
        if options.get("g", "") == "meta.k8s.io" and options.get("v", "") in _META_VERSIONS:
            if shape == "Table":
                return Form("Table", options["v"])
            if shape in {"PartialObjectMetadata", "PartialObjectMetadataList"}:
                return Form("PartialObjectMetadata", options["v"])
    raise not_acceptable(ACCEPTED)


def viewed(resource: ResourceInfo, obj: Object) -> Object:
    """Return a stored object as one of the resource's group and version."""
    if resource.storage == "events":
        return to_events_v1(obj)
    if not resource.custom:
        return obj
    return {**obj, "apiVersion": resource.api_version, "kind": resource.kind}


def one(resource: ResourceInfo, stored: Stored, form: Form = PLAIN) -> bytes:
    """Render a single object."""
    if form.shape == "Table":
        return encode(_table(resource, [stored], form, {"resourceVersion": str(stored.version)}))
    if form.shape == "PartialObjectMetadata":
        return encode(_partial(stored.object, form))
    return _type_prefix(resource.api_version, resource.kind) + _body(resource, stored)[1:]


def many(resource: ResourceInfo, items: Iterable[Stored], metadata: Object, form: Form) -> bytes:
    """Render a list."""
    if form.shape == "Table":
        return encode(_table(resource, list(items), form, metadata))
    if form.shape == "PartialObjectMetadata":
        rows = [_partial(stored.object, form) for stored in items]
        kind = {"kind": "PartialObjectMetadataList", "apiVersion": form.meta_version}
        return encode({**kind, "metadata": metadata, "items": rows})
    head: dict[str, Any] = {
        "kind": resource.list_kind,
        "apiVersion": resource.api_version,
        "metadata": metadata,
    }
    if resource.custom:
        prefix = _type_prefix(resource.api_version, resource.kind)
        bodies = [prefix + _body(resource, stored)[1:] for stored in items]
    else:
        bodies = [_body(resource, stored) for stored in items]
    return b"".join([encode(head)[:-1], b',"items":[', b",".join(bodies), b"]}"])


def unstored(key: Key, obj: Object) -> Stored:
    """Return an object as if it were stored: it keeps its version, if any."""
    return Stored(key, obj, body_of(obj), int(obj["metadata"].get("resourceVersion") or 0))


def event_line(
    resource: ResourceInfo, stored: Stored, kind: str, form: Form, *, headed: bool = True
) -> bytes:
    """Render one line of a watch.

    ``headed``: a Table brings its column definitions, which only the first line of a watch needs.
    """
    if form.shape != "Table":
        return _line(kind, one(resource, stored, form))
    table = _table(resource, [stored], form, {"resourceVersion": str(stored.version)})
    return _line(kind, encode(table if headed else {**table, "columnDefinitions": None}))


def bookmark_line(resource: ResourceInfo, version: int, form: Form, *, initial_end: bool = False) -> bytes:
    """Render a bookmark: all changes up to the version were sent."""
    metadata: dict[str, Any] = {"resourceVersion": str(version), "creationTimestamp": None}
    if initial_end:
        metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
    if form.shape == "Table":
        body: dict[str, Any] = {
            "kind": "Table",
            "apiVersion": form.meta_version,
            "metadata": {"resourceVersion": str(version)},
            "columnDefinitions": None,
            "rows": [],
        }
    elif form.shape == "PartialObjectMetadata":
        body = {"kind": "PartialObjectMetadata", "apiVersion": form.meta_version, "metadata": metadata}
    else:
        body = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}
    return _line("BOOKMARK", encode(body))


def error_line(status: Object) -> bytes:
    """Render the refusal that ends a watch."""
    return _line("ERROR", encode(status))


def body_of(obj: Object) -> bytes:
    """Encode an object as the store does: without apiVersion and kind."""
    return encode({name: value for name, value in obj.items() if name not in {"apiVersion", "kind"}})


def _line(kind: str, body: bytes) -> bytes:
    return b'{"type":"' + kind.encode() + b'","object":' + body + b"}\n"


def _body(resource: ResourceInfo, stored: Stored) -> bytes:
    if resource.storage != "events":
        return stored.body
    return body_of(to_events_v1(stored.object))


@lru_cache(maxsize=256)
def _type_prefix(api_version: str, kind: str) -> bytes:
    return encode({"kind": kind, "apiVersion": api_version})[:-1] + b","


def _partial(obj: Object, form: Form) -> dict[str, Any]:
    return {"kind": "PartialObjectMetadata", "apiVersion": form.meta_version, "metadata": obj["metadata"]}


def _table(resource: ResourceInfo, items: list[Stored], form: Form, metadata: Object) -> dict[str, Any]:
    objects = [viewed(resource, stored.object) for stored in items]
    columns, cells = render_table(resource, objects, printer_columns=resource.printer_columns)
    rows: list[dict[str, Any]] = [{"cells": row} for row in cells]
    if form.include != "None":
        for row, obj in zip(rows, objects, strict=True):
            row["object"] = obj if form.include == "Object" else _partial(obj, form)
    return {
        "kind": "Table",
        "apiVersion": form.meta_version,
        "metadata": metadata,
        "columnDefinitions": columns,
        "rows": rows,
    }


_CORE_TO_EVENTS = {
    "involvedObject": "regarding",
    "message": "note",
    "reportingComponent": "reportingController",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
}
_EVENTS_TO_CORE = {new: old for old, new in _CORE_TO_EVENTS.items()}


def to_events_v1(obj: Mapping[str, Any]) -> dict[str, Any]:
    """Return a core Event as one of events.k8s.io/v1."""
    renamed = {_CORE_TO_EVENTS.get(name, name): value for name, value in obj.items()}
    return {**renamed, "apiVersion": "events.k8s.io/v1", "kind": "Event"}


def to_core(obj: Mapping[str, Any]) -> dict[str, Any]:
    """Return an events.k8s.io/v1 Event as a core one."""
    renamed = {_EVENTS_TO_CORE.get(name, name): value for name, value in obj.items()}
    return {**renamed, "apiVersion": "v1", "kind": "Event"}
