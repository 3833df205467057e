"""The API of Placement: one request a call, but for :meth:`PlacementClient.provider`, which is put together.

Every write names the generation that was read. A 409 is an error here; what is to be read and decided anew
after one is made by ``keeping``. A claim that does not fit is a verdict, not an error: somebody was faster.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from corewise.actions.placement import Reshape
from corewise.openstack.errors import ConflictStorm, NotFound
from corewise.openstack.placement import wire
from corewise.openstack.placement.transport import Transport
from corewise.vocabulary.placement import Candidates, Consumer, Inventory, Provider, ProviderUse

_READINGS = 5


@dataclass(frozen=True, slots=True)
class ProviderName:
    """A provider in a list: enough to find it, without its inventories."""

    uuid: str
    name: str


class PlacementClient:
    """Placement over a transport; cheap, and of one thread at a time."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport

    def providers(self, name: str | None = None) -> tuple[ProviderName, ...]:
        """Return all providers, or the one of a name, by name."""
        query = "?" + urlencode({"name": name}) if name is not None else ""
        lines = wire.provider_lines(self._get(f"/resource_providers{query}"))
        named = (ProviderName(each.uuid, each.name) for each in lines)
        return tuple(sorted(named, key=lambda each: each.name))

    def provider(self, uuid: str) -> Provider:
        """Return a provider with its inventories and traits, all of one generation.

        Raises:
            NotFound: if there is none.
            ConflictStorm: if it is changed all the time.
        """
        for _ in range(_READINGS):
            line = wire.provider_line(self._get(_path(uuid)))
            inventories, first = wire.inventories(self._get(_path(uuid, "inventories")))
            traits, second = wire.traits(self._get(_path(uuid, "traits")))
            if line.generation == first == second:
                return Provider(line.uuid, line.name, first, inventories, traits)
        raise ConflictStorm(f"provider {uuid} changed while it was read, {_READINGS} times in a row")

    def find_provider(self, name: str) -> Provider | None:
        """Return the provider of a name, or None."""
        named = self.providers(name)
        return self.provider(named[0].uuid) if named else None

    def create_provider(self, name: str, uuid: str | None = None) -> Provider:
        """Create a provider that has nothing yet; without a uuid, Placement makes one.

        Raises:
            Conflict: if the name or the uuid is taken.
        """
        body = {"name": name} if uuid is None else {"name": name, "uuid": uuid}
        answer = self.transport.send("POST", "/resource_providers", wire.encoded(body))
        line = wire.provider_line(answer)
        return Provider(line.uuid, line.name, line.generation)

    def delete_provider(self, uuid: str) -> None:
        """Delete a provider; ``Conflict`` while somebody holds something of it."""
        self.transport.send("DELETE", _path(uuid))

    def put_inventories(self, uuid: str, generation: int, wanted: Mapping[str, Inventory]) -> int:
        """Replace all inventories of a provider, and return its new generation.

        Raises:
            ConcurrentUpdate: if the provider is not of this generation.
            InventoryInUse: if one is left out that somebody holds.
        """
        body = wire.encoded(wire.inventories_body(generation, wanted))
        return wire.inventories(self.transport.send("PUT", _path(uuid, "inventories"), body))[1]

    def put_traits(self, uuid: str, generation: int, wanted: frozenset[str]) -> int:
        """Replace all traits of a provider, and return its new generation.

        Raises:
            ConcurrentUpdate: if the provider is not of this generation.
            UnknownTraits: if Placement does not know one.
        """
        body = wire.encoded({"traits": sorted(wanted), "resource_provider_generation": generation})
        return wire.traits(self.transport.send("PUT", _path(uuid, "traits"), body))[1]

    def usages(self, uuid: str) -> Mapping[str, int]:
        """Return how much of each class of a provider is held."""
        return wire.usages(self._get(_path(uuid, "usages")))

    def consumer(self, uuid: str) -> Consumer | None:
        """Return what a consumer holds, or None if it holds nothing."""
        return wire.consumer(uuid, self._get(f"/allocations/{quote(uuid, safe='')}"))

    def use(self, uuid: str) -> ProviderUse:
        """Return a provider and all its consumers, read without anybody writing in between.

        Raises:
            NotFound: if there is no such provider.
            ConflictStorm: if it is changed all the time.
        """
        for _ in range(_READINGS):
            provider = self.provider(uuid)
            held_by, _ = wire.holders(self._get(_path(uuid, "allocations")))
            consumers = [held for each in held_by if (held := self.consumer(each)) is not None]
            _, generation = wire.holders(self._get(_path(uuid, "allocations")))
            if generation == provider.generation:
                return ProviderUse(provider, tuple(consumers))
        raise ConflictStorm(f"provider {uuid} changed while it was read, {_READINGS} times in a row")

    def candidates(self, query: str) -> Candidates:
        """Return who could give what a query asks for; ``query`` is sent as it is, after the ``?``.

        Raises:
            UnknownTraits: if the query names a trait that Placement does not know.
            BadRequest: if it makes no sense otherwise.
        """
        return wire.candidates(self._get(f"/allocation_candidates?{query}"))

    def put_consumer(self, wanted: Consumer) -> None:
        """Give a consumer exactly these allocations.

        Raises:
            DoesNotFit: if less is left than is asked for.
            ConcurrentUpdate: if the consumer is not of this generation, or a provider is being changed.
        """
        version = wire.version_for((wanted,), self.transport.version)
        body = wire.encoded(wire.consumer_body(wanted, version))
        self.transport.send("PUT", f"/allocations/{quote(wanted.uuid, safe='')}", body, version=version)

    def delete_consumer(self, uuid: str) -> bool:
        """Give back all that a consumer holds; False if it holds nothing."""
        try:
            self.transport.send("DELETE", f"/allocations/{quote(uuid, safe='')}")
        except NotFound:
            return False
        return True

    def reshape(self, action: Reshape) -> None:
        """Change inventories and allocations at once, in one request; a refusal changes nothing.

        Raises:
            ConcurrentUpdate: if a provider or a consumer is not of the generation that was read.
            DoesNotFit: if the allocations do not fit into the new inventories.
        """
        version = wire.version_for(action.consumers, self.transport.version)
        body = wire.reshape_body(action.providers, action.consumers, version)
        self.transport.send("POST", "/reshaper", wire.encoded(body), version=version)

    def _get(self, path: str) -> bytes:
        return self.transport.send("GET", path)


def _path(uuid: str, *below: str) -> str:
    return "/".join(["/resource_providers", quote(uuid, safe=""), *below])
