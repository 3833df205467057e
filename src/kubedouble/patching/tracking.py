"""Field ownership after a create, an update or a patch: the writer owns what it changed.

Every field that an update adds or modifies passes to the writer from whoever had it; a field that is gone
is nobody's. An update that changes no owned field changes no entry, not even a time: so a write that does
nothing leaves the object, and its resourceVersion, as they are.

An object that has no managedFields although it exists is not tracked until it is first applied to.

Source: k8s.io/apimachinery/pkg/util/managedfields/internal/{managedfieldsupdater,skipnonapplied}.go,
sigs.k8s.io/structured-merge-diff/v6/merge/update.go.
"""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache
from typing import Any

from kubedouble.patching.comparison import Comparison, compare_objects
from kubedouble.patching.field_paths import PathError
from kubedouble.patching.field_sets import difference, union
from kubedouble.patching.ownership import (
    Owned,
    Owner,
    Owners,
    capped,
    owners_of,
    owners_to_track,
    timestamp,
    updater,
    with_owners,
)
from kubedouble.schema.structure import Schema

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
    writer = updater(manager, subresource, api_version or new.get("apiVersion", ""))
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
    """Return what is left to the owners of an object after fields of it changed or went."""
    gone = union(union(changes.modified, changes.added), changes.removed)
    kept = {owner: owned.with_fields(difference(owned.fields, gone)) for owner, owned in owners.items()}
    return {owner: owned for owner, owned in kept.items() if owned.fields}


def ignored_fields(schema: Schema, subresource: str) -> frozenset[str]:
    """Return the top-level fields that a write through this endpoint cannot change, and thus not own."""
    if subresource == "status":
        whole = schema.custom or schema.name.endswith(".CustomResourceDefinition")
        return frozenset({"spec", "metadata"} if whole else {"spec"})
    return frozenset({"status"}) if schema.has_status else frozenset()


@lru_cache(maxsize=256)
def skeleton(schema: Schema) -> JSON:
    """Return an object of a kind that has nothing but the structs that are always there."""
    return {name: skeleton(place.schema) for name, place in schema.fields.items() if place.present}
