"""The extra specs that speak of resources and traits: ``resources[N]:CLASS`` and ``trait[N]:TRAIT``.

N is a number or a name such as ``_NET``; without it they belong to the unnamed group. An image has traits of
the unnamed group only. A class that is neither standard nor custom is passed over with a warning; a trait is
taken as it is, since Placement knows which there are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from corewise.policy.decoding import did_you_mean
from corewise.policy.reasons import Reason
from corewise.tracking.flavor import (
    LARGEST_AMOUNT,
    Flavor,
    Image,
    Refused,
    RequestWarning,
    Written,
    shown,
    whole,
)
from corewise.tracking.query import UNNAMED

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
