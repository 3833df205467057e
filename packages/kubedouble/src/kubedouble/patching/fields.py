"""Fields: how ownership names them, sets of them, and the fields in which two states of an object differ.

A path element is ``f:name``, a field; ``k:{"name":"a"}``, the item of a map list with these keys; ``v:"a"``,
a value of a set. Messages write a path as ``.spec.containers[name="a"].image``.

A set of fields has the form that managedFields stores: a tree of path elements,
``{"f:spec": {"f:replicas": {}}}``. A node is a member if it is empty or has the entry ``"."``; otherwise it
only leads to its members. The root is not a member, and ``{}`` there is the empty set. No function changes
its arguments; a result is the first argument itself when nothing changes, which makes tracking an unchanged
owner cheap. Laws: ``a | a == a``; ``(a - b) | (a & b) == a``; ``(a | b) - b`` holds no member of ``b``.

A comparison looks only where the two states are not the same object, so it costs as much as the change. A
leaf (scalar, atomic list or map) that differs is modified. What is new or gone is added or removed with
everything below it, including containers. An empty container is a leaf. Items of a map list are matched by
key; duplicate items are compared as one.

Source: sigs.k8s.io/structured-merge-diff/v6/fieldpath/{serialize-pe,element,set,serialize}.go,
typed/{compare,tofieldset}.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import msgspec

from kubedouble.errors import UNREADABLE
from kubedouble.patching.json_patch import json_equal
from kubedouble.schema.structure import Schema, Shape

_encode = msgspec.json.Encoder().encode


class PathError(ValueError):
    """An item of a list that ownership cannot name."""


def list_items(items: Iterable[Any], schema: Schema) -> dict[str, list[Any]]:
    """Return the items of a set or map list by path element, in order of first appearance.

    More than one item under an element is a duplicate, which updates may bring and applies may not.

    Raises:
        PathError: if an item cannot be named.
    """
    found: dict[str, list[Any]] = {}
    for position, item in enumerate(items):
        try:
            found.setdefault(item_element(item, schema), []).append(item)
        except PathError as error:
            raise PathError(f"element {position}: {error}") from None
    return found


def item_element(item: Any, schema: Schema) -> str:
    """Return the path element of an item of a set or map list.

    Raises:
        PathError: if it lacks all keys, or is of the wrong shape.
    """
    if schema.list_type == "set":
        if isinstance(item, dict | list) or item is None:
            raise PathError("associative list without keys has an element that's not a scalar")
        return "v:" + _encode(item).decode()
    if not isinstance(item, dict):
        raise PathError("associative list with keys may not have non-map elements")
    pairs = tuple((key, value) for key in schema.keys if (value := _key_value(item, key, schema)) is not None)
    if not pairs:
        named = " ".join(f'"{key}"' for key in schema.keys)
        raise PathError(
            f"associative list with keys has an element that omits all key fields [{named}] "
            "(and doesn't have default values for any key fields)"
        )
    try:
        return _keys_element(pairs)
    except TypeError:
        raise PathError("associative list with keys has a key that is not a scalar") from None


def _key_value(item: dict[str, Any], key: str, schema: Schema) -> Any:
    if key in item:
        return item[key]
    place = schema.items.fields.get(key) if schema.items else None
    return place.default if place else None


@lru_cache(maxsize=4096, typed=True)
def _keys_element(pairs: tuple[tuple[str, Any], ...]) -> str:
    return "k:" + _encode(dict(sorted(pairs))).decode()


def path_text(path: Iterable[str]) -> str:
    """Return a path as messages have it."""
    return "".join(map(_element_text, path))


def _element_text(element: str) -> str:
    tag, _, rest = element.partition(":")
    if tag == "f":
        return f".{rest}"
    if tag == "k":
        keys = msgspec.json.decode(rest)
        return "[" + ",".join(f"{key}={_encode(value).decode()}" for key, value in keys.items()) + "]"
    return f"[={rest}]" if tag == "v" else f"[{rest}]"


def is_field_set(fields: Any) -> bool:
    """Whether a JSON value from outside is a set of fields."""
    if not isinstance(fields, dict):
        return False
    return all(
        (element == "." or _is_element(element)) and is_field_set(node) for element, node in fields.items()
    )


def _is_element(element: str) -> bool:
    tag, colon, rest = element.partition(":")
    if not colon or tag not in {"f", "k", "v", "i"}:
        return False
    if tag == "f":
        return True
    try:
        return isinstance(msgspec.json.decode(rest), {"k": dict, "i": int}.get(tag, object))
    except UNREADABLE:
        return False


FieldSet = dict[str, Any]
"""A node: path element -> node."""

_SELF = "."


def union(left: FieldSet, right: FieldSet) -> FieldSet:
    """Return the fields that are in either set."""
    if not left or not right:
        return left or right
    return _union(left, right)


def difference(left: FieldSet, right: FieldSet) -> FieldSet:
    """Return the fields of ``left`` not themselves in ``right``: ``a.b`` stays if that has only ``a``."""
    if not left or not right:
        return left
    return _difference(left, right) or {}


def intersection(left: FieldSet, right: FieldSet) -> FieldSet:
    """Return the fields that are in both sets."""
    if not left or not right:
        return {}
    return _intersection(left, right) or {}


def without_trees(fields: FieldSet, roots: frozenset[str]) -> FieldSet:
    """Return the set without some top-level fields and all that is below them."""
    if not roots.intersection(fields):
        return fields
    return {element: node for element, node in fields.items() if element not in roots}


def is_member(node: FieldSet) -> bool:
    """Whether the field that leads to this node is itself in the set."""
    return not node or _SELF in node


def as_member(node: FieldSet | None) -> FieldSet:
    """Return a node with its own field added to the set."""
    return node if node is not None and is_member(node) else {_SELF: {}, **node} if node else {}


def paths(fields: FieldSet, prefix: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the members, parents before children, in the order of their elements."""
    for element, node in sorted(fields.items()):
        if element == _SELF:
            continue
        path = (*prefix, element)
        if is_member(node):
            yield path
        yield from paths(node, path)


def with_named_fields(fields: FieldSet, schema: Schema | None) -> FieldSet:
    """Return the set with every field on the way to a member added, if the schema names the field.

    Only items of lists and entries of maps are then left out, which exist by themselves.
    """
    result: FieldSet = {}
    for element, node in fields.items():
        if element == _SELF:
            result[element] = node
            continue
        named = schema is not None and element.startswith("f:") and element[2:] in schema.fields
        below = schema.child(element[2:]) if schema and element.startswith("f:") else schema and schema.items
        inner = with_named_fields(node, below)
        result[element] = as_member(inner) if named else inner
    return result


def _union(left: FieldSet, right: FieldSet) -> FieldSet:
    if left is right:
        return left
    if not left or not right:
        return as_member(left or right)
    result = None
    for element, node in right.items():
        mine = left.get(element)
        merged = node if mine is None else _union(mine, node)
        if merged is not mine:
            result = left.copy() if result is None else result
            result[element] = merged
    return left if result is None else result


def _difference(left: FieldSet, right: FieldSet) -> FieldSet | None:
    """Return None for the empty set, which ``{}``, a member, is not."""
    removed = is_member(left) and is_member(right)
    result = None
    for element, node in left.items():
        other = right.get(element)
        if element == _SELF or other is None:
            continue
        kept = _difference(node, other)
        if kept is not node:
            result = left.copy() if result is None else result
            if kept is None:
                del result[element]
            else:
                result[element] = kept
    return _settled(left, left if result is None else result, removed=removed)


def _settled(left: FieldSet, result: FieldSet, *, removed: bool) -> FieldSet | None:
    if removed:
        return {element: node for element, node in result.items() if element != _SELF} or None
    if result is left:
        return left
    if not result:
        return None
    return {} if len(result) == 1 and _SELF in result else result


def _intersection(left: FieldSet, right: FieldSet) -> FieldSet | None:
    if left is right:
        return left
    result: FieldSet = {}
    for element, node in left.items():
        other = right.get(element)
        if element != _SELF and other is not None:
            common = _intersection(node, other)
            if common is not None:
                result[element] = common
    if is_member(left) and is_member(right):
        return as_member(result)
    return result or None


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
    """Compare two states of an object, except fields without owners and the ``ignored`` top-level fields."""
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
    """Compare the values in one place, before and after; an empty tuple is absence."""
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
