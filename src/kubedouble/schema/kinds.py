"""The schemas of the built-in kinds, found by group, version and kind."""

from __future__ import annotations

from functools import cache

from kubedouble.schema.fields import TYPES
from kubedouble.schema.fields.descriptions import DESCRIPTIONS
from kubedouble.schema.notation import parse_types
from kubedouble.schema.structure import Schema

META = "io.k8s.apimachinery.pkg.apis.meta.v1"
PACKAGES = {
    "": "io.k8s.api.core",
    "apps": "io.k8s.api.apps",
    "admissionregistration.k8s.io": "io.k8s.api.admissionregistration",
    "apiextensions.k8s.io": "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions",
    "authentication.k8s.io": "io.k8s.api.authentication",
    "authorization.k8s.io": "io.k8s.api.authorization",
    "coordination.k8s.io": "io.k8s.api.coordination",
    "events.k8s.io": "io.k8s.api.events",
    "networking.k8s.io": "io.k8s.api.networking",
    "policy": "io.k8s.api.policy",
    "rbac.authorization.k8s.io": "io.k8s.api.rbac",
}
"""API group -> the package its types are published in."""


@cache
def all_types() -> dict[str, Schema]:
    """Return the schema of every built-in type, by its full name."""
    return parse_types(TYPES, DESCRIPTIONS)


@cache
def builtin_schema(group: str, version: str, kind: str) -> Schema | None:
    """Return the schema of a built-in kind; None if there is no such kind."""
    schema = all_types().get(f"{PACKAGES.get(group)}.{version}.{kind}")
    return schema if schema is not None and "kind" in schema.fields else None


def delete_options() -> Schema:
    """Return the schema of what a delete may say in its body."""
    return all_types()[f"{META}.DeleteOptions"]


def object_meta() -> Schema:
    """Return the schema of ``metadata``."""
    return all_types()[f"{META}.ObjectMeta"]
