"""OpenStack Placement's objects, as values: resource providers, inventories, traits, and consumers.

A resource provider (here: a compute host) has an inventory of each resource class it offers. A consumer
(here: a guest) holds amounts of classes of one or more providers. Provider and consumer each carry a
generation: whoever writes names the one that he read, and is refused (409) if somebody has written since.

Source: the API reference of Placement, microversion 1.39.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import ROUND_FLOOR, Decimal
from types import MappingProxyType

import msgspec

VCPU = "VCPU"
PCPU = "PCPU"
MEMORY_MB = "MEMORY_MB"
DISK_GB = "DISK_GB"
HYPER_THREADING_TRAIT = "HW_CPU_HYPERTHREADING"
DISABLED_TRAIT = "COMPUTE_STATUS_DISABLED"
"""Nova gives it to the provider of a host whose compute service is disabled."""
SHARING_TRAIT = "MISC_SHARES_VIA_AGGREGATE"
"""Of a provider whose resources the hosts of its aggregates share, such as a pool of disk."""
NOVA_TRAITS = frozenset({"COMPUTE_NODE", "OWNER_NOVA"})
"""nova-compute gives them to its provider: the first since Ussuri (2020), the second since release 34."""
INSTANCE = "INSTANCE"
"""The type of a consumer that is a guest, as Nova names it."""

MIGRATION = "MIGRATION"
"""The type of a consumer that holds the other claim of a guest that is being moved, likewise."""

NOT_OVERCOMMITTED = Decimal(1)


@dataclass(frozen=True, slots=True)
class Inventory:
    """The amount of one resource class that a provider offers; it counts once, whatever its ratio."""

    total: int
    max_unit: int
    reserved: int = 0
    min_unit: int = 1
    step_size: int = 1
    allocation_ratio: Decimal = NOT_OVERCOMMITTED

    @property
    def capacity(self) -> int:
        """The amount all consumers together may hold: (total - reserved) x allocation_ratio, rounded down."""
        amount = (self.total - self.reserved) * self.allocation_ratio
        return int(amount.to_integral_value(rounding=ROUND_FLOOR))


@dataclass(frozen=True, slots=True)
class Provider:
    """A resource provider as it was read: the generation is that of inventories and traits together."""

    uuid: str
    name: str
    generation: int
    inventories: Mapping[str, Inventory] = field(default_factory=lambda: MappingProxyType({}))
    traits: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Consumer:
    """A consumer and all its allocations: ``allocations`` maps provider uuid -> resource class -> amount.

    ``generation`` is None of a consumer that does not exist yet. ``type`` is None where Placement is older
    than 1.38, or does not know it.
    """

    uuid: str
    generation: int | None
    project: str
    user: str
    allocations: Mapping[str, Mapping[str, int]]
    type: str | None = INSTANCE


@dataclass(frozen=True, slots=True)
class ProviderUse:
    """A provider and everyone who holds something of it: what a reshape is planned from."""

    provider: Provider
    consumers: tuple[Consumer, ...]


class InventoryUse(msgspec.Struct, frozen=True, gc=False):
    """Of one class of a provider: what all consumers together may hold, and what they do hold."""

    capacity: int
    used: int


class ProviderSummary(msgspec.Struct, frozen=True, gc=False):
    """A provider as the answer to a query describes it."""

    resources: dict[str, InventoryUse]
    traits: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Candidates:
    """The answer to a query: each candidate is what a consumer would hold, provider -> class -> amount.

    ``providers`` describes every provider that a candidate names. Candidates stand in Placement's order.
    """

    candidates: tuple[Mapping[str, Mapping[str, int]], ...]
    providers: Mapping[str, ProviderSummary]

    @property
    def hosts(self) -> frozenset[str]:
        """The providers that give the CPUs: others give disk, or are children of hosts."""
        cpus = {VCPU, PCPU}
        return frozenset(
            uuid for each in self.candidates for uuid, amounts in each.items() if cpus & amounts.keys()
        )
