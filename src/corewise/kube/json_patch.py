"""JSON Patch (RFC 6902) as values, and JSON Pointer (RFC 6901) escaping."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec


class Operation(msgspec.Struct, frozen=True, omit_defaults=True):
    """One operation of a JSON patch; ``value`` is absent for a removal."""

    op: Literal["add", "replace", "remove", "test"]
    path: str
    value: Any = msgspec.UNSET


def pointer(*parts: str | int) -> str:
    """The JSON Pointer to a place: ``pointer("metadata", "labels", "a/b")`` is /metadata/labels/a~1b."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts)


def add(path: str, value: object) -> Operation:
    """Set a member (new or not), or insert into a list."""
    return Operation("add", path, value)


def replace(path: str, value: object) -> Operation:
    """Set what must exist."""
    return Operation("replace", path, value)


def remove(path: str) -> Operation:
    """Remove what must exist."""
    return Operation("remove", path)


def merge_operations(document: Mapping[str, Any], changes: Mapping[str, Any]) -> list[Operation]:
    """The operations that do to ``document`` what the merge patch ``changes`` says (None removes).

    Only real changes become operations, parents that are missing are added, so the result may be empty and
    applies to exactly this document.
    """
    return _merge(document, changes, "")


def _merge(document: Mapping[str, Any], changes: Mapping[str, Any], at: str) -> list[Operation]:
    operations: list[Operation] = []
    for key, value in changes.items():
        path = at + pointer(key)
        old = document.get(key)
        if value is None:
            if key in document:
                operations.append(remove(path))
        elif isinstance(value, Mapping) and isinstance(old, Mapping):
            operations += _merge(old, value, path)
        elif isinstance(value, Mapping):
            operations.append(add(path, _without_nulls(value)))
        elif key not in document or not _same(old, value):
            operations.append(add(path, value))
    return operations


def _without_nulls(value: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: _without_nulls(item) if isinstance(item, Mapping) else item
        for key, item in value.items()
        if item is not None
    }


def _same(old: object, new: object) -> bool:
    """Equality of JSON values, where true is not 1, in lists neither."""
    if isinstance(new, list | Mapping):
        return msgspec.json.encode(old, order="sorted") == msgspec.json.encode(new, order="sorted")
    return type(old) is type(new) and old == new
