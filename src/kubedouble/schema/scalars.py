"""Scalars as the API reads and prints them: quantities, times, base64, integers of a width.

``canonical_scalar`` returns the form that is stored, so that equal amounts are equal JSON: ``"1000m"``
becomes ``"1"``, times are in UTC. What cannot be read raises with the words of the Go decoder.

Source: encoding/json, k8s.io/apimachinery/pkg/api/resource/quantity.go,
pkg/apis/meta/v1/{time,micro_time}.go.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from corewise.quantities import Quantity, QuantityError
from kubedouble.schema.structure import Schema, Shape

_QUANTITY_FORM = "^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"
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
        raise WrongType(f"number {value}")
    return value


def _number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise WrongType(json_type(value))
    return value


def _quantity(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise Undecodable(f"quantities must match the regular expression '{_QUANTITY_FORM}'")
    return canonical_quantity(value if isinstance(value, str) else repr(value))


@lru_cache(maxsize=8192)
def canonical_quantity(text: str) -> str:
    """Return a quantity as the API prints it.

    Raises:
        Undecodable: if the text is none.
    """
    try:
        return str(Quantity.parse(text))
    except QuantityError:
        pass
    if re.fullmatch(_QUANTITY_FORM[1:-1], text, re.ASCII) and text.count(".") < 2:
        raise Undecodable("unable to parse quantity's suffix")
    raise Undecodable(f"quantities must match the regular expression '{_QUANTITY_FORM}'")


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
