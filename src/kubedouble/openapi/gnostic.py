"""An OpenAPI version 2 document as the protobuf message ``openapi.v2.Document``.

kubectl before 1.27 validates and explains by it, and asks for nothing else. The tables name the fields of
the few messages that a Kubernetes document uses; values of unknown form travel as YAML text, for which JSON
will do.

Source: github.com/google/gnostic/openapiv2/OpenAPIv2.proto.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from kubedouble.openapi import wire

Writer = Callable[[int, Any], bytes]
_METHODS = {"get": 2, "put": 3, "post": 4, "delete": 5, "patch": 8}
_encode = msgspec.json.Encoder().encode


def document(content: Mapping[str, Any]) -> bytes:
    """Return the bytes of a document."""
    return _message(content, _DOCUMENT, extensions=16)


def _message(content: Mapping[str, Any], fields: Mapping[str, tuple[int, Writer]], extensions: int) -> bytes:
    parts = [writer(number, content[name]) for name, (number, writer) in fields.items() if name in content]
    parts += [
        wire.message(extensions, _named(name, _any(value)))
        for name, value in content.items()
        if name.startswith("x-")
    ]
    return b"".join(parts)


def _named(name: str, body: bytes) -> bytes:
    return wire.text(1, name) + wire.message(2, body)


def _any(value: Any) -> bytes:
    return wire.text(2, _encode(value).decode())


def _texts(number: int, values: Any) -> bytes:
    return b"".join(wire.text(number, value) for value in values)


def _anys(number: int, values: Any) -> bytes:
    return b"".join(wire.message(number, _any(value)) for value in values)


def _named_schemas(number: int, schemas: Mapping[str, Any]) -> bytes:
    return wire.message(
        number, b"".join(wire.message(1, _named(name, _schema(each))) for name, each in schemas.items())
    )


def _schema(content: Mapping[str, Any]) -> bytes:
    return _message(content, _SCHEMA, extensions=31)


def _additional(number: int, value: Any) -> bytes:
    if isinstance(value, bool):
        return wire.message(number, wire.boolean(2, value))
    return wire.message(number, wire.message(1, _schema(value)))


def _paths(number: int, items: Mapping[str, Any]) -> bytes:
    return wire.message(
        number, b"".join(wire.message(2, _named(path, _path_item(item))) for path, item in items.items())
    )


def _path_item(item: Mapping[str, Any]) -> bytes:
    parts = [
        wire.message(number, _message(item[method], _OPERATION, extensions=13))
        for method, number in _METHODS.items()
        if method in item
    ]
    return b"".join(parts) + _parameters(9, item.get("parameters", ()))


def _parameters(number: int, parameters: Any) -> bytes:
    out = []
    for each in parameters:
        body = (
            wire.boolean(1, bool(each.get("required")))
            + wire.text(2, each["in"])
            + wire.text(4, each["name"])
            + wire.text(6, each["type"])
        )
        # ParametersItem > Parameter > NonBodyParameter > the one for its place
        place = wire.message(3 if each["in"] == "query" else 4, body)
        out.append(wire.message(number, wire.message(1, wire.message(2, place))))
    return b"".join(out)


def _responses(number: int, responses: Mapping[str, Any]) -> bytes:
    out = []
    for code, each in responses.items():
        schema = wire.message(2, wire.message(1, _schema(each["schema"]))) if "schema" in each else b""
        response = wire.message(1, wire.text(1, each.get("description", "")) + schema)
        out.append(wire.message(1, _named(code, response)))
    return wire.message(number, b"".join(out))


def _info(number: int, info: Mapping[str, Any]) -> bytes:
    return wire.message(number, wire.text(1, info["title"]) + wire.text(2, info["version"]))


_DOCUMENT: Mapping[str, tuple[int, Writer]] = {
    "swagger": (1, wire.text),
    "info": (2, _info),
    "paths": (8, _paths),
    "definitions": (9, _named_schemas),
}
_OPERATION: Mapping[str, tuple[int, Writer]] = {
    "description": (3, wire.text),
    "operationId": (5, wire.text),
    "produces": (6, _texts),
    "consumes": (7, _texts),
    "parameters": (8, _parameters),
    "responses": (9, _responses),
}
_SCHEMA: Mapping[str, tuple[int, Writer]] = {
    "$ref": (1, wire.text),
    "format": (2, wire.text),
    "title": (3, wire.text),
    "description": (4, wire.text),
    "default": (5, lambda number, value: wire.message(number, _any(value))),
    "multipleOf": (6, wire.double),
    "maximum": (7, wire.double),
    "exclusiveMaximum": (8, wire.boolean),
    "minimum": (9, wire.double),
    "exclusiveMinimum": (10, wire.boolean),
    "maxLength": (11, wire.integer),
    "minLength": (12, wire.integer),
    "pattern": (13, wire.text),
    "maxItems": (14, wire.integer),
    "minItems": (15, wire.integer),
    "uniqueItems": (16, wire.boolean),
    "maxProperties": (17, wire.integer),
    "minProperties": (18, wire.integer),
    "required": (19, _texts),
    "enum": (20, _anys),
    "additionalProperties": (21, _additional),
    "type": (22, lambda number, value: wire.message(number, wire.text(1, value))),
    "items": (23, lambda number, value: wire.message(number, wire.message(1, _schema(value)))),
    "allOf": (24, lambda number, values: b"".join(wire.message(number, _schema(each)) for each in values)),
    "properties": (25, _named_schemas),
}
