"""Fields that take one of a few words, of any built-in kind, found by its schema."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from kubedouble.schema.structure import Schema, Shape
from kubedouble.schema.validation.faults import Faults


def unsupported_values(faults: Faults, value: Any, old: Any, schema: Schema, path: str = "") -> None:
    """Note every value that its field does not take; what is as it was before is not looked at."""
    if value is old or not _has_enums(schema):
        return
    if schema.enum:
        if value not in schema.enum:
            faults.unsupported(path, value, schema.enum)
    elif schema.shape is Shape.OBJECT and isinstance(value, dict):
        before = old if isinstance(old, dict) else {}
        for key, place in schema.fields.items():
            if key in value:
                below = f"{path}.{key}" if path else key
                unsupported_values(faults, value[key], before.get(key), place.schema, below)
    elif schema.items and isinstance(value, list):
        for at, item in enumerate(value):
            unsupported_values(faults, item, None, schema.items, f"{path}[{at}]")


@lru_cache(maxsize=2048)
def _has_enums(schema: Schema) -> bool:
    return _finds_enum(schema, set())


def _finds_enum(schema: Schema, seen: set[Schema]) -> bool:
    if schema in seen:
        return False
    seen.add(schema)
    if schema.enum or (schema.items and _finds_enum(schema.items, seen)):
        return True
    return any(_finds_enum(place.schema, seen) for place in schema.fields.values())
