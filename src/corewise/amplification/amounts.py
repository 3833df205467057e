"""The amounts a node states, and the one formula that turns raw ones into amplified ones and back.

    amplified = floor(raw x ratio)         exact, in milli-CPU and in bytes

A ratio is at least 1.00, so two raw amounts never have the same amplified one: raw can be computed back from
an amplified amount and its ratio, exactly. The record of a node can therefore be checked, and stands in for a
raw annotation that somebody removed.

Only cpu and memory are amplified. kubelet computes these anew from the machine each time; of extended
resources, and of storage in some settings, it copies the stored, amplified capacity back into allocatable,
which would double.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from corewise.quantities import ONE, Quantity, Ratio, amplify, deamplified_ceil
from corewise.vocabulary.reasons import Reason

CPU: Final = "cpu"
MEMORY: Final = "memory"
AMPLIFIABLE: Final = (CPU, MEMORY)
MAXIMUM: Final = Ratio(1000)
"""The largest amplification ratio, unless the caller is configured otherwise."""

StatusField: TypeAlias = Literal["capacity", "allocatable"]
FIELDS: Final[tuple[StatusField, StatusField]] = ("capacity", "allocatable")

ResourceList: TypeAlias = Mapping[str, Quantity]
Ratios: TypeAlias = Mapping[str, Ratio]
"""Ratios per resource. A resource that is not in it has ratio 1.00."""

NANO_PER_STEP: Final[Mapping[str, int]] = MappingProxyType({CPU: 10**6, MEMORY: 10**9})
"""Amounts are counted in whole milli-CPU and whole bytes."""

_LARGEST_NANO: Final = (2**63 - 1) * 10**9
"""The API server caps amounts here; an amplified one must not read back as another."""


@dataclass(frozen=True, slots=True)
class NodeAmounts:
    """Capacity and allocatable of a node. Other resources than cpu and memory may be there, unused."""

    capacity: ResourceList
    allocatable: ResourceList

    def of(self, field: StatusField) -> ResourceList:
        """Return one of the two lists."""
        return self.capacity if field == "capacity" else self.allocatable


@dataclass(frozen=True, slots=True)
class Finding:
    """Why a resource (or, with an empty ``resource``, a whole node) is not treated as was asked."""

    reason: Reason
    message: str
    resource: str = ""


def ratio_of(ratios: Ratios, resource: str) -> Ratio:
    """Return the ratio of a resource, 1.00 if it has none."""
    return ratios.get(resource, ONE)


def amplified(resource: str, raw: Quantity, ratio: Ratio) -> Quantity:
    """Return floor(raw x ratio): of cpu in milli-CPU, of memory in bytes, in the suffix family of ``raw``."""
    if ratio == ONE:
        return raw
    step = NANO_PER_STEP[resource]
    nano = amplify(raw.nano, ratio) // step * step
    return Quantity(min(nano, _LARGEST_NANO), raw.format)


def raw_from(resource: str, applied: Quantity, ratio: Ratio) -> Quantity:
    """Return the raw amount, in whole milli-CPU or bytes, whose amplified one is ``applied``."""
    step = NANO_PER_STEP[resource]
    return Quantity(deamplified_ceil(applied.nano // step, ratio) * step, applied.format)
