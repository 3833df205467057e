"""What a host offers, brought to Placement: once, and again whenever it is not what Placement has.

First the upgrade: where ``cpu_dedicated_set`` is set and pinned guests still hold VCPU, inventories and
allocations change together, in one request (:mod:`corewise.tracking.reshape`). Then inventories, then traits,
one write at a time, each under the generation that was read. Nothing is written where nothing differs, and a
write that somebody else came before is decided anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from corewise.actions import Reshape, WriteInventories, WriteTraits
from corewise.compute.errors import ComputeError
from corewise.openstack.placement.client import PlacementClient
from corewise.openstack.placement.keeping import (
    PATIENCE,
    Patience,
    ensure_provider,
    keep_provider,
    reshape,
)
from corewise.policy.placement import Inventory, Provider, ProviderUse
from corewise.topology import Host
from corewise.tracking import (
    Compat,
    HostedGuest,
    HostFacts,
    HostSettings,
    Offer,
    ReshapePlan,
    ReshapeRefusal,
    next_write,
    offer,
    plan_reshape,
)

Write = Reshape | WriteInventories | WriteTraits


def _nothing() -> Mapping[str, Inventory]:
    return MappingProxyType({})


class ReshapeImpossible(ComputeError):  # noqa: N818 - named after what it is
    """The guests of the host do not fit into what it is to offer; nothing was changed."""

    def __init__(self, refusal: ReshapeRefusal) -> None:
        super().__init__(refusal.message, hint=refusal.reason.text.fix)
        self.reason = refusal.reason


@dataclass(frozen=True)
class Offering:
    """A host as it is to stand in Placement. ``others``: classes besides the CPUs that are stated too."""

    name: str
    machine: Host
    settings: HostSettings
    guests: tuple[HostedGuest, ...] = ()
    others: Mapping[str, Inventory] = field(default_factory=_nothing)

    def offer(self, provider: Provider) -> Offer:
        """Return what it offers, seen what Placement has of it."""
        offered = offer(self.settings, HostFacts.of(self.machine), provider)
        return replace(offered, inventories=MappingProxyType({**offered.inventories, **self.others}))


class Reporter:
    """Brings hosts to Placement. For one thread at a time."""

    def __init__(
        self, client: PlacementClient, compat: Compat = Compat.SPEC, *, patience: Patience = PATIENCE
    ) -> None:
        self._client = client
        self._compat = compat
        self._patience = patience
        self._content: dict[str, tuple[HostSettings, tuple[HostedGuest, ...]]] = {}
        """What each host was when nothing was left to move: to ask again would cost a request a guest."""

    def report(self, host: Offering) -> Sequence[Write]:
        """Write what differs, and return what was written.

        Raises:
            ReshapeImpossible: if the pinned guests do not fit into the new inventories.
            PlacementError: what Placement refuses; whatever was written before stands.
        """
        provider = ensure_provider(self._client, host.name)
        moved = self.reshape(host, provider)
        kept = keep_provider(
            self._client, provider.uuid, lambda read: next_write(read, host.offer(read)), self._patience
        )
        return [moved.action, *kept] if moved else kept

    def reshape(self, host: Offering, provider: Provider) -> ReshapePlan | None:
        """Upgrade the host if that is due; None if there is nothing to move."""
        looked_at = host.settings, host.guests
        if not reshape_due(host) or self._content.get(host.name) == looked_at:
            return None
        made: list[ReshapePlan] = []

        def decide(use: ProviderUse) -> Reshape | None:
            made.clear()
            plan = self.plan(host, use)
            if plan is None:
                return None
            made.append(plan)
            return plan.action

        done = reshape(self._client, provider.uuid, decide, self._patience)
        self._content[host.name] = looked_at
        return made[0] if done is not None else None

    def plan(self, host: Offering, use: ProviderUse) -> ReshapePlan | None:
        """Return what the upgrade would change; None if there is nothing to move.

        Raises:
            ReshapeImpossible: if the pinned guests do not fit into the new inventories.
        """
        return planned(host, use, self._compat)

    def rehearse(self, host: Offering) -> Sequence[Write]:
        """Return what ``report`` would write now; nothing is written."""
        provider = self._client.find_provider(host.name)
        if provider is None:
            return rehearsed(host, Provider("", host.name, 0))
        plan = self.plan(host, self._client.use(provider.uuid)) if reshape_due(host) else None
        if plan is None:
            return rehearsed(host, provider)
        return [plan.action, *rehearsed(host, replace(provider, inventories=plan.after))]


def reshape_due(host: Offering) -> bool:
    """Say whether any guest could have to be moved: then it is worth asking who holds what."""
    return not host.settings.legacy and any(guest.pinned for guest in host.guests)


def planned(host: Offering, use: ProviderUse, compat: Compat) -> ReshapePlan | None:
    """Return what the upgrade of a host would change.

    Raises:
        ReshapeImpossible: if its pinned guests do not fit into the new inventories.
    """
    offered = host.offer(use.provider)
    topology = host.machine.topology
    plan = plan_reshape(use, host.guests, host.settings, offered, topology=topology, compat=compat)
    if isinstance(plan, ReshapeRefusal):
        raise ReshapeImpossible(plan)
    return plan


def rehearsed(host: Offering, provider: Provider) -> Sequence[Write]:
    """Return all that would be written of a provider as it stands here."""
    written: list[Write] = []
    while (write := next_write(provider, host.offer(provider))) is not None:
        written.append(write)
        match write:
            case WriteInventories():
                provider = replace(provider, inventories=write.inventories)
            case WriteTraits():
                provider = replace(provider, traits=write.traits)
    return written
