"""The offer of a host to Placement: inventories of VCPU and PCPU, and the trait of hyperthreads.

Of a class with n CPUs: total n, min_unit 1, max_unit n, step_size 1; a class without CPUs is left out,
since Placement refuses a total of 0. ``cpu_allocation_ratio`` applies to VCPU only; a dedicated CPU is
offered once. Without the option a provider keeps the ratio that it has, and a new one begins with
``initial_cpu_allocation_ratio``. With one of the new options, a reserved amount that somebody has set through
Placement stays as long as the total does; the legacy ones state it themselves, and what they stated goes with
them.

Other classes and traits of the provider are other people's, and stay.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from types import MappingProxyType

from corewise.vocabulary.reasons import Reason
from corewise_openstack.actions import WriteInventories, WriteTraits
from corewise_openstack.tracking.options import HostFacts, HostSettings
from corewise_openstack.vocabulary.placement import HYPER_THREADING_TRAIT, PCPU, VCPU, Inventory, Provider

CPU_CLASSES = (VCPU, PCPU)
_ONCE = Decimal("1.0")


@dataclass(frozen=True, slots=True)
class HostOffer:
    """The host's offer of the CPU classes; a class without CPUs is not in ``inventories``."""

    inventories: Mapping[str, Inventory]
    hyper_threading: bool

    @property
    def traits(self) -> frozenset[str]:
        return frozenset({HYPER_THREADING_TRAIT} if self.hyper_threading else ())

    def inventories_of(self, provider: Provider) -> Mapping[str, Inventory]:
        """Return all inventories that the provider is to have."""
        others = {name: each for name, each in provider.inventories.items() if name not in CPU_CLASSES}
        return MappingProxyType({**others, **self.inventories})

    def traits_of(self, provider: Provider) -> frozenset[str]:
        """Return all traits that the provider is to have."""
        return (provider.traits - {HYPER_THREADING_TRAIT}) | self.traits


def offer(
    settings: HostSettings,
    facts: HostFacts,
    provider: Provider | None = None,
    *,
    reserved_by_option: bool = False,
) -> HostOffer:
    """Return the host's offer; ``provider`` is what Placement has of it so far, None of a new host.

    ``reserved_by_option``: the VCPU that the provider has reserved comes from ``reserved_host_cpus``.
    """
    current: Mapping[str, Inventory] = provider.inventories if provider else {}
    offered: dict[str, Inventory] = {}
    for name, cpus in ((VCPU, settings.shared), (PCPU, settings.dedicated)):
        if cpus:
            keeps = name == PCPU or not reserved_by_option
            offered[name] = _inventory(name, len(cpus), settings, current.get(name), keeps_reserved=keeps)
    return HostOffer(MappingProxyType(offered), facts.hyper_threading)


def _inventory(
    name: str, total: int, settings: HostSettings, current: Inventory | None, *, keeps_reserved: bool
) -> Inventory:
    ratio, reserved = _ONCE, 0
    if name == VCPU and settings.legacy:
        reserved = settings.reserved
    elif keeps_reserved and current is not None and current.total == total:
        reserved = current.reserved
    if name == VCPU:
        kept = settings.initial_ratio if current is None else current.allocation_ratio
        ratio = kept if settings.ratio is None else settings.ratio
    return Inventory(total=total, max_unit=total, reserved=reserved, allocation_ratio=ratio)


def next_write(provider: Provider, offered: HostOffer) -> WriteInventories | WriteTraits | None:
    """Return the next thing to write, None if Placement has it all.

    Each write gives the provider a new generation, so there is one at a time: ask again with the provider as
    the write has left it.
    """
    inventories = offered.inventories_of(provider)
    if inventories != dict(provider.inventories):
        why = f"the host offers {_described(inventories)}, Placement has {_described(provider.inventories)}"
        return WriteInventories(
            provider.uuid, provider.generation, inventories, Reason.INVENTORY_REPORTED, why
        )
    traits = offered.traits_of(provider)
    if traits != provider.traits:
        why = (
            "a core has more than one thread"
            if offered.hyper_threading
            else "no core has more than one thread"
        )
        return WriteTraits(provider.uuid, provider.generation, traits, Reason.TRAIT_REPORTED, f"{why} online")
    return None


def _described(inventories: Mapping[str, Inventory]) -> str:
    """Return ``VCPU 30 x 8.0, PCPU 16 x 1.0``."""
    texts = [
        f"{name} {each.total}{f' - {each.reserved}' if each.reserved else ''} x {each.allocation_ratio}"
        for name in CPU_CLASSES
        if (each := inventories.get(name)) is not None
    ]
    return ", ".join(texts) or "neither VCPU nor PCPU"
