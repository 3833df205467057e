"""Schemas as OpenAPI definitions, in the dialects of version 2 and version 3.

Source: k8s.io/kube-openapi/pkg/{builder,builder3,generators};
apiextensions-apiserver/pkg/controller/openapi.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kubedouble.resources import ResourceInfo
from kubedouble.schema.kinds import META, all_types
from kubedouble.schema.structure import Field, Schema, Shape

JSON = dict[str, Any]
_TIME = f"{META}.Time"
_MICRO_TIME = f"{META}.MicroTime"
_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
_NAMED = {
    Shape.TIME: _TIME,
    Shape.MICRO_TIME: _MICRO_TIME,
    Shape.QUANTITY: _QUANTITY,
    Shape.INT_OR_STRING: _INT_OR_STRING,
}
_PLAIN: Mapping[Shape, JSON] = {
    Shape.STRING: {"type": "string"},
    Shape.BOOLEAN: {"type": "boolean"},
    Shape.NUMBER: {"type": "number", "format": "double"},
    Shape.BYTES: {"type": "string", "format": "byte"},
    Shape.ANY: {"type": "object"},
}
_V2_CANNOT = frozenset({
    "oneOf", "anyOf", "not", "nullable", "deprecated", "example", "default",
})  # fmt: skip
"""What version 2 cannot say, or what old clients stumble over."""
GVK = "x-kubernetes-group-version-kind"


@dataclass(frozen=True, slots=True)
class Dialect:
    """A version of OpenAPI: where it keeps definitions, and how it writes some of them."""

    prefix: str
    version: int

    def reference(self, name: str, about: str = "") -> JSON:
        """Return a reference to a definition, with a description of its own."""
        ref = {"$ref": self.prefix + name}
        if not about:
            return ref
        return {"description": about, **(ref if self.version == 2 else {"allOf": [ref]})}


V2 = Dialect("#/definitions/", 2)
V3 = Dialect("#/components/schemas/", 3)


def definitions(kinds: Mapping[ResourceInfo, Schema], dialect: Dialect) -> dict[str, JSON]:
    """Return the definitions of kinds, of their lists, and of all types they are made of."""
    found: dict[str, JSON] = {}
    for resource, schema in kinds.items():
        for each in _reachable(schema):
            found.setdefault(each.name, _object(each, dialect))
        mark = [{"group": resource.group, "version": resource.version, "kind": resource.kind}]
        if schema.custom:
            found[schema.name] = _custom(schema, dialect)
        found[schema.name] = {**found[schema.name], GVK: mark}
        if "list" in resource.verbs:
            found[f"{schema.name}List"] = _list_of(resource, schema, dialect)
    for name in (f"{META}.ListMeta", f"{META}.DeleteOptions", f"{META}.Preconditions"):
        found[name] = _object(all_types()[name], dialect)
    return dict(sorted({**found, **_scalars(dialect)}.items()))


def _reachable(schema: Schema) -> Iterator[Schema]:
    """Yield the named object types that a schema is made of, itself first."""
    seen: set[Schema] = set()
    waiting = [schema]
    while waiting:
        each = waiting.pop()
        if each in seen:
            continue
        seen.add(each)
        if each.name and not each.custom:
            yield each
        waiting += [place.schema for place in each.fields.values()]
        waiting += [each.items] if each.items else []


def _object(schema: Schema, dialect: Dialect) -> JSON:
    required = [name for name, place in schema.fields.items() if place.required]
    properties = {name: _field(place, dialect) for name, place in schema.fields.items()}
    result: JSON = {"description": schema.description, "type": "object"}
    result |= {"required": required} if required else {}
    result |= {"properties": properties} if properties else {}
    return result | ({"x-kubernetes-map-type": "atomic"} if schema.atomic else {})


def _field(place: Field, dialect: Dialect) -> JSON:
    schema = place.schema
    result = dict(_value(schema, dialect, place.description))
    if place.description:
        result["description"] = place.description
    if place.default is not None and dialect.version == 3:
        result["default"] = place.default
    if schema.shape is Shape.LIST:
        result["x-kubernetes-list-type"] = schema.list_type
        result |= {"x-kubernetes-list-map-keys": list(schema.keys)} if schema.keys else {}
    if place.merge_strategies:
        result["x-kubernetes-patch-strategy"] = ",".join(sorted(place.merge_strategies))
    if place.merge_key:
        result["x-kubernetes-patch-merge-key"] = place.merge_key
    return result


def _value(schema: Schema, dialect: Dialect, about: str = "") -> JSON:
    if schema.shape is Shape.OBJECT:
        return dialect.reference(schema.name, about)
    if schema.shape is Shape.LIST and schema.items:
        return {"type": "array", "items": _value(schema.items, dialect)}
    if schema.shape is Shape.MAP and schema.items:
        atomic = {"x-kubernetes-map-type": "atomic"} if schema.atomic else {}
        return {"type": "object", "additionalProperties": _value(schema.items, dialect), **atomic}
    if schema.shape in _NAMED:
        return dialect.reference(_NAMED[schema.shape], about)
    if schema.shape is Shape.INTEGER:
        return {"type": "integer", "format": f"int{schema.bits}"}
    return {**_PLAIN[schema.shape], **({"enum": list(schema.enum)} if schema.enum else {})}


def _list_of(resource: ResourceInfo, schema: Schema, dialect: Dialect) -> JSON:
    items = {"type": "array", "items": dialect.reference(schema.name), "description": "The objects."}
    return {
        "description": f"{resource.list_kind} is a list of {resource.kind} objects.",
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string"},
            "items": items,
            "kind": {"type": "string"},
            "metadata": dialect.reference(f"{META}.ListMeta", "Where the list stands, and how it goes on."),
        },
        GVK: [{"group": resource.group, "version": resource.version, "kind": resource.list_kind}],
    }


def _scalars(dialect: Dialect) -> dict[str, JSON]:
    number = {"oneOf": [{"type": "string"}, {"type": "number"}]}
    integer = {"oneOf": [{"type": "integer"}, {"type": "string"}]}
    text = {"type": "string"}
    old = dialect.version == 2
    return {
        _TIME: {"description": "A time in RFC 3339, whole seconds.", "type": "string", "format": "date-time"},
        _MICRO_TIME: {
            "description": "A time in RFC 3339, microseconds.",
            "type": "string",
            "format": "date-time",
        },
        _QUANTITY: {"description": "An amount: 500m, 2, 1.5 or 16Gi.", **(text if old else number)},
        _INT_OR_STRING: {
            "description": "A number, or a string such as a percentage or a port's name.",
            "format": "int-or-string",
            **(text if old else integer),
        },
    }


def _custom(schema: Schema, dialect: Dialect) -> JSON:
    document = dict(schema.document or {})
    if dialect.version == 2:
        document = _for_v2(document)
    metadata = dialect.reference(f"{META}.ObjectMeta", "Standard object's metadata.")
    properties = {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        **(document.get("properties") or {}),
        "metadata": metadata,
    }
    return {**document, "type": "object", "properties": properties}


def _for_v2(document: Mapping[str, Any]) -> JSON:
    """Return a custom schema as version 2 can say it; what it cannot say is left open."""
    if document.get("x-kubernetes-preserve-unknown-fields") or document.get("nullable"):
        return {key: document[key] for key in ("description",) if key in document}
    result = {key: value for key, value in document.items() if key not in _V2_CANNOT}
    if document.get("x-kubernetes-int-or-string"):
        result.pop("type", None)
    if isinstance(result.get("properties"), Mapping):
        result["properties"] = {name: _for_v2(each) for name, each in result["properties"].items()}
    for key in ("items", "additionalProperties"):
        if isinstance(result.get(key), Mapping):
            result[key] = _for_v2(result[key])
    return result
