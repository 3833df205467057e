"""The state that all handlers share: the store, the served kinds, admission, and the clock."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

from kubedouble.admission import Admission, check_namespace
from kubedouble.admission_matching import ADMISSION_GROUP, Attributes
from kubedouble.authentication import Authenticator
from kubedouble.authorization import AccessReviews, Authorizer
from kubedouble.definitions import Schemas
from kubedouble.errors import not_found
from kubedouble.forms import to_core
from kubedouble.mutating_policies import POLICIES
from kubedouble.openapi import OpenAPI
from kubedouble.requests import Call
from kubedouble.resources import Registry, ResourceInfo
from kubedouble.schema.normalization import normalize
from kubedouble.store import Object, Store, Stored


@dataclass(frozen=True, slots=True)
class Reply:
    """A finished response. Warnings become ``Warning: 299`` headers, which kubectl shows."""

    body: bytes
    code: int = 200
    warnings: tuple[str, ...] = ()
    content_type: str = "application/json"
    etag: str = ""


class OpenWatch(Protocol):
    """An open watch: its user, and its end, in order or not."""

    user: str

    def close(self) -> None: ...

    def cut(self) -> None: ...


def utc_now() -> datetime:
    """Return the time, as object metadata has it."""
    return datetime.now(UTC)


class Cluster:
    """The parts that handlers work with; also the :class:`.store.Reader` of authorization and admission."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        clock: Callable[[], datetime] = utc_now,
        *,
        authorize: bool = True,
        name: str = "kubedouble",
    ) -> None:
        self.name = name
        self.store = store
        self.registry = registry
        self.clock = clock
        self.authenticator = Authenticator()
        self.authorizer = Authorizer(self, enabled=authorize)
        self.reviews = AccessReviews(self.authorizer, self.authenticator)
        self.schemas = Schemas(self)
        self.openapi = OpenAPI(lambda: registry, self.schemas.of)
        served = registry.find(ADMISSION_GROUP, "v1", POLICIES) is not None
        self.admission = Admission(self, normalize=self._normalized, mutating_policies=served)
        self.bookmark_seconds = 60.0
        self.watches: set[OpenWatch] = set()

    def get(self, group: str, resource: str, namespace: str, name: str) -> Object | None:
        stored = self.store.get(_storage(group, resource), namespace, name)
        return stored.object if stored else None

    def list(self, group: str, resource: str) -> Iterable[Object]:
        return [stored.object for stored in self.store.table(_storage(group, resource)).scan()]

    def stored(self, resource: ResourceInfo, namespace: str, name: str) -> Stored | None:
        return self.store.get(resource.storage_key, namespace, name)

    def existing(self, call: Call) -> Stored:
        """Return the object a call names.

        Raises:
            StatusError: 404, if there is none.
        """
        stored = self.stored(call.resource, call.namespace, call.name)
        if stored is None:
            raise not_found(call.resource, call.name)
        return stored

    def as_stored(self, resource: ResourceInfo, obj: Object) -> Object:
        """Return an object of a served version in the version that is stored."""
        if resource.storage == "events":
            return to_core(obj)
        if resource.custom:
            return {**obj, "apiVersion": self.stored_as(resource).api_version}
        return obj

    def stored_as(self, resource: ResourceInfo) -> ResourceInfo:
        """Return the resource in the version in which this one's objects are stored."""
        if not (resource.custom or resource.storage):
            return resource
        return self.registry.of_storage(resource.storage_key) or resource

    def check_namespace(self, call: Call) -> None:
        """Refuse an object to be created in a namespace that does not exist or is terminating."""
        check_namespace(self._attributes(call, "CREATE", {}), self)

    async def mutate(
        self, call: Call, operation: str, obj: Object | None, old: Object | None
    ) -> tuple[Any, tuple[str, ...]]:
        """Run the admission that may change the object; return the object and warnings."""
        attributes = self._attributes(call, operation, obj or old or {})
        result, warnings = await self.admission.mutate(attributes, obj, old)
        return result, tuple(warnings)

    async def validate(
        self, call: Call, operation: str, obj: Object | None, old: Object | None
    ) -> tuple[str, ...]:
        """Run the admission that may only refuse; return warnings."""
        attributes = self._attributes(call, operation, obj or old or {})
        return tuple(await self.admission.validate(attributes, obj, old))

    def _normalized(
        self, attributes: Attributes, obj: dict[str, Any], before: dict[str, Any], *, strict: bool = False
    ) -> dict[str, Any]:
        """Bring an object into canonical form after admission."""
        resource = self.registry.find(attributes.group, attributes.version, attributes.resource)
        if resource is None or attributes.kind != resource.kind:
            return obj
        validation = "Strict" if strict else "Warn"
        schema = self.schemas.of(self.stored_as(resource))
        return normalize(obj, schema, base=before, field_validation=validation)[0]

    def _attributes(self, call: Call, operation: str, obj: Object) -> Attributes:
        resource, subresource = call.resource, call.info.subresource
        taken = resource.kind_of(subresource)
        return Attributes(
            user=call.user,
            operation=operation,
            group=resource.group,
            version=resource.version,
            resource=resource.plural,
            kind=taken.kind,
            subresource=subresource,
            namespace=call.info.namespace,
            name=call.name or obj.get("metadata", {}).get("name", ""),
            dry_run=call.dry_run,
            options=call.options(operation),
            kind_group=taken.group,
            kind_version=taken.version,
        )


def _storage(group: str, resource: str) -> str:
    return f"{resource}.{group}" if group else resource
