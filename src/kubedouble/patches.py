"""A PATCH request as a change of an object: by its content type, one of four kinds.

Source: k8s.io/apiserver/pkg/endpoints/handlers/patch.go.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from corewise.vocabulary.errors import UNREADABLE
from kubedouble import metadata
from kubedouble.errors import bad_request, cause, invalid, unsupported_media_type
from kubedouble.patching import apply, json_patch, merge_patch, strategic_merge_patch
from kubedouble.requests import OPTIONS, Call, decode_yaml
from kubedouble.schema.structure import Schema
from kubedouble.store import Object

JSON = "application/json-patch+json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
BUILT_IN_TYPES = (JSON, MERGE, STRATEGIC, APPLY)
CUSTOM_TYPES = (JSON, MERGE, APPLY)


@dataclass(frozen=True, slots=True)
class Change:
    """What a request makes of an object, in the served version.

    ``text`` is that of a patch, for messages. ``applies``: made by an apply, which also makes an object of
    nothing (``None``) and says itself who owns what.
    """

    make: Callable[[Object | None], Object]
    text: str | None = None
    applies: bool = False


def patch_for(call: Call, schema: Schema) -> Change:
    """Read a patch.

    Raises:
        StatusError: 415 for a type that the resource does not take, 400 for a body that is no patch.
    """
    accepted = CUSTOM_TYPES if call.resource.custom else BUILT_IN_TYPES
    if call.media_type not in accepted:
        raise unsupported_media_type(accepted)
    _check_options(call)
    if call.media_type == APPLY:
        return _apply(call, schema)
    body, text = _decode(call.body), call.body.decode(errors="replace")
    if call.media_type == JSON:
        return Change(lambda obj: json_patch(obj or {}, body), text)
    if call.media_type == MERGE:
        return Change(lambda obj: merge_patch(obj or {}, body), text)
    return Change(lambda obj: strategic_merge_patch(obj or {}, body, schema), text)


def _apply(call: Call, schema: Schema) -> Change:
    config = metadata.check_type(call.resource, decode_yaml(call.body))
    named = config["metadata"].get("name") or call.name
    if named != call.name:
        message = f"the name of the object ({named}) does not match the name on the URL ({call.name})"
        raise bad_request(message)
    config = {**config, "metadata": {**config["metadata"], "name": call.name}}
    if call.resource.namespaced:
        config["metadata"].setdefault("namespace", call.namespace)

    def make(live: Object | None) -> Object:
        return apply(
            live,
            config,
            manager=call.manager,
            force=call.flag("force"),
            schema=schema,
            now=call.time,
            subresource=call.info.subresource,
        )

    return Change(make, applies=True)


def _check_options(call: Call) -> None:
    causes = []
    if call.media_type == APPLY and not call.query.get("fieldManager"):
        causes.append(
            cause("FieldValueRequired", "Required value: is required for apply patch", "fieldManager")
        )
    if call.media_type != APPLY and "force" in call.query:
        message = "Forbidden: may not be specified for non-apply patch"
        causes.append(cause("FieldValueForbidden", message, "force"))
    if causes:
        raise invalid(OPTIONS["patch"], "", causes)


def _decode(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except UNREADABLE as error:
        raise bad_request(f"error decoding patch: {error}") from error
