"""Strategic merge of a patch into a pod: objects merge by field, and lists as the API's types say.

Directives in the patch:

* ``$patch: replace|delete`` in an object replaces or empties it; in an item of a merged list, ``delete``
  removes the pod's item of that key, and ``replace`` all of them;
* ``$retainKeys: [f, ...]`` removes every other field of its object;
* ``$deleteFromPrimitiveList/f: [v, ...]`` removes scalars from list ``f``;
* ``$setElementOrder/f: [...]`` orders the merged list ``f``.

A merged list has the items that the patch names in the patch's order. An item that only the pod has stands
before the first of them that followed it in the pod. Pod and patch stay as they are; what the patch does not
name is shared.

Source: k8s.io/apimachinery/pkg/util/strategicpatch/patch.go; its words for what it refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, TypeAlias

from corewise.config.pod_schema import POD, PodField

JSON: TypeAlias = dict[str, Any]

_PATCH = "$patch"
_RETAIN = "$retainKeys"
_ORDER = "$setElementOrder/"
_DELETE = "$deleteFromPrimitiveList/"


class StrategicMergeError(ValueError):
    """A patch cannot be merged; the message is the API server's."""


def merged_pod(pod: Mapping[str, Any], patch: Mapping[str, Any]) -> JSON:
    """Return the pod with the patch merged in.

    Raises:
        StrategicMergeError: if a directive is malformed, or an item has no merge key.
    """
    return _merged(dict(pod), dict(patch), POD)


def _merged(old: JSON, patch: JSON, field: PodField | None) -> JSON:
    if _PATCH in patch:
        return _directed(patch)
    new = _retained(old, patch) if _RETAIN in patch else old.copy()
    for key, value in patch.items():
        if key.startswith(_DELETE):
            _delete_scalars(new, key.removeprefix(_DELETE), value)
        elif key != _RETAIN and not key.startswith(_ORDER):
            _merge_value(new, key, value, _below(field, key))
    for name, order in patch.items():
        key = name.removeprefix(_ORDER)
        before = old.get(key, [])
        if key != name and isinstance(new.get(key), list) and isinstance(before, list):
            identity = _identity(_below(field, key))
            _check_order(patch.get(key, []), order, identity)
            new[key] = _arranged(new[key], order, before, identity)
    return new


def _below(field: PodField | None, key: str) -> PodField | None:
    return field.fields.get(key, field.items) if field else None


def _directed(patch: JSON) -> JSON:
    match patch[_PATCH]:
        case "replace":
            return {key: value for key, value in patch.items() if key != _PATCH}
        case "delete":
            return {}
        case other:
            raise StrategicMergeError(f"unknown patch type: {other} in map: {patch}")


def _retained(old: JSON, patch: JSON) -> JSON:
    retained = patch[_RETAIN]
    set_here = {
        key
        for key, value in patch.items()
        if value is not None and not key.startswith((_ORDER, _DELETE, _RETAIN))
    }
    is_valid = isinstance(retained, list) and all(isinstance(key, str) for key in retained)
    if not is_valid or not set_here <= set(retained):
        raise StrategicMergeError("invalid patch format of retainKeys")
    return {key: value for key, value in old.items() if key in retained}


def _delete_scalars(new: JSON, key: str, values: Any) -> None:
    if not key or not isinstance(values, list):
        raise StrategicMergeError("invalid patch format of primitive list")
    if isinstance(new.get(key), list):
        new[key] = [item for item in new[key] if item not in values]


def _merge_value(new: JSON, key: str, value: Any, field: PodField | None) -> None:
    match new.get(key), value:
        case dict() as old, dict():
            new[key] = _merged(old, value, field)
        case list() as old, list() if field and field.merge:
            new[key] = _merged_list(old, value, field)
        case _ if value is None or _is_directive(value):
            new.pop(key, None)
        case _:
            new[key] = _added(value)


def _is_directive(value: Any) -> bool:
    return isinstance(value, dict) and _PATCH in value


def _added(value: Any) -> Any:
    """Return a value that is new to the pod, without nulls and directives."""
    match value:
        case dict():
            return {
                key: _added(each)
                for key, each in value.items()
                if not (each is None or _is_directive(each) or key.startswith((_ORDER, _DELETE, _RETAIN)))
            }
        case list():
            return [_added(each) for each in value if not _is_directive(each)]
        case _:
            return value


def _merged_list(old: list[Any], patch: list[Any], field: PodField) -> list[Any]:
    types = {type(item) for item in (*old, *patch)}
    if not types <= {dict}:
        if list in types:
            raise StrategicMergeError("lists of lists are not supported")
        if dict in types:
            raise StrategicMergeError("list element types are not identical")
        return _arranged(list(dict.fromkeys([*old, *patch])), patch, old, _scalar)
    if not field.merge_key:
        raise StrategicMergeError("cannot merge lists without merge key")
    old, patch = _without_directives(old, patch, field.merge_key)
    identity = _identity(field)
    positions = {_scalar(item.get(field.merge_key)): at for at, item in enumerate(old)}
    new = old.copy()
    for item in patch:
        at = positions.setdefault(_merge_key(item, field.merge_key), len(new))
        if at == len(new):
            new.append(_added(item))
        else:
            new[at] = _merged(new[at], item, field.items)
    return _arranged(new, patch, old, identity)


def _without_directives(old: list[JSON], patch: list[JSON], key: str) -> tuple[list[JSON], list[JSON]]:
    """Apply the items that are directives; return the pod's items and the patch's that are left."""
    replaces = False
    for item in filter(_is_directive, patch):
        match item[_PATCH]:
            case "delete":
                deleted = _merge_key(item, key)
                old = [each for each in old if each.get(key) != deleted]
            case "replace":
                replaces = True
            case "merge":
                raise StrategicMergeError("merging lists cannot yet be specified in the patch")
            case other if other is not None:
                raise StrategicMergeError(f"unknown patch type: {other} in map: {item}")
    items = [item for item in patch if not _is_directive(item)]
    return (items, []) if replaces else (old, items)


def _merge_key(item: JSON, key: str) -> Hashable:
    if key not in item:
        raise StrategicMergeError(f"map: {item} does not contain declared merge key: {key}")
    return _scalar(item[key])


def _scalar(value: Any) -> Hashable:
    if isinstance(value, dict | list):
        raise StrategicMergeError("lists of lists are not supported")
    scalar: Hashable = value
    return scalar


def _identity(field: PodField | None) -> Callable[[Any], Hashable]:
    """Return the identity of an item of a list: the merge key of an object, or the scalar itself."""
    key = field.merge_key if field else ""
    return lambda item: _scalar(item.get(key) if key and isinstance(item, dict) else item)


def _check_order(patch: Any, order: Any, identity: Callable[[Any], Hashable]) -> None:
    """Refuse a patch whose items stand in another order than its directive states."""
    if not isinstance(order, list) or not isinstance(patch, list):
        raise StrategicMergeError("invalid patch format of setElementOrder list")
    left = iter([identity(item) for item in order])
    if order and not all(identity(item) in left for item in patch if not _is_directive(item)):
        raise StrategicMergeError(
            f"The order in patch list:\n{patch}\n doesn't match $setElementOrder list:\n{order}\n"
        )


def _arranged(
    items: list[Any], order: list[Any], old: list[Any], identity: Callable[[Any], Hashable]
) -> list[Any]:
    """Order a merged list: items in ``order`` as there, each other before the first that followed it."""
    rank = {identity(item): at for at, item in enumerate(order)}
    position = {identity(item): at for at, item in enumerate(old)}
    named = sorted((item for item in items if identity(item) in rank), key=lambda item: rank[identity(item)])
    others = [item for item in items if identity(item) not in rank]
    others.sort(key=lambda item: position.get(identity(item), len(old)))
    arranged = []
    for item in named:
        at = position.get(identity(item), -1)
        while others and position.get(identity(others[0]), at) < at:
            arranged.append(others.pop(0))
        arranged.append(item)
    return arranged + others
