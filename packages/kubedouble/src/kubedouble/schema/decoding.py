"""From JSON as it was sent to JSON as it is stored, for built-in kinds, as Go's decoder and encoder do it.

One walk notes and drops unknown fields, checks types, gives quantities and times their canonical form (so
that equal amounts are equal JSON: ``"1000m"`` becomes ``"1"``, times are in UTC), drops nulls and the zeros
that Go leaves out, and fills in static defaults and structs that are always present. A part that is the same
object as in ``base``, the stored object, was decoded before and is skipped. Errors have the words of the Go
decoder.

Source: encoding/json, sigs.k8s.io/json, k8s.io/kubernetes/pkg/apis/*/v1/{types,defaults}.go,
k8s.io/apimachinery/pkg/apis/meta/v1/{time,micro_time}.go.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from operator import is_
from typing import Any

from kubedouble.quantities import parse_quantity
from kubedouble.schema.structure import Field, Schema, Shape

_QUANTITY_FORM = "^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"
_LONGEST_BITS = 1024
_TIME_LAYOUT = "2006-01-02T15:04:05Z07:00"
_MICRO_LAYOUT = "2006-01-02T15:04:05.000000Z07:00"
_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:[.,](\d{1,9}))?(Z|[+-]\d\d:\d\d)", re.ASCII)
_BASE64 = re.compile(r"[A-Za-z0-9+/]*={0,2}", re.ASCII)
_GO_SCALARS = {
    Shape.STRING: "string",
    Shape.BOOLEAN: "bool",
    Shape.NUMBER: "float64",
    Shape.QUANTITY: "resource.Quantity",
    Shape.INT_OR_STRING: "intstr.IntOrString",
    Shape.TIME: "string",
    Shape.MICRO_TIME: "string",
    Shape.BYTES: "[]uint8",
}
ZEROS: dict[Shape, Any] = {Shape.STRING: "", Shape.INTEGER: 0, Shape.NUMBER: 0, Shape.BOOLEAN: False}
"""What Go prints for a scalar that was not set."""


class Undecodable(ValueError):  # noqa: N818 - the verdict on a value, not a fault of ours
    """A value that the API cannot read at all, in the words of its decoder."""


class WrongType(Exception):  # noqa: N818 - likewise; the caller knows the field and says it
    """A JSON value of another type than the field's; ``found`` says which."""

    def __init__(self, found: str) -> None:
        super().__init__(found)
        self.found = found


def canonical_scalar(value: Any, schema: Schema) -> Any:
    """Return a scalar in its stored form.

    Raises:
        WrongType: if it is of another JSON type than the field.
        Undecodable: if it is of the right type and cannot be read.
    """
    read = _READERS.get(schema.shape)
    return read(value, schema) if read else value


def json_type(value: Any) -> str:
    """Return the name of a JSON value's type in decoding errors."""
    if isinstance(value, bool):
        return "bool"
    names: dict[type, str] = {str: "string", dict: "object", list: "array"}
    return names.get(type(value), "number")


def go_type(schema: Schema) -> str:
    """Return the Go type of a field in decoding errors."""
    if schema.shape is Shape.INTEGER:
        return f"int{schema.bits}"
    if schema.shape is Shape.LIST and schema.items:
        return f"[]{go_type(schema.items)}"
    if schema.shape is Shape.MAP and schema.items:
        return f"map[string]{go_type(schema.items)}"
    if schema.name:
        *_, version, name = schema.name.split(".")
        return f"{version}.{name}"
    return _GO_SCALARS.get(schema.shape, "interface {}")


def _typed(value: Any, wanted: type) -> Any:
    if type(value) is not wanted:
        raise WrongType(json_type(value))
    return value


def _integer(value: Any, bits: int) -> int:
    if type(value) is not int:
        raise WrongType(f"number {value}" if isinstance(value, float) else json_type(value))
    if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
        # Python refuses to print an integer of more than 4,300 digits.
        raise WrongType(f"number {value}" if value.bit_length() <= _LONGEST_BITS else "number")
    return value


def _number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise WrongType(json_type(value))
    return value


def _quantity(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise Undecodable(f"quantities must match the regular expression '{_QUANTITY_FORM}'")
    if isinstance(value, int) and value.bit_length() > _LONGEST_BITS:
        raise Undecodable("unable to parse quantity's suffix")
    text = value if isinstance(value, str) else repr(value)
    try:
        return parse_quantity(text)[1]
    except ValueError:
        pass
    if re.fullmatch(_QUANTITY_FORM[1:-1], text, re.ASCII) and text.count(".") < 2:
        raise Undecodable("unable to parse quantity's suffix")
    raise Undecodable(f"quantities must match the regular expression '{_QUANTITY_FORM}'")


def timestamp(now: datetime) -> str:
    """Print a time as ``metav1.Time``: RFC 3339, whole seconds, UTC."""
    return now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def canonical_time(text: str, *, micro: bool) -> str:
    """Return an RFC 3339 time in UTC, in whole seconds or in microseconds.

    Raises:
        Undecodable: if the text is none; a time in microseconds must have six digits of them.
    """
    if len(text) == (27 if micro else 20) and text[-1] == "Z" and _is_time(text):
        return text
    match = _TIME.fullmatch(text)
    layout = _MICRO_LAYOUT if micro else _TIME_LAYOUT
    if match is None or (micro and len(match[2] or "") != 6):
        raise Undecodable(f'parsing time "{text}" as "{layout}": cannot parse "{text}" as "2006"')
    seconds, fraction, zone = match.groups()
    zone = "+00:00" if zone == "Z" else zone
    try:
        at = datetime.fromisoformat(f"{seconds}.{(fraction or '0')[:6]:0<6}{zone}").astimezone(UTC)
    except (ValueError, OverflowError):
        raise Undecodable(f'parsing time "{text}": out of range') from None
    return at.strftime("%Y-%m-%dT%H:%M:%S") + (f".{at.microsecond:06d}Z" if micro else "Z")


@lru_cache(maxsize=8192)
def _is_time(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return _TIME.fullmatch(text) is not None


def _bytes(text: str) -> str:
    compact = text.replace("\n", "").replace("\r", "")
    try:
        base64.b64decode(compact, validate=True)
    except binascii.Error:
        good = _BASE64.match(compact)
        at = good.end() if good and good.end() < len(compact) else len(compact) - len(compact) % 4
        raise Undecodable(f"illegal base64 data at input byte {at}") from None
    return compact


_READERS: dict[Shape, Callable[[Any, Schema], Any]] = {
    Shape.STRING: lambda value, _: _typed(value, str),
    Shape.BOOLEAN: lambda value, _: _typed(value, bool),
    Shape.INTEGER: lambda value, schema: _integer(value, schema.bits),
    Shape.NUMBER: lambda value, _: _number(value),
    Shape.QUANTITY: lambda value, _: _quantity(value),
    Shape.INT_OR_STRING: lambda value, _: value if isinstance(value, str) else _integer(value, 32),
    Shape.TIME: lambda value, _: canonical_time(_typed(value, str), micro=False),
    Shape.MICRO_TIME: lambda value, _: canonical_time(_typed(value, str), micro=True),
    Shape.BYTES: lambda value, _: _bytes(_typed(value, str)),
}


_ABSENT: Any = object()
_INDEX = re.compile(r"\[\d+\]")


class Decoder:
    """One walk over one object. ``unknown`` are the paths of the fields that the kind does not have."""

    def __init__(self) -> None:
        self.unknown: list[str] = []

    def decode(self, value: Any, schema: Schema, base: Any = None) -> Any:
        """Return an object in stored form.

        Raises:
            Undecodable: if a value is not of its field's type.
        """
        return self._object(value, schema, "", base)

    def _object(self, value: Any, schema: Schema, path: str, base: Any) -> Any:
        if value is base:
            return value
        if not isinstance(value, dict):
            raise Undecodable(
                f"json: cannot unmarshal {json_type(value)} into Go value of type {go_type(schema)}"
            )
        stored = base if isinstance(base, dict) else {}
        changed: dict[str, Any] = {}
        fields = schema.fields
        for key, item in value.items():
            place = fields.get(key)
            if place is None:
                self.unknown.append(f"{path}{key}")
                changed[key] = _ABSENT
                continue
            before = stored.get(key)
            if item is before and item is not None:
                continue
            result = self._field(item, place, schema, f"{path}{key}", before)
            if result is not item:
                changed[key] = result
        for key, fill in _fills(schema):
            if key not in value or changed.get(key) is _ABSENT:
                changed[key] = fill
        if not changed:
            return value
        merged = {**value, **changed}
        return {key: item for key, item in merged.items() if item is not _ABSENT}

    def _field(self, item: Any, place: Field, owner: Schema, path: str, base: Any) -> Any:
        if item is None:
            return _ABSENT
        schema = place.schema
        try:
            result = self._value(item, schema, path, base)
        except WrongType as error:
            raise Undecodable(_mismatch(error.found, owner, path, schema)) from None
        return _ABSENT if not result and _is_omitted(result, place) else result

    def _value(self, value: Any, schema: Schema, path: str, base: Any) -> Any:
        if value is base:
            return value
        match schema.shape:
            case Shape.OBJECT:
                if not isinstance(value, dict):
                    raise WrongType(json_type(value))
                return self._object(value, schema, f"{path}.", base)
            case Shape.LIST:
                return self._list(value, schema, path, base)
            case Shape.MAP:
                return self._map(value, schema, path, base)
            case Shape.ANY:
                return value
            case _:
                return canonical_scalar(value, schema)

    def _list(self, value: Any, schema: Schema, path: str, base: Any) -> Any:
        if not isinstance(value, list):
            raise WrongType(json_type(value))
        items, stored = schema.items, base if isinstance(base, list) else ()
        if items is None:
            return value
        known = {id(item) for item in stored if isinstance(item, dict)}
        result = [
            item if id(item) in known else self._item(item, items, f"{path}[{position}]")
            for position, item in enumerate(value)
        ]
        return value if all(map(is_, result, value)) else result

    def _map(self, value: Any, schema: Schema, path: str, base: Any) -> Any:
        if not isinstance(value, dict):
            raise WrongType(json_type(value))
        items, stored = schema.items, base if isinstance(base, dict) else {}
        if items is None:
            return value
        changed = {}
        for key, item in value.items():
            if item is not stored.get(key, _ABSENT):
                result = self._item(item, items, f"{path}.{key}")
                if result is not item:
                    changed[key] = result
        return {**value, **changed} if changed else value

    def _item(self, item: Any, schema: Schema, path: str) -> Any:
        if item is None:
            item = "0" if schema.shape is Shape.QUANTITY else ZEROS.get(schema.shape, {})
        return self._value(item, schema, path, None)


def _mismatch(found: str, owner: Schema, path: str, schema: Schema) -> str:
    struct, name = owner.name.rpartition(".")[2], _INDEX.sub("", path)
    wanted = schema.items if schema.shape is Shape.MAP and schema.items else schema
    return f"json: cannot unmarshal {found} into Go struct field {struct}.{name} of type {go_type(wanted)}"


def _is_omitted(zero: Any, place: Field) -> bool:
    """Whether Go leaves a zero out (``omitempty``), unless a pointer tells it from absence."""
    if place.pointer or place.schema.shape in {Shape.OBJECT, Shape.ANY}:
        return False
    return not (place.required or place.present) or isinstance(zero, dict | list)


@lru_cache(maxsize=1024)
def _fills(schema: Schema) -> tuple[tuple[str, Any], ...]:
    """Return the values of fields that an object of this type omits: defaults, structs, printed zeros."""
    fills: list[tuple[str, Any]] = []
    for name, place in schema.fields.items():
        if place.default is not None:
            fills.append((name, place.default))
        elif place.present and place.schema.shape not in ZEROS:
            fills.append((name, dict(_fills(place.schema))))
        elif (place.required or place.present) and not place.pointer and place.schema.shape in ZEROS:
            fills.append((name, ZEROS[place.schema.shape]))
    return tuple(fills)
