"""Where a scheduler finds hosts and enters claims: a Placement, or hosts known from files alone.

Both answer the same question, a query for allocation candidates, and both take and give back claims. Offline,
a host offers what its options result in, less what its ledger says is held, counted as Placement counts; of
classes other than CPU and memory nothing is known there, and they are not checked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Protocol

from corewise.compute.hosts import ComputeHost, Hosts
from corewise.tracking import Group, PlacementQuery
from corewise.vocabulary.placement import MEMORY_MB, PCPU, VCPU, Inventory

_CPU_CLASSES = frozenset({VCPU, PCPU})


def _nothing() -> Mapping[str, int]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Candidate:
    """A host that could give what was asked for.

    ``allocations`` is what the guest would hold: provider -> class -> amount. ``provider`` is the host's own,
    "" offline. ``free`` is what the host has left of each class.
    """

    host: str
    allocations: Mapping[str, Mapping[str, int]]
    provider: str = ""
    free: Mapping[str, int] = field(default_factory=_nothing)

    @property
    def resources(self) -> Mapping[str, int]:
        """What the guest would hold of the host itself."""
        return self.allocations[self.provider]


@dataclass(frozen=True, slots=True)
class Stage:
    """A part of a query, told by what it adds to the stage before: how many hosts it leaves."""

    demand: str
    left: int


class Offers(Protocol):
    """Where a scheduler finds hosts, and enters what its guests hold."""

    def candidates(self, query: PlacementQuery) -> Sequence[Candidate]:
        """Return the hosts that could give all of a query."""

    def claim(self, guest: str, candidate: Candidate) -> str | None:
        """Give a guest what a candidate is; None if it has it, else why not: somebody was faster."""

    def release(self, guest: str) -> bool:
        """Take all that a guest holds back; False if it held nothing."""

    def holds(self, guest: str, provider: str) -> bool:
        """Say whether a guest holds something of a provider."""

    def exists(self, guest: str) -> bool:
        """Say whether a guest holds anything."""

    def stages(self, query: PlacementQuery) -> tuple[int, Sequence[Stage]]:
        """Return how many hosts there are, and how many each part of the query leaves."""


def narrowed(query: PlacementQuery) -> Iterator[tuple[str, PlacementQuery]]:
    """Yield ever larger parts of a query: the CPUs, then traits, then memory, then the rest.

    Each comes with what it adds, in words. Parts are asked without a limit: they are counted.
    """
    resources = set(query.resources)
    cpus = resources & _CPU_CLASSES
    yield _named(cpus), _part(query, cpus, traits=False)
    asked = cpus
    if query.traits:
        yield _traits(query), _part(query, asked, traits=True)
    for more in ({MEMORY_MB} & resources, resources - cpus - {MEMORY_MB}):
        if more:
            asked = asked | more
            yield _named(more), _part(query, asked, traits=True)


def _named(classes: set[str]) -> str:
    return ", ".join(sorted(classes))


def _traits(query: PlacementQuery) -> str:
    required = {trait for group in query.groups.values() for trait in group.required}
    forbidden = {f"!{trait}" for group in query.groups.values() for trait in group.forbidden}
    return "trait " + ", ".join(sorted(required) + sorted(forbidden))


def _part(query: PlacementQuery, classes: set[str], *, traits: bool) -> PlacementQuery:
    groups: dict[str, Group] = {}
    for suffix, group in query.groups.items():
        resources = {name: amount for name, amount in group.resources.items() if name in classes}
        if not resources and suffix:
            continue
        part = Group(resources, group.required, group.forbidden) if traits else Group(resources)
        groups[suffix] = part
    return replace(query, groups=MappingProxyType(groups), limit=None)


_MEBI = 1 << 20
_COUNTED = frozenset({VCPU, PCPU})
"""Classes that a host without an inventory of them has not; of others nothing is known offline."""


class LocalOffers:
    """Hosts that are known from files. What a guest holds stands in the ledgers alone."""

    def __init__(self, hosts: Hosts) -> None:
        self._hosts = hosts

    def candidates(self, query: PlacementQuery) -> Sequence[Candidate]:
        found = [
            Candidate(host.name, {"": dict(query.resources)}, "", _free(host))
            for host in self._hosts.known.values()
            if _serves(host, query)
        ]
        return found[: query.limit]

    def claim(self, guest: str, candidate: Candidate) -> str | None:
        """Nothing is to be entered but in the ledger, which is held meanwhile."""
        return None

    def release(self, guest: str) -> bool:
        """Nothing stands anywhere but in the ledger."""
        return False

    def holds(self, guest: str, provider: str) -> bool:
        """Nobody but the scheduler that died knew of the claim: it is void."""
        return False

    def exists(self, guest: str) -> bool:
        return False

    def stages(self, query: PlacementQuery) -> tuple[int, Sequence[Stage]]:
        left = [Stage(demand, len(self.candidates(part))) for demand, part in narrowed(query)]
        return len(self._hosts.known), left


def inventories(host: ComputeHost) -> Mapping[str, Inventory]:
    """Return what a host offers; all its memory, where its kernel tells how much it has."""
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
    offered, free = inventories(host), _free(host)
    enough = all(amount <= free.get(name, amount) for name, amount in query.resources.items())
    return enough and all(_group_fits(group, offered, host.offer.traits) for group in query.groups.values())


def _group_fits(group: Group, offered: Mapping[str, Inventory], traits: frozenset[str]) -> bool:
    if not group.required <= traits or group.forbidden & traits:
        return False
    return all(_unit_fits(name, amount, offered) for name, amount in group.resources.items())


def _unit_fits(name: str, amount: int, offered: Mapping[str, Inventory]) -> bool:
    """Say whether one consumer may hold so much. Of a class without an inventory nothing is known offline."""
    if name in offered:
        return amount <= offered[name].max_unit
    return name not in _COUNTED
