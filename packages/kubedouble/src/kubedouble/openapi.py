"""The OpenAPI documents of what is served now, made on request and kept until that changes.

Version 2 is one document, in JSON and in the protobuf form that old kubectl insists on. Version 3 is an
index and one JSON document for each group and version, at an address that names the hash of its content.

kubectl finds the patch operation of a kind by its group, version and kind. The parameters tell it whether
the server validates fields and supports dry run; the content types tell it which patches the kind takes.

Source: k8s.io/kube-openapi/pkg/{builder,builder3,generators}; apiextensions-apiserver/pkg/controller/openapi;
k8s.io/kubectl/pkg/util/openapi, k8s.io/cli-runtime/pkg/resource/query_param_verifier*.go.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from kubedouble import openapi_protobuf as gnostic
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
    """A version of OpenAPI: its place for definitions, and its form of some of them."""

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


_WRITES = ("dryRun", "fieldManager", "fieldValidation")
_PATCHES = ("application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml")
_STRATEGIC = "application/strategic-merge-patch+json"
_PARAMETERS = {"create": _WRITES, "update": _WRITES, "patch": (*_WRITES, "force"), "delete": ("dryRun",)}
_ON_COLLECTION = {"list": "get", "create": "post", "deletecollection": "delete"}
_ON_OBJECT = {"get": "get", "update": "put", "patch": "patch", "delete": "delete"}
_ACTIONS = {"create": "post", "update": "put"}


def paths(kinds: Iterable[tuple[ResourceInfo, Schema]], dialect: Dialect) -> dict[str, JSON]:
    """Return the path items of resources."""
    return dict(item for resource, schema in kinds for item in _items(resource, schema, dialect))


def _items(resource: ResourceInfo, schema: Schema, dialect: Dialect) -> Iterator[tuple[str, JSON]]:
    root = f"/apis/{resource.group}" if resource.group else "/api"
    place = "/namespaces/{namespace}" if resource.namespaced else ""
    collection = f"{root}/{resource.version}{place}/{resource.plural}"
    for path, methods in ((collection, _ON_COLLECTION), (f"{collection}/{{name}}", _ON_OBJECT)):
        served = {verb: method for verb, method in methods.items() if verb in resource.verbs}
        item = {method: _operation(resource, schema, verb, dialect) for verb, method in served.items()}
        if item:
            names = [name for name in ("namespace", "name") if f"{{{name}}}" in path]
            yield path, {**item, "parameters": [_parameter(name, "path", dialect) for name in names]}


def _operation(resource: ResourceInfo, schema: Schema, verb: str, dialect: Dialect) -> JSON:
    parameters = [_parameter(name, "query", dialect) for name in _PARAMETERS.get(verb, ())]
    group, version = resource.group.partition(".")[0].capitalize(), resource.version.capitalize()
    operation: JSON = {
        "operationId": f"{verb}{group}{version}{resource.kind}",
        "parameters": parameters,
        "responses": {"200": _response(schema, verb, dialect)},
        "x-kubernetes-action": _ACTIONS.get(verb, verb),
        GVK: {"group": resource.group, "version": resource.version, "kind": resource.kind},
    }
    if verb == "patch":
        types = list(_PATCHES) if resource.custom else [*_PATCHES, _STRATEGIC]
        operation |= _body(types, {"type": "object"}, dialect)
    elif verb in {"create", "update"}:
        operation |= _body(["application/json"], dialect.reference(schema.name), dialect)
    return operation


def _parameter(name: str, place: str, dialect: Dialect) -> JSON:
    kind: JSON = {"type": "boolean" if name == "force" else "string"}
    required = {"required": True} if place == "path" else {}
    return {"name": name, "in": place, **required, **(kind if dialect.version == 2 else {"schema": kind})}


def _body(types: list[str], schema: JSON, dialect: Dialect) -> JSON:
    if dialect.version == 2:
        return {"consumes": types}
    return {"requestBody": {"required": True, "content": {each: {"schema": schema} for each in types}}}


def _response(schema: Schema, verb: str, dialect: Dialect) -> JSON:
    reference = dialect.reference(schema.name + ("List" if verb == "list" else ""))
    if dialect.version == 2:
        return {"description": "OK", "schema": reference}
    return {"description": "OK", "content": {"application/json": {"schema": reference}}}


_JSON = "application/json"
_PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_PROTOBUFS = (_PROTOBUF, "application/com.github.proto-openapi.spec.v2@v1.0+protobuf")
_INFO = {"title": "Kubernetes", "version": "v1"}


@dataclass(frozen=True, slots=True)
class Answer:
    """A document. ``etag`` names its content."""

    body: bytes
    content_type: str
    etag: str


class OpenAPI:
    """Answers requests below ``/openapi``."""

    def __init__(
        self, resources: Callable[[], Iterable[ResourceInfo]], schema_of: Callable[[ResourceInfo], Schema]
    ) -> None:
        self._resources = resources
        self._schema_of = schema_of
        self._known: tuple[tuple[ResourceInfo, Schema], ...] = ()
        self._made: dict[tuple[str, str], Answer] = {}

    def answer(self, path: str, accept: str) -> Answer | None:
        """Return the document at a path, in a form that the client takes; None if there is none there."""
        kinds = tuple((each, self._schema_of(each)) for each in self._resources())
        if kinds != self._known:
            self._known = kinds
            self._made.clear()
        match [part for part in path.split("/") if part]:
            case ["openapi", "v2"]:
                binary = any(form in accept for form in _PROTOBUFS)
                return self._kept("v2", _PROTOBUF if binary else _JSON, self._version_2)
            case ["openapi", "v3"]:
                return self._kept("v3", _JSON, self._index)
            case ["openapi", "v3", *rest] if (place := "/".join(rest)) in self._group_versions():
                return self._version_3(place)
            case _:
                return None

    def _kept(self, name: str, content_type: str, make: Callable[[str], bytes]) -> Answer:
        key = (name, content_type)
        if key not in self._made:
            body = make(content_type)
            self._made[key] = Answer(body, content_type, hashlib.sha256(body).hexdigest().upper())
        return self._made[key]

    def _group_versions(self) -> list[str]:
        return list(dict.fromkeys(_place(each) for each, _ in self._known))

    def _version_2(self, content_type: str) -> bytes:
        document = {"swagger": "2.0", "info": _INFO, **_content(self._known, V2)}
        return gnostic.document(document) if content_type == _PROTOBUF else msgspec.json.encode(document)

    def _index(self, _: str) -> bytes:
        listed = {}
        for place in self._group_versions():
            listed[place] = {"serverRelativeURL": f"/openapi/v3/{place}?hash={self._version_3(place).etag}"}
        return msgspec.json.encode({"paths": listed})

    def _version_3(self, place: str) -> Answer:
        return self._kept(place, _JSON, lambda _: self._group_version(place))

    def _group_version(self, place: str) -> bytes:
        kinds = tuple((each, schema) for each, schema in self._known if _place(each) == place)
        content = _content(kinds, V3)
        components = {"schemas": content["definitions"]}
        return msgspec.json.encode(
            {"openapi": "3.0.0", "info": _INFO, "paths": content["paths"], "components": components}
        )


def _content(kinds: tuple[tuple[ResourceInfo, Schema], ...], dialect: Dialect) -> JSON:
    return {"paths": paths(kinds, dialect), "definitions": definitions(dict(kinds), dialect)}


def _place(resource: ResourceInfo) -> str:
    return f"apis/{resource.group}/{resource.version}" if resource.group else f"api/{resource.version}"
