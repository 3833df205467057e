"""Custom kinds: their schemas, and pruning, defaulting and validation of their objects.

Only structural schemas are served, so types, properties, items, additionalProperties and the
``x-kubernetes-*`` extensions of ``openAPIV3Schema`` tell what merges and what is pruned. Unlike built-in
kinds, custom ones keep zeros, and amounts and times as they were written. Unknown fields are noted and
dropped, except where the schema preserves them. A null where the schema has a default and is not nullable
counts as absent. Validation checks everything that structural schemas can express, except CEL rules
(``x-kubernetes-validations``).

Source: apiextensions-apiserver/pkg/apiserver/{schema/{convert,pruning,defaulting},validation},
k8s.io/kube-openapi/pkg/validation/validate.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from operator import is_
from typing import Any

from kubedouble.errors import Faults
from kubedouble.schema.decoding import Decoder
from kubedouble.schema.kinds import all_types, object_meta
from kubedouble.schema.rules import Object
from kubedouble.schema.structure import Field, Schema, Shape

_SHAPES = {"string": Shape.STRING, "integer": Shape.INTEGER, "number": Shape.NUMBER, "boolean": Shape.BOOLEAN}
_NO_DOCUMENT: Mapping[str, Any] = {}
_TYPE_META = frozenset({"apiVersion", "kind", "metadata"})


def custom_schema(definition: Mapping[str, Any], version: str) -> Schema:
    """Return the schema of one version of a custom kind; one without a schema keeps whatever it is given."""
    spec = definition["spec"]
    served = next((each for each in spec["versions"] if each["name"] == version), _NO_DOCUMENT)
    document = (served.get("schema") or {}).get("openAPIV3Schema") or {"type": "object"}
    open_ended = "schema" not in served or bool(spec.get("preserveUnknownFields"))
    root = _schema(document, preserve=open_ended)
    return Schema(
        Shape.OBJECT,
        name=".".join([*reversed(spec["group"].split(".")), version, spec["names"]["kind"]]),
        description=root.description,
        fields={**root.fields, **_type_fields()},
        items=root.items,
        preserve_unknown=root.preserve_unknown,
        status_subresource="status" in (served.get("subresources") or {}),
        document=document,
    )


def _type_fields() -> dict[str, Field]:
    pod = all_types()["io.k8s.api.core.v1.Pod"]
    return {**{name: pod.fields[name] for name in ("apiVersion", "kind")}, "metadata": Field(object_meta())}


def _schema(document: Mapping[str, Any], *, preserve: bool = False) -> Schema:
    preserve = bool(document.get("x-kubernetes-preserve-unknown-fields", preserve))
    kind = document.get("type", "")
    shared: dict[str, Any] = {
        "description": document.get("description", ""),
        "nullable": bool(document.get("nullable")),
        "document": document,
        "preserve_unknown": preserve,
    }
    if document.get("x-kubernetes-int-or-string"):
        return Schema(Shape.INT_OR_STRING, **shared)
    if kind == "array":
        return Schema(
            Shape.LIST,
            items=_schema(document.get("items") or {}, preserve=preserve),
            list_type=document.get("x-kubernetes-list-type", "atomic"),
            keys=tuple(document.get("x-kubernetes-list-map-keys", ())),
            **shared,
        )
    if kind == "object":
        return _object(document, shared)
    if kind in _SHAPES:
        return Schema(_SHAPES[kind], bits=32 if document.get("format") == "int32" else 64, **shared)
    return Schema(Shape.ANY, **shared)


def _object(document: Mapping[str, Any], shared: dict[str, Any]) -> Schema:
    required = document.get("required", ())
    fields = {
        name: Field(
            _schema(each, preserve=False),
            required=name in required,
            default=each.get("default"),
            description=each.get("description", ""),
        )
        for name, each in (document.get("properties") or {}).items()
    }
    more = document.get("additionalProperties")
    items = None
    if isinstance(more, Mapping):
        items = _schema(more)
    elif more is True:
        items = Schema(Shape.ANY, preserve_unknown=True, document=_NO_DOCUMENT)
    if document.get("x-kubernetes-embedded-resource"):
        fields = {**fields, **_type_fields()}
    return Schema(
        Shape.MAP if items is not None and not fields else Shape.OBJECT,
        fields=fields,
        items=items,
        atomic=document.get("x-kubernetes-map-type") == "atomic",
        **shared,
    )


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


_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
}


def custom_problems(obj: Object, schema: Schema) -> list[dict[str, str]]:
    """Return the faults of a custom object."""
    faults = Faults()
    document = schema.document or {}
    properties = {
        name: each for name, each in (document.get("properties") or {}).items() if name not in _TYPE_META
    }
    value = {key: item for key, item in obj.items() if key not in _TYPE_META}
    required = [name for name in document.get("required") or () if name not in _TYPE_META]
    _check(faults, "", value, {**document, "properties": properties, "required": required})
    return faults.causes


def _check(faults: Faults, path: str, value: Any, document: Mapping[str, Any]) -> None:
    if value is None and document.get("nullable"):
        return
    if not _has_type(value, document):
        wanted, found = _wanted(document), _type_name(value)
        faults.wrong_type(path, found, f'{path} in body must be of type {wanted}: "{found}"')
        return
    if document.get("enum") and value not in document["enum"]:
        faults.unsupported(path, value, document["enum"])
    if isinstance(value, dict):
        _check_object(faults, path, value, document)
    elif isinstance(value, list):
        _check_array(faults, path, value, document)
    elif isinstance(value, str):
        _check_string(faults, path, value, document)
    elif not isinstance(value, bool) and isinstance(value, int | float):
        _check_number(faults, path, value, document)
    _check_combinations(faults, path, value, document)


def _has_type(value: Any, document: Mapping[str, Any]) -> bool:
    if document.get("x-kubernetes-int-or-string"):
        return isinstance(value, int | str) and not isinstance(value, bool)
    wanted = document.get("type")
    if not wanted:
        return True
    if isinstance(value, bool) and wanted != "boolean":
        return False
    return isinstance(value, _TYPES.get(wanted, (object,))) or (
        wanted == "integer" and isinstance(value, float) and value.is_integer()
    )


def _wanted(document: Mapping[str, Any]) -> str:
    return "integer,string" if document.get("x-kubernetes-int-or-string") else str(document.get("type", ""))


def _type_name(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    names: dict[type, str] = {dict: "object", list: "array", str: "string", int: "integer"}
    return names.get(type(value), "number")


def _check_object(faults: Faults, path: str, value: dict[str, Any], document: Mapping[str, Any]) -> None:
    for name in document.get("required") or ():
        if name not in value:
            faults.required(_join(path, name))
    _check_size(faults, path, len(value), document, "Properties")
    properties, more = document.get("properties") or {}, document.get("additionalProperties")
    for key, item in value.items():
        if key in properties:
            _check(faults, _join(path, key), item, properties[key])
        elif isinstance(more, Mapping):
            _check(faults, _join(path, key), item, more)


def _check_size(faults: Faults, path: str, size: int, document: Mapping[str, Any], of: str) -> None:
    least, most = document.get(f"min{of}"), document.get(f"max{of}")
    if least is not None and size < least:
        faults.invalid(path, size, f"{path} in body should have at least {least} {of.lower()}")
    if most is not None and size > most:
        faults.too_many(path, size, most)


def _check_array(faults: Faults, path: str, value: list[Any], document: Mapping[str, Any]) -> None:
    _check_size(faults, path, len(value), document, "Items")
    for at, item in enumerate(value):
        _check(faults, f"{path}[{at}]", item, document.get("items") or {})
    keys = document.get("x-kubernetes-list-map-keys") or ()
    if document.get("x-kubernetes-list-type") in {"map", "set"}:
        _check_duplicates(faults, path, value, tuple(keys))


def _check_duplicates(faults: Faults, path: str, value: list[Any], keys: tuple[str, ...]) -> None:
    seen: list[Any] = []
    for at, item in enumerate(value):
        known = {key: item.get(key) for key in keys} if keys and isinstance(item, dict) else item
        if known in seen:
            faults.duplicate(f"{path}[{at}]", known)
        seen.append(known)


def _check_string(faults: Faults, path: str, value: str, document: Mapping[str, Any]) -> None:
    least, most, pattern = (document.get(name) for name in ("minLength", "maxLength", "pattern"))
    if least is not None and len(value) < least:
        faults.invalid(path, value, f"{path} in body should be at least {least} chars long")
    if most is not None and len(value) > most:
        faults.too_long(path, most)
    if pattern and (compiled := _compiled(pattern)) and not compiled.search(value):
        faults.invalid(path, value, f"{path} in body should match '{pattern}'")


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str] | None:
    """Return a pattern; None for one of Go's that Python does not read, which then is not checked."""
    try:
        return re.compile(pattern.replace("$", r"\Z") if pattern.endswith("$") else pattern, re.ASCII)
    except re.error:
        return None


def _check_number(faults: Faults, path: str, value: float, document: Mapping[str, Any]) -> None:
    least, most = document.get("minimum"), document.get("maximum")
    if least is not None:
        strict = bool(document.get("exclusiveMinimum"))
        if value < least or (strict and value == least):
            bound = "greater than" if strict else "greater than or equal to"
            faults.invalid(path, value, f"{path} in body should be {bound} {least}")
    if most is not None:
        strict = bool(document.get("exclusiveMaximum"))
        if value > most or (strict and value == most):
            bound = "less than" if strict else "less than or equal to"
            faults.invalid(path, value, f"{path} in body should be {bound} {most}")
    step = document.get("multipleOf")
    if step and value % step:
        faults.invalid(path, value, f"{path} in body should be a multiple of {step}")


def _check_combinations(faults: Faults, path: str, value: Any, document: Mapping[str, Any]) -> None:
    for each in document.get("allOf") or ():
        _check(faults, path, value, each)
    fits = {kind: [_fits(value, each) for each in document.get(kind) or ()] for kind in ("anyOf", "oneOf")}
    if fits["anyOf"] and not any(fits["anyOf"]):
        faults.invalid(path, value, f"{path} in body must validate at least one schema (anyOf)")
    if fits["oneOf"] and sum(fits["oneOf"]) != 1:
        found = (
            "Found none valid" if not any(fits["oneOf"]) else f"Found {sum(fits['oneOf'])} valid alternatives"
        )
        faults.invalid(path, value, f"{path} in body must validate one and only one schema (oneOf). {found}")
    if document.get("not") and _fits(value, document["not"]):
        faults.invalid(path, value, f"{path} in body must not validate the schema (not)")


def _fits(value: Any, document: Mapping[str, Any]) -> bool:
    faults = Faults()
    _check(faults, "", value, document)
    return not faults.causes


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
