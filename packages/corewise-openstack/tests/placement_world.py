"""The real Placement in this process, emptied: what a test needs that speaks to it.

A process can have one Placement only, so all tests share it, and each begins with none of the others' hosts.
"""

from __future__ import annotations

import importlib
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from uuid import uuid4

from corewise_openstack.openstack.embedded import in_process_client, start
from corewise_openstack.openstack.placement_client import PlacementClient
from corewise_openstack.vocabulary.placement import PCPU, VCPU, Consumer, Inventory, Provider

PROJECT, USER = "project-of-tests", "user-of-tests"


def client_of_placement() -> PlacementClient:
    """A client of its own; one a thread."""
    return in_process_client(start())


def emptied(client: PlacementClient) -> PlacementClient:
    """Take away all consumers and all providers."""
    if EMPTY:
        EMPTY[0].restore()
        return client
    for named in client.providers():
        for consumer in client.use(named.uuid).consumers:
            client.delete_consumer(consumer.uuid)
        client.transport.send("DELETE", f"/resource_providers/{named.uuid}")
    EMPTY.append(SavedPlacement())
    return client


class SavedPlacement:
    """Everything that the Placement of this process has at this moment."""

    def __init__(self) -> None:
        self._copy = sqlite3.connect(":memory:", check_same_thread=False)
        with _database() as database:
            database.backup(self._copy)

    def restore(self) -> None:
        """Put all of it back, within milliseconds."""
        with _database() as database:
            self._copy.backup(database)


EMPTY: list[SavedPlacement] = []
"""Placement without consumers and providers, once a test has emptied it."""


@contextmanager
def _database() -> Iterator[sqlite3.Connection]:
    """Yield Placement's own connection: a database in memory has no other."""
    with start()._one_at_a_time:  # no request is under way
        connection = importlib.import_module("placement.db_api").get_placement_engine().raw_connection()
        try:
            yield connection.driver_connection
        finally:
            connection.close()


def offering(total: int, ratio: str = "1.0") -> Inventory:
    return Inventory(total=total, max_unit=total, allocation_ratio=Decimal(ratio))


def host(client: PlacementClient, name: str = "", traits: tuple[str, ...] = (), **totals: int) -> Provider:
    """A host with these totals of each class; VCPU overcommitted eight times."""
    created = client.create_provider(name or f"host-{uuid4()}")
    inventories = {each: offering(total, "8.0" if each == VCPU else "1.0") for each, total in totals.items()}
    generation = client.put_inventories(created.uuid, created.generation, inventories)
    if traits:
        client.put_traits(created.uuid, generation, frozenset(traits))
    return client.provider(created.uuid)


def guest(allocations: Mapping[str, Mapping[str, int]], uuid: str = "") -> Consumer:
    """A guest that does not exist yet."""
    return Consumer(uuid or str(uuid4()), None, PROJECT, USER, allocations)


def pinned_guest(provider: Provider, cpus: int) -> Consumer:
    return guest({provider.uuid: {PCPU: cpus}})
