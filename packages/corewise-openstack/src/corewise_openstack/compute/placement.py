"""Placement as the compute program uses it: hosts are reported to it, and guests find their hosts in it.

A host is reported whenever Placement has something else. First the upgrade: where
``cpu_dedicated_set`` is set and pinned guests still hold VCPU, inventories and allocations change together,
in one request (:mod:`corewise_openstack.tracking.reshape`). Then inventories, then traits, one write at a
time, each under the generation that was read. Nothing is written where nothing differs, and a write that
loses a race is decided again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from corewise_openstack.actions import Reshape
from corewise_openstack.compute.beside_nova import refuse_provider_of_nova
from corewise_openstack.compute.errors import GuestUnknown
from corewise_openstack.compute.ledger import GuestClaim, LedgerStore, MoveRecord
from corewise_openstack.compute.offering import (
    Offering,
    PlacementWrite,
    note_moves,
    note_provider,
    planned,
    reshape_due,
)
from corewise_openstack.compute.offers import (
    CPU_CLASSES,
    Allocations,
    Candidate,
    Relation,
    Stage,
    narrowed,
)
from corewise_openstack.openstack.errors import DoesNotFit
from corewise_openstack.openstack.placement_client import PlacementClient
from corewise_openstack.openstack.placement_writes import (
    PATIENCE,
    Patience,
    again,
    claim,
    ensure_provider,
    keep_provider,
    reshape,
)
from corewise_openstack.tracking import (
    Compat,
    HostedGuest,
    HostSettings,
    Membership,
    PlacementQuery,
    ReshapePlan,
    next_write,
)
from corewise_openstack.vocabulary.placement import (
    INSTANCE,
    MIGRATION,
    PCPU,
    VCPU,
    Consumer,
    Provider,
    ProviderUse,
)


class Reporter:
    """Reports a host to Placement. ``ledger``: the host's, if it has one. For one thread at a time."""

    writes = True

    def __init__(
        self,
        client: PlacementClient,
        compat: Compat = Compat.SPEC,
        ledger: LedgerStore | None = None,
        *,
        patience: Patience = PATIENCE,
    ) -> None:
        self._client = client
        self._compat = compat
        self._ledger = ledger
        self._patience = patience
        self._settled: tuple[HostSettings, tuple[HostedGuest, ...]] | None = None
        """The host when nothing was left to move: asking again would cost a request per guest."""

    def report(self, host: Offering) -> Sequence[PlacementWrite]:
        """Write what differs, and return what was written.

        Raises:
            ReshapeImpossible: if the pinned guests do not fit into the new inventories.
            ProviderOfNova: if the provider belongs to nova-compute.
            LedgerUnusable: if the ledger cannot be written.
            PlacementError: what Placement refuses; whatever was written before stands.
        """
        provider = ensure_provider(self._client, host.name)
        refuse_provider_of_nova(host.name, provider.traits)
        moved = self._reshaped(host, provider.uuid)
        kept = keep_provider(
            self._client, provider.uuid, lambda read: next_write(read, host.offer(read)), self._patience
        )
        if self._ledger is not None:
            note_provider(self._ledger, provider.uuid, lambda: self._client.holders(provider.uuid))
        return [moved.action, *kept] if moved else kept

    def reshape(self, host: Offering, use: ProviderUse) -> ReshapePlan | None:
        """Upgrade the host if that is due; None if there is nothing to move.

        Who holds what of its provider is read again: ``use`` may be out of date. The ledger then has what its
        guests hold, also those that were moved by a program which was killed before it could note that.
        """
        return self._reshaped(host, use.provider.uuid)

    def _reshaped(self, host: Offering, provider: str) -> ReshapePlan | None:
        state = host.settings, host.guests
        if not reshape_due(host) or self._settled == state:
            return None
        plan: ReshapePlan | None = None
        consumers: Sequence[Consumer] = ()

        def decide(now: ProviderUse) -> Reshape | None:
            nonlocal plan, consumers
            plan = planned(host, now, self._compat)
            consumers = now.consumers if plan is None else plan.action.consumers
            return None if plan is None else plan.action

        reshape(self._client, provider, decide, self._patience)
        if self._ledger is not None:
            note_moves(self._ledger, provider, consumers)
        self._settled = state
        return plan

    def give_back(self, host: str, guest: str) -> None:
        """Release what a guest that is gone from a host holds of it.

        A guest that has CPUs of another host has moved there, and keeps those.

        Raises:
            PlacementError: what Placement refuses; the guest then holds what it held.
        """

        def without(provider: str, held: Consumer) -> Consumer:
            others = {uuid: amounts for uuid, amounts in held.allocations.items() if uuid != provider}
            moved = any(CPU_CLASSES & amounts.keys() for amounts in others.values())
            return replace(held, allocations=others if moved else {})

        self._reallocate(host, guest, without)

    def share(self, host: str, guest: str, kept: int, floating: int) -> str | None:
        """Have a guest hold no more PCPU than ``kept``, and VCPU for its ``floating`` CPUs that lose theirs.

        Returns Placement's message if it does not fit.

        Raises:
            PlacementError: what else Placement refuses; the guest then holds what it held.
        """

        def shared(provider: str, held: Consumer) -> Consumer:
            amounts = dict(held.allocations[provider])
            less = max(amounts.get(PCPU, 0) - kept, 0)
            amounts |= {
                PCPU: amounts.get(PCPU, 0) - less,
                VCPU: amounts.get(VCPU, 0) + min(less, floating),
            }
            left = {name: amount for name, amount in amounts.items() if amount}
            return replace(held, allocations={**held.allocations, provider: left})

        try:
            self._reallocate(host, guest, shared)
        except DoesNotFit as refused:
            return refused.detail
        return None

    def _reallocate(self, host: str, guest: str, change: Callable[[str, Consumer], Consumer]) -> None:
        """Change what a guest holds, if it holds anything of a host."""
        provider = self._client.find_provider(host)
        if provider is None:
            return
        refuse_provider_of_nova(host, provider.traits)
        own = provider.uuid

        def attempt() -> None:
            held = self._client.consumer(guest)
            if held is None or own not in held.allocations:
                return
            wanted = change(own, held)
            if wanted != held:
                self._client.put_consumer(wanted)

        again(attempt, f"consumer {guest}", self._patience)


NOBODY = "00000000-0000-0000-0000-000000000000"
"""The project and the user of a guest that is placed without any."""


class PlacementOffers:
    """A scheduler's view of a Placement; for one thread at a time."""

    def __init__(self, client: PlacementClient, *, patience: Patience = PATIENCE) -> None:
        self._client = client
        self._patience = patience
        self._names: dict[str, str] = {}

    def candidates(self, query: PlacementQuery) -> Sequence[Candidate]:
        found = self._client.candidates(str(query))
        if found.providers.keys() - self._names.keys():
            self._names = {each.uuid: each.name for each in self._client.providers()}
        candidates = []
        for allocations in found.candidates:
            # The host is the provider that gives the CPUs; it may have gone meanwhile.
            giving = (uuid for uuid, amounts in allocations.items() if {VCPU, PCPU} & amounts.keys())
            host = next(giving, "")
            if host in self._names:
                summary = found.providers[host]
                resources = summary.resources
                free = {name: amount.capacity - amount.used for name, amount in resources.items()}
                name, traits = self._names[host], summary.traits
                candidates.append(Candidate(name, allocations, host, free, traits=traits))
        return candidates

    def claim(self, wanted: GuestClaim) -> str | None:
        project, user = wanted.project or NOBODY, wanted.user or NOBODY
        consumer = Consumer(wanted.guest, None, project, user, wanted.allocations)
        return claim(self._client, consumer, self._patience)

    def release(self, guest: str) -> bool:
        return self._client.delete_consumer(guest)

    def refuse_guest_of_nova(self, guest: str) -> None:
        consumer = self._client.consumer(guest)
        for uuid in () if consumer is None else consumer.allocations:
            provider = self._client.provider(uuid)
            refuse_provider_of_nova(provider.name, provider.traits)

    def holds(self, guest: str, provider: str) -> bool | None:
        consumer = self._client.consumer(guest)
        if consumer is not None and provider in consumer.allocations:
            return True
        return None if self._client.place(provider) is None else False

    def exists(self, guest: str) -> bool:
        return self._client.consumer(guest) is not None

    def provider(self, host: str) -> Provider | None:
        return self._client.find_provider(host)

    def relations(self, providers: Iterable[str]) -> Mapping[str, Relation]:
        found = {uuid: self._client.place(uuid) for uuid in providers}
        return {
            uuid: Relation(place.name, place.root, place.aggregates, self._client.provider(uuid).traits)
            for uuid, place in found.items()
            if place is not None
        }

    def outside(self, host: str, member_of: Sequence[Membership]) -> Membership | None:
        return next((each for each in member_of if not self._client.providers(host, str(each))), None)

    def held(self, guest: str) -> Allocations | None:
        consumer = self._client.consumer(guest)
        return None if consumer is None else consumer.allocations

    def claim_move(self, move: MoveRecord) -> str | None:
        guest = self._client.consumer(move.guest)
        project, user = (NOBODY, NOBODY) if guest is None else (guest.project, guest.user)
        wanted = Consumer(move.migration, None, project, user, move.after, type=MIGRATION)
        return claim(self._client, wanted, self._patience)

    def assign(self, move: MoveRecord, guest: Allocations, migration: Allocations) -> None:
        def attempt() -> None:
            there = {uuid: self._client.consumer(uuid) for uuid in (move.guest, move.migration)}
            known = next((each for each in there.values() if each is not None), None)
            if known is None:
                raise GuestUnknown(f"Placement has no allocations of guest {move.guest}")
            types = {move.guest: INSTANCE, move.migration: MIGRATION}
            wanted = {
                uuid: replace(each, allocations=allocations)
                if (each := there[uuid]) is not None
                else Consumer(uuid, None, known.project, known.user, allocations, types[uuid])
                for uuid, allocations in ((move.guest, guest), (move.migration, migration))
                if allocations or there[uuid] is not None
            }
            if any(each != there[uuid] for uuid, each in wanted.items()):
                self._client.put_consumers(tuple(wanted.values()))

        again(attempt, f"guest {move.guest} or its migration {move.migration}", self._patience)

    def stages(self, query: PlacementQuery) -> tuple[int, Sequence[Stage]]:
        left: list[Stage] = []
        for demand, part in narrowed(query):
            hosts = len(self._client.candidates(str(part)).hosts)
            left.append(Stage(demand, hosts))
            if not hosts:
                break
        return len(self._client.hosts()), left
