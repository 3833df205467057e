"""Path elements: how ownership names a field, an item of a list, or a value in a set.

``f:name`` a field; ``k:{"name":"a"}`` the item of a map list with these keys; ``v:"a"`` a value of a set.
People read paths as ``.spec.containers[name="a"].image``.

Source: sigs.k8s.io/structured-merge-diff/v6/fieldpath/serialize-pe.go, element.go.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import msgspec

from corewise.vocabulary.errors import UNREADABLE
from kubedouble.schema.structure import Schema

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
