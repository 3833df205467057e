"""Custom kinds: a schema from the ``openAPIV3Schema`` of a CustomResourceDefinition.

Only structural schemas are served, so types, properties, items, additionalProperties and the
``x-kubernetes-*`` extensions are enough to know what merges and what is pruned. What values must be
(minimum, pattern, …) stays in the document, for :mod:`.custom_validation`.

Source: apiextensions-apiserver/pkg/apiserver/schema/convert.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubedouble.schema.kinds import all_types, object_meta
from kubedouble.schema.structure import Field, Schema, Shape

_SHAPES = {
    "string": Shape.STRING,
    "integer": Shape.INTEGER,
    "number": Shape.NUMBER,
    "boolean": Shape.BOOLEAN,
}
_NO_DOCUMENT: Mapping[str, Any] = {}


def custom_schema(definition: Mapping[str, Any], version: str) -> Schema:
    """Return the schema of one version of a custom kind; one without a schema keeps whatever it is given."""
    spec = definition["spec"]
    served = next((each for each in spec["versions"] if each["name"] == version), _NO_DOCUMENT)
    document = (served.get("schema") or {}).get("openAPIV3Schema") or {"type": "object"}
    open_ended = "schema" not in served or bool(spec.get("preserveUnknownFields"))
    root = _schema(document, preserve=open_ended)
    return Schema(
        Shape.OBJECT,
        name=published_name(spec["group"], version, spec["names"]["kind"]),
        description=root.description,
        fields={**root.fields, **_type_fields()},
        items=root.items,
        preserve_unknown=root.preserve_unknown,
        status_subresource="status" in (served.get("subresources") or {}),
        document=document,
    )


def published_name(group: str, version: str, kind: str) -> str:
    """Return the name under which OpenAPI publishes a custom kind: ``io.example.v1.Widget``."""
    return ".".join([*reversed(group.split(".")), version, kind])


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
    preserve = shared["preserve_unknown"]
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
        **{**shared, "preserve_unknown": preserve},
    )
