"""Actions on OpenStack Placement. Each is one write; its generations are those of the snapshot decided from.

A provider that has changed since is a conflict: it is read again, and decided anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from corewise.vocabulary.placement import Consumer, Inventory, Provider
from corewise.vocabulary.reasons import Reason


@dataclass(frozen=True, slots=True)
class WriteInventories:
    """Replace all inventories of a provider."""

    provider: str
    generation: int
    inventories: Mapping[str, Inventory]
    reason: Reason
    why: str


@dataclass(frozen=True, slots=True)
class WriteTraits:
    """Replace all traits of a provider."""

    provider: str
    generation: int
    traits: frozenset[str]
    reason: Reason
    why: str


@dataclass(frozen=True, slots=True)
class Reshape:
    """Replace inventories of providers and allocations of consumers in one request, or change nothing.

    ``providers`` have the wanted inventories and the generations that were read (their traits do not
    count); ``consumers`` have the wanted allocations, all of them, and the generations that were read.
    Consumers that are not named keep what they have.
    """

    providers: tuple[Provider, ...]
    consumers: tuple[Consumer, ...]
    reason: Reason
    why: str


PlacementAction: TypeAlias = WriteInventories | WriteTraits | Reshape
