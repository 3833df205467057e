"""What admission is about, and the AdmissionReview conversation with a webhook.

One request carries everything ``admission.k8s.io/v1`` defines; an answer is held to what kube-apiserver
demands of it: the same uid, the right kind, patch and patchType together, and none of either from a
validating webhook.

Source: k8s.io/apiserver/pkg/admission/plugin/webhook/request/admissionreview.go.
"""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec

from corewise.vocabulary.errors import UNREADABLE
from kubedouble.authentication import User
from kubedouble.errors import StatusError

_ENCODER = msgspec.json.Encoder()
_GROUP_VERSION = "admission.k8s.io/v1"


@dataclass(frozen=True, slots=True)
class Attributes:
    """A write as admission sees it.

    ``operation`` is CREATE, UPDATE (PUT and PATCH both) or DELETE. ``kind_group`` and ``kind_version`` are
    the group and version of ``kind`` where it is not the resource's own, as for the Eviction of
    ``pods/eviction``. ``name`` is empty when it is still to be generated.
    """

    user: User
    operation: str
    group: str
    version: str
    resource: str
    kind: str
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    dry_run: bool = False
    options: Mapping[str, Any] | None = None
    kind_group: str | None = None
    kind_version: str | None = None

    @property
    def group_kind_version(self) -> dict[str, str]:
        """The GroupVersionKind of the object."""
        group = self.group if self.kind_group is None else self.kind_group
        version = self.version if self.kind_version is None else self.kind_version
        return {"group": group, "version": version, "kind": self.kind}

    @property
    def group_version_resource(self) -> dict[str, str]:
        """The GroupVersionResource written to."""
        return {"group": self.group, "version": self.version, "resource": self.resource}

    def forbidden(self, why: str, **details: Any) -> StatusError:
        """The refusal of a built-in admission controller, worded as kube-apiserver words it."""
        qualified = f"{self.resource}.{self.group}" if self.group else self.resource
        subject = f'{qualified} "{self.name}"' if self.name else qualified
        named = {"name": self.name, "group": self.group, "kind": self.resource, **details}
        return StatusError(
            403, "Forbidden", f"{subject} is forbidden: {why}", {k: v for k, v in named.items() if v}
        )


class Encoded:
    """An object and, from the first time it is asked for, its JSON."""

    def __init__(self, value: dict[str, Any] | None) -> None:
        self.value = value

    @cached_property
    def raw(self) -> msgspec.Raw:
        """The JSON, to be put into reviews as it is."""
        return msgspec.Raw(_ENCODER.encode(self.value))


def described(attributes: Attributes) -> dict[str, Any]:
    """What a request is about, without its objects: ``request`` of admission policies."""
    request: dict[str, Any] = {
        "kind": attributes.group_kind_version,
        "resource": attributes.group_version_resource,
        "requestKind": attributes.group_kind_version,
        "requestResource": attributes.group_version_resource,
        "operation": attributes.operation,
        "userInfo": attributes.user.info(),
        "dryRun": attributes.dry_run,
        "options": attributes.options,
    }
    if attributes.subresource:
        request["subResource"] = request["requestSubResource"] = attributes.subresource
    if attributes.name:
        request["name"] = attributes.name
    if attributes.namespace:
        request["namespace"] = attributes.namespace
    return request


def encode_review(attributes: Attributes, uid: str, obj: Encoded, old: Encoded) -> bytes:
    """The body of the request to a webhook."""
    request = {"uid": uid, **described(attributes), "object": obj.raw, "oldObject": old.raw}
    return _ENCODER.encode({"kind": "AdmissionReview", "apiVersion": _GROUP_VERSION, "request": request})


class InvalidAnswerError(Exception):
    """A webhook answered something that is no valid review; the message says what."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A webhook's verdict: allowed or not with a Status, a JSON patch, and warnings for the client."""

    allowed: bool
    status: Mapping[str, Any] | None
    patch: bytes
    warnings: tuple[str, ...]


class _Response(msgspec.Struct, rename="camel"):
    uid: str = ""
    allowed: bool = False
    status: dict[str, Any] | None = None
    patch: str | None = None
    patch_type: str | None = None
    warnings: list[str] | None = None


class _Review(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    response: _Response | None = None


_DECODER = msgspec.json.Decoder(_Review)


def decode_answer(body: bytes, uid: str, *, mutating: bool) -> Answer:
    """Read a webhook's answer to the review with that uid.

    Raises InvalidAnswerError for what kube-apiserver takes as a failed call.
    """
    try:
        review = _DECODER.decode(body)
    except UNREADABLE as fault:
        raise InvalidAnswerError(f"couldn't decode the answer as an AdmissionReview: {fault}") from fault
    response = review.response
    if response is None:
        raise InvalidAnswerError("received invalid webhook response: webhook response was absent")
    if problem := _problem(review, response, uid, mutating=mutating):
        raise InvalidAnswerError(f"received invalid webhook response: {problem}")
    return Answer(response.allowed, response.status, _patch(response), tuple(response.warnings or ()))


def _problem(review: _Review, response: _Response, uid: str, *, mutating: bool) -> str | None:
    if response.uid != uid:
        return f'expected response.uid="{uid}", got "{response.uid}"'
    if (review.api_version, review.kind) != (_GROUP_VERSION, "AdmissionReview"):
        return (
            f"expected webhook response of {_GROUP_VERSION}, Kind=AdmissionReview, "
            f"got {review.api_version or '/'}, Kind={review.kind}"
        )
    return _patch_problem(response) if mutating else _unwanted_patch(response)


def _patch_problem(response: _Response) -> str | None:
    if response.patch and response.patch_type is None:
        return "webhook returned response.patch but not response.patchType"
    if not response.patch and response.patch_type is not None:
        return "webhook returned response.patchType but not response.patch"
    if response.patch_type not in {None, "JSONPatch"}:
        return f'unsupported patch type "{response.patch_type}"'
    return None


def _unwanted_patch(response: _Response) -> str | None:
    if response.patch:
        return "validating webhook may not return response.patch"
    return "validating webhook may not return response.patchType" if response.patch_type is not None else None


def _patch(response: _Response) -> bytes:
    try:
        return b64decode(response.patch or "", validate=True)
    except binascii.Error as fault:
        raise InvalidAnswerError(f"response.patch is not base64: {fault}") from fault
