"""The schema of each kind; a CustomResourceDefinition makes its kind served as soon as it is stored.

As in a real server, accepting the names and establishing the kind is a second write, of the status; here it
follows in the same step. All versions share one storage: with the conversion strategy None, the only one
offered, they differ in nothing but apiVersion. Deleting a definition deletes its objects.

Source: k8s.io/apiextensions-apiserver/pkg/{apiserver,controller/status,registry/customresourcedefinition}.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any

from kubedouble.errors import Faults, cause
from kubedouble.resources import Registry, ResourceInfo
from kubedouble.schema.custom import custom_schema
from kubedouble.schema.decoding import timestamp
from kubedouble.schema.kinds import builtin_schema
from kubedouble.schema.structure import Schema
from kubedouble.store import Change, Object, Reader, Store, Stored

CUSTOM_RESOURCE_DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"


def resources_of(definition: Object) -> Iterator[ResourceInfo]:
    """Yield a resource for each served version of a definition, that of the stored version first."""
    spec = definition["spec"]
    names = spec["names"]
    for version in sorted(spec["versions"], key=lambda version: not version.get("storage")):
        if not version.get("served"):
            continue
        below = version.get("subresources") or {}
        yield ResourceInfo(
            group=spec["group"],
            version=version["name"],
            plural=names["plural"],
            singular=names.get("singular") or names["kind"].lower(),
            kind=names["kind"],
            namespaced=spec["scope"] == "Namespaced",
            short_names=tuple(names.get("shortNames") or ()),
            categories=tuple(names.get("categories") or ()),
            subresources=("status",) if "status" in below else (),
            generation=(),
            unconditional_update=False,
            custom=True,
            printer_columns=tuple(version.get("additionalPrinterColumns") or ()),
        )


def accepted(definition: Object, now: str) -> Object:
    """Return a definition with the status it has once its names are accepted and its kind is served."""
    old = definition.get("status") or {}
    names, versions = definition["spec"]["names"], definition["spec"]["versions"]
    complete = {"singular": names["kind"].lower(), "listKind": names["kind"] + "List", **names}
    stored = list(old.get("storedVersions") or ())
    if (version := next((each["name"] for each in versions if each.get("storage")), "")) not in stored:
        stored.append(version)
    status = {
        "conditions": old.get("conditions") or list(_conditions(now)),
        "acceptedNames": complete,
        "storedVersions": stored,
    }
    return {**definition, "status": status}


def check_definition(faults: Faults, definition: Object) -> None:
    """Report parts of a definition that are not offered here, or that contradict each other."""
    spec, name = definition.get("spec") or {}, definition["metadata"].get("name", "")
    if name != f"{(spec.get('names') or {}).get('plural')}.{spec.get('group')}":
        faults.invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group')
    if sum(bool(version.get("storage")) for version in spec.get("versions") or ()) != 1:
        message = "Invalid value: must have exactly one version marked as storage version"
        faults.causes.append(cause("FieldValueInvalid", message, "spec.versions"))
    if (spec.get("conversion") or {}).get("strategy", "None") != "None":
        faults.forbidden("spec.conversion.strategy", "the local API server converts by strategy None only")


def serve_definitions(store: Store, registry: Registry, clock: Callable[[], datetime]) -> None:
    """Serve the kinds that the definitions in the store define, now and whenever they change."""

    def on_change(storage: str, change: Change) -> None:
        if storage != CUSTOM_RESOURCE_DEFINITIONS:
            return
        if change.type == "DELETED":
            name = change.stored.key[1]
            registry.withdraw(name)
            for stored in list(store.table(name).scan()):
                store.remove(name, stored.key)
        else:
            _serve(store, registry, change.stored, timestamp(clock()))

    for stored in list(store.table(CUSTOM_RESOURCE_DEFINITIONS).scan()):
        _serve(store, registry, stored, timestamp(clock()))
    store.listen(on_change)


def _serve(store: Store, registry: Registry, stored: Stored, now: str) -> None:
    definition = accepted(stored.object, now)
    registry.define(stored.key[1], resources_of(definition))
    if definition != stored.object:
        store.put(CUSTOM_RESOURCE_DEFINITIONS, stored.key, definition)


def _conditions(now: str) -> Iterator[dict[str, str]]:
    said = {
        "NamesAccepted": ("NoConflicts", "no conflicts found"),
        "Established": ("InitialNamesAccepted", "the initial names have been accepted"),
    }
    for name, (reason, message) in said.items():
        yield {
            "type": name,
            "status": "True",
            "lastTransitionTime": now,
            "reason": reason,
            "message": message,
        }


class Schemas:
    """The schema of every served kind; that of a custom one is made once for each state of its definition."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._custom: dict[tuple[str, str], tuple[Mapping[str, Any], Schema]] = {}

    def of(self, resource: ResourceInfo) -> Schema:
        schema = self._of_definition(resource) if resource.custom else None
        schema = schema or builtin_schema(resource.group, resource.version, resource.kind)
        if schema is None:
            raise LookupError(f"{resource.group_resource} has no schema")
        return schema

    def _of_definition(self, resource: ResourceInfo) -> Schema | None:
        name = resource.group_resource
        definition = self._reader.get("apiextensions.k8s.io", "customresourcedefinitions", "", name)
        if definition is None:
            return None
        known, schema = self._custom.get((name, resource.version), (None, None))
        if schema is None or known is not definition:
            schema = custom_schema(definition, resource.version)
            self._custom[name, resource.version] = (definition, schema)
        return schema
