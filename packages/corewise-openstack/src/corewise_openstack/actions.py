"""Writes to OpenStack Placement, as values; each carries the reason code and the sentence that say why.

One write each, with the generations of the snapshot that was decided on. A provider that has changed since is
a conflict: it is read again, and the decision is made again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from corewise.vocabulary.reasons import Reason
from corewise_openstack.vocabulary.placement import Consumer, Inventory, Provider


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
