"""What the kind's schema does to a write: canonical form, field ownership, validation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubedouble.patching import track_update
from kubedouble.requests import Call
from kubedouble.resources import ResourceInfo
from kubedouble.schema.custom import custom_schema
from kubedouble.schema.kinds import builtin_schema
from kubedouble.schema.normalization import normalize
from kubedouble.schema.structure import Schema
from kubedouble.schema.validation import problems
from kubedouble.store import Object, Reader


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


class Shape:
    """One write's view of its kind's schema; collects warnings for the client."""

    def __init__(self, schemas: Schemas, call: Call, stored_as: ResourceInfo) -> None:
        self._call = call
        self._served = schemas.of(call.resource)
        self._stored = schemas.of(stored_as)
        self.warnings: tuple[str, ...] = ()

    def decoded(self, obj: Object, base: Object | None = None, patch: str | None = None) -> Object:
        """Return an object from outside in canonical form: defaults set, quantities canonical.

        ``base`` is the object before, in the same version; ``patch`` the text of the patch, if it was one.

        Raises:
            StatusError: 400 or 422, if a value is of the wrong type, or an unknown field is not allowed.
        """
        validation = self._call.query.get("fieldValidation") or "Warn"
        result, warnings = normalize(obj, self._served, base=base, field_validation=validation, patch=patch)
        self.warnings += warnings
        return result

    def owned(self, old: Object | None, obj: Object) -> Object:
        """Return an object, in stored form, with managedFields that tell who set what."""
        return track_update(
            old,
            obj,
            manager=self._call.manager,
            schema=self._stored,
            now=self._call.time,
            subresource=self._call.info.subresource,
            api_version=self._call.resource.api_version,
        )

    def problems(self, obj: Object, old: Object | None) -> list[dict[str, str]]:
        """Say what is wrong with an object in stored form."""
        return problems(
            obj,
            old,
            self._stored,
            subresource=self._call.info.subresource,
            api_version=self._call.resource.api_version,
        )


def same_but_for_times(old: Object, new: Object) -> bool:
    """Whether two states of an object differ in nothing but the times in managedFields."""
    before, after = old["metadata"], new["metadata"]
    if before.get("managedFields") is after.get("managedFields"):
        return old == new
    return {**old, "metadata": _without_times(before)} == {**new, "metadata": _without_times(after)}


def _without_times(metadata: Object) -> Object:
    entries = [
        {k: v for k, v in entry.items() if k != "time"} for entry in metadata.get("managedFields") or ()
    ]
    return {**metadata, "managedFields": entries}
