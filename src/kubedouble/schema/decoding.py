"""From JSON as it was sent to JSON as it is stored, for the built-in kinds: what Go's decoder and encoder
do.

In one walk: unknown fields are noted and dropped, types are checked, quantities and times get their
canonical form, nulls and zeros that Go leaves out are dropped, structs that are always there and static
defaults are filled in. A part that is the very same object as in ``base``, the stored object, is good
already and skipped.

Source: k8s.io/kubernetes/pkg/apis/*/v1/{types,defaults}.go, sigs.k8s.io/json.
"""

from __future__ import annotations

import re
from functools import lru_cache
from operator import is_
from typing import Any

from kubedouble.schema.scalars import (
    ZEROS,
    Undecodable,
    WrongType,
    canonical_scalar,
    go_type,
    json_type,
)
from kubedouble.schema.structure import Field, Schema, Shape

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
    """Return what an object of this type has when it does not say it: defaults, structs, printed zeros."""
    fills: list[tuple[str, Any]] = []
    for name, place in schema.fields.items():
        if place.default is not None:
            fills.append((name, place.default))
        elif place.present and place.schema.shape not in ZEROS:
            fills.append((name, dict(_fills(place.schema))))
        elif (place.required or place.present) and not place.pointer and place.schema.shape in ZEROS:
            fills.append((name, ZEROS[place.schema.shape]))
    return tuple(fills)
