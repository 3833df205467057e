"""Flavors and images as users write them, and why a request cannot be made of them.

Inside this package a refusal travels as :class:`Refused`; :func:`corewise.tracking.translate` returns it as
the value :class:`RequestRefusal`. Where both a flavor's extra spec and an image's property speak of the same
thing, ``hw:cpu_policy`` and ``hw_cpu_policy`` are its names.

The extra specs that speak of resources and traits: ``resources[N]:CLASS`` and ``trait[N]:TRAIT``.

N is a number or a name such as ``_NET``; without it they belong to the unnamed group. An image has traits of
the unnamed group only. A class that is neither standard nor custom is passed over with a warning; a trait is
taken as it is, since Placement knows which there are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Literal, TypeVar

from corewise.config.decoding import did_you_mean
from corewise.topology import LARGEST_CPU
from corewise.vocabulary.reasons import Reason

E = TypeVar("E", bound=StrEnum)

LARGEST_AMOUNT = 2**31 - 1
"""The largest amount that Placement can store."""

UNNAMED = ""
"""The suffix of the unnamed group."""

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


STANDARD_CLASSES = frozenset(
    {
        "DISK_GB",
        "FPGA",
        "IPV4_ADDRESS",
        "MEMORY_MB",
        "MEM_ENCRYPTION_CONTEXT",
        "NET_BW_EGR_KILOBIT_PER_SEC",
        "NET_BW_IGR_KILOBIT_PER_SEC",
        "NET_PACKET_RATE_EGR_KILOPACKET_PER_SEC",
        "NET_PACKET_RATE_IGR_KILOPACKET_PER_SEC",
        "NET_PACKET_RATE_KILOPACKET_PER_SEC",
        "NUMA_CORE",
        "NUMA_MEMORY_MB",
        "NUMA_SOCKET",
        "NUMA_THREAD",
        "PCI_DEVICE",
        "PCPU",
        "PGPU",
        "SRIOV_NET_VF",
        "VCPU",
        "VGPU",
        "VGPU_DISPLAY_HEAD",
    }
)
"""The classes of os-resource-classes."""

_KEY = re.compile(r"(resources|trait)([A-Za-z0-9_-]{1,64})?:(.+)")
_CUSTOM_CLASS = re.compile(r"CUSTOM_[A-Z0-9_]{1,248}")
_TRAIT = re.compile(r"[A-Za-z0-9_]{1,255}")
_GROUP_POLICIES = ("none", "isolate")


@dataclass(slots=True)
class Draft:
    """A group while it is put together."""

    resources: dict[str, int] = field(default_factory=dict)
    required: set[str] = field(default_factory=set)
    forbidden: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Explicit:
    """What flavor and image ask of Placement in its own words."""

    groups: dict[str, Draft] = field(default_factory=dict)
    group_policy: str | None = None
    warnings: list[RequestWarning] = field(default_factory=list)

    def group(self, suffix: str = UNNAMED) -> Draft:
        return self.groups.setdefault(suffix, Draft())

    def names(self, resource_class: str) -> bool:
        """Whether some group names a class, be it with 0."""
        return any(resource_class in group.resources for group in self.groups.values())

    def amount(self, resource_class: str) -> int:
        """Return the amount of a class over all groups."""
        return sum(group.resources.get(resource_class, 0) for group in self.groups.values())

    def trait(self, name: str) -> Literal["required", "forbidden"] | None:
        """Return what is said of a trait in any group."""
        if any(name in group.forbidden for group in self.groups.values()):
            return "forbidden"
        return "required" if any(name in group.required for group in self.groups.values()) else None


def read_groups(flavor: Flavor, image: Image) -> Explicit:
    """Read all that flavor and image say in Placement's words."""
    explicit = Explicit(group_policy=_group_policy(flavor))
    _read(explicit, flavor.extra_specs, "flavor extra spec")
    unnamed_traits = {key: value for key, value in image.properties.items() if key.startswith("trait:")}
    _read(explicit, unnamed_traits, "image property")
    for resource_class in ("VCPU", "PCPU"):
        if explicit.amount(resource_class) > LARGEST_AMOUNT:
            message = f"all groups together ask for more than {LARGEST_AMOUNT} {resource_class}"
            raise Refused(Reason.RESOURCE_AMOUNT_INVALID, message)
    return explicit


def _group_policy(flavor: Flavor) -> str | None:
    policy = flavor.extra_specs.get("group_policy")
    if policy is not None and policy not in _GROUP_POLICIES:
        message = f"flavor extra spec group_policy = {shown(policy)} means nothing; write none or isolate"
        raise Refused(Reason.GROUP_POLICY_INVALID, message)
    return policy


def _read(explicit: Explicit, pairs: Mapping[str, str], kind: str) -> None:
    for key in sorted(pairs):
        match = _KEY.fullmatch(key)
        if match is None:
            continue
        what, suffix, name = match[1], match[2] or UNNAMED, match[3]
        written = Written(f"{kind} {shown(key)}", pairs[key])
        if what == "trait":
            _read_trait(explicit.group(suffix), name, written)
        elif name in STANDARD_CLASSES or _CUSTOM_CLASS.fullmatch(name):
            explicit.group(suffix).resources[name] = whole(written.where, written.value)
        else:
            hint = did_you_mean(name, STANDARD_CLASSES)
            message = f"{written}: it is not requested, since there is no such resource class{hint}"
            explicit.warnings.append(RequestWarning(Reason.RESOURCE_CLASS_UNKNOWN, message))


def _read_trait(group: Draft, name: str, written: Written) -> None:
    if not _TRAIT.fullmatch(name):
        raise Refused(Reason.TRAIT_INVALID, f"{written}: {shown(name)!r} cannot be the name of a trait")
    if written.value not in {"required", "forbidden"}:
        raise Refused(Reason.TRAIT_INVALID, f"{written} means nothing; write required or forbidden")
    wanted, other = (group.required, group.forbidden)
    if written.value == "forbidden":
        wanted, other = other, wanted
    if name in other:
        message = (
            f"{written}, but elsewhere the trait is {'forbidden' if wanted is group.required else 'required'}"
        )
        raise Refused(Reason.TRAIT_CONFLICT, message)
    wanted.add(name)
