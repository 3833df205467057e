"""Request bodies in protobuf, which kubectl 1.33 and later send for what they create with typed clients.

A body is ``k8s`` and a zero byte, and a ``runtime.Unknown``: apiVersion, kind, and the object's own message.
Read are the kinds of `protobuf_kinds`; of others only JSON is taken. Answers are JSON always, which every
client accepts.

Go writes fields that are no pointers even where they are empty: empty values are left out here, as Go's JSON
leaves them out. What is a pointer (marked ``?``) is set on purpose and stays, zero or not.

Source: k8s.io/apimachinery/pkg/runtime/serializer/protobuf, https://protobuf.dev/programming-guides/encoding/

Field numbers of the kinds that are read from protobuf bodies (`protobuf_bodies`).

They are what ``kubectl create`` of namespaces, ConfigMaps, Secrets, service accounts, tokens, roles and
bindings, ``kubectl auth`` and ``kubectl drain`` send.

Source: generated.proto beside each API in k8s.io/api, k8s.io/apimachinery/pkg/{apis/meta/v1,runtime}.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from kubedouble.errors import StatusError, bad_request

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


_LABELS = "map string"

Message = Mapping[int, tuple[str, "str | Message"]]
"""Field number -> JSON name and type.

A type is a message, or a word: string, bytes, int, bool, time, or one of ``list X`` and ``map X``; ``?``
after a word marks a pointer. A name ending in ``[]`` is a list of messages.
"""

_TYPE_META: Message = {1: ("apiVersion", "string"), 2: ("kind", "string")}
UNKNOWN: Message = {1: ("typeMeta", _TYPE_META), 2: ("raw", "raw")}
_OWNER: Message = {
    1: ("kind", "string"),
    3: ("name", "string"),
    4: ("uid", "string"),
    5: ("apiVersion", "string"),
    6: ("controller", "bool?"),
    7: ("blockOwnerDeletion", "bool?"),
}
_META: Message = {
    1: ("name", "string"),
    2: ("generateName", "string"),
    3: ("namespace", "string"),
    5: ("uid", "string"),
    6: ("resourceVersion", "string"),
    7: ("generation", "int"),
    8: ("creationTimestamp", "time"),
    11: ("labels", _LABELS),
    12: ("annotations", _LABELS),
    13: ("ownerReferences[]", _OWNER),
    14: ("finalizers", "list string"),
}
_REFERENCE: Message = {1: ("name", "string")}
_RULE: Message = {
    1: ("verbs", "list string"),
    2: ("apiGroups", "list string"),
    3: ("resources", "list string"),
    4: ("resourceNames", "list string"),
    5: ("nonResourceURLs", "list string"),
}
_SUBJECT: Message = {
    1: ("kind", "string"),
    2: ("apiGroup", "string"),
    3: ("name", "string"),
    4: ("namespace", "string"),
}
_ROLE_REF: Message = {1: ("apiGroup", "string"), 2: ("kind", "string"), 3: ("name", "string")}
_ROLE: Message = {1: ("metadata", _META), 2: ("rules[]", _RULE)}
_BINDING: Message = {1: ("metadata", _META), 2: ("subjects[]", _SUBJECT), 3: ("roleRef", _ROLE_REF)}
_RESOURCE_ATTRIBUTES: Message = {
    1: ("namespace", "string"),
    2: ("verb", "string"),
    3: ("group", "string"),
    4: ("version", "string"),
    5: ("resource", "string"),
    6: ("subresource", "string"),
    7: ("name", "string"),
}
_URL_ATTRIBUTES: Message = {1: ("path", "string"), 2: ("verb", "string")}
_ACCESS: Message = {
    1: ("resourceAttributes", _RESOURCE_ATTRIBUTES),
    2: ("nonResourceAttributes", _URL_ATTRIBUTES),
    3: ("user", "string"),
    4: ("groups", "list string"),
    6: ("uid", "string"),
}
_DELETE_OPTIONS: Message = {
    1: ("gracePeriodSeconds", "int?"),
    2: ("preconditions", {1: ("uid", "string?"), 2: ("resourceVersion", "string?")}),
    3: ("orphanDependents", "bool?"),
    4: ("propagationPolicy", "string?"),
    5: ("dryRun", "list string"),
}
_BOUND_OBJECT: Message = {
    1: ("kind", "string"),
    2: ("apiVersion", "string"),
    3: ("name", "string"),
    4: ("uid", "string"),
}
_TOKEN_SPEC: Message = {
    1: ("audiences", "list string"),
    3: ("boundObjectRef", _BOUND_OBJECT),
    4: ("expirationSeconds", "int?"),
}
_ACCOUNT: Message = {
    1: ("metadata", _META),
    3: ("imagePullSecrets[]", _REFERENCE),
    4: ("automountServiceAccountToken", "bool?"),
}
_CONFIG_MAP: Message = {
    1: ("metadata", _META),
    2: ("data", _LABELS),
    3: ("binaryData", "map bytes"),
    4: ("immutable", "bool?"),
}
_SECRET: Message = {
    1: ("metadata", _META),
    2: ("data", "map bytes"),
    3: ("type", "string"),
    4: ("stringData", _LABELS),
    5: ("immutable", "bool?"),
}
_KINDS: Mapping[tuple[str, str], Message] = {
    ("v1", "Namespace"): {1: ("metadata", _META)},
    ("v1", "ConfigMap"): _CONFIG_MAP,
    ("v1", "Secret"): _SECRET,
    ("v1", "ServiceAccount"): _ACCOUNT,
    ("policy/v1", "Eviction"): {1: ("metadata", _META), 2: ("deleteOptions", _DELETE_OPTIONS)},
    ("rbac.authorization.k8s.io/v1", "Role"): _ROLE,
    ("rbac.authorization.k8s.io/v1", "ClusterRole"): _ROLE,
    ("rbac.authorization.k8s.io/v1", "RoleBinding"): _BINDING,
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"): _BINDING,
    ("authorization.k8s.io/v1", "SelfSubjectAccessReview"): {1: ("metadata", _META), 2: ("spec", _ACCESS)},
    ("authorization.k8s.io/v1", "SubjectAccessReview"): {1: ("metadata", _META), 2: ("spec", _ACCESS)},
    ("authorization.k8s.io/v1", "SelfSubjectRulesReview"): {
        1: ("metadata", _META),
        2: ("spec", {1: ("namespace", "string")}),
    },
    ("authentication.k8s.io/v1", "SelfSubjectReview"): {1: ("metadata", _META)},
    ("authentication.k8s.io/v1", "TokenRequest"): {1: ("metadata", _META), 2: ("spec", _TOKEN_SPEC)},
}


def message_of(api_version: str, kind: str) -> Message | None:
    """The table of a kind; DeleteOptions go by the version of what they delete."""
    return _DELETE_OPTIONS if kind == "DeleteOptions" else _KINDS.get((api_version, kind))
