"""AdmissionReview (admission.k8s.io/v1): what the API server asks of a webhook, and the answer.

``object`` and ``old_object`` stay raw JSON, so that a webhook decodes what it needs and no more; most reviews
of node status are answered by "yes". Patches are values: JSON Patch (RFC 6902), with JSON Pointer escaping
(RFC 6901).

Invariant: every answer carries the uid of its request; what cannot be decoded has none and is answered with
HTTP 400 by the caller, as the API server expects.

Source: https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, Literal

import msgspec

from corewise.kube.errors import DecodeError
from corewise.kube.objects import EMPTY, Struct
from corewise.vocabulary.errors import UNREADABLE, unreadable_text


class Operation(msgspec.Struct, frozen=True, omit_defaults=True):
    """One operation of a JSON patch; ``value`` is absent for a removal."""

    op: Literal["add", "replace", "remove", "test"]
    path: str
    value: Any = msgspec.UNSET


def pointer(*parts: str | int) -> str:
    """The JSON Pointer to a place: ``pointer("metadata", "labels", "a/b")`` is /metadata/labels/a~1b."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts)


def add(path: str, value: object) -> Operation:
    """Set a member (new or not), or insert into a list."""
    return Operation("add", path, value)


def replace(path: str, value: object) -> Operation:
    """Set what must exist."""
    return Operation("replace", path, value)


def remove(path: str) -> Operation:
    """Remove what must exist."""
    return Operation("remove", path)


def merge_operations(document: Mapping[str, Any], changes: Mapping[str, Any]) -> list[Operation]:
    """The operations that do to ``document`` what the merge patch ``changes`` says (None removes).

    Only real changes become operations, parents that are missing are added, so the result may be empty and
    applies to exactly this document.
    """
    return _merge(document, changes, "")


def _merge(document: Mapping[str, Any], changes: Mapping[str, Any], at: str) -> list[Operation]:
    operations: list[Operation] = []
    for key, value in changes.items():
        path = at + pointer(key)
        old = document.get(key)
        if value is None:
            if key in document:
                operations.append(remove(path))
        elif isinstance(value, Mapping) and isinstance(old, Mapping):
            operations += _merge(old, value, path)
        elif isinstance(value, Mapping):
            operations.append(add(path, _without_nulls(value)))
        elif key not in document or not _same(old, value):
            operations.append(add(path, value))
    return operations


def _without_nulls(value: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: _without_nulls(item) if isinstance(item, Mapping) else item
        for key, item in value.items()
        if item is not None
    }


def operations_between(old: Mapping[str, Any], new: Mapping[str, Any], at: str = "") -> list[Operation]:
    """The operations that make ``new`` of ``old``. Lists are replaced whole unless they are of one length."""
    operations: list[Operation] = []
    for key in (*old, *(key for key in new if key not in old)):
        path = at + pointer(key)
        if key not in new:
            operations.append(remove(path))
        elif key not in old:
            operations.append(add(path, new[key]))
        else:
            operations += _between(old[key], new[key], path)
    return operations


def _between(old: object, new: object, path: str) -> list[Operation]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        return operations_between(old, new, path)
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        pairs = zip(old, new, strict=True)
        return [each for i, pair in enumerate(pairs) for each in _between(*pair, path + pointer(i))]
    return [] if _same(old, new) else [replace(path, new)]


def _same(old: object, new: object) -> bool:
    """Equality of JSON values, where true is not 1, in lists neither."""
    if isinstance(new, list | Mapping):
        return msgspec.json.encode(old, order="sorted") == msgspec.json.encode(new, order="sorted")
    return type(old) is type(new) and old == new


API_VERSION = "admission.k8s.io/v1"
_WARNING_LIMIT = 256
_NULL = msgspec.Raw(b"null")


class OperationType(Enum):
    """The operation on the object."""

    CREATE = "CREATE"
    UPDATE = "UPDATE"
    DELETE = "DELETE"
    CONNECT = "CONNECT"


class UserInfo(Struct, frozen=True):
    """The user that asks."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()


class GroupVersionResource(Struct, frozen=True):
    """The resource that a request is about."""

    resource: str
    version: str = ""
    group: str = ""


class AdmissionRequest(Struct, frozen=True):
    """The question; ``object`` is JSON null for DELETE, ``old_object`` for CREATE."""

    uid: str
    resource: GroupVersionResource
    operation: OperationType
    sub_resource: str = ""
    name: str = ""
    namespace: str = ""
    user_info: UserInfo = UserInfo()
    object: msgspec.Raw = _NULL
    old_object: msgspec.Raw = _NULL
    dry_run: bool = False
    called_at: str = ""
    """The path at which the webhook was called, which the review does not state."""


class _Review(Struct, frozen=True):
    api_version: str = ""
    kind: str = ""
    request: AdmissionRequest | None = None


class _AnswerStatus(Struct, frozen=True):
    code: int
    message: str
    reason: str = ""


class _Answer(Struct, frozen=True):
    uid: str
    # No default: a denial must say so, and defaults are left out.
    allowed: bool
    status: _AnswerStatus | None = None
    patch_type: str = ""
    patch: str = ""
    warnings: tuple[str, ...] = ()
    audit_annotations: Mapping[str, str] = EMPTY


_REVIEW = msgspec.json.Decoder(_Review)


def decode_review(body: bytes, path: str = "") -> AdmissionRequest:
    """The request in a review that was sent to a path.

    Raises:
        DecodeError: saying what is wrong; answer it with HTTP 400.
    """
    try:
        review = _REVIEW.decode(body)
    except UNREADABLE as error:
        raise DecodeError(f"no AdmissionReview: {unreadable_text(error)}") from error
    if review.kind != "AdmissionReview" or review.api_version != API_VERSION:
        got = f"{review.api_version} {review.kind}".strip() or "neither apiVersion nor kind"
        raise DecodeError(f"{API_VERSION} AdmissionReview expected, got {got}")
    if review.request is None or not review.request.uid:
        raise DecodeError("the AdmissionReview carries no request with a uid")
    return msgspec.structs.replace(review.request, called_at=path)


def allow(
    request: AdmissionRequest,
    *,
    patch: Sequence[Operation] = (),
    warnings: Iterable[str] = (),
    audit_annotations: Mapping[str, str] = EMPTY,
) -> bytes:
    """The answer "yes", perhaps with changes; an empty patch is none."""
    encoded = b64encode(msgspec.json.encode(patch)).decode() if patch else ""
    return _encode(
        _Answer(
            uid=request.uid,
            allowed=True,
            patch_type="JSONPatch" if patch else "",
            patch=encoded,
            warnings=_cleaned(warnings),
            audit_annotations=audit_annotations or EMPTY,
        )
    )


def deny(
    request: AdmissionRequest,
    message: str,
    *,
    code: int = 403,
    reason: str = "",
) -> bytes:
    """The answer "no"; ``message`` reaches the user, ``code`` and ``reason`` the client program."""
    return _encode(
        _Answer(
            uid=request.uid,
            allowed=False,
            status=_AnswerStatus(code=code, message=message, reason=reason),
        )
    )


def _encode(answer: _Answer) -> bytes:
    return msgspec.json.encode({"apiVersion": API_VERSION, "kind": "AdmissionReview", "response": answer})


def _cleaned(warnings: Iterable[str]) -> tuple[str, ...]:
    """Texts that can stand in a header: printable, and cut to 256 characters, as the API server would."""
    spaced = ("".join(c if c.isprintable() else " " for c in text) for text in warnings)
    return tuple(text if len(text) <= _WARNING_LIMIT else text[: _WARNING_LIMIT - 1] + "…" for text in spaced)
