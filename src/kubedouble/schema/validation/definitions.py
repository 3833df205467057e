"""CustomResourceDefinitions: what their names and schemas must say before their kind can be served.

Source: apiextensions-apiserver/pkg/apis/apiextensions/validation, pkg/apiserver/schema/validation.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubedouble.schema.validation.faults import Faults, Object
from kubedouble.schema.validation.names import dns_label, subdomain


def definition(faults: Faults, obj: Object, old: Object | None) -> None:
    """Note what is wrong with a CustomResourceDefinition."""
    spec = obj.get("spec") or {}
    if not spec.get("group"):
        faults.required("spec.group")
    else:
        subdomain(faults, "spec.group", spec["group"])
    if not spec.get("scope"):
        faults.required("spec.scope")
    names = spec.get("names") or {}
    for name in ("plural", "kind"):
        if not names.get(name):
            faults.required(f"spec.names.{name}")
        else:
            dns_label(faults, f"spec.names.{name}", names[name].lower())
    if not spec.get("versions"):
        faults.required("spec.versions", "must have exactly one version marked as storage version")
    for at, version in enumerate(spec.get("versions") or ()):
        _version(faults, f"spec.versions[{at}]", version)
    if old is not None:
        for name in ("group", "scope"):
            faults.immutable(f"spec.{name}", spec.get(name), old["spec"].get(name))


def _version(faults: Faults, field: str, version: Object) -> None:
    if not version.get("name"):
        faults.required(f"{field}.name")
    path = f"{field}.schema.openAPIV3Schema"
    document = (version.get("schema") or {}).get("openAPIV3Schema")
    if document is None:
        faults.required(path, "schemas are required")
        return
    if document.get("type") != "object":
        faults.invalid(f"{path}.type", document.get("type", ""), "must be object at the root")
    _structural(faults, path, document, root=True)


def _structural(faults: Faults, path: str, document: Mapping[str, Any], *, root: bool = False) -> None:
    untyped = not document.get("type") and not (
        document.get("x-kubernetes-int-or-string") or document.get("x-kubernetes-preserve-unknown-fields")
    )
    if untyped and not root:
        faults.required(f"{path}.type", "must not be empty for specified object fields")
    for name, each in (document.get("properties") or {}).items():
        if isinstance(each, Mapping):
            _structural(faults, f"{path}.properties[{name}]", each)
    for name in ("items", "additionalProperties"):
        if isinstance(document.get(name), Mapping):
            _structural(faults, f"{path}.{name}", document[name])
    if document.get("type") == "array" and "items" not in document:
        faults.required(f"{path}.items", "must be specified")
    if document.get("x-kubernetes-list-type") == "map" and not document.get("x-kubernetes-list-map-keys"):
        faults.required(
            f"{path}.x-kubernetes-list-map-keys", "must not be empty if x-kubernetes-list-type is map"
        )
