"""The amounts a node states, and the one formula that turns raw ones into amplified ones and back.

    amplified = floor(raw x ratio)         exact, in milli-CPU and in bytes

The rule of amplification (status.py) counts in whole numbers, milli-CPU and bytes, as the policy in the API
server does. An amount that is negative, or more than any machine has, is not counted, and never amplified.

Only cpu and memory are amplified. kubelet computes these again from the machine each time; of extended
resources, and of storage in some settings, it copies the stored, amplified capacity back into allocatable,
which would double.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from corewise.quantities import LARGEST_AMOUNT, LARGEST_MILLI, MILLI, ONE, Quantity, Ratio, amplify
from corewise.quantities.quantity import Format

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
"""NodeAmounts are counted in whole milli-CPU and whole bytes."""

UNCOUNTED: Final[Mapping[str, int]] = MappingProxyType({CPU: LARGEST_MILLI, MEMORY: LARGEST_AMOUNT})
"""From here on, amounts are not counted: 10^10 milli-CPU and 4 PiB."""

_FORMAT: Final[Mapping[str, Format]] = MappingProxyType({CPU: Format.DECIMAL_SI, MEMORY: Format.BINARY_SI})


@dataclass(frozen=True, slots=True)
class NodeAmounts:
    """Capacity and allocatable of a node. Other resources than cpu and memory may be there, unused."""

    capacity: ResourceList
    allocatable: ResourceList

    def of(self, field: StatusField) -> ResourceList:
        """Return one of the two lists."""
        return self.capacity if field == "capacity" else self.allocatable


def ratio_of(ratios: Ratios, resource: str) -> Ratio:
    """Return the ratio of a resource, 1.00 if it has none."""
    return ratios.get(resource, ONE)


def amplified(resource: str, raw: Quantity, ratio: Ratio) -> Quantity:
    """Return floor(raw x ratio): of cpu in milli-CPU, of memory in bytes. What is not counted stays."""
    counted = count(resource, raw)
    return (
        raw
        if ratio == ONE or counted is None
        else quantity(resource, amplified_count(resource, counted, ratio))
    )


def amplified_count(resource: str, raw: int, ratio: Ratio) -> int:
    """Return floor(raw x ratio), but never what would not be counted."""
    return min(amplify(raw, ratio), UNCOUNTED[resource] - 1)


def count(resource: str, amount: Quantity | None) -> int | None:
    """Return an amount in milli-CPU or bytes, to the nearest; None if it is absent or not counted."""
    if amount is None:
        return None
    step = NANO_PER_STEP[resource]
    counted = (amount.nano * 2 + step) // (2 * step)
    return counted if 0 <= amount.nano < UNCOUNTED[resource] * step else None


def shown(resource: str, amount: Quantity | None) -> str:
    """Return an amount for people: always CPUs, or GiB, so that all amounts of a sentence have one unit."""
    counted = count(resource, amount)
    if counted is None:
        return "absent" if amount is None else str(amount)
    unit = "CPUs" if resource == CPU else "GiB"
    whole, milli = divmod(counted if resource == CPU else counted * MILLI >> 30, MILLI)
    return f"{whole}.{milli:03}".rstrip("0").rstrip(".") + f" {unit}"


def quantity(resource: str, counted: int) -> Quantity:
    """Return the amount of so many milli-CPU or bytes."""
    return Quantity(counted * NANO_PER_STEP[resource], _FORMAT[resource])
