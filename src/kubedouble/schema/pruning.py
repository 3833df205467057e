"""From JSON as it was sent to JSON as it is stored, for custom kinds: pruning and defaulting.

Unlike built-in kinds, custom ones keep zeros and what they say of amounts and times as it was written;
wrong types are not a matter of decoding but of validation. Unknown fields are noted and dropped, except
where the schema preserves them. A null where the schema has a default and takes no null counts as absent.

Source: apiextensions-apiserver/pkg/apiserver/schema/{pruning,defaulting}.
"""

from __future__ import annotations

from operator import is_
from typing import Any

from kubedouble.schema.decoding import Decoder
from kubedouble.schema.structure import Schema

_TYPE_META = frozenset({"apiVersion", "kind", "metadata"})


class Pruner:
    """One walk over one custom object. ``unknown`` are the paths of fields that the kind does not have."""

    def __init__(self) -> None:
        self.unknown: list[str] = []

    def decode(self, value: dict[str, Any], schema: Schema, base: dict[str, Any] | None = None) -> Any:
        """Return an object in stored form.

        Raises:
            Undecodable: if its metadata cannot be read.
        """
        result: dict[str, Any] = self._value(value, schema, "", base)
        sent, before = result.get("metadata"), (base or {}).get("metadata")
        decoder = Decoder()
        metadata = decoder.decode({} if sent is None else sent, schema.fields["metadata"].schema, before)
        self.unknown += [f"metadata.{path}" for path in decoder.unknown]
        return result if metadata is sent else {**result, "metadata": metadata}

    def _value(self, value: Any, schema: Schema, path: str, base: Any) -> Any:
        if value is base and value is not None:
            return value
        if isinstance(value, dict) and (schema.fields or schema.items or not schema.preserve_unknown):
            return self._object(value, schema, path, base if isinstance(base, dict) else {})
        if isinstance(value, list) and schema.items is not None:
            items = schema.items
            result = [self._value(item, items, f"{path}[{at}]", None) for at, item in enumerate(value)]
            return value if all(map(is_, result, value)) else result
        return value

    def _object(self, value: dict[str, Any], schema: Schema, path: str, base: dict[str, Any]) -> Any:
        result = {}
        for key, item in value.items():
            below = schema.child(key)
            place = schema.fields.get(key)
            if item is None and place and place.default is not None and not place.schema.nullable:
                continue
            if below is None:
                if schema.preserve_unknown:
                    result[key] = item
                else:
                    self.unknown.append(f"{path}.{key}" if path else key)
            elif key in _TYPE_META and below.document is None:
                result[key] = item
            else:
                result[key] = self._value(item, below, f"{path}.{key}" if path else key, base.get(key))
        for key, place in schema.fields.items():
            if place.default is not None and key not in result:
                result[key] = self._value(place.default, place.schema, path, None)
        same = len(result) == len(value) and all(item is value.get(key) for key, item in result.items())
        return value if same else result
