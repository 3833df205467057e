"""Strategic merge patch: a merge patch that knows which lists merge, and by which key.

Directives in the patch:
  ``$patch: replace|delete|merge`` in an object, or in an item of a merging list;
  ``$retainKeys: [k, …]`` drops every other key of the object it stands in;
  ``$deleteFromPrimitiveList/f: [v, …]`` removes scalars from list ``f``;
  ``$setElementOrder/f: [key, …]`` orders the merged list ``f``.

The order of a merged list: items named by the patch in the patch's order, items only the server has in the
server's order, interleaved so that a server item stands before the first patched item that followed it.
Neither the document nor the patch is changed in place; what the patch does not touch is shared with the
document.

Source: k8s.io/apimachinery/pkg/util/strategicpatch/patch.go; its words for what it refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, NoReturn

from kubedouble.errors import StatusError
from kubedouble.schema.structure import Field, Schema

_PATCH = "$patch"
_RETAIN = "$retainKeys"
_ORDER = "$setElementOrder/"
_DELETE = "$deleteFromPrimitiveList/"
_BAD_LIST = "invalid patch format of primitive list"
_BAD_RETAIN = "invalid patch format of retainKeys"
_BAD_ORDER = "invalid patch format of setElementOrder list"

JSON = dict[str, Any]


def strategic_merge_patch(document: JSON, patch: Any, schema: Schema) -> JSON:
    """Return the document with the patch merged in, list by list as the schema says.

    Raises:
        StatusError: 400 if the patch is not an object or a directive is malformed, 500 as the real server
        does for
            an item without its merge key.
    """
    if not isinstance(patch, dict):
        _refuse("invalid JSON document")
    return _merge_object(document, patch, schema)


def _refuse(message: str, code: int = 400) -> NoReturn:
    reason = "BadRequest" if code == 400 else "InternalError"
    raise StatusError(code, reason, message)


def _merge_object(original: JSON, patch: JSON, schema: Schema | None) -> JSON:
    if _PATCH in patch:
        return _directed(patch)
    result = original.copy()
    if _RETAIN in patch:
        result = _retained(result, patch)
    ordered = {key.removeprefix(_ORDER): order for key, order in patch.items() if key.startswith(_ORDER)}
    for key, value in patch.items():
        if key == _RETAIN or key.startswith(_ORDER):
            continue
        if key.startswith(_DELETE):
            _delete_scalars(result, key.removeprefix(_DELETE), value)
        else:
            _merge_field(result, key, value, schema)
    for key, order in ordered.items():
        if isinstance(result.get(key), list) and isinstance(original.get(key, []), list):
            place = _place(schema, key)
            _check_order(patch.get(key, []), order, place)
            result[key] = _arranged(result[key], order, original.get(key, []), _identity(place))
    return result


def _directed(patch: JSON) -> JSON:
    directive = patch[_PATCH]
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != _PATCH}
    if directive == "delete":
        return {}
    _refuse(f"unknown patch type: {directive} in map: {patch}", 500)


def _retained(original: JSON, patch: JSON) -> JSON:
    keys = patch[_RETAIN]
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        _refuse(_BAD_RETAIN)
    for key, value in patch.items():
        if value is not None and key not in keys and not key.startswith((_ORDER, _DELETE, _RETAIN)):
            _refuse(_BAD_RETAIN)
    return {key: value for key, value in original.items() if key in keys}


def _delete_scalars(result: JSON, key: str, values: Any) -> None:
    if not key or not isinstance(values, list):
        _refuse(_BAD_LIST)
    current = result.get(key)
    if isinstance(current, list):
        result[key] = [item for item in current if item not in values]


def _merge_field(result: JSON, key: str, value: Any, schema: Schema | None) -> None:
    if value is None:
        result.pop(key, None)
        return
    place = _place(schema, key)
    current = result.get(key)
    below = place.schema if place else (schema.items if schema else None)
    strategies = place.merge_strategies if place else frozenset()
    if isinstance(current, dict) and isinstance(value, dict):
        result[key] = value if "replace" in strategies else _merge_object(current, value, below)
    elif isinstance(current, list) and isinstance(value, list) and "merge" in strategies:
        result[key] = _merge_list(current, value, place, below)
    else:
        kept, cleaned = _without_directives(value)
        if kept:
            result[key] = cleaned
        else:
            result.pop(key, None)


def _merge_list(
    original: list[Any], patch: list[Any], place: Field | None, below: Schema | None
) -> list[Any]:
    key = place.merge_key if place else ""
    if not all(isinstance(item, dict) for item in (*original, *patch)):
        return _merge_scalars(original, patch)
    if not key:
        _refuse("cannot merge lists without merge key", 500)
    items, changes = _special_items(original, patch, key)
    element = below.items if below else None
    positions = {item.get(key): position for position, item in enumerate(items)}
    merged = list(items)
    for change in changes:
        position = positions.get(_merge_key(change, key))
        if position is None:
            positions[change[key]] = len(merged)
            merged.append(_without_directives(change)[1])
        else:
            merged[position] = _merge_object(merged[position], change, element)
    return _arranged(merged, changes, items, _identity(place))


def _merge_scalars(original: list[Any], patch: list[Any]) -> list[Any]:
    if any(isinstance(item, list) for item in (*original, *patch)):
        _refuse("lists of lists are not supported", 500)
    if any(isinstance(item, dict) for item in (*original, *patch)):
        _refuse("list element types are not identical", 500)
    merged = list(dict.fromkeys([*original, *patch]))
    return _arranged(merged, patch, original, _identity(None))


def _special_items(original: list[Any], patch: list[Any], key: str) -> tuple[list[Any], list[Any]]:
    """Carry out the items that are directives; return what is left of the original and of the patch."""
    changes = [item for item in patch if _PATCH not in item]
    replace = False
    for item in patch:
        directive = item.get(_PATCH)
        if directive == "delete":
            gone = _merge_key(item, key)
            original = [kept for kept in original if kept.get(key) != gone]
        elif directive == "replace":
            replace = True
        elif directive == "merge":
            _refuse("merging lists cannot yet be specified in the patch", 500)
        elif directive is not None:
            _refuse(f"unknown patch type: {directive} in map: {item}", 500)
    return (changes, []) if replace else (original, changes)


def _merge_key(item: JSON, key: str) -> Any:
    if key not in item:
        _refuse(f"map: {item} does not contain declared merge key: {key}", 500)
    return _scalar(item[key])


def _scalar(value: Any) -> Hashable:
    if isinstance(value, dict | list):
        _refuse("lists of lists are not supported", 500)
    return value  # type: ignore[no-any-return]  # what is left of JSON


def _check_order(items: Any, order: Any, place: Field | None) -> None:
    """The items of the patch must stand in the order that the directive gives."""
    if not isinstance(order, list) or not isinstance(items, list):
        _refuse(_BAD_ORDER)
    identity = _identity(place)
    remaining = iter([identity(item) for item in order])
    named = [item for item in items if not (isinstance(item, dict) and _PATCH in item)]
    if order and not all(identity(item) in remaining for item in named):
        _refuse(f"The order in patch list:\n{items}\n doesn't match $setElementOrder list:\n{order}\n", 500)


def _arranged(
    merged: list[Any], order: list[Any], server: list[Any], identity: Callable[[Any], Hashable]
) -> list[Any]:
    """Order a merged list: items of ``order`` as there, others as the server has them, interleaved."""
    rank = {identity(item): position for position, item in enumerate(order)}
    live = {identity(item): position for position, item in enumerate(server)}
    patched = sorted(
        (item for item in merged if identity(item) in rank), key=lambda item: rank[identity(item)]
    )
    others = [item for item in merged if identity(item) not in rank]
    others.sort(key=lambda item: live.get(identity(item), len(live)))
    result = []
    for item in patched:
        position = live.get(identity(item), -1)
        while others and live.get(identity(others[0]), position) < position:
            result.append(others.pop(0))
        result.append(item)
    return result + others


def _identity(place: Field | None) -> Callable[[Any], Hashable]:
    key = place.merge_key if place else ""

    def of(item: Any) -> Hashable:
        return _scalar(item.get(key) if isinstance(item, dict) and key else item)

    return of


def _place(schema: Schema | None, key: str) -> Field | None:
    return schema.fields.get(key) if schema else None


def _without_directives(value: Any) -> tuple[bool, Any]:
    """Return whether a value new to the document is kept, and the value without nulls and directives."""
    if isinstance(value, dict):
        if _PATCH in value:
            return False, None
        kept = {
            key: _without_directives(item)
            for key, item in value.items()
            if item is not None and not key.startswith((_ORDER, _DELETE, _RETAIN))
        }
        return True, {key: item for key, (keep, item) in kept.items() if keep}
    if isinstance(value, list):
        pairs = [_without_directives(item) for item in value]
        return True, [item for keep, item in pairs if keep]
    return True, value
