"""The operations of a resource, as far as clients read them.

kubectl finds a kind's patch operation by its group, version and kind, and learns from its parameters
whether the server validates fields and runs dry; from its content types, which patches the kind takes.

Source: k8s.io/kubectl/pkg/util/openapi, k8s.io/cli-runtime/pkg/resource/query_param_verifier*.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from kubedouble.openapi.definitions import GVK, Dialect
from kubedouble.resources import ResourceInfo
from kubedouble.schema.structure import Schema

JSON = dict[str, Any]
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
    operation: JSON = {
        "operationId": f"{verb}{_camel(resource.group)}{resource.version.capitalize()}{resource.kind}",
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


def _camel(group: str) -> str:
    return "".join(part.capitalize() for part in group.split(".")[:1])


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
