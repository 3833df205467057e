"""One webhook and one write: ask, judge the answer, apply its patch.

What a failure means:

- no usable answer (not reachable, timed out, malformed): by failurePolicy, 500 or go on without it;
- a denial: always a refusal, with the code the webhook gives, 400 where that is not an error code;
- a patch that cannot be decoded: a failure like the first; one that does not apply: always 500;
- a dry run and a webhook with side effects: always 400, before it is called.

Source: k8s.io/apiserver/pkg/admission/plugin/webhook: mutating/dispatcher.go, validating/dispatcher.go,
errors/statuserror.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from uuid import uuid4

import msgspec

from corewise.vocabulary.errors import UNREADABLE
from kubedouble.admission_review import (
    Answer,
    Attributes,
    Encoded,
    InvalidAnswerError,
    decode_answer,
    encode_review,
)
from kubedouble.errors import StatusError
from kubedouble.patching import json_patch
from kubedouble.webhook_calls import Caller, CallFailedError
from kubedouble.webhook_configuration import Hook

Normalize = Callable[[Attributes, dict[str, Any], dict[str, Any]], dict[str, Any]]
"""Brings an object that a webhook has patched into the stored form: defaults, canonical quantities.

The last argument is the object before the patch: what is the very same in both needs no second look.
"""


class Dispatcher:
    """Puts writes to webhooks, one at a time."""

    def __init__(self, normalize: Normalize, services: Mapping[str, str] | None) -> None:
        self._normalize = normalize
        self._caller = Caller(services)

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
        if answer is None:
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
        return answer.warnings if answer else ()

    async def _ask(
        self, hook: Hook, attributes: Attributes, obj: Encoded, old: Encoded, *, mutating: bool
    ) -> Answer | None:
        if hook.conditions:
            _fail_for_conditions(hook, attributes)
            return None
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
            raise _internal(f'admission webhook "{hook.name}" attempted to modify the object, {why}')
        try:
            result = self._normalize(attributes, json_patch(obj.value, operations), obj.value)
        except StatusError as problem:
            raise _internal(problem.message) from problem
        return obj if result == obj.value else Encoded(result)


def _operations(answer: Answer | None) -> list[Any]:
    if answer is None or not answer.patch:
        return []
    try:
        return msgspec.json.decode(answer.patch, type=list[Any])
    except UNREADABLE as problem:
        raise InvalidAnswerError(f"received undecodable patch in webhook response: {problem}") from problem


def _fail_for_conditions(hook: Hook, attributes: Attributes) -> None:
    if not hook.ignores_failure:
        names = ", ".join(hook.conditions)
        raise attributes.forbidden(
            f'match conditions ({names}) of webhook "{hook.name}" cannot be evaluated: '
            "the local API server does not evaluate CEL; use rules and selectors instead"
        )


def _fail(hook: Hook, problem: Exception) -> None:
    """Refuse the write because the webhook failed, unless its failurePolicy is Ignore."""
    if not hook.ignores_failure:
        raise _internal(f'failed calling webhook "{hook.name}": {problem}') from problem


def _internal(message: str) -> StatusError:
    details = {"causes": [{"message": message}]}
    return StatusError(500, "InternalError", f"Internal error occurred: {message}", details)


def _denied(hook: Hook, answer: Answer) -> StatusError:
    status = answer.status or {}
    said = status.get("message") or status.get("reason")
    denial = f'admission webhook "{hook.name}" denied the request'
    message = f"{denial}: {said}" if said else f"{denial} without explanation"
    code = max(status.get("code") or 0, 400)
    refusal = StatusError(code, status.get("reason") or "", message, status.get("details"))
    refusal.warnings = answer.warnings
    return refusal
