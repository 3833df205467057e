"""The ``patch`` of a ClusterColocationProfile: a strategic merge patch of a pod, checked before any pod is.

Unknown fields, values of another type, and list items that no merge can find are errors at their place. What
only shows with a pod (a volume that no container mounts) the API server says when the pod is created.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from corewise.config.decoding import Decoder, Place, shown
from corewise.config.json_text import Items, Members, Value

if TYPE_CHECKING:
    from kubedouble.schema.structure import Field, Schema

_BEYOND_INTEGERS = Decimal(2**63)
_PATCHED = ("metadata", "spec")
_DIRECTIVES = ("$patch", "$retainKeys", "$setElementOrder/", "$deleteFromPrimitiveList/")


def read_pod_patch(decoder: Decoder, place: Place) -> Mapping[str, Any] | None:
    """Read the patch, and report what no pod can take."""
    if place.is_empty:
        return None
    if not isinstance(place.value, Members):
        decoder.error(place, f"must be an object {{...}}, a part of a pod, not {shown(place.value)}")
        return None
    # The local API server knows the fields of a pod; loading it takes time that few profiles need.
    from kubedouble.schema.kinds import all_types  # noqa: PLC0415

    pod = all_types()["io.k8s.api.core.v1.Pod"]
    for key, value in decoder.entries(place):
        if key.path[-1] in _PATCHED:
            _check(decoder, value, pod.fields[str(key.path[-1])])
        elif key.path[-1] not in {"apiVersion", "kind"}:
            decoder.error(key, "a pod has no such field: a patch changes metadata or spec")
    plain: dict[str, Any] = _plain(place.value)
    return plain


def _check(decoder: Decoder, place: Place, field: Field) -> None:
    """Report what is wrong with a field's value. Null removes the field."""
    if not _check_value(decoder, place, field.schema) or "merge" not in field.merge_strategies:
        return
    for item in decoder.items(place):
        names = [str(key.path[-1]) for key, _ in decoder.entries(item)] if field.merge_key else []
        if names and field.merge_key not in names and names != ["$patch"]:
            decoder.error(item, f"has no {field.merge_key}, by which it is merged with the pod's: add it")


def _check_value(decoder: Decoder, place: Place, schema: Schema) -> bool:
    """Report what is wrong with a value; return whether it is a list of the right type."""
    from kubedouble.schema.structure import Shape  # noqa: PLC0415

    match schema.shape:
        case Shape.OBJECT:
            _check_object(decoder, place, schema)
        case Shape.MAP if schema.items:
            for _, value in decoder.entries(place):
                _check_value(decoder, value, schema.items)
        case Shape.LIST if schema.items:
            for item in decoder.items(place):
                _check_value(decoder, item, schema.items)
            return isinstance(place.value, Items)
        case Shape.ANY | Shape.MAP | Shape.LIST:
            pass
        case _ if not place.is_empty:
            _check_scalar(decoder, place, schema)
    return False


def _check_object(decoder: Decoder, place: Place, schema: Schema) -> None:
    for key, value in decoder.entries(place):
        name = str(key.path[-1])
        if name in schema.fields:
            _check(decoder, value, schema.fields[name])
        elif name.startswith("$"):
            if not name.startswith(_DIRECTIVES):
                decoder.error(key, f"unknown directive: known are {', '.join(_DIRECTIVES)}")
        elif not schema.preserve_unknown:
            near = decoder.near(name, schema.fields)
            decoder.error(
                key, f"unknown field{near}" if near else "unknown field: a pod has none of this name here"
            )


def _check_scalar(decoder: Decoder, place: Place, schema: Schema) -> None:
    from kubedouble.schema.decoding import Undecodable, WrongType, canonical_scalar  # noqa: PLC0415
    from kubedouble.schema.structure import Shape  # noqa: PLC0415

    try:
        found = canonical_scalar(_plain(place.value), schema)
        if schema.shape is Shape.QUANTITY and found.startswith("-"):
            decoder.error(place, f"{shown(place.value)} is below 0")
    except WrongType:
        decoder.error(place, f"must be of type {schema.shape.value}, not {shown(place.value)}")
    except Undecodable as error:
        if schema.shape is Shape.QUANTITY:
            decoder.error(place, f"{shown(place.value)} is not a quantity: write one such as 500m, 2 or 4Gi")
        else:
            decoder.error(place, str(error))


def _plain(value: Value) -> Any:
    """Return the value as JSON has it: numbers without a fraction are whole, if they fit in 64 bits."""
    match value:
        case Members():
            return {member.key: _plain(member.value.value) for member in value}
        case Items():
            return [_plain(item.value) for item in value]
        case Decimal():
            is_whole = value.copy_abs() < _BEYOND_INTEGERS and value == value.to_integral_value()
            return int(value) if is_whole else float(value)
        case _:
            return value
