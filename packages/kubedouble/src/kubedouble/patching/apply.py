"""Server-side apply: merge a configuration into an object, and own the fields that it names.

An apply states everything that its manager wants of an object:

1. The configuration is merged into the object: its leaves win, containers are merged. A map list keeps the
   object's order unless the configuration orders its items otherwise.
2. What the manager applied last time, does not apply now, and no other manager owns, is removed.
3. A field that another manager owns and whose value changes is a conflict, unless the apply is forced; then
   it passes to the manager. A manager that applies the value a field already has becomes one of its owners.
4. The manager owns exactly the fields that the configuration names.

The fields of an object without managedFields belong to ``before-first-apply``. For the manager ``kubectl``
the annotation of client-side apply counts: a field it lists is no conflict, and it is kept current.

Source: sigs.k8s.io/structured-merge-diff/v6/{merge/update,typed/merge,typed/remove}.go,
k8s.io/apimachinery/pkg/util/managedfields/internal/{fieldmanager,lastapplied*,conflict}.go.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import msgspec

from kubedouble.errors import UNREADABLE, StatusError, bad_request, cause
from kubedouble.patching.fields import (
    UNOWNED_METADATA,
    FieldSet,
    PathError,
    compare_objects,
    difference,
    intersection,
    is_leaf,
    is_member,
    item_element,
    list_items,
    named_fields,
    owned_metadata,
    path_text,
    paths,
    union,
    with_named_fields,
)
from kubedouble.patching.json_patch import json_equal
from kubedouble.patching.ownership import (
    APPLY,
    UPDATE,
    Owned,
    Owner,
    Owners,
    capped,
    ignored_fields,
    owners_of,
    released,
    skeleton,
    with_owners,
)
from kubedouble.schema.custom import Pruner
from kubedouble.schema.decoding import Decoder, Undecodable, timestamp
from kubedouble.schema.structure import Schema


def merge_config(live: Any, config: Any, schema: Schema | None) -> Any:
    """Return a value with a configuration of it merged in."""
    if is_leaf(schema, config) or is_leaf(schema, live) or type(live) is not type(config):
        return config
    if isinstance(config, dict):
        merged = live.copy()
        for key, value in config.items():
            below = schema and schema.child(key)
            merged[key] = merge_config(live[key], value, below) if key in live else value
        return merged
    return live if schema is None else _merge_items(live, config, schema)


def _merge_items(live: list[Any], config: list[Any], schema: Schema) -> list[Any]:
    mine, theirs = list_items(live, schema), list_items(config, schema)
    merged = []
    shared = [element for element in theirs if element in mine]
    waiting = list(theirs)
    for element, items in mine.items():
        if element not in theirs:
            merged += items
        elif shared and element == shared[0]:
            shared.pop(0)
            while waiting:
                following = waiting.pop(0)
                merged.append(_merge_item(mine.get(following), theirs[following][0], schema))
                if following == element:
                    break
    return merged + [_merge_item(mine.get(element), theirs[element][0], schema) for element in waiting]


def _merge_item(live: list[Any] | None, config: Any, schema: Schema) -> Any:
    # An item that the object has more than once is not merged with: there is no telling which.
    return merge_config(live[0], config, schema.items) if live and len(live) == 1 else config


def remove_fields(value: Any, fields: FieldSet, schema: Schema | None) -> Any:
    """Return a value without the members of a set; a container that loses all stays, empty."""
    if not fields or is_leaf(schema, value) or not value:
        return value
    if isinstance(value, dict):
        left: dict[str, Any] = {}
        for key, item in value.items():
            node = fields.get(f"f:{key}")
            if node is None:
                left[key] = item
            elif not is_member(node):
                left[key] = remove_fields(item, node, schema and schema.child(key))
        return left
    if schema is None:
        return value
    return _remove_items(value, fields, schema)


def _remove_items(items: list[Any], fields: FieldSet, schema: Schema) -> list[Any]:
    left = []
    for item in items:
        node = fields.get(item_element(item, schema))
        if node is None:
            left.append(item)
        elif not is_member(node):
            left.append(remove_fields(item, node, schema.items))
    return left


JSON = dict[str, Any]
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_KUBECTL = "kubectl"
_BEFORE = "before-first-apply"


@dataclass(frozen=True, slots=True)
class _Applying:
    """One apply: the configuration, its manager, and its limits."""

    config: JSON
    manager: str
    schema: Schema
    subresource: str
    version: str
    now: datetime

    @property
    def owner(self) -> Owner:
        return Owner(self.manager, APPLY, self.subresource)

    @property
    def ignored(self) -> frozenset[str]:
        return ignored_fields(self.schema, self.subresource)


def apply(
    live: JSON | None,
    applied: JSON,
    *,
    manager: str,
    force: bool,
    schema: Schema,
    now: datetime,
    subresource: str = "",
) -> JSON:
    """Return the object after an apply, with managedFields; it is the live one if the apply changes
    nothing.

    Args:
        live: the stored object; None if it does not exist yet.
        applied: the configuration, with apiVersion and kind.
        manager: who applies.
        force: whether fields are taken from others who own them.
        schema: the kind's.
        now: the time of the apply.
        subresource: through which it is applied, if any.

    Raises:
        StatusError: 409 with a cause for every conflict, 400 if the configuration brings managedFields,
            500 if it does not fit the schema.
    """
    applied = {key: value for key, value in applied.items() if key != "metadata" or value is not None}
    _check_type(applied, schema)
    if applied.get("metadata", {}).get("managedFields") is not None:
        raise bad_request("metadata.managedFields must be nil")
    applying = _Applying(applied, manager, schema, subresource, applied.get("apiVersion", ""), now)
    base = {**_identity(applied), **skeleton(schema)} if live is None else live
    try:
        return _apply(applying, base, force=force)
    except PathError as error:
        raise untyped(applied, str(error)) from error


def untyped(applied: JSON, why: str) -> StatusError:
    """Refuse a configuration that does not fit the schema, in the server's words."""
    metadata = applied.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    group, _, version = applied.get("apiVersion", "").rpartition("/")
    place = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
    kind = f"{group}/{version}, Kind={applied.get('kind', '')}"
    return StatusError(500, "", f"failed to create typed patch object ({place}; {kind}): {why}")


def _check_type(applied: JSON, schema: Schema) -> None:
    """An apply may name no field that the kind does not have, whatever fieldValidation says."""
    walk = Pruner() if schema.custom else Decoder()
    try:
        walk.decode(applied, schema)
    except Undecodable as error:
        raise untyped(applied, str(error)) from None
    undeclared = [f".{path}: field not declared in schema" for path in walk.unknown]
    if undeclared:
        listed = undeclared[0] if len(undeclared) == 1 else "errors:\n  " + "\n  ".join(undeclared)
        raise untyped(applied, listed)


def _identity(applied: JSON) -> JSON:
    return {key: applied[key] for key in ("apiVersion", "kind") if key in applied}


def _apply(applying: _Applying, live: JSON, *, force: bool) -> JSON:
    owners = owners_of(live) or _owners_before(applying, live)
    last = owners.get(applying.owner)
    schema, ignored = applying.schema, applying.ignored
    fields = named_fields(applying.config, schema, ignored)
    owners[applying.owner] = Owned(fields, applying.version, last.time if last else None)
    merged = merge_config(live, applying.config, schema)
    if last is not None:
        merged = _with_unowned_metadata(_pruned(merged, last.fields, owners, schema), merged)
    changes = compare_objects(live, merged, schema, ignored)
    others = {owner: owned for owner, owned in owners.items() if owner != applying.owner}
    _check_conflicts(applying, live, others, union(changes.modified, changes.added), force=force)
    owners = {**released(others, changes), **({applying.owner: owners[applying.owner]} if fields else {})}
    if json_equal(live, merged):
        mine = owners.get(applying.owner)
        if mine and last and mine.fields == last.fields and mine.api_version == last.api_version:
            owners[applying.owner] = last  # the very entry, with its time
        return with_owners(live, capped(owners))
    if applying.owner in owners:
        owners[applying.owner] = replace(owners[applying.owner], time=timestamp(applying.now))
    return with_owners(_with_last_applied(applying, merged), capped(owners))


def _owners_before(applying: _Applying, live: JSON) -> Owners:
    """Give all fields of an untracked object to the manager of changes before the first apply."""
    start = {**_identity(live), **skeleton(applying.schema)}
    changes = compare_objects(start, live, applying.schema, applying.ignored)
    fields = union(changes.added, changes.modified)
    if not fields:
        return {}
    owner = Owner(_BEFORE, UPDATE, applying.subresource, applying.version)
    return {owner: Owned(fields, applying.version, timestamp(applying.now))}


def _pruned(merged: JSON, last: FieldSet, owners: Owners, schema: Schema) -> JSON:
    """Return the merged object without what only the last apply wanted."""
    all_fields = _fields_of(merged, schema)
    pruned = remove_fields(merged, with_named_fields(last, schema), schema)
    managed: FieldSet = {}
    for owned in owners.values():
        managed = union(managed, owned.fields)
    kept = union(_fields_of(pruned, schema), with_named_fields(managed, schema))
    pruned = remove_fields(merged, difference(all_fields, kept), schema)
    gone = difference(all_fields, _fields_of(pruned, schema))
    result: JSON = remove_fields(merged, intersection(gone, with_named_fields(last, schema)), schema)
    return result


def _fields_of(obj: JSON, schema: Schema) -> FieldSet:
    return with_named_fields(named_fields(obj, schema), schema)


def _with_unowned_metadata(obj: JSON, source: JSON) -> JSON:
    """Return an object with the unowned metadata of another state, such as its name and uid."""
    theirs = source.get("metadata", {}).items()
    unowned = {key: value for key, value in theirs if key in UNOWNED_METADATA}
    return {**obj, "metadata": {**owned_metadata(obj.get("metadata")), **unowned}}


def _check_conflicts(
    applying: _Applying, live: JSON, others: Owners, changed: FieldSet, *, force: bool
) -> None:
    found = {owner: intersection(owned.fields, changed) for owner, owned in others.items()}
    conflicts = {owner: fields for owner, fields in found.items() if fields}
    if force or not conflicts:
        return
    if applying.manager == _KUBECTL:
        allowed = _last_applied_fields(live, applying)
        remaining = {owner: difference(fields, allowed) for owner, fields in conflicts.items()}
        conflicts = {owner: fields for owner, fields in remaining.items() if fields}
    if conflicts:
        raise _conflict(conflicts)


def _conflict(conflicts: dict[Owner, FieldSet]) -> StatusError:
    listed = sorted(
        (str(owner), path_text(path)) for owner, fields in conflicts.items() for path in paths(fields)
    )
    causes = [cause("FieldManagerConflict", f"conflict with {owner}", path) for owner, path in listed]
    if len(listed) == 1:
        message = f"Apply failed with 1 conflict: conflict with {listed[0][0]}: {listed[0][1]}"
    else:
        lines: list[str] = []
        for owner in dict.fromkeys(owner for owner, _ in listed):
            lines += [f"conflicts with {owner}:", *(f"- {path}" for other, path in listed if other == owner)]
        message = f"Apply failed with {len(listed)} conflicts: " + "\n".join(lines)
    return StatusError(409, "Conflict", message, {"causes": causes})


def _last_applied_fields(live: JSON, applying: _Applying) -> FieldSet:
    """Return the fields that client-side apply set and that still have the value it gave them."""
    text = (live.get("metadata", {}).get("annotations") or {}).get(LAST_APPLIED)
    try:
        config = msgspec.json.decode(text or "{}", type=JSON)
    except UNREADABLE:
        return {}
    if config.get("apiVersion") != applying.version:
        return {}
    changes = compare_objects(config, live, applying.schema)
    fields = named_fields(config, applying.schema)
    return difference(fields, union(union(changes.modified, changes.added), changes.removed))


def _with_last_applied(applying: _Applying, merged: JSON) -> JSON:
    metadata = merged.get("metadata", {})
    annotations = metadata.get("annotations") or {}
    if applying.manager != _KUBECTL or not annotations.get(LAST_APPLIED):
        return merged
    config = applying.config
    own = config.get("metadata", {})
    if LAST_APPLIED in (own.get("annotations") or {}):
        kept = {key: value for key, value in own["annotations"].items() if key != LAST_APPLIED}
        config = {**config, "metadata": {**own, "annotations": kept}}
    text = msgspec.json.encode(config, order="sorted").decode() + "\n"
    return {**merged, "metadata": {**metadata, "annotations": {**annotations, LAST_APPLIED: text}}}
