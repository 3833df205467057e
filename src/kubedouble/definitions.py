"""Custom resources: a CustomResourceDefinition makes its kind served as soon as it is stored.

As in a real server, accepting the names and establishing the kind is a second write, of the status; here it
follows in the same step. All versions share one storage: with the conversion strategy None, which is the
only one offered, they differ in nothing but apiVersion. Deleting a definition deletes its objects.

Source: k8s.io/apiextensions-apiserver/pkg/{apiserver,controller/status,registry/customresourcedefinition}.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime

from kubedouble.cluster import timestamp
from kubedouble.errors import cause
from kubedouble.resources import Registry, ResourceInfo
from kubedouble.store import Change, Object, Store, Stored

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


def storage_version(definition: Object) -> str:
    """Return the version that objects are stored in."""
    return next((each["name"] for each in definition["spec"]["versions"] if each.get("storage")), "")


def accepted(definition: Object, now: str) -> Object:
    """Return a definition with the status it has once its names are accepted and its kind is served."""
    old = definition.get("status") or {}
    names = definition["spec"]["names"]
    complete = {"singular": names["kind"].lower(), "listKind": names["kind"] + "List", **names}
    stored = list(old.get("storedVersions") or ())
    if (version := storage_version(definition)) not in stored:
        stored.append(version)
    status = {
        "conditions": old.get("conditions") or list(_conditions(now)),
        "acceptedNames": complete,
        "storedVersions": stored,
    }
    return {**definition, "status": status}


def problems(definition: Object) -> list[dict[str, str]]:
    """Say what a definition asks for that is not offered here, or contradicts itself."""
    spec, name = definition.get("spec") or {}, definition["metadata"].get("name", "")
    causes = []
    wanted = f"{(spec.get('names') or {}).get('plural')}.{spec.get('group')}"
    if name != wanted:
        message = f'Invalid value: "{name}": must be spec.names.plural+"."+spec.group'
        causes.append(cause("FieldValueInvalid", message, "metadata.name"))
    versions = spec.get("versions") or ()
    if sum(bool(version.get("storage")) for version in versions) != 1:
        message = "Invalid value: must have exactly one version marked as storage version"
        causes.append(cause("FieldValueInvalid", message, "spec.versions"))
    if (spec.get("conversion") or {}).get("strategy", "None") != "None":
        message = "Forbidden: the local API server converts by strategy None only"
        causes.append(cause("FieldValueForbidden", message, "spec.conversion.strategy"))
    return causes


def serve_definitions(store: Store, registry: Registry, clock: Callable[[], datetime]) -> None:
    """Serve what the definitions in the store say, now and whenever they change."""

    def on_change(storage: str, change: Change) -> None:
        if storage != CUSTOM_RESOURCE_DEFINITIONS:
            return
        if change.type == "DELETED":
            _withdraw(store, registry, change.stored.key[1])
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


def _withdraw(store: Store, registry: Registry, name: str) -> None:
    registry.withdraw(name)
    for stored in list(store.table(name).scan()):
        store.remove(name, stored.key)


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
