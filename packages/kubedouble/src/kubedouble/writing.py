"""Create, update and patch: the steps of a write, in kube-apiserver's order.

Decode and default; record field ownership; mutating admission; the kind's strategy (what this write may not
change is put back); validation; validating admission; store. So a webhook on ``nodes/status`` may change
status and metadata, and what one on ``nodes`` does to status is lost. A PATCH is one of four changes of an
object, by its content type.

Admission takes time, and other writes may come between. Then the write is done again on the newer object: a
patch five times at most, an update as long as it names no version. A write that changes nothing but the
times in managedFields stores nothing, and the version stays.

Source: k8s.io/apiserver/pkg/endpoints/handlers/{create,update,patch}.go,
registry/generic/registry/store.go.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kubedouble import forms, metadata, strategies
from kubedouble.bodies import decode_yaml, parse_json
from kubedouble.cluster import Cluster, Reply
from kubedouble.definitions import CUSTOM_RESOURCE_DEFINITIONS, check_definition
from kubedouble.deletion import finish_if_released
from kubedouble.errors import (
    UNREADABLE,
    Faults,
    already_exists,
    bad_request,
    conflict,
    generated_name_exists,
    not_found,
    unsupported_media_type,
)
from kubedouble.patching import apply, json_patch, merge_patch, strategic_merge_patch, track_update
from kubedouble.rbac import Access
from kubedouble.requests import OPTIONS, Call
from kubedouble.resources import ResourceInfo
from kubedouble.schema.normalization import normalize
from kubedouble.schema.structure import Schema
from kubedouble.schema.validation import problems
from kubedouble.store import Object, Stored

_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class Outcome:
    """An object after a write, whether the write made it, and the warnings for the client."""

    stored: Stored
    created: bool = False
    warnings: tuple[str, ...] = ()


async def create(cluster: Cluster, call: Call) -> Reply:
    """Answer a create."""
    call.check_options()
    form = forms.negotiate(call)
    body = metadata.check_type(call.resource, call.decoded())
    outcome = await create_object(cluster, call, Change(lambda _: body))
    return _reply(call, outcome, form)


async def update(cluster: Cluster, call: Call) -> Reply:
    """Answer an update (PUT) of an object or of a subresource."""
    call.check_options()
    form = forms.negotiate(call)
    body = metadata.check_type(call.resource, call.decoded())
    change = Change(lambda _: body)
    if call.resource.create_on_update and cluster.stored(call.resource, call.namespace, call.name) is None:
        return _reply(call, await create_object(cluster, call, change), form)
    return _reply(call, await change_object(cluster, call, change), form)


async def patch(cluster: Cluster, call: Call) -> Reply:
    """Answer a patch of an object or of a subresource."""
    call.check_options()
    form = forms.negotiate(call)
    change = patch_for(call, cluster.schemas.of(call.resource))
    absent = cluster.stored(call.resource, call.namespace, call.name) is None
    if absent and change.applies and not call.info.subresource:
        return _reply(call, await create_object(cluster, call, change), form)
    return _reply(call, await change_object(cluster, call, change, attempts=_ATTEMPTS), form)


async def create_object(cluster: Cluster, call: Call, change: Change) -> Outcome:
    """Take a new object through all steps and store it.

    An update or apply that creates needs the permission to create as well.
    """
    resource = call.resource
    if call.info.verb != "create":
        wanted = Access("create", resource.group, resource.plural, "", call.info.namespace, call.name)
        cluster.authorizer.require(call.user, wanted)
    shape = _WriteSchema(cluster, call)
    obj = cluster.as_stored(resource, shape.decoded(change.make(None)))
    obj = metadata.for_create(call, obj)
    if not change.applies:
        obj = shape.owned(None, obj)
    obj, warnings = await cluster.mutate(call, "CREATE", obj, None)
    obj = strategies.prepare_create(resource, metadata.with_generated_name(obj))
    name = obj["metadata"].get("name", "")
    faults = Faults()
    _check(faults, resource, obj)
    faults.causes += shape.problems(obj, None)
    faults.refuse(resource, name or obj["metadata"].get("generateName", ""))
    warnings += await cluster.validate(call, "CREATE", obj, None)
    stored = _store_new(cluster, call, obj)
    return Outcome(stored, created=True, warnings=shape.warnings + warnings)


async def change_object(cluster: Cluster, call: Call, change: Change, *, attempts: int = 0) -> Outcome:
    """Take a change of an object through all steps, again if another write came between.

    ``attempts`` bounds how often; 0 means until the change itself refuses the newer object.
    """
    attempt = 0
    while True:
        current = cluster.existing(call)
        obj, warnings = await _changed(cluster, call, current.object, change)
        newest = cluster.stored(call.resource, call.namespace, call.name)
        if newest is None:
            raise not_found(call.resource, call.name)
        if newest.version == current.version:
            return Outcome(_store_changed(cluster, call, current, obj), warnings=warnings)
        attempt += 1
        if attempt == attempts:
            raise conflict(call.resource, call.name)


async def _changed(
    cluster: Cluster, call: Call, old: Object, change: Change
) -> tuple[Object, tuple[str, ...]]:
    """Return the object after a change and all steps."""
    resource, shape = call.resource, _WriteSchema(cluster, call)
    before = forms.viewed(resource, old)
    obj = cluster.as_stored(resource, shape.decoded(change.make(before), before, change.text))
    obj = metadata.for_update(call, old, obj)
    if not change.applies:
        obj = shape.owned(old, obj)
    obj, warnings = await cluster.mutate(call, "UPDATE", obj, old)
    obj = metadata.for_update(call, old, obj)
    obj = strategies.prepare_update(resource, call.info.subresource, old, obj)
    faults = Faults()
    metadata.check_update(faults, old, obj)
    _check(faults, resource, obj)
    faults.causes += shape.problems(obj, old)
    faults.refuse(resource, call.name)
    warnings += await cluster.validate(call, "UPDATE", obj, old)
    return obj, shape.warnings + warnings


def _check(faults: Faults, resource: ResourceInfo, obj: Object) -> None:
    metadata.check(faults, resource, obj)
    if resource.storage_key == CUSTOM_RESOURCE_DEFINITIONS:
        check_definition(faults, obj)


def _store_new(cluster: Cluster, call: Call, obj: Object) -> Stored:
    resource, name = call.resource, obj["metadata"]["name"]
    if cluster.stored(resource, call.namespace, name) is not None:
        generated = obj["metadata"].get("generateName") and not call.name
        raise generated_name_exists(resource, name) if generated else already_exists(resource, name)
    cluster.check_namespace(call)
    if call.dry_run:
        return forms.unstored((call.namespace, name), obj)
    return cluster.store.put(resource.storage_key, (call.namespace, name), obj)


def _store_changed(cluster: Cluster, call: Call, current: Stored, obj: Object) -> Stored:
    if same_but_for_times(current.object, obj):
        return current
    if call.dry_run:
        return forms.unstored(current.key, obj)
    released = finish_if_released(cluster, call.resource, current, obj)
    return released or cluster.store.put(call.resource.storage_key, current.key, obj)


def _reply(call: Call, outcome: Outcome, form: forms.Form) -> Reply:
    code = 201 if outcome.created else 200
    return Reply(forms.one(call.resource, outcome.stored, form), code, outcome.warnings)


JSON = "application/json-patch+json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
BUILT_IN_TYPES = (JSON, MERGE, STRATEGIC, APPLY)
CUSTOM_TYPES = (JSON, MERGE, APPLY)


class _WriteSchema:
    """The effects of the kind's schema on one write; collects warnings for the client."""

    def __init__(self, cluster: Cluster, call: Call) -> None:
        self._call = call
        self._served = cluster.schemas.of(call.resource)
        self._stored = cluster.schemas.of(cluster.stored_as(call.resource))
        self.warnings: tuple[str, ...] = ()

    def decoded(self, obj: Object, base: Object | None = None, patch: str | None = None) -> Object:
        """Return an object from outside in canonical form: defaults set, quantities canonical.

        ``base`` is the object before, in the same version; ``patch`` the text of the patch, if it was one.

        Raises:
            StatusError: 400 or 422, if a value is of the wrong type, or an unknown field is not allowed.
        """
        validation = self._call.query.get("fieldValidation") or "Warn"
        result, warnings = normalize(obj, self._served, base=base, field_validation=validation, patch=patch)
        self.warnings += warnings
        return result

    def owned(self, old: Object | None, obj: Object) -> Object:
        """Return an object, in stored form, with managedFields that tell who set what."""
        return track_update(
            old,
            obj,
            manager=self._call.manager,
            schema=self._stored,
            now=self._call.time,
            subresource=self._call.info.subresource,
            api_version=self._call.resource.api_version,
        )

    def problems(self, obj: Object, old: Object | None) -> list[dict[str, str]]:
        """Return the faults of an object in stored form."""
        return problems(
            obj,
            old,
            self._stored,
            subresource=self._call.info.subresource,
            api_version=self._call.resource.api_version,
        )


def same_but_for_times(old: Object, new: Object) -> bool:
    """Whether two states of an object differ in nothing but the times in managedFields."""
    before, after = old["metadata"], new["metadata"]
    if before.get("managedFields") is after.get("managedFields"):
        return old == new
    return {**old, "metadata": _without_times(before)} == {**new, "metadata": _without_times(after)}


def _without_times(metadata: Object) -> Object:
    entries = [
        {k: v for k, v in entry.items() if k != "time"} for entry in metadata.get("managedFields") or ()
    ]
    return {**metadata, "managedFields": entries}


@dataclass(frozen=True, slots=True)
class Change:
    """A request's change to an object, in the served version.

    ``text`` is that of a patch, for messages. ``applies``: made by an apply, which also makes an object of
    nothing (``None``) and says itself who owns what.
    """

    make: Callable[[Object | None], Object]
    text: str | None = None
    applies: bool = False


def patch_for(call: Call, schema: Schema) -> Change:
    """Read a patch.

    Raises:
        StatusError: 415 for a type that the resource does not take, 400 for a body that is not a patch.
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
    faults = Faults()
    if call.media_type == APPLY and not call.query.get("fieldManager"):
        faults.required("fieldManager", "is required for apply patch")
    if call.media_type != APPLY and "force" in call.query:
        faults.forbidden("force", "may not be specified for non-apply patch")
    faults.refuse(OPTIONS["patch"], "")


def _decode(body: bytes) -> Any:
    try:
        return parse_json(body, object)
    except UNREADABLE as error:
        raise bad_request(f"error decoding patch: {error}") from error
