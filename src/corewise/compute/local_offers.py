"""Hosts and claims without a Placement: what the files of the hosts say, counted as Placement counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from corewise.compute.hosts import ComputeHost, Hosts
from corewise.compute.offers import Candidate, Stage, narrowed
from corewise.policy.placement import MEMORY_MB, PCPU, VCPU, Inventory
from corewise.tracking import Group, PlacementQuery

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
