"""The inventories that a host offers to Placement, and the requests that would write them.

Nothing here needs the extra ``openstack``: an upgrade can be planned from files. :mod:`placement` carries it
out. What guests hold after a reshape goes into the host's ledger too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

import msgspec

from corewise.topology import Host
from corewise.vocabulary.findings import Finding
from corewise_openstack.actions import Reshape, WriteInventories, WriteTraits
from corewise_openstack.compute.beside_nova import made_by_nova, refuse_provider_of_nova
from corewise_openstack.compute.errors import ComputeError
from corewise_openstack.compute.ledger import Guests, LedgerStore
from corewise_openstack.tracking import (
    Compat,
    HostedGuest,
    HostFacts,
    HostOffer,
    HostSettings,
    ReshapePlan,
    next_write,
    offer,
    plan_reshape,
)
from corewise_openstack.vocabulary.placement import PCPU, Consumer, Inventory, Provider, ProviderUse

if TYPE_CHECKING:
    from corewise_openstack.openstack.placement_client import PlacementClient

PlacementWrite = Reshape | WriteInventories | WriteTraits


class ReshapeImpossible(ComputeError):  # noqa: N818 - named after what it is
    """The guests of the host do not fit into what it is to offer; nothing was changed."""

    def __init__(self, refusal: Finding) -> None:
        super().__init__(refusal.message, hint=refusal.reason.fix)
        self.reason = refusal.reason


@dataclass(frozen=True)
class Offering:
    """A host as Placement should have it. ``others``: inventories besides those of CPUs.

    ``reserved_by_option``: ``reserved_host_cpus`` counted in the last pass, so the VCPU that its provider has
    reserved comes from there.
    """

    name: str
    machine: Host
    settings: HostSettings
    guests: tuple[HostedGuest, ...] = ()
    others: Mapping[str, Inventory] = field(default_factory=lambda: MappingProxyType({}))
    reserved_by_option: bool = False

    def offer(self, provider: Provider) -> HostOffer:
        """Return its inventories, given its provider in Placement."""
        facts = HostFacts.of(self.machine)
        offered = offer(self.settings, facts, provider, reserved_by_option=self.reserved_by_option)
        return replace(offered, inventories=MappingProxyType({**offered.inventories, **self.others}))


def reshape_due(host: Offering) -> bool:
    """Say whether any guest may have to be moved: only then is it worth asking who holds what."""
    return not host.settings.legacy and any(guest.pinned for guest in host.guests)


def planned(host: Offering, use: ProviderUse, compat: Compat) -> ReshapePlan | None:
    """Return the changes that the upgrade of a host would make.

    Raises:
        ReshapeImpossible: if its pinned guests do not fit into the new inventories.
    """
    offered = host.offer(use.provider)
    topology = host.machine.topology
    plan = plan_reshape(use, host.guests, host.settings, offered, topology=topology, compat=compat)
    if isinstance(plan, Finding):
        raise ReshapeImpossible(plan)
    return plan


def rehearsed(host: Offering, provider: Provider) -> Sequence[PlacementWrite]:
    """Return all writes that a provider would need."""
    written: list[PlacementWrite] = []
    while (write := next_write(provider, host.offer(provider))) is not None:
        written.append(write)
        match write:
            case WriteInventories():
                provider = replace(provider, inventories=write.inventories)
            case WriteTraits():
                provider = replace(provider, traits=write.traits)
    return written


def note_moves(ledger: LedgerStore, provider: str, consumers: Iterable[Consumer]) -> None:
    """Record in a host's ledger which of its guests hold PCPU now, as these consumers of its provider do.

    Raises:
        LedgerUnusable: if the ledger cannot be written.
    """
    held = {each.uuid: dict(each.allocations.get(provider, {})) for each in consumers}

    def moved(guests: Guests) -> Guests:
        return {
            uuid: msgspec.structs.replace(guest, resources=held[uuid], provider=provider)
            for uuid, guest in guests.items()
            if PCPU in held.get(uuid, ()) and PCPU not in guest.resources
        }

    _record(ledger, moved)


def note_provider(ledger: LedgerStore, provider: str, holders: Callable[[], Collection[str]]) -> None:
    """Record in a host's ledger whose claims are in Placement, of guests that were adopted with them.

    ``holders`` returns the consumers of the host's provider; it is asked only if a guest has no provider.

    Raises:
        LedgerUnusable: if the ledger cannot be written.
    """
    if all(guest.provider for guest in ledger.read().guests.values()):
        return
    held = holders()
    _record(
        ledger,
        lambda guests: {
            uuid: msgspec.structs.replace(guest, provider=provider)
            for uuid, guest in guests.items()
            if not guest.provider and uuid in held
        },
    )


def _record(ledger: LedgerStore, changed: Callable[[Guests], Guests]) -> None:
    if changed(ledger.read().guests):
        with ledger.changing() as change:
            change.write({**change.host.guests, **changed(change.host.guests)})


class DryReporter:
    """Returns what :class:`~.placement.Reporter` would write, and writes nothing.

    ``client`` is None where no Placement is asked. ``of_nova``: nova-compute writes the host's provider.
    """

    writes = False

    def __init__(
        self, client: PlacementClient | None, compat: Compat = Compat.SPEC, *, of_nova: bool = False
    ) -> None:
        self._client = client
        self._compat = compat
        self._of_nova = of_nova

    def report(self, host: Offering) -> Sequence[PlacementWrite]:
        """Return the requests that would be sent now.

        Raises:
            ReshapeImpossible: if the pinned guests do not fit into the new inventories.
            ProviderAwaited: if nova-compute has not created its provider yet.
            ProviderOfNova: if the provider belongs to nova-compute, and was to be corewise's.
            PlacementError: if Placement does not answer.
        """
        absent = Provider("", host.name, 0)
        if self._client is None:
            return rehearsed(host, absent)
        provider = self._client.find_provider(host.name)
        if self._of_nova:
            provider = made_by_nova(host.name, provider)
        elif provider is None:
            return rehearsed(host, absent)
        else:
            refuse_provider_of_nova(host.name, provider.traits)
        plan = self.reshape(host, self._client.use(provider.uuid)) if reshape_due(host) else None
        if plan is None:
            return rehearsed(host, provider)
        return [plan.action, *rehearsed(host, replace(provider, inventories=plan.after))]

    def reshape(self, host: Offering, use: ProviderUse) -> ReshapePlan | None:
        """Return the upgrade of a host; None if there is nothing to move; raises as ``planned``."""
        return planned(host, use, self._compat)

    def give_back(self, host: str, guest: str) -> None:
        """Release nothing."""

    def share(self, host: str, guest: str, kept: int, floating: int) -> str | None:
        """Change nothing; no guest is refused."""
