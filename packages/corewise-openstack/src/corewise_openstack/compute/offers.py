"""Where a scheduler finds hosts and enters claims: a Placement, or hosts known from files alone.

Both answer a query for allocation candidates, and both record and release claims. Offline, a host offers what
its options say, less what its ledger holds, counted as Placement counts; classes other than CPU and memory
are unknown there, and not checked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Protocol, TypeAlias

from corewise.vocabulary.reasons import Reason
from corewise_openstack.compute.errors import LedgerUnusable, PlacementNotNamed
from corewise_openstack.compute.hosts import ComputeHost, Hosts
from corewise_openstack.compute.ledger import GuestClaim, MoveRecord
from corewise_openstack.tracking import Membership, PlacementQuery, RequestGroup
from corewise_openstack.vocabulary.placement import MEMORY_MB, PCPU, VCPU, Inventory, Provider

CPU_CLASSES = frozenset({VCPU, PCPU})


Allocations: TypeAlias = Mapping[str, Mapping[str, int]]
"""Provider -> resource class -> amount."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A host that could give what a query asks for.

    ``allocations`` is what the guest would hold: provider -> class -> amount. ``provider`` is the host's own,
    "" offline. ``free`` is what the host has left of each class. ``by_fallback``: the fallback query found
    it, so it counts pinned guests as VCPU. ``traits`` are those of the host's provider.
    """

    host: str
    allocations: Mapping[str, Mapping[str, int]]
    provider: str = ""
    free: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    by_fallback: bool = False
    traits: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Stage:
    """A part of a query, named by what it adds to the stage before, and how many hosts it leaves."""

    demand: str
    left: int


@dataclass(frozen=True, slots=True)
class Relation:
    """Where a provider lies: its tree, by the root's uuid, and its aggregates; and its traits."""

    name: str
    root: str
    aggregates: frozenset[str] = frozenset()
    traits: frozenset[str] = frozenset()


class Offers(Protocol):
    """Where a scheduler finds hosts, and records what its guests hold."""

    def candidates(self, query: PlacementQuery) -> Sequence[Candidate]:
        """Return the hosts that could give all of a query."""

    def claim(self, wanted: GuestClaim) -> str | None:
        """Have a guest hold what it claims; None if it does now, else why not: somebody was faster."""

    def release(self, guest: str) -> bool:
        """Release all that a guest holds; False if it held nothing."""

    def refuse_guest_of_nova(self, guest: str) -> None:
        """Raise ProviderOfNova for a guest that holds something of a provider of Nova's."""

    def holds(self, guest: str, provider: str) -> bool | None:
        """Say whether a guest holds something of a provider; None if only another Placement knows."""

    def exists(self, guest: str) -> bool:
        """Say whether a guest holds anything."""

    def provider(self, host: str) -> Provider | None:
        """Return a host's provider; None if there is none."""

    def relations(self, providers: Iterable[str]) -> Mapping[str, Relation]:
        """Return where each of these providers lies, of those that exist."""

    def outside(self, host: str, member_of: Sequence[Membership]) -> Membership | None:
        """Return the first of these demands that a host does not meet."""

    def held(self, guest: str) -> Allocations | None:
        """Return the allocations of a guest, if it has any; None offline, where they are unknown."""

    def claim_move(self, move: MoveRecord) -> str | None:
        """Have the migration hold what the guest will hold; None if it does now, else why not."""

    def assign(self, move: MoveRecord, guest: Allocations, migration: Allocations) -> None:
        """Have guest and migration hold exactly this, in one request; may be repeated."""

    def stages(self, query: PlacementQuery) -> tuple[int, Sequence[Stage]]:
        """Return the number of hosts, and the number that each part of the query leaves."""


_NO_GROUP = RequestGroup()


def narrowed(query: PlacementQuery) -> Iterator[tuple[str, PlacementQuery]]:
    """Yield ever larger parts of a query: the CPUs, then aggregates, traits, memory, then the rest.

    Each comes with what it adds, in words. Parts are asked without a limit: they are counted. Placement takes
    the aggregates and traits of a group only with resources: if the unnamed group has no CPUs, its other
    amounts come first.
    """
    resources = set(query.resources)
    cpus = resources & CPU_CLASSES
    demands = [(each.demand, set[str](), 1, False) for each in query.member_of]
    if query.traits:
        groups = query.groups.values()
        required = sorted({trait for group in groups for trait in group.required})
        forbidden = sorted({f"!{trait}" for group in groups for trait in group.forbidden})
        demands.append(("trait " + ", ".join(required + forbidden), set(), 0, True))
    others = ({MEMORY_MB} & resources, resources - cpus - {MEMORY_MB})
    amounts = [(", ".join(sorted(more)), more, 0, False) for more in others if more]
    has_cpus = CPU_CLASSES & query.groups.get("", _NO_GROUP).resources.keys()
    asked, members, with_traits = cpus, 0, False
    yield ", ".join(sorted(cpus)), _part(query, cpus, 0, traits=False)
    for demand, more, member, of_traits in [*demands, *amounts] if has_cpus else [*amounts, *demands]:
        asked, members, with_traits = asked | more, members + member, with_traits or of_traits
        yield demand, _part(query, asked, members, traits=with_traits)


def _part(query: PlacementQuery, classes: set[str], members: int, *, traits: bool) -> PlacementQuery:
    """Return the query for some classes within its first aggregates."""
    groups: dict[str, RequestGroup] = {}
    for suffix, group in query.groups.items():
        resources = {name: amount for name, amount in group.resources.items() if name in classes}
        if not resources and suffix:
            continue
        part = RequestGroup(resources, group.required, group.forbidden) if traits else RequestGroup(resources)
        groups[suffix] = part
    return replace(query, groups=MappingProxyType(groups), limit=None, member_of=query.member_of[:members])


_MEBI = 1 << 20


def refuse_claim_in_placement(guest: str, hosts: Hosts) -> None:
    """Refuse to change the claim of a guest in ledgers alone; an agent changes it in its own Placement.

    Raises:
        NovaGivesCPUs: if nova-compute gives the CPUs of its host.
        PlacementNotNamed: if the guest, or the migration that moves it, holds its claim in a Placement.
    """
    for host in hosts.known.values():
        with suppress(LedgerUnusable):
            guests = {} if host.agent is not None else host.guests()
            for uuid, record in guests.items():
                names = {uuid} if record.move is None else {uuid, record.move.guest}
                if guest in names and record.provider:
                    host.refuse_cpus_of_nova()
                    raise PlacementNotNamed(
                        f"guest {guest} holds a claim in a Placement (provider {record.provider} of host "
                        f"{host.name}), and the command names none",
                        hint=Reason.PLACEMENT_NOT_NAMED.fix,
                    )


def refuse_other_placement(guest: str, provider: str, host: str, offers: Offers) -> None:
    """Refuse to change a claim on a host's provider in a Placement that does not have this provider.

    Raises:
        PlacementNotNamed: if it is not the Placement of the claim.
    """
    if not provider:
        return
    found = offers.provider(host)
    if found is None or found.uuid != provider:
        raise PlacementNotNamed(
            f"guest {guest} holds a claim in another Placement: this one has no provider {provider} of host "
            f"{host}",
            hint=Reason.PLACEMENT_NOT_NAMED.fix,
        )


class LocalOffers:
    """Hosts known from files. Only their ledgers say what a guest holds."""

    def __init__(self, hosts: Hosts) -> None:
        self._hosts = hosts

    def candidates(self, query: PlacementQuery) -> Sequence[Candidate]:
        found = [
            Candidate(host.name, {"": dict(query.resources)}, "", _free(host))
            for host in self._hosts.known.values()
            if _serves(host, query)
        ]
        return found[: query.limit]

    def claim(self, wanted: GuestClaim) -> str | None:
        """Claim nothing: only the ledger records claims offline, and the caller holds it."""
        return None

    def release(self, guest: str) -> bool:
        """Release nothing: only the ledger records claims offline."""
        return False

    def refuse_guest_of_nova(self, guest: str) -> None:
        """Refuse none: the hosts' directories say where Nova runs."""

    def holds(self, guest: str, provider: str) -> bool | None:
        """Unknown for a claim in Placement; void without one: only the scheduler that died knew of it."""
        return None if provider else False

    def exists(self, guest: str) -> bool:
        return False

    def provider(self, host: str) -> Provider | None:
        known = self._hosts.known[host]
        return Provider("", host, 0, inventories(known), known.offer.traits)

    def relations(self, providers: Iterable[str]) -> Mapping[str, Relation]:
        """Return none: offline a guest holds nothing of other providers."""
        return {}

    def outside(self, host: str, member_of: Sequence[Membership]) -> Membership | None:
        return next((each for each in member_of if not each.has(host)), None)

    def held(self, guest: str) -> Allocations | None:
        return {}

    def claim_move(self, move: MoveRecord) -> str | None:
        """Return the destination's shortage in words, now that its ledger has the migration."""
        free = _free(self._hosts.known[move.destination])
        short = sorted(name for name, amount in free.items() if amount < 0)
        return f"there is too little {', '.join(short)}" if short else None

    def assign(self, move: MoveRecord, guest: Allocations, migration: Allocations) -> None:
        """Assign nothing: only the ledgers record claims offline."""

    def stages(self, query: PlacementQuery) -> tuple[int, Sequence[Stage]]:
        left = [Stage(demand, len(self.candidates(part))) for demand, part in narrowed(query)]
        return len(self._hosts.known), left


def inventories(host: ComputeHost) -> Mapping[str, Inventory]:
    """Return the inventories of a host, and all its memory if it is known."""
    offered = dict(host.offer.inventories)
    if host.machine.memory_total is not None:
        memory = host.machine.memory_total // _MEBI
        offered[MEMORY_MB] = Inventory(total=memory, max_unit=memory)
    return offered


def _free(host: ComputeHost) -> Mapping[str, int]:
    used: Counter[str] = Counter()
    for guest in host.guests().values():
        used.update(guest.resources)
    return {name: each.capacity - used[name] for name, each in inventories(host).items()}


def _serves(host: ComputeHost, query: PlacementQuery) -> bool:
    if not all(each.has(host.name) for each in query.member_of):
        return False
    offered, free, traits = inventories(host), _free(host), host.offer.traits
    if any(amount > free.get(name, amount) for name, amount in query.resources.items()):
        return False
    for group in query.groups.values():
        if not group.required <= traits or group.forbidden & traits:
            return False
        for name, amount in group.resources.items():
            # A host without an inventory of CPUs has none; of other classes nothing is known offline.
            if amount > offered[name].max_unit if name in offered else name in CPU_CLASSES:
                return False
    return True
