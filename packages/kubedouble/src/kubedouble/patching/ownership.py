"""managedFields: who owns which fields, and who owns what after a create, an update or a patch.

An owner is a manager, an operation and a subresource; one that updates also has an apiVersion. Entries are
sorted: appliers first, then by time and name. At most ten owners that update are kept apart; the oldest
beyond these are merged into ``ancient-changes``.

Every field that an update adds or modifies passes to the writer from its previous owners; a field that is
gone has no owner. An update that changes no owned field changes no entry, not even a time: such a write
leaves the object and its resourceVersion as they are. An existing object without managedFields is not
tracked until the first apply.

Source: k8s.io/apimachinery/pkg/util/managedfields/internal/{managedfields,capmanagers,fieldmanager,
managedfieldsupdater,skipnonapplied}.go, sigs.k8s.io/structured-merge-diff/v6/merge/update.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import Any

from kubedouble.patching.fields import (
    Comparison,
    FieldSet,
    PathError,
    compare_objects,
    difference,
    is_field_set,
    union,
)
from kubedouble.schema.decoding import timestamp
from kubedouble.schema.structure import Schema

APPLY = "Apply"
UPDATE = "Update"
MAX_UPDATERS = 10
_ANCIENT = "ancient-changes"
_FIELDS_TYPE = "FieldsV1"


@dataclass(frozen=True, slots=True)
class Owner:
    """An owner of fields. ``api_version`` is empty for an applier: it stays the same across versions."""

    manager: str
    operation: str
    subresource: str = ""
    api_version: str = ""

    def __str__(self) -> str:
        name = f'"{self.manager}"'
        if self.subresource:
            name += f' with subresource "{self.subresource}"'
        return f"{name} using {self.api_version}" if self.operation == UPDATE else name


@dataclass(frozen=True, slots=True)
class Owned:
    """The fields of an owner, their API version and time; ``entry`` is the JSON it was read from."""

    fields: FieldSet
    api_version: str
    time: str | None = None
    entry: Mapping[str, Any] | None = None

    def with_fields(self, fields: FieldSet) -> Owned:
        return self if fields is self.fields else replace(self, fields=fields, entry=None)


Owners = dict[Owner, Owned]


def owners_of(obj: Mapping[str, Any] | None) -> Owners:
    """Return the owners of a stored object's fields; its entries are valid."""
    return _decoded((obj or {}).get("metadata", {}).get("managedFields") or ())


def owners_to_track(old: Mapping[str, Any] | None, new: Mapping[str, Any], subresource: str) -> Owners:
    """Return the owners before an update: those the request brings, else those of the stored object.

    A request may set them; an empty list, or a list of one empty entry, resets them. What cannot be read is
    as if it had not been sent, and through a subresource they cannot be set.
    """
    if subresource:
        return owners_of(old)
    entries = new.get("metadata", {}).get("managedFields")
    if entries in ([], [{}]):
        return {}
    before = (old or {}).get("metadata", {}).get("managedFields")
    if not isinstance(entries, list) or entries is before or not all(map(_is_entry, entries)):
        return owners_of(old)
    return _decoded(entries) or owners_of(old)


def with_owners(obj: dict[str, Any], owners: Owners) -> dict[str, Any]:
    """Return an object whose managedFields say who owns what; the object itself if they say so already."""
    entries = [_encoded(owner, owned) for owner, owned in sorted(owners.items(), key=_order)]
    metadata = obj.get("metadata", {})
    if metadata.get("managedFields", []) == entries and ("managedFields" in metadata) == bool(entries):
        return obj
    metadata = {key: value for key, value in metadata.items() if key != "managedFields"}
    if entries:
        metadata["managedFields"] = entries
    return {**obj, "metadata": metadata}


def capped(owners: Owners) -> Owners:
    """Return owners with the oldest updaters merged, so that at most ten are left apart."""
    updaters = [(owner, owned) for owner, owned in owners.items() if owner.operation == UPDATE]
    excess = len(updaters) - MAX_UPDATERS
    if excess <= 0:
        return owners
    updaters.sort(key=lambda pair: (pair[1].time or "", pair[0].manager, pair[0].subresource))
    result, first = dict(owners), dict[str, Owner]()
    for owner, owned in updaters:
        if excess <= 0:
            break
        if owned.api_version not in first:
            first[owned.api_version] = owner
            continue
        bucket = Owner(_ANCIENT, UPDATE, "", owned.api_version)
        if bucket not in result:
            result[bucket] = result.pop(first[owned.api_version])
        if owner != bucket:
            merged = union(result[bucket].fields, result.pop(owner).fields)
            result[bucket] = Owned(merged, owned.api_version, owned.time)
            excess -= 1
    return result


def _decoded(entries: Iterable[Mapping[str, Any]]) -> Owners:
    owners: Owners = {}
    for entry in entries:
        applied = entry["operation"] == APPLY
        owner = Owner(
            entry.get("manager", ""),
            entry["operation"],
            entry.get("subresource", ""),
            "" if applied else entry["apiVersion"],
        )
        fields = entry.get("fieldsV1") or {}
        owners[owner] = Owned(fields, entry["apiVersion"], entry.get("time"), entry)
    return owners


def _is_entry(entry: Any) -> bool:
    return (
        isinstance(entry, Mapping)
        and entry.get("operation") in {APPLY, UPDATE}
        and bool(entry.get("apiVersion"))
        and entry.get("fieldsType") == _FIELDS_TYPE
        and is_field_set(entry.get("fieldsV1") or {})
    )


def _encoded(owner: Owner, owned: Owned) -> Mapping[str, Any]:
    if owned.entry is not None:
        return owned.entry
    entry: dict[str, Any] = {
        "manager": owner.manager,
        "operation": owner.operation,
        "apiVersion": owned.api_version,
        "time": owned.time,
        "fieldsType": _FIELDS_TYPE,
        "fieldsV1": owned.fields,
        "subresource": owner.subresource,
    }
    return {key: value for key, value in entry.items() if key == "fieldsV1" or value}


def _order(pair: tuple[Owner, Owned]) -> tuple[str, ...]:
    owner, owned = pair
    return owner.operation, owned.time or "", owner.manager, owned.api_version, owner.subresource


JSON = dict[str, Any]


def track_update(
    old: JSON | None,
    new: JSON,
    *,
    manager: str,
    schema: Schema,
    now: datetime,
    subresource: str = "",
    api_version: str = "",
) -> JSON:
    """Return the new object with managedFields that say who owns what after this write.

    Args:
        old: the stored object, or None on create.
        new: the object to be stored, with or without managedFields of its own.
        manager: the name of the writer.
        schema: the kind's.
        now: the time of the write.
        subresource: through which it is written, if any.
        api_version: at which it is written; that of the new object unless given.
    """
    owners = owners_to_track(old, new, subresource)
    if not owners and old is not None and old.get("metadata", {}).get("uid"):
        return with_owners(new, {})
    before = skeleton(schema) if old is None else old
    try:
        changes = compare_objects(before, new, schema, ignored_fields(schema, subresource))
    except PathError:
        # A list that ownership cannot read. The object is stored all the same, its owners as they were.
        return with_owners(new, owners_of(old))
    if changes.same:
        return with_owners(new, owners)
    writer = Owner(manager, UPDATE, subresource, api_version or new.get("apiVersion", ""))
    return with_owners(new, capped(_passed_on(owners, changes, writer, now)))


def _passed_on(owners: Owners, changes: Comparison, writer: Owner, now: datetime) -> Owners:
    result = released(owners, changes)
    taken = union(changes.modified, changes.added)
    if taken:
        mine = result.get(writer)
        fields = union(mine.fields, taken) if mine else taken
        result[writer] = Owned(fields, writer.api_version, timestamp(now))
    return result


def released(owners: Owners, changes: Comparison) -> Owners:
    """Return the fields that the owners of an object keep after fields of it changed or went."""
    gone = union(union(changes.modified, changes.added), changes.removed)
    kept = {owner: owned.with_fields(difference(owned.fields, gone)) for owner, owned in owners.items()}
    return {owner: owned for owner, owned in kept.items() if owned.fields}


def ignored_fields(schema: Schema, subresource: str) -> frozenset[str]:
    """Return the top-level fields that a write through this endpoint cannot change, and so cannot own."""
    if subresource == "status":
        whole = schema.custom or schema.name.endswith(".CustomResourceDefinition")
        return frozenset({"spec", "metadata"} if whole else {"spec"})
    return frozenset({"status"}) if schema.has_status else frozenset()


@lru_cache(maxsize=256)
def skeleton(schema: Schema) -> JSON:
    """Return an object of a kind that has nothing but the structs that are always there."""
    return {name: skeleton(place.schema) for name, place in schema.fields.items() if place.present}
