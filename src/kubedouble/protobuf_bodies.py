"""Request bodies in protobuf, which kubectl 1.33 and later send for what they create with typed clients.

A body is ``k8s`` and a zero byte, and a ``runtime.Unknown``: apiVersion, kind, and the object's own message.
Read are the kinds of `protobuf_kinds`; of others only JSON is taken. Answers are JSON always, which every
client accepts.

Go writes fields that are no pointers even where they are empty: empty values are left out here, as Go's JSON
leaves them out. What is a pointer (marked ``?``) is set on purpose and stays, zero or not.

Source: k8s.io/apimachinery/pkg/runtime/serializer/protobuf, https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from kubedouble.errors import StatusError, bad_request
from kubedouble.protobuf_kinds import UNKNOWN, Message, message_of

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"

_MAGIC = b"k8s\0"


def decode_protobuf(body: bytes) -> dict[str, Any]:
    """The object in a protobuf body, as JSON would have it.

    Raises:
        StatusError: 415 for a kind that is not in the tables, 400 for what is no such body.
    """
    if not body.startswith(_MAGIC):
        raise bad_request(
            "provided data does not appear to be a protobuf message, expected prefix 6b 38 73 00"
        )
    envelope = _decode(body[len(_MAGIC) :], UNKNOWN)
    type_meta = envelope.get("typeMeta", {})
    kind = (type_meta.get("apiVersion", ""), type_meta.get("kind", ""))
    message = message_of(*kind)
    if message is None:
        raise StatusError(
            415,
            "UnsupportedMediaType",
            f"the local API server does not read {kind[1] or 'this kind'} of {kind[0]} as protobuf: "
            "send application/json (with kubectl: apply -f a file)",
        )
    return {**type_meta, **_decode(envelope.get("raw", b""), message)}


def _decode(data: bytes, message: Message) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for number, value in _fields(data):
        name, form = message.get(number, ("", ""))
        if not name:
            continue
        if not isinstance(form, str):
            _put_message(result, name, _decode(_bytes(value), form))
        elif form.startswith("map "):
            key, item = _entry(_bytes(value), form.removeprefix("map "))
            result.setdefault(name, {})[key] = item
        elif form.startswith("list "):
            result.setdefault(name, []).append(_SCALARS[form.removeprefix("list ")](value))
        else:
            decoded = _SCALARS[form.removesuffix("?")](value)
            if decoded or form.endswith("?"):
                result[name] = decoded
    return result


def _put_message(result: dict[str, Any], name: str, value: dict[str, Any]) -> None:
    if name.endswith("[]"):
        result.setdefault(name.removesuffix("[]"), []).append(value)
    else:
        result[name] = value


def _entry(data: bytes, form: str) -> tuple[str, Any]:
    fields = dict(_fields(data))
    return _text(fields.get(1, b"")), _SCALARS[form](fields.get(2, b""))


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Numbers and raw values of a message's fields, in order."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, wire = tag >> 3, tag & 7
        if wire == 0:
            value, at = _varint(data, at)
            yield number, value
            continue
        if wire not in {1, 2, 5}:
            raise bad_request(f"protobuf: wrong wire type {wire}")
        size = {1: 8, 5: 4}.get(wire)
        if size is None:
            size, at = _varint(data, at)
        if at + size > len(data):
            raise bad_request("protobuf: unexpected end of the body")
        yield number, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise bad_request("protobuf: unexpected end of the body")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise bad_request("protobuf: a number is too long")


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise bad_request("protobuf: a number stands where a message or text is expected")
    return value


def _text(value: int | bytes) -> str:
    try:
        return _bytes(value).decode()
    except UnicodeDecodeError as problem:
        raise bad_request(f"protobuf: a text is not UTF-8: {problem}") from problem


def _integer(value: int | bytes) -> int:
    if not isinstance(value, int):
        raise bad_request("protobuf: a number is expected")
    return value - (1 << 64) if value >> 63 else value


def _time(value: int | bytes) -> str:
    seconds = dict(_fields(_bytes(value))).get(1, 0)
    if not seconds:
        return ""
    try:
        return datetime.fromtimestamp(_integer(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, ValueError, OSError) as problem:
        raise bad_request(f"protobuf: {seconds!r} is no time: {problem}") from problem


_SCALARS: Mapping[str, Callable[[int | bytes], Any]] = {
    "string": _text,
    "bytes": lambda value: b64encode(_bytes(value)).decode(),
    "int": _integer,
    "bool": lambda value: bool(_integer(value)),
    "time": _time,
    "raw": _bytes,
}
