"""Admission webhooks: which there are, and the conversation of one write with one of them.

Webhooks are called in the order of their configurations' names, and within one in the order written. A review
carries everything that ``admission.k8s.io/v1`` defines. An answer must be as kube-apiserver demands: the same
uid, the right kind, patch and patchType together, and neither of them from a validating webhook.

What a failure means:

- no usable answer (not reachable, timed out, malformed): by failurePolicy, 500 or go on without it;
- a denial: always a refusal, with the code the webhook gives, 400 where that is not an error code;
- a patch that cannot be decoded: a failure like the first; one that does not apply: always 500;
- a dry run and a webhook with side effects: always 400, before it is called.

A webhook whose matchConditions are not all true is not called. One of them that cannot be evaluated, where
none is false, refuses the write with 403, or leaves the webhook out, by failurePolicy. Without the library
that evaluates expressions, matchConditions are ignored, as Kubernetes before 1.27 does.

Source: https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/,
k8s.io/apiserver/pkg/admission/plugin/webhook/{request/admissionreview,mutating/dispatcher,
validating/dispatcher,errors/statuserror}.go.
"""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol
from uuid import uuid4

import msgspec

from kubedouble.admission_matching import ADMISSION_GROUP, Attributes, Matching, described, is_exempt
from kubedouble.admission_policies import Conditions, inputs
from kubedouble.errors import UNREADABLE, StatusError, internal_error
from kubedouble.expressions import EvaluationError, is_available
from kubedouble.patching import json_patch
from kubedouble.store import Object, Reader, resource_versions
from kubedouble.webhook_calls import Caller, CallFailedError, Endpoint


@dataclass(frozen=True, slots=True)
class Hook:
    """One webhook of one configuration."""

    uid: str
    name: str
    endpoint: Endpoint
    matching: Matching
    conditions: Conditions
    ignores_failure: bool
    has_side_effects: bool
    reinvoked: bool
    timeout_seconds: int

    @classmethod
    def of(cls, configuration: str, index: int, webhook: Mapping[str, Any]) -> Hook:
        """From one entry of a configuration's ``webhooks``."""
        conditions = webhook.get("matchConditions") if is_available() else None
        return cls(
            uid=f"{configuration}/{webhook['name']}/{index}",
            name=webhook["name"],
            endpoint=Endpoint.of(webhook["clientConfig"]),
            matching=Matching.of_webhook(webhook),
            conditions=Conditions.of(conditions),
            ignores_failure=webhook.get("failurePolicy") == "Ignore",
            has_side_effects=webhook.get("sideEffects") not in {"None", "NoneOnDryRun"},
            reinvoked=webhook.get("reinvocationPolicy") == "IfNeeded",
            timeout_seconds=webhook.get("timeoutSeconds") or 10,
        )

    def concerns(
        self, attributes: Attributes, obj: Object | None, old: Object | None, reader: Reader
    ) -> bool:
        """Whether the webhook is to be called for a write.

        Raises:
            StatusError: 403 if its conditions have no value, and its failurePolicy is Fail.
        """
        if not self.matching.concerns(attributes, obj, old, reader):
            return False
        try:
            return self.conditions.hold(inputs(attributes, obj, old, reader))
        except EvaluationError as failure:
            if self.ignores_failure:
                return False
            raise attributes.forbidden(str(failure)) from failure


class Hooks:
    """The webhooks of one kind, recompiled when a configuration of that kind changes."""

    def __init__(self, reader: Reader, plural: str) -> None:
        self._reader = reader
        self._plural = plural
        self._hooks: tuple[Hook, ...] = ()
        self._compiled_from: tuple[str, ...] = ()

    def all(self, attributes: Attributes) -> tuple[Hook, ...]:
        """Every webhook, in order, that may be called for a write: none for webhook configurations."""
        if is_exempt(attributes):
            return ()
        configurations = tuple(self._reader.list(ADMISSION_GROUP, self._plural))
        state = resource_versions(configurations)
        if state != self._compiled_from:
            ordered = sorted(configurations, key=lambda item: str(item["metadata"]["name"]))
            self._hooks = tuple(
                Hook.of(item["metadata"]["name"], index, webhook)
                for item in ordered
                for index, webhook in enumerate(item.get("webhooks") or ())
            )
            self._compiled_from = state
        return self._hooks


_encode = msgspec.json.Encoder().encode
_GROUP_VERSION = "admission.k8s.io/v1"


class Encoded:
    """An object and, from the first time it is asked for, its JSON."""

    def __init__(self, value: dict[str, Any] | None) -> None:
        self.value = value

    @cached_property
    def raw(self) -> msgspec.Raw:
        """The JSON, to be put into reviews as it is."""
        return msgspec.Raw(_encode(self.value))


def encode_review(attributes: Attributes, uid: str, obj: Encoded, old: Encoded) -> bytes:
    """The body of the request to a webhook."""
    request = {"uid": uid, **described(attributes), "object": obj.raw, "oldObject": old.raw}
    return _encode({"kind": "AdmissionReview", "apiVersion": _GROUP_VERSION, "request": request})


class InvalidAnswerError(Exception):
    """A webhook answered something that is not a valid review; the message says what."""


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
    try:
        patch = b64decode(response.patch or "", validate=True)
    except binascii.Error as fault:
        raise InvalidAnswerError(f"response.patch is not base64: {fault}") from fault
    return Answer(response.allowed, response.status, patch, tuple(response.warnings or ()))


def _problem(review: _Review, response: _Response, uid: str, *, mutating: bool) -> str | None:
    if response.uid != uid:
        return f'expected response.uid="{uid}", got "{response.uid}"'
    if (review.api_version, review.kind) != (_GROUP_VERSION, "AdmissionReview"):
        return (
            f"expected webhook response of {_GROUP_VERSION}, Kind=AdmissionReview, "
            f"got {review.api_version or '/'}, Kind={review.kind}"
        )
    return _patch_problem(response) if mutating else _unwanted_patch(response)


def _unwanted_patch(response: _Response) -> str | None:
    if response.patch:
        return "validating webhook may not return response.patch"
    return "validating webhook may not return response.patchType" if response.patch_type is not None else None


def _patch_problem(response: _Response) -> str | None:
    if response.patch and response.patch_type is None:
        return "webhook returned response.patch but not response.patchType"
    if not response.patch and response.patch_type is not None:
        return "webhook returned response.patchType but not response.patch"
    if response.patch_type not in {None, "JSONPatch"}:
        return f'unsupported patch type "{response.patch_type}"'
    return None


class Normalize(Protocol):
    """Brings an object that admission has patched into the stored form: defaults, canonical quantities."""

    def __call__(
        self, attributes: Attributes, obj: dict[str, Any], before: dict[str, Any], *, strict: bool = False
    ) -> dict[str, Any]:
        """Return the stored form. What is the very same object in ``before`` needs no second look.

        Raises:
            StatusError: if a value is of the wrong type, or a field is unknown and ``strict`` is set.
        """


class Dispatcher:
    """Puts writes to webhooks, one at a time."""

    def __init__(self, normalize: Normalize, services: Mapping[str, str] | None) -> None:
        self._normalize = normalize
        self._caller = Caller(services)

    async def show(self, certificate: str) -> None:
        """Show webhooks a client certificate from now on."""
        await self._caller.close()
        self._caller.certificate = certificate

    async def close(self) -> None:
        """Close the connections to webhooks."""
        await self._caller.close()

    async def ask_to_change(
        self, hook: Hook, attributes: Attributes, obj: Encoded, old: Encoded
    ) -> tuple[Encoded, tuple[str, ...]]:
        """The object as a mutating webhook wants it (the same if it wants no change), and its warnings."""
        try:
            answer = await self._ask(hook, attributes, obj, old, mutating=True)
            operations = _operations(answer)
        except (CallFailedError, InvalidAnswerError) as problem:
            _fail(hook, problem)
            return obj, ()
        return self._patched(hook, attributes, obj, operations), answer.warnings

    async def ask_to_approve(
        self, hook: Hook, attributes: Attributes, obj: Encoded, old: Encoded
    ) -> tuple[str, ...]:
        """The warnings of a validating webhook that does not object."""
        try:
            answer = await self._ask(hook, attributes, obj, old, mutating=False)
        except (CallFailedError, InvalidAnswerError) as problem:
            _fail(hook, problem)
            return ()
        return answer.warnings

    async def _ask(
        self, hook: Hook, attributes: Attributes, obj: Encoded, old: Encoded, *, mutating: bool
    ) -> Answer:
        if attributes.dry_run and hook.has_side_effects:
            message = f'admission webhook "{hook.name}" does not support dry run'
            raise StatusError(400, "BadRequest", message)
        uid = str(uuid4())
        body = encode_review(attributes, uid, obj, old)
        reply = await self._caller.post(hook.endpoint, body, hook.timeout_seconds)
        answer = decode_answer(reply, uid, mutating=mutating)
        if not answer.allowed:
            raise _denied(hook, answer)
        return answer

    def _patched(self, hook: Hook, attributes: Attributes, obj: Encoded, operations: list[Any]) -> Encoded:
        if not operations:
            return obj
        if obj.value is None:
            why = "which is not supported for this operation"
            raise internal_error(f'admission webhook "{hook.name}" attempted to modify the object, {why}')
        try:
            result = self._normalize(attributes, json_patch(obj.value, operations), obj.value)
        except StatusError as problem:
            raise internal_error(problem.message) from problem
        return obj if result == obj.value else Encoded(result)


def _operations(answer: Answer) -> list[Any]:
    if not answer.patch:
        return []
    try:
        return msgspec.json.decode(answer.patch, type=list[Any])
    except UNREADABLE as problem:
        raise InvalidAnswerError(f"received undecodable patch in webhook response: {problem}") from problem


def _fail(hook: Hook, problem: Exception) -> None:
    """Refuse the write because the webhook failed, unless its failurePolicy is Ignore."""
    if not hook.ignores_failure:
        raise internal_error(f'failed calling webhook "{hook.name}": {problem}') from problem


def _denied(hook: Hook, answer: Answer) -> StatusError:
    status = answer.status or {}
    said = status.get("message") or status.get("reason")
    denial = f'admission webhook "{hook.name}" denied the request'
    message = f"{denial}: {said}" if said else f"{denial} without explanation"
    code = max(status.get("code") or 0, 400)
    refusal = StatusError(code, status.get("reason") or "", message, status.get("details"))
    refusal.warnings = answer.warnings
    return refusal
