"""Flavors and images as users write them, and why a request cannot be made of them.

Inside this package a refusal travels as :class:`Refused`; :func:`corewise.tracking.translate` returns it as
the value :class:`RequestRefusal`. Where both a flavor's extra spec and an image's property speak of the same
thing, ``hw:cpu_policy`` and ``hw_cpu_policy`` are its names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import TypeVar

from corewise.policy.decoding import did_you_mean
from corewise.policy.reasons import Reason
from corewise.topology import LARGEST_CPU

E = TypeVar("E", bound=StrEnum)

LARGEST_AMOUNT = 2**31 - 1
"""The largest amount that Placement can store."""

MOST_VCPUS = LARGEST_CPU + 1
"""No host has more CPUs than the kernel can count."""

_LONGEST_SHOWN = 60


def _nothing() -> Mapping[str, str]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Flavor:
    """A flavor: ``ram`` and ``swap`` in MiB, ``disk`` and ``ephemeral`` in GiB."""

    name: str
    vcpus: int
    ram: int = 0
    disk: int = 0
    ephemeral: int = 0
    swap: int = 0
    extra_specs: Mapping[str, str] = field(default_factory=_nothing)

    @property
    def disk_gb(self) -> int:
        """All local disk that a guest gets; a begun GiB of swap counts whole."""
        return self.disk + self.ephemeral + -(-self.swap // 1024)


@dataclass(frozen=True, slots=True)
class Image:
    """The properties of an image."""

    properties: Mapping[str, str] = field(default_factory=_nothing)


NO_IMAGE = Image()


@dataclass(frozen=True, slots=True)
class RequestRefusal:
    """Why no query can be made of a flavor and an image."""

    reason: Reason
    message: str


@dataclass(frozen=True, slots=True)
class RequestWarning:
    """What was not taken word for word."""

    reason: Reason
    message: str


class Refused(Exception):  # noqa: N818 - a verdict on its way to the caller, no error
    """Carries a refusal up to the caller of this package."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.refusal = RequestRefusal(reason, message)


@dataclass(frozen=True, slots=True)
class Written:
    """One value as it was written, and where: "flavor extra spec hw:cpu_policy"."""

    where: str
    value: str

    def __str__(self) -> str:
        return f"{self.where} = {shown(self.value)}"


def in_flavor(flavor: Flavor, key: str) -> Written | None:
    """Return ``hw:<key>`` of a flavor; an empty value counts as none."""
    value = flavor.extra_specs.get(f"hw:{key}", "").strip()
    return Written(f"flavor extra spec hw:{key}", value) if value else None


def in_image(image: Image, key: str) -> Written | None:
    """Return ``hw_<key>`` of an image; an empty value counts as none."""
    value = image.properties.get(f"hw_{key}", "").strip()
    return Written(f"image property hw_{key}", value) if value else None


def choice(written: Written | None, choices: type[E], reason: Reason) -> E | None:
    """Read one of the values of an enum."""
    if written is None:
        return None
    known = [each.value for each in choices]
    if written.value not in known:
        hint = did_you_mean(written.value, known) or f": write {', '.join(known[:-1])} or {known[-1]}"
        raise Refused(reason, f"{written} means nothing{hint}")
    return choices(written.value)


def whole(where: str, value: str) -> int:
    """Read an amount of a resource: a whole number that Placement can store."""
    text = value.strip()
    if text.isascii() and text.isdigit() and int(text[:11]) <= LARGEST_AMOUNT:
        return int(text)
    message = f"{where} = {shown(value)} is no whole number from 0 to {LARGEST_AMOUNT}"
    raise Refused(Reason.RESOURCE_AMOUNT_INVALID, message)


def shown(value: str) -> str:
    """Return a value for a message, cut where it is long."""
    return value if len(value) <= _LONGEST_SHOWN else f"{value[:_LONGEST_SHOWN]}..."


def check_flavor(flavor: Flavor) -> None:
    """Refuse a flavor that no guest can be made of."""
    if not 1 <= flavor.vcpus <= MOST_VCPUS:
        message = f"flavor {flavor.name} has vcpus {flavor.vcpus}, which is not from 1 to {MOST_VCPUS}"
        raise Refused(Reason.FLAVOR_INVALID, message)
    for name in ("ram", "disk", "ephemeral", "swap"):
        amount = getattr(flavor, name)
        if not 0 <= amount <= LARGEST_AMOUNT:
            message = f"flavor {flavor.name} has {name} {amount}, which is not from 0 to {LARGEST_AMOUNT}"
            raise Refused(Reason.FLAVOR_INVALID, message)
