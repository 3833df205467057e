"""Which fields differ between two states of an object, and which fields a configuration names.

Both answer with sets of fields. A comparison looks only where the two states are not the very same object,
so its cost is that of the change and not of the object.

Rules: a leaf (scalar, atomic list or map) that differs is modified. What is new or gone is added or removed
with everything below it, containers among it. An empty container is a leaf. Items of a map list are matched
by key; duplicate items are compared as one.

Source: sigs.k8s.io/structured-merge-diff/v6/typed/{compare,tofieldset}.go.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kubedouble.patching.field_paths import list_items
from kubedouble.patching.field_sets import FieldSet, as_member, without_trees
from kubedouble.patching.json_patch import json_equal
from kubedouble.schema.structure import Schema, Shape

UNOWNED_METADATA = frozenset({
    "name", "namespace", "creationTimestamp", "selfLink", "uid", "clusterName", "generation", "managedFields",
    "resourceVersion",
})  # fmt: skip
"""Metadata that has no owner: it names the object or is the server's own."""
_UNOWNED = ("apiVersion", "kind")


@dataclass(slots=True)
class Comparison:
    """The fields added, modified and removed between two states."""

    added: FieldSet = field(default_factory=dict)
    modified: FieldSet = field(default_factory=dict)
    removed: FieldSet = field(default_factory=dict)

    @property
    def same(self) -> bool:
        return not (self.added or self.modified or self.removed)


def compare_objects(
    old: dict[str, Any], new: dict[str, Any], schema: Schema, ignored: frozenset[str] = frozenset()
) -> Comparison:
    """Compare two states of an object, but for what has no owner and the ``ignored`` top-level fields."""
    kept = [key for key in dict.fromkeys((*old, *new)) if key not in ignored and key not in _UNOWNED]
    result = Comparison()
    for key in kept:
        before, after = old.get(key), new.get(key)
        if before is after:
            continue
        if key == "metadata":
            _compare_place("f:metadata", (owned_metadata(before),), (owned_metadata(after),),
                           schema.child(key), result)  # fmt: skip
        else:
            _compare_place(f"f:{key}", (before,) if key in old else (), (after,) if key in new else (),
                           schema.child(key), result)  # fmt: skip
    return result


def owned_metadata(metadata: Any) -> dict[str, Any]:
    """Return metadata without what has no owner."""
    return {key: value for key, value in (metadata or {}).items() if key not in UNOWNED_METADATA}


def named_fields(config: dict[str, Any], schema: Schema, ignored: frozenset[str] = frozenset()) -> FieldSet:
    """Return the fields that a configuration names: its leaves, and the items of its lists and maps."""
    owned = {key: value for key, value in config.items() if key not in _UNOWNED}
    if "metadata" in owned:
        owned["metadata"] = owned_metadata(owned["metadata"])
    fields = _named(owned, schema) or {}
    if not owned.get("metadata"):
        fields.pop("f:metadata", None)
    return without_trees(fields, frozenset(f"f:{key}" for key in ignored))


def is_leaf(schema: Schema | None, value: Any) -> bool:
    """Whether ownership is of a value as a whole."""
    if schema is None or schema.shape is Shape.ANY:
        # Nothing is known of it: objects are taken apart, lists are not, as for deduced types.
        return not isinstance(value, dict) or (schema is not None and schema.atomic)
    if isinstance(value, dict):
        return schema.atomic or schema.shape not in {Shape.OBJECT, Shape.MAP}
    if isinstance(value, list):
        return schema.list_type == "atomic"
    return True


def _compare(old: Any, new: Any, schema: Schema | None, result: Comparison) -> bool:
    """Compare two values that both exist. Return whether they differ as a whole: as leaves."""
    if is_leaf(schema, new) or is_leaf(schema, old) or type(old) is not type(new):
        return not json_equal(old, new)
    if isinstance(new, dict):
        for key in new:
            after = new[key]
            if key not in old:
                _compare_place(f"f:{key}", (), (after,), schema and schema.child(key), result)
            elif (before := old[key]) is not after:
                _compare_place(f"f:{key}", (before,), (after,), schema and schema.child(key), result)
        for key in old.keys() - new.keys():
            _compare_place(f"f:{key}", (old[key],), (), schema and schema.child(key), result)
        return False
    _compare_items(old, new, schema, result)
    return False


def _compare_items(old: list[Any], new: list[Any], schema: Schema | None, result: Comparison) -> None:
    if schema is None:
        return
    before, after = list_items(old, schema), list_items(new, schema)
    for element in dict.fromkeys((*before, *after)):
        mine, theirs = before.get(element, []), after.get(element, [])
        if len(mine) < 2 and len(theirs) < 2:
            _compare_place(element, tuple(mine), tuple(theirs), schema.items, result)
        elif len(mine) > 1 and len(theirs) > 1:
            if not json_equal(mine, theirs):
                result.modified[element] = {}
        elif len(mine) > 1:
            _compare_place(element, (), tuple(theirs), schema.items, result)
            result.removed[element] = {}
        else:
            _compare_place(element, tuple(mine), (), schema.items, result)
            result.added[element] = {}


def _compare_place(
    element: str, old: tuple[Any, ...], new: tuple[Any, ...], schema: Schema | None, result: Comparison
) -> None:
    """Compare what stands in one place, before and after; an empty tuple is absence."""
    if not old and not new:
        return
    if not old:
        result.added[element] = everything(new[0], schema)
    elif not new:
        result.removed[element] = everything(old[0], schema)
    elif old[0] is not new[0]:
        below = Comparison()
        if _compare(old[0], new[0], schema, below):
            result.modified[element] = {}
            return
        for mine, whole in ((below.added, result.added), (below.modified, result.modified),
                            (below.removed, result.removed)):  # fmt: skip
            if mine:
                whole[element] = mine


def everything(value: Any, schema: Schema | None) -> FieldSet:
    """Return the node of a field whose whole value is in the set, with all that is below it."""
    if is_leaf(schema, value) or not value:
        return {}
    below: FieldSet = {}
    if isinstance(value, dict):
        for key, item in value.items():
            below[f"f:{key}"] = everything(item, schema and schema.child(key))
    elif schema is not None:
        for element, found in list_items(value, schema).items():
            below[element] = everything(found[0], schema.items) if len(found) == 1 else {}
    return as_member(below)


def _named(value: Any, schema: Schema | None) -> FieldSet | None:
    """Return the fields below a value that it names; ``{}`` if it is a leaf, None if it names none."""
    if is_leaf(schema, value):
        return {}
    result: FieldSet = {}
    if isinstance(value, dict):
        for key, item in value.items():
            below = _named(item, schema and schema.child(key))
            entry = schema is None or key not in schema.fields
            if entry or item is None or item == {}:
                below = as_member(below)
            if below is not None:
                result[f"f:{key}"] = below
    elif schema is not None:
        for element, found in list_items(value, schema).items():
            result[element] = as_member(_named(found[0], schema.items) if len(found) == 1 else None)
    return result or None
