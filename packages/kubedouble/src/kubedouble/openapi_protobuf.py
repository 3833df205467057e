"""An OpenAPI version 2 document as the protobuf message ``openapi.v2.Document``.

kubectl before 1.27 validates and explains by it, and requests nothing else. The tables name the fields of
the few messages that a Kubernetes document uses; values of unknown form are written as YAML text, for which
JSON will do.

Source: github.com/google/gnostic/openapiv2/OpenAPIv2.proto, protobuf.dev/programming-guides/encoding.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

_encode = msgspec.json.Encoder().encode
_VARINT, _FIXED64, _BYTES = 0, 1, 2


def _varint(value: int) -> bytes:
    """Return a non-negative number, seven bits a byte, lowest first."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _text(number: int, value: str) -> bytes:
    """Return a string field."""
    return _message(number, value.encode())


def _message(number: int, body: bytes) -> bytes:
    """Return a field that is a message, or other bytes."""
    return _varint(number << 3 | _BYTES) + _varint(len(body)) + body


def _boolean(number: int, value: bool) -> bytes:  # noqa: FBT001 - the field's value
    """Return a boolean field; false, the default, is not written."""
    return _varint(number << 3 | _VARINT) + b"\x01" if value else b""


def _integer(number: int, value: int) -> bytes:
    """Return a 64-bit integer field."""
    return _varint(number << 3 | _VARINT) + _varint(value & 0xFFFFFFFFFFFFFFFF)


def _double(number: int, value: float) -> bytes:
    """Return a floating-point field."""
    return _varint(number << 3 | _FIXED64) + struct.pack("<d", value)


Writer = Callable[[int, Any], bytes]
_METHODS = {"get": 2, "put": 3, "post": 4, "delete": 5, "patch": 8}


def document(content: Mapping[str, Any]) -> bytes:
    """Return the bytes of a document."""
    return _fields(content, _DOCUMENT, extensions=16)


def _fields(content: Mapping[str, Any], fields: Mapping[str, tuple[int, Writer]], extensions: int) -> bytes:
    """Return the fields of a table that the content has, then its ``x-`` extensions."""
    parts = [write(number, content[name]) for name, (number, write) in fields.items() if name in content]
    parts += [
        _message(extensions, _named(name, _any(value)))
        for name, value in content.items()
        if name.startswith("x-")
    ]
    return b"".join(parts)


def _each(write: Writer) -> Writer:
    """Return a writer of a repeated field."""
    return lambda number, values: b"".join(write(number, value) for value in values)


def _named(name: str, body: bytes) -> bytes:
    return _text(1, name) + _message(2, body)


def _any(value: Any) -> bytes:
    return _text(2, _encode(value).decode())


def _schema(content: Mapping[str, Any]) -> bytes:
    return _fields(content, _SCHEMA, extensions=31)


def _named_schemas(number: int, schemas: Mapping[str, Any]) -> bytes:
    return _message(number, b"".join(_message(1, _named(name, _schema(x))) for name, x in schemas.items()))


def _additional(number: int, value: Any) -> bytes:
    return _message(number, _boolean(2, value) if isinstance(value, bool) else _message(1, _schema(value)))


def _paths(number: int, items: Mapping[str, Any]) -> bytes:
    return _message(number, b"".join(_message(2, _named(path, _path(item))) for path, item in items.items()))


def _path(item: Mapping[str, Any]) -> bytes:
    parts = [
        _message(number, _fields(item[method], _OPERATION, extensions=13))
        for method, number in _METHODS.items()
        if method in item
    ]
    return b"".join(parts) + _parameters(9, item.get("parameters", ()))


def _parameter(number: int, parameter: Mapping[str, Any]) -> bytes:
    body = (
        _boolean(1, bool(parameter.get("required")))
        + _text(2, parameter["in"])
        + _text(4, parameter["name"])
        + _text(6, parameter["type"])
    )
    # ParametersItem > Parameter > NonBodyParameter > the one for its place
    place = _message(3 if parameter["in"] == "query" else 4, body)
    return _message(number, _message(1, _message(2, place)))


def _responses(number: int, responses: Mapping[str, Any]) -> bytes:
    out = []
    for code, each in responses.items():
        schema = _message(2, _message(1, _schema(each["schema"]))) if "schema" in each else b""
        response = _message(1, _text(1, each.get("description", "")) + schema)
        out.append(_message(1, _named(code, response)))
    return _message(number, b"".join(out))


_texts = _each(_text)
_parameters = _each(_parameter)
_DOCUMENT: Mapping[str, tuple[int, Writer]] = {
    "swagger": (1, _text),
    "info": (2, lambda number, info: _message(number, _text(1, info["title"]) + _text(2, info["version"]))),
    "paths": (8, _paths),
    "definitions": (9, _named_schemas),
}
_OPERATION: Mapping[str, tuple[int, Writer]] = {
    "description": (3, _text),
    "operationId": (5, _text),
    "produces": (6, _texts),
    "consumes": (7, _texts),
    "parameters": (8, _parameters),
    "responses": (9, _responses),
}
_SCHEMA: Mapping[str, tuple[int, Writer]] = {
    "$ref": (1, _text),
    "format": (2, _text),
    "title": (3, _text),
    "description": (4, _text),
    "default": (5, lambda number, value: _message(number, _any(value))),
    "multipleOf": (6, _double),
    "maximum": (7, _double),
    "exclusiveMaximum": (8, _boolean),
    "minimum": (9, _double),
    "exclusiveMinimum": (10, _boolean),
    "maxLength": (11, _integer),
    "minLength": (12, _integer),
    "pattern": (13, _text),
    "maxItems": (14, _integer),
    "minItems": (15, _integer),
    "uniqueItems": (16, _boolean),
    "maxProperties": (17, _integer),
    "minProperties": (18, _integer),
    "required": (19, _texts),
    "enum": (20, _each(lambda number, value: _message(number, _any(value)))),
    "additionalProperties": (21, _additional),
    "type": (22, lambda number, value: _message(number, _text(1, value))),
    "items": (23, lambda number, value: _message(number, _message(1, _schema(value)))),
    "allOf": (24, _each(lambda number, value: _message(number, _schema(value)))),
    "properties": (25, _named_schemas),
}
