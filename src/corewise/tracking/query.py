"""A query for allocation candidates: groups of resources and traits, printed exactly as it is sent.

``limit=1000&required=!HW_CPU_HYPERTHREADING&resources=MEMORY_MB:1024,PCPU:8``: parameters, classes and traits
in ascending order, required traits before forbidden ones. The unnamed group may be served by several
providers of a tree; of each numbered or named one (``resources1``, ``resources_NET``) a single provider
serves all. A class with amount 0 does not stand in the query.

Source: GET /allocation_candidates in the API reference of Placement, microversion 1.33 for named groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

DEFAULT_LIMIT = 1000
UNNAMED = ""


def _none() -> Mapping[str, int]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Group:
    """Resources and traits that are asked for together."""

    resources: Mapping[str, int] = field(default_factory=_none)
    required: frozenset[str] = frozenset()
    forbidden: frozenset[str] = frozenset()

    def parameters(self, suffix: str) -> Iterator[tuple[str, str]]:
        amounts = [f"{name}:{amount}" for name, amount in sorted(self.resources.items()) if amount]
        traits = [*sorted(self.required), *(f"!{trait}" for trait in sorted(self.forbidden))]
        if amounts:
            yield f"resources{suffix}", ",".join(amounts)
        if traits:
            yield f"required{suffix}", ",".join(traits)


@dataclass(frozen=True, slots=True)
class PlacementQuery:
    """The groups by their suffixes; the unnamed one is ``""``."""

    groups: Mapping[str, Group]
    group_policy: str | None = None
    limit: int | None = DEFAULT_LIMIT

    def __str__(self) -> str:
        parameters = [pair for suffix, group in self.groups.items() for pair in group.parameters(suffix)]
        if self.group_policy is not None:
            parameters.append(("group_policy", self.group_policy))
        if self.limit is not None:
            parameters.append(("limit", str(self.limit)))
        return "&".join(f"{name}={value}" for name, value in sorted(parameters))

    @property
    def resources(self) -> Mapping[str, int]:
        """The amounts of all groups together."""
        total: dict[str, int] = {}
        for group in self.groups.values():
            for name, amount in group.resources.items():
                total[name] = total.get(name, 0) + amount
        return MappingProxyType({name: total[name] for name in sorted(total) if total[name]})

    @property
    def traits(self) -> frozenset[str]:
        """All traits that the query names."""
        return frozenset().union(*(group.required | group.forbidden for group in self.groups.values()))
