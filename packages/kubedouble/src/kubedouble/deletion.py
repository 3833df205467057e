"""Delete and deletecollection: preconditions, grace, finalizers, and what is left for others to finish.

An object goes at once if nothing holds it. A bound pod is marked and waits for its kubelet (grace period);
an object with finalizers is marked and waits until they are gone; a Namespace is marked and waits until it
is empty (:mod:`.housekeeping`). Marking counts as a new generation.

Source: k8s.io/apiserver/pkg/registry/rest/delete.go, registry/generic/registry/store.go (Delete,
deletionFinalizersForGarbageCollection), pkg/registry/core/{pod,namespace}.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from kubedouble import forms
from kubedouble.cluster import Cluster, Reply
from kubedouble.errors import cause, conflict, invalid, not_found, precondition_failed
from kubedouble.listing import page_of
from kubedouble.requests import OPTIONS, Call
from kubedouble.resources import ResourceInfo
from kubedouble.schema.decoding import timestamp
from kubedouble.schema.kinds import delete_options
from kubedouble.schema.normalization import normalize
from kubedouble.store import Object, Stored

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"
_POLICIES = {"": (), "Background": (), "Foreground": (FOREGROUND,), "Orphan": (ORPHAN,)}
_POD_ENDED = {"Failed", "Succeeded"}
_NAMESPACE_BUSY = (
    "The system is ensuring all content is removed from this namespace.  Upon completion, this namespace "
    "will automatically be purged by the system."
)


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a delete (``metav1.DeleteOptions``)."""

    grace: int | None = None
    uid: str = ""
    version: str = ""
    policy: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The object after a delete, and whether it is gone."""

    stored: Stored
    gone: bool


async def delete(cluster: Cluster, call: Call) -> Reply:
    """Answer a delete."""
    options, call = _options(call)
    form = forms.negotiate(call)
    outcome, warnings = await _delete_one(cluster, call, cluster.existing(call), options)
    if outcome.gone and not call.resource.returns_deleted:
        return Reply(forms.encode(_success(call.resource, outcome.stored)), 200, warnings)
    return Reply(forms.one(call.resource, outcome.stored, form), 200, warnings)


async def delete_collection(cluster: Cluster, call: Call) -> Reply:
    """Answer a deletecollection: everything selected, one by one; what vanishes meanwhile is fine."""
    options, call = _options(call)
    form = forms.negotiate(call)
    page = page_of(cluster, call)
    deleted: list[Stored] = []
    warnings: tuple[str, ...] = ()
    for stored in page.items:
        namespace, name = stored.key
        each = replace(call, info=replace(call.info, namespace=namespace, name=name))
        current = cluster.stored(call.resource, namespace, name)
        if current is not None:
            outcome, said = await _delete_one(cluster, each, current, options)
            deleted.append(outcome.stored)
            warnings += said
    return Reply(forms.many(call.resource, deleted, page.metadata, form), 200, warnings)


def delete_stored(
    cluster: Cluster, resource: ResourceInfo, stored: Stored, options: Options, *, dry_run: bool = False
) -> Outcome:
    """Delete an object, or mark it as to be deleted; nothing is asked of anybody.

    Raises:
        StatusError: 409, if a precondition fails, or a Namespace is already going.
    """
    _check_preconditions(resource, stored, options)
    marked, wait = _marked(resource, stored, options, cluster.clock())
    if not wait:
        last = stored if dry_run else cluster.store.remove(resource.storage_key, stored.key)
        return Outcome(last, gone=True)
    if marked == stored.object:
        return Outcome(stored, gone=False)
    if dry_run:
        return Outcome(forms.unstored(stored.key, marked), gone=False)
    return Outcome(cluster.store.put(resource.storage_key, stored.key, marked), gone=False)


def finish_if_released(
    cluster: Cluster, resource: ResourceInfo, current: Stored, updated: Object
) -> Stored | None:
    """Delete an object whose update took away the last thing that held its deletion.

    Returns ``None`` if something still holds it.
    """
    metadata = updated["metadata"]
    if not metadata.get("deletionTimestamp") or metadata.get("finalizers"):
        return None
    if metadata.get("deletionGracePeriodSeconds"):
        return None
    if resource.storage_key == "namespaces" and (updated.get("spec") or {}).get("finalizers"):
        return None
    cluster.store.remove(resource.storage_key, current.key)
    return forms.unstored(current.key, updated)


async def _delete_one(
    cluster: Cluster, call: Call, stored: Stored, options: Options
) -> tuple[Outcome, tuple[str, ...]]:
    _check_preconditions(call.resource, stored, options)
    _, warnings = await cluster.mutate(call, "DELETE", None, stored.object)
    warnings += await cluster.validate(call, "DELETE", None, stored.object)
    newest = cluster.stored(call.resource, *stored.key)
    if newest is None:
        raise not_found(call.resource, call.name)
    return delete_stored(cluster, call.resource, newest, options, dry_run=call.dry_run), warnings


def _marked(resource: ResourceInfo, stored: Stored, options: Options, now: datetime) -> tuple[Object, bool]:
    """Return the object as its deletion leaves it, and whether it has to wait."""
    obj = stored.object
    grace = _grace(resource, obj, options)
    finalizers = _finalizers(obj["metadata"], options)
    if resource.storage_key == "namespaces":
        return _marked_namespace(resource, obj, finalizers, now)
    if not grace and not finalizers:
        return obj, False
    metadata = {**obj["metadata"]}
    if finalizers:
        metadata["finalizers"] = finalizers
    else:
        metadata.pop("finalizers", None)
    metadata.update(_deletion_mark(metadata, grace, now))
    changed = obj["metadata"].get("deletionTimestamp") != metadata.get("deletionTimestamp")
    if changed and "generation" in metadata:
        metadata["generation"] += 1
    return {**obj, "metadata": metadata}, True


def _deletion_mark(metadata: Mapping[str, Any], grace: int, now: datetime) -> dict[str, Any]:
    """Return the time of deletion; a later delete may shorten the grace, never lengthen it."""
    if not metadata.get("deletionTimestamp"):
        end = now + timedelta(seconds=grace)
        return {"deletionTimestamp": timestamp(end), "deletionGracePeriodSeconds": grace}
    before = metadata.get("deletionGracePeriodSeconds") or 0
    if grace >= before:
        return {}
    end = datetime.fromisoformat(metadata["deletionTimestamp"]) - timedelta(seconds=before - grace)
    return {"deletionTimestamp": timestamp(end), "deletionGracePeriodSeconds": grace}


def _marked_namespace(
    resource: ResourceInfo, obj: Object, finalizers: list[str], now: datetime
) -> tuple[Object, bool]:
    held = (obj.get("spec") or {}).get("finalizers")
    metadata = obj["metadata"]
    if metadata.get("deletionTimestamp"):
        if held:
            raise conflict(resource, metadata["name"], _NAMESPACE_BUSY)
        return obj, bool(finalizers)
    metadata = {**metadata, "deletionTimestamp": timestamp(now)}
    status = {**(obj.get("status") or {}), "phase": "Terminating"}
    return {**obj, "metadata": metadata, "status": status}, bool(held or finalizers)


def _grace(resource: ResourceInfo, obj: Object, options: Options) -> int:
    if resource.storage_key != "pods":
        return 0
    spec = obj.get("spec") or {}
    if not spec.get("nodeName") or (obj.get("status") or {}).get("phase") in _POD_ENDED:
        return 0
    grace = options.grace if options.grace is not None else spec.get("terminationGracePeriodSeconds", 0)
    return grace if grace >= 0 else 1


def _finalizers(metadata: Mapping[str, Any], options: Options) -> list[str]:
    present = list(metadata.get("finalizers") or ())
    if options.policy:
        present = [name for name in present if name not in {FOREGROUND, ORPHAN}]
    return present + [name for name in _POLICIES[options.policy] if name not in present]


def _check_preconditions(resource: ResourceInfo, stored: Stored, options: Options) -> None:
    metadata = stored.object["metadata"]
    name, uid, version = metadata["name"], metadata["uid"], metadata["resourceVersion"]
    if options.uid and options.uid != uid:
        raise precondition_failed(resource, name, "UID", options.uid, uid)
    if options.version and options.version != version:
        raise precondition_failed(resource, name, "ResourceVersion", options.version, version)


def options_of(body: Object, call: Call) -> Options:
    """Read DeleteOptions; what the body leaves out may stand in the query.

    Raises:
        StatusError: 422 for a value that makes no sense.
    """
    preconditions = body.get("preconditions") or {}
    policy = body.get("propagationPolicy") or call.query.get("propagationPolicy", "")
    if policy not in _POLICIES:
        message = (
            f'Unsupported value: "{policy}": supported values: "Foreground", "Background", "Orphan", "nil"'
        )
        causes = [cause("FieldValueInvalid", message, "propagationPolicy")]
        raise invalid(OPTIONS["delete"], "", causes)
    grace = body.get("gracePeriodSeconds")
    if grace is None:
        grace = call.number("gracePeriodSeconds")
    policy = policy or ("Orphan" if body.get("orphanDependents") else "")
    return Options(grace, preconditions.get("uid") or "", preconditions.get("resourceVersion") or "", policy)


def _options(call: Call) -> tuple[Options, Call]:
    """Read the options of a call; a dry run asked for in the body becomes the call's."""
    body = call.decoded() if call.body.strip() else {}
    body = normalize({**body, "kind": "DeleteOptions"}, delete_options())[0]
    if body.get("dryRun"):
        call = replace(call, query={**call.query, "dryRun": ",".join(body["dryRun"])})
    call.check_options()
    return options_of(body, call), call


def _success(resource: ResourceInfo, stored: Stored) -> dict[str, Any]:
    metadata = stored.object["metadata"]
    details = {
        "name": metadata["name"],
        "group": resource.group,
        "kind": resource.plural,
        "uid": metadata["uid"],
    }
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {name: value for name, value in details.items() if value},
    }
