"""The ``patch`` of a ClusterColocationProfile: a strategic merge patch of a pod, checked before any pod is.

Unknown fields, values of another type, and list items that no merge can find are errors at their place. What
only shows with a pod (a volume that no container mounts) the API server says when the pod is created.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from corewise.config.decoding import Decoder, Place, shown
from corewise.config.json_text import Items, Members, Value
from corewise.config.pod_schema import POD, FieldShape, PodField
from corewise.quantities import Quantity, QuantityError

_BEYOND_INTEGERS = Decimal(2**63)
_DIRECTIVES = ("$patch", "$retainKeys", "$setElementOrder/", "$deleteFromPrimitiveList/")
_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:[.,]\d{1,9})?(Z|[+-]\d\d:\d\d)", re.ASCII)
_TIME_LAYOUT = "2006-01-02T15:04:05Z07:00"


def read_pod_patch(decoder: Decoder, place: Place) -> Mapping[str, Any] | None:
    """Read the patch, and report what no pod can take."""
    if place.is_empty:
        return None
    if not isinstance(place.value, Members):
        decoder.error(place, f"must be an object {{...}}, a part of a pod, not {shown(place.value)}")
        return None
    for key, value in decoder.entries(place):
        if (name := str(key.path[-1])) in POD.fields:
            _check(decoder, value, POD.fields[name])
        elif name not in {"apiVersion", "kind"}:
            decoder.error(key, "a pod has no such field: a patch changes metadata or spec")
    plain: dict[str, Any] = _plain(place.value)
    return plain


def _check(decoder: Decoder, place: Place, field: PodField) -> None:
    """Report what is wrong with a value. Null removes the field."""
    match field.shape:
        case FieldShape.OBJECT:
            _check_object(decoder, place, field)
        case FieldShape.MAP if field.items:
            for _, value in decoder.entries(place):
                _check(decoder, value, field.items)
        case FieldShape.LIST if field.items:
            for item in decoder.items(place):
                _check(decoder, item, field.items)
            if field.merge_key and isinstance(place.value, Items):
                _check_merge_keys(decoder, place, field.merge_key)
        case FieldShape.QUANTITY if not place.is_empty:
            _check_quantity(decoder, place)
        case shape if shape is not FieldShape.ANY and not place.is_empty:
            _check_scalar(decoder, place, field)


def _check_object(decoder: Decoder, place: Place, field: PodField) -> None:
    for key, value in decoder.entries(place):
        name = str(key.path[-1])
        if name in field.fields:
            _check(decoder, value, field.fields[name])
        elif name.startswith("$"):
            if not name.startswith(_DIRECTIVES):
                decoder.error(key, f"unknown directive: known are {', '.join(_DIRECTIVES)}")
        else:
            near = decoder.near(name, field.fields)
            decoder.error(
                key, f"unknown field{near}" if near else "unknown field: a pod has none of this name here"
            )


def _check_merge_keys(decoder: Decoder, place: Place, merge_key: str) -> None:
    for item in decoder.items(place):
        names = [str(key.path[-1]) for key, _ in decoder.entries(item)]
        if names and merge_key not in names and names != ["$patch"]:
            decoder.error(item, f"has no {merge_key}, by which it is merged with the pod's: add it")


def _check_quantity(decoder: Decoder, place: Place) -> None:
    try:
        if Quantity.parse(str(_plain(place.value))).nano < 0:
            decoder.error(place, f"{shown(place.value)} is below 0")
    except QuantityError:
        decoder.error(place, f"{shown(place.value)} is not a quantity: write one such as 500m, 2 or 4Gi")


def _check_scalar(decoder: Decoder, place: Place, field: PodField) -> None:
    value = _plain(place.value)
    match field.shape:
        case FieldShape.STRING | FieldShape.TIME:
            is_right = isinstance(value, str)
        case FieldShape.BOOLEAN:
            is_right = isinstance(value, bool)
        case FieldShape.INT_OR_STRING if isinstance(value, str):
            is_right = True
        case _:
            limit = 1 << (field.bits - 1)
            is_right = type(value) is int and -limit <= value < limit
    if not is_right:
        decoder.error(place, f"must be of type {field.shape.value}, not {shown(place.value)}")
    elif field.shape is FieldShape.TIME and (fault := _time_fault(value)):
        decoder.error(place, fault)


def _time_fault(text: str) -> str:
    """Return the fault of a text that is not a time, in the API server's words; "" of a time."""
    match = _TIME.fullmatch(text)
    if match is None:
        return f'parsing time "{text}" as "{_TIME_LAYOUT}": cannot parse "{text}" as "2006"'
    try:
        datetime.fromisoformat("".join(match.groups())).astimezone(UTC)
    except (ValueError, OverflowError):
        return f'parsing time "{text}": out of range'
    return ""


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
