"""Custom objects against the ``openAPIV3Schema`` of their kind.

Everything structural schemas may say is checked but CEL rules (``x-kubernetes-validations``).

Source: k8s.io/kube-openapi/pkg/validation/validate, apiextensions-apiserver/pkg/apiserver/validation.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from kubedouble.schema.structure import Schema
from kubedouble.schema.validation.faults import Cause, Faults, Object

_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
}
_TYPE_META = ("apiVersion", "kind", "metadata")


def custom_problems(obj: Object, schema: Schema) -> list[Cause]:
    """Return what is wrong with a custom object."""
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
    least, most = document.get("minProperties"), document.get("maxProperties")
    if least is not None and len(value) < least:
        faults.invalid(path, len(value), f"{path} in body should have at least {least} properties")
    if most is not None and len(value) > most:
        faults.too_many(path, len(value), most)
    properties, more = document.get("properties") or {}, document.get("additionalProperties")
    for key, item in value.items():
        if key in properties:
            _check(faults, _join(path, key), item, properties[key])
        elif isinstance(more, Mapping):
            _check(faults, _join(path, key), item, more)


def _check_array(faults: Faults, path: str, value: list[Any], document: Mapping[str, Any]) -> None:
    least, most = document.get("minItems"), document.get("maxItems")
    if least is not None and len(value) < least:
        faults.invalid(path, len(value), f"{path} in body should have at least {least} items")
    if most is not None and len(value) > most:
        faults.too_many(path, len(value), most)
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
