"""Who offers what a guest asks for: a Placement, or hosts that are known from files alone.

Both answer the same question, a query for allocation candidates, and both take and give back claims. Offline,
a host offers what its options come to, less what its ledger says is held; of classes other than CPU and
memory nothing is known there, and they are not checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Protocol

from corewise.policy.placement import MEMORY_MB, PCPU, VCPU
from corewise.tracking import Group, PlacementQuery

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
