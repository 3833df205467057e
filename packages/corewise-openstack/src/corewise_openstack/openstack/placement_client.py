"""The API of OpenStack Placement: one request per call, typed, and blocking.

Only ``provider``, ``use`` and ``place`` of :class:`PlacementClient` take several requests; the first two read
until all parts have one generation. Every write names the generation that was read. A 409 is an error here;
:mod:`placement_writes` reads and decides again after one.

A ratio is a decimal number in Placement's JSON and an exact decimal here: its digits are read and written
unchanged.

Source: the API reference of Placement, microversions 1.30 to 1.39.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from corewise.vocabulary.errors import UNREADABLE
from corewise_openstack.actions import Reshape
from corewise_openstack.openstack.errors import ConflictStorm, PlacementNotFound, UnexpectedAnswer
from corewise_openstack.openstack.placement_http import PlacementTransport
from corewise_openstack.vocabulary.placement import (
    SHARING_TRAIT,
    Candidates,
    Consumer,
    Inventory,
    Provider,
    ProviderSummary,
    ProviderUse,
)

T = TypeVar("T")

_READINGS = 5
_CONSUMER_TYPES = (1, 38)
"""The first microversion with types of consumers."""

_BEFORE_TYPES = (1, 37)
_UNKNOWN_TYPE = "unknown"
"""What Placement answers for a consumer that never got a type."""


class ProviderName(msgspec.Struct, frozen=True):
    """A provider in a list: enough to find it, without its inventories."""

    uuid: str
    name: str
    generation: int
    parent_provider_uuid: str | None = None


class ProviderPlace(msgspec.Struct, frozen=True):
    """Where a provider lies: the root of its tree, and its aggregates."""

    name: str
    root: str
    aggregates: frozenset[str]


class _ProviderLine(msgspec.Struct):
    name: str
    root_provider_uuid: str


class _AggregateList(msgspec.Struct):
    aggregates: frozenset[str]


class _ProviderList(msgspec.Struct):
    resource_providers: list[ProviderName]


class _InventoryBody(msgspec.Struct):
    total: int
    reserved: int
    min_unit: int
    max_unit: int
    step_size: int
    allocation_ratio: Decimal


class _InventoryList(msgspec.Struct):
    inventories: dict[str, _InventoryBody]
    resource_provider_generation: int


class _TraitList(msgspec.Struct):
    traits: frozenset[str]
    resource_provider_generation: int


class _Usages(msgspec.Struct):
    usages: dict[str, int]
    resource_provider_generation: int


class _Resources(msgspec.Struct, gc=False):
    resources: dict[str, int]


class _Allocations(msgspec.Struct, gc=False):
    allocations: dict[str, _Resources]


class _ProviderAllocations(msgspec.Struct):
    allocations: dict[str, _Resources]
    resource_provider_generation: int


class _ConsumerBody(msgspec.Struct):
    allocations: dict[str, _Resources]
    project_id: str = ""
    user_id: str = ""
    consumer_generation: int | None = None
    consumer_type: str | None = None


class _CandidateList(msgspec.Struct):
    allocation_requests: list[_Allocations]
    provider_summaries: dict[str, ProviderSummary]


class PlacementClient:
    """Placement over a transport; cheap, and for one thread at a time."""

    def __init__(self, transport: PlacementTransport) -> None:
        self.transport = transport

    def providers(self, name: str | None = None, member_of: str | None = None) -> tuple[ProviderName, ...]:
        """Return all providers, or the one with a name, by name; ``member_of``: of these aggregates alone."""
        asked = {"name": name, "member_of": member_of}
        stated = {key: value for key, value in asked.items() if value is not None}
        query = f"?{urlencode(stated)}" if stated else ""
        listed = self._get(f"/resource_providers{query}", _ProviderList).resource_providers
        return tuple(sorted(listed, key=lambda each: each.name))

    def provider(self, uuid: str) -> Provider:
        """Return a provider with its inventories and traits, all of one generation.

        Raises:
            NotFound: if there is none.
            ConflictStorm: if it changes all the time.
        """

        def read() -> Provider | None:
            line = self._get(_path(uuid), ProviderName)
            offered = self._get(_path(uuid, "inventories"), _InventoryList)
            traits = self._get(_path(uuid, "traits"), _TraitList)
            generations = {each.resource_provider_generation for each in (offered, traits)}
            if generations != {line.generation}:
                return None
            return Provider(line.uuid, line.name, line.generation, _inventories(offered), traits.traits)

        return _consistent(uuid, read)

    def hosts(self) -> tuple[ProviderName, ...]:
        """Return the providers that may be hosts: neither children of others, nor shared by hosts."""
        listed = self._get(f"/resource_providers?required=!{SHARING_TRAIT}", _ProviderList).resource_providers
        return tuple(each for each in listed if each.parent_provider_uuid is None)

    def find_provider(self, name: str) -> Provider | None:
        """Return the provider with a name, or None."""
        named = self.providers(name)
        return self.provider(named[0].uuid) if named else None

    def place(self, uuid: str) -> ProviderPlace | None:
        """Return where a provider lies, or None if there is none."""
        try:
            line = self._get(_path(uuid), _ProviderLine)
            aggregates = self._get(_path(uuid, "aggregates"), _AggregateList).aggregates
        except PlacementNotFound:
            return None
        return ProviderPlace(line.name, line.root_provider_uuid, aggregates)

    def create_provider(self, name: str, uuid: str | None = None) -> Provider:
        """Create a provider without inventories; without a uuid, Placement makes one.

        Raises:
            Conflict: if the name or the uuid is taken.
        """
        body = {"name": name} if uuid is None else {"name": name, "uuid": uuid}
        line = decoded(self.transport.send("POST", "/resource_providers", encoded(body)), ProviderName)
        return Provider(line.uuid, line.name, line.generation)

    def delete_provider(self, uuid: str) -> None:
        """Remove a provider that no consumer holds anything of.

        Raises:
            PlacementConflict: if somebody does.
        """
        self.transport.send("DELETE", _path(uuid))

    def put_inventories(self, uuid: str, generation: int, wanted: Mapping[str, Inventory]) -> int:
        """Replace all inventories of a provider, and return its new generation.

        Raises:
            ConcurrentUpdate: if the provider has another generation.
            InventoryInUse: if an inventory is left out that a consumer holds something of.
        """
        answer = self._put(_path(uuid, "inventories"), inventories_body(generation, wanted), _InventoryList)
        return answer.resource_provider_generation

    def put_traits(self, uuid: str, generation: int, wanted: frozenset[str]) -> int:
        """Replace all traits of a provider, and return its new generation.

        Raises:
            ConcurrentUpdate: if the provider has another generation.
            UnknownTraits: if Placement does not know one.
        """
        body = {"traits": sorted(wanted), "resource_provider_generation": generation}
        return self._put(_path(uuid, "traits"), body, _TraitList).resource_provider_generation

    def usages(self, uuid: str) -> Mapping[str, int]:
        """Return the total that all consumers hold of each class of a provider."""
        return self._get(_path(uuid, "usages"), _Usages).usages

    def consumer(self, uuid: str) -> Consumer | None:
        """Return a consumer, or None if it holds nothing: Placement cannot tell that from an unknown one."""
        answer = self._get(f"/allocations/{quote(uuid, safe='')}", _ConsumerBody)
        if not answer.allocations:
            return None
        return Consumer(
            uuid=uuid,
            generation=answer.consumer_generation,
            project=answer.project_id,
            user=answer.user_id,
            allocations=_amounts(answer.allocations),
            type=None if answer.consumer_type == _UNKNOWN_TYPE else answer.consumer_type,
        )

    def use(self, uuid: str) -> ProviderUse:
        """Return a provider and all its consumers, read without a write in between.

        Raises:
            NotFound: if there is no such provider.
            ConflictStorm: if it changes all the time.
        """

        def read() -> ProviderUse | None:
            provider = self.provider(uuid)
            holders = self.holders(uuid)
            consumers = tuple(held for each in holders if (held := self.consumer(each)) is not None)
            after = self._get(_path(uuid, "allocations"), _ProviderAllocations)
            unchanged = after.resource_provider_generation == provider.generation
            return ProviderUse(provider, consumers) if unchanged else None

        return _consistent(uuid, read)

    def holders(self, uuid: str) -> tuple[str, ...]:
        """Return the UUIDs of a provider's consumers, sorted."""
        return tuple(sorted(self._get(_path(uuid, "allocations"), _ProviderAllocations).allocations))

    def candidates(self, query: str) -> Candidates:
        """Return which providers could give what a query asks for; ``query`` follows the ``?`` unchanged.

        Raises:
            UnknownTraits: if the query names a trait that Placement does not know.
            BadRequest: if Placement does not understand it otherwise.
        """
        answer = self._get(f"/allocation_candidates?{query}", _CandidateList)
        found = tuple(_amounts(each.allocations) for each in answer.allocation_requests)
        return Candidates(found, answer.provider_summaries)

    def put_consumer(self, wanted: Consumer) -> None:
        """Give a consumer exactly these allocations.

        Raises:
            DoesNotFit: if a provider has less left.
            ConcurrentUpdate: if the consumer has another generation, or a provider is being changed.
        """
        version = version_for((wanted,), self.transport.version)
        body = encoded(consumer_body(wanted, version))
        self.transport.send("PUT", f"/allocations/{quote(wanted.uuid, safe='')}", body, version=version)

    def put_consumers(self, wanted: Sequence[Consumer]) -> None:
        """Give consumers exactly these allocations, all in one request; one without any ends to exist.

        Raises:
            DoesNotFit: if a provider has less left.
            ConcurrentUpdate: if a consumer has another generation, or a provider is being changed.
        """
        version = version_for(wanted, self.transport.version)
        body = {each.uuid: consumer_body(each, version) for each in wanted}
        self.transport.send("POST", "/allocations", encoded(body), version=version)

    def delete_consumer(self, uuid: str) -> bool:
        """Release all that a consumer holds; False if it holds nothing."""
        try:
            self.transport.send("DELETE", f"/allocations/{quote(uuid, safe='')}")
        except PlacementNotFound:
            return False
        return True

    def reshape(self, action: Reshape) -> None:
        """Change inventories and allocations at once, in one request; a refusal changes nothing.

        Raises:
            ConcurrentUpdate: if a provider or a consumer has another generation than the one that was read.
            DoesNotFit: if the allocations do not fit into the new inventories.
        """
        version = version_for(action.consumers, self.transport.version)
        body = {
            "inventories": {
                each.uuid: inventories_body(each.generation, each.inventories) for each in action.providers
            },
            "allocations": {each.uuid: consumer_body(each, version) for each in action.consumers},
        }
        self.transport.send("POST", "/reshaper", encoded(body), version=version)

    def _get(self, path: str, of: type[T]) -> T:
        return decoded(self.transport.send("GET", path), of)

    def _put(self, path: str, body: object, of: type[T]) -> T:
        return decoded(self.transport.send("PUT", path, encoded(body)), of)


def _consistent(uuid: str, read: Callable[[], T | None]) -> T:
    """Read until nothing changed in between."""
    for _ in range(_READINGS):
        if (found := read()) is not None:
            return found
    raise ConflictStorm(f"provider {uuid} changed while it was read, {_READINGS} times in a row")


def _path(uuid: str, *below: str) -> str:
    return "/".join(["/resource_providers", quote(uuid, safe=""), *below])


def _inventories(answer: _InventoryList) -> dict[str, Inventory]:
    return {name: Inventory(**msgspec.structs.asdict(each)) for name, each in answer.inventories.items()}


def _amounts(allocations: Mapping[str, _Resources]) -> dict[str, dict[str, int]]:
    return {provider: held.resources for provider, held in allocations.items()}


def decoded(body: bytes, of: type[T]) -> T:
    """Read an answer.

    Raises:
        AnswerError: if it is not what the API promises.
    """
    try:
        return msgspec.json.decode(body, type=of)
    except UNREADABLE as error:
        raise UnexpectedAnswer(f"Placement's answer is not what its API promises: {error}") from error


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} cannot be sent in a request")


_ENCODER = msgspec.json.Encoder(decimal_format="number", enc_hook=_plain)


def encoded(body: object) -> bytes:
    """Write a request's body."""
    return _ENCODER.encode(body)


def inventories_body(generation: int, wanted: Mapping[str, Inventory]) -> dict[str, Any]:
    """Return the body of PUT inventories, and of one provider in a reshape."""
    return {"resource_provider_generation": generation, "inventories": wanted}


def version_for(consumers: Sequence[Consumer], version: tuple[int, int]) -> tuple[int, int]:
    """Return the microversion to write consumers with.

    A consumer without a type keeps none only if the microversion is older than types are.
    """
    return version if all(each.type for each in consumers) else min(version, _BEFORE_TYPES)


def consumer_body(held: Consumer, version: tuple[int, int]) -> dict[str, Any]:
    """Return the body of PUT allocations, and of one consumer in a reshape."""
    body: dict[str, Any] = {
        "allocations": {
            provider: {"resources": resources} for provider, resources in held.allocations.items()
        },
        "project_id": held.project,
        "user_id": held.user,
        "consumer_generation": held.generation,
    }
    return body | {"consumer_type": held.type} if version >= _CONSUMER_TYPES else body
