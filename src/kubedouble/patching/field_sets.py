"""Sets of fields, in the very form in which managedFields stores them, and their algebra.

A set is a tree of path elements, ``{"f:spec": {"f:replicas": {}}}``. A node is a member if it is empty or
has the entry ``"."``; otherwise it only leads to its members. The root is no member, and ``{}`` there is
the empty set. No function changes its arguments; results share what they can, and are the first argument
itself when nothing changes: that is what makes tracking an unchanged owner cheap.

Laws: ``a | a == a``; ``(a - b) | (a & b) == a``; ``(a | b) - b`` holds no member of ``b``.

Source: sigs.k8s.io/structured-merge-diff/v6/fieldpath/set.go and serialize.go.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kubedouble.schema.structure import Schema

FieldSet = dict[str, Any]
"""A node: path element -> node."""

_SELF = "."


def union(left: FieldSet, right: FieldSet) -> FieldSet:
    """Return what is in either set."""
    if not left or not right:
        return left or right
    return _union(left, right)


def difference(left: FieldSet, right: FieldSet) -> FieldSet:
    """Return what is in ``left`` and not itself in ``right``: ``a.b`` stays when ``right`` has only ``a``."""
    if not left or not right:
        return left
    return _difference(left, right) or {}


def intersection(left: FieldSet, right: FieldSet) -> FieldSet:
    """Return what is in both sets."""
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
