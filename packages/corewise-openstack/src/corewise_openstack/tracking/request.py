"""From a flavor and an image to one query to Placement, and to what the guest is promised of its host's CPUs.

========= ============================ ============================= ===========================
policy    VCPU                         PCPU                          fallback
========= ============================ ============================= ===========================
none      vcpus                        -                             -
shared    vcpus                        -                             -
dedicated -                            vcpus (+ 1 for the emulator)  VCPU = vcpus, without trait
mixed     vcpus - dedicated            dedicated (+ 1 likewise)      -
========= ============================ ============================= ===========================

Amounts that the flavor states itself (``resources:PCPU=8``), 0 included, replace the policy and the defaults;
no query goes out without a CPU class. Thread policy ``isolate`` forbids the trait HW_CPU_HYPERTHREADING,
``require`` requires it. Hosts that only the fallback finds are legacy hosts: whether they can take the guest
is decided when its CPUs are chosen.

A query is printed exactly as it is sent:
``limit=1000&required=!HW_CPU_HYPERTHREADING&resources=MEMORY_MB:1024,PCPU:8``: parameters, classes and traits
in ascending order, required traits before forbidden ones. Several providers of a tree may serve the unnamed
group together; a single provider serves each numbered or named one (``resources1``, ``resources_NET``).

A flavor and an image may also name resources and traits themselves: ``resources[N]:CLASS``,
``trait[N]:TRAIT``. N is a number or a name such as ``_NET``; without it they belong to the unnamed group. An
image has traits of the unnamed group only. ``resources:PCPU`` means policy ``dedicated``, and the trait
HW_CPU_HYPERTHREADING a thread policy; saying the same in both ways is refused. A class that is neither
standard nor custom is ignored with a warning; a trait is sent as it is, since only Placement knows which
exist.

Sources: the document "CPU resource tracking"; where it is silent, what Nova does with flavors. GET
/allocation_candidates in the API reference of Placement, microversion 1.33 for named groups.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Literal

from corewise.config.decoding import did_you_mean
from corewise.vocabulary.findings import Finding
from corewise.vocabulary.reasons import Reason
from corewise_openstack.tracking.extra_specs import AGGREGATES, unserved
from corewise_openstack.tracking.flavor import (
    LARGEST_AMOUNT,
    NO_IMAGE,
    Flavor,
    FlavorRefused,
    Image,
    StatedValue,
    check_flavor,
    choice,
    cpu_policy,
    dedicated_cpus,
    guest_nodes,
    in_flavor,
    realtime_cpus,
    shown,
    thread_policy,
)
from corewise_openstack.tracking.options import Compat
from corewise_openstack.vocabulary.guests import CPUPolicy, EmulatorThreads, GuestCPUs, ThreadPolicy
from corewise_openstack.vocabulary.placement import DISK_GB, HYPER_THREADING_TRAIT, MEMORY_MB, PCPU, VCPU

DEFAULT_LIMIT = 1000
UNNAMED = ""
"""The suffix of the unnamed group."""

_CLASSES = {
    CPUPolicy.SHARED: (VCPU,),
    CPUPolicy.DEDICATED: (PCPU,),
    CPUPolicy.MIXED: (VCPU, PCPU),
}
_OF_TRAIT = {"forbidden": ThreadPolicy.ISOLATE, "required": ThreadPolicy.REQUIRE}
_KEY = re.compile(r"(resources|trait)([A-Za-z0-9_-]{1,64})?:(.+)")
_CUSTOM_CLASS = re.compile(r"CUSTOM_[A-Z0-9_]{1,248}")
_TRAIT = re.compile(r"[A-Za-z0-9_]{1,255}")
_GROUP_POLICIES = ("none", "isolate")
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


@dataclass(frozen=True, slots=True)
class RequestGroup:
    """Resources and traits that are requested together."""

    resources: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    required: frozenset[str] = frozenset()
    forbidden: frozenset[str] = frozenset()

    @property
    def traits(self) -> frozenset[str]:
        return self.required | self.forbidden

    def parameters(self, suffix: str) -> Iterator[tuple[str, str]]:
        amounts = [f"{name}:{amount}" for name, amount in sorted(self.resources.items()) if amount]
        traits = [*sorted(self.required), *(f"!{trait}" for trait in sorted(self.forbidden))]
        if amounts:
            yield f"resources{suffix}", ",".join(amounts)
        if traits:
            yield f"required{suffix}", ",".join(traits)


@dataclass(frozen=True, slots=True)
class Membership:
    """A host must be in one of these aggregates, or ``excluded`` in none; ``demand`` says so in words.

    ``uuids`` are theirs, for Placement; ``hosts`` are all of their hosts, for a decision without it.
    """

    demand: str
    uuids: tuple[str, ...]
    hosts: frozenset[str] = frozenset()
    excluded: bool = False

    def __str__(self) -> str:
        return f"{'!in' if self.excluded else 'in'}:{','.join(self.uuids)}"

    def has(self, host: str) -> bool:
        """Say whether a host may take the guest."""
        return (host in self.hosts) != self.excluded


@dataclass(frozen=True, slots=True)
class PlacementQuery:
    """A query for allocation candidates: the groups by their suffixes; the unnamed one is ``""``.

    ``member_of``: the aggregates that the host must be in, or must not be in.
    """

    groups: Mapping[str, RequestGroup]
    group_policy: str | None = None
    limit: int | None = DEFAULT_LIMIT
    member_of: tuple[Membership, ...] = ()

    def __str__(self) -> str:
        parameters = [pair for suffix, group in self.groups.items() for pair in group.parameters(suffix)]
        if self.group_policy is not None:
            parameters.append(("group_policy", self.group_policy))
        parameters += [("member_of", str(each)) for each in self.member_of]
        if self.limit is not None:
            parameters.append(("limit", str(self.limit)))
        return "&".join(f"{name}={value}" for name, value in sorted(parameters))

    @property
    def resources(self) -> Mapping[str, int]:
        """The amounts of all groups together."""
        total: Counter[str] = Counter()
        for group in self.groups.values():
            total.update(group.resources)
        return MappingProxyType({name: total[name] for name in sorted(total) if total[name]})

    @property
    def required(self) -> frozenset[str]:
        """The traits that any group requires."""
        return frozenset().union(*(group.required for group in self.groups.values()))

    @property
    def forbidden(self) -> frozenset[str]:
        """The traits that any group forbids."""
        return frozenset().union(*(group.forbidden for group in self.groups.values()))

    @property
    def traits(self) -> frozenset[str]:
        """All traits that the query names."""
        return self.required | self.forbidden

    def names(self, resource_class: str) -> bool:
        """Whether some group names a class, even with the amount 0."""
        return any(resource_class in group.resources for group in self.groups.values())

    def trait(self, name: str) -> Literal["required", "forbidden"] | None:
        """Return the demand on a trait in any group."""
        if any(name in group.forbidden for group in self.groups.values()):
            return "forbidden"
        return "required" if name in self.traits else None


@dataclass(frozen=True, slots=True)
class GuestRequest:
    """The query to Placement, and what the guest is promised once it is placed.

    ``fallback`` is sent when no host that the query finds takes the guest, or always if ``fallback_always``;
    None if there is none. ``aggregate_specs``: what the flavor wants of the host's aggregates.
    """

    query: PlacementQuery
    cpus: GuestCPUs
    fallback: PlacementQuery | None = None
    fallback_always: bool = False
    warnings: tuple[Finding, ...] = ()
    aggregate_specs: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def within(self, member_of: tuple[Membership, ...]) -> GuestRequest | Finding:
        """Return the request restricted to hosts in, or not in, some aggregates; or why there is none."""
        if member_of and UNNAMED not in self.query.groups:
            demand = member_of[0].demand
            message = f"the unnamed group has {demand} and no resources: all are in numbered or named groups"
            return Finding(Reason.GROUP_WITHOUT_RESOURCES, message)
        fallback = None if self.fallback is None else replace(self.fallback, member_of=member_of)
        return replace(self, query=replace(self.query, member_of=member_of), fallback=fallback)


def translate(
    flavor: Flavor,
    image: Image = NO_IMAGE,
    *,
    compat: Compat = Compat.SPEC,
    limit: int | None = DEFAULT_LIMIT,
    strict: bool = False,
    aggregates: bool = False,
) -> GuestRequest | Finding:
    """Return the query, or why there is none; ``strict`` refuses what is not served.

    ``aggregates``: host aggregates are known, so extra specs about them are served.
    """
    left_out = tuple(unserved(flavor, image, aggregates=aggregates))
    if strict and left_out:
        return Finding(left_out[0].reason, "; ".join(each.message for each in left_out))
    try:
        request = _translated(flavor, image, compat, limit)
    except FlavorRefused as refused:
        return refused.refusal
    return replace(request, warnings=(*request.warnings, *left_out))


def _translated(flavor: Flavor, image: Image, compat: Compat, limit: int | None) -> GuestRequest:
    # Decode.
    check_flavor(flavor)
    stated, warnings = _stated(flavor, image, limit)
    policies = _policies(flavor, image, stated)
    realtime = realtime_cpus(flavor, image, policies.emulator)
    dedicated = dedicated_cpus(flavor, policies.cpu, realtime)
    if realtime and not dedicated:
        raise FlavorRefused(
            Reason.REALTIME_WITHOUT_PINNING, "hw:cpu_realtime needs dedicated CPUs, and there are none"
        )
    nodes = guest_nodes(flavor, image, policies.cpu, dedicated)

    # Decide how much of each class, and which trait.
    isolated = policies.emulator is EmulatorThreads.ISOLATE
    pcpus = stated.resources.get(PCPU, 0)
    if pcpus and pcpus != flavor.vcpus + isolated:
        more = " and 1 for isolated emulator threads" if isolated else ""
        message = f"{pcpus} PCPU are requested, and flavor {flavor.name} has {flavor.vcpus} vcpus{more}"
        raise FlavorRefused(Reason.PCPU_COUNT_MISMATCH, message)
    others = {MEMORY_MB: flavor.ram, DISK_GB: flavor.disk_gb}
    cpus = {VCPU: flavor.vcpus - len(dedicated), PCPU: len(dedicated) + isolated if dedicated else 0}
    trait = frozenset({HYPER_THREADING_TRAIT}) if policies.threads_from_policy else frozenset()
    traits = RequestGroup(
        required=trait if policies.threads is ThreadPolicy.REQUIRE else frozenset(),
        forbidden=trait if policies.threads is ThreadPolicy.ISOLATE else frozenset(),
    )
    may_be_legacy = policies.cpu is CPUPolicy.DEDICATED and policies.cpu_from_policy

    # Encode.
    query = _query(flavor, stated, {**cpus, **others}, traits)
    fallback = None
    if may_be_legacy and not stated.names(VCPU):
        # A legacy host counts pinned guests as VCPU and has no trait for its threads.
        fallback = _query(flavor, stated, {VCPU: flavor.vcpus, **others}, RequestGroup())
    return GuestRequest(
        query=query,
        cpus=GuestCPUs(
            vcpus=flavor.vcpus,
            policy=policies.cpu,
            thread_policy=policies.threads,
            emulator=policies.emulator,
            nodes=nodes,
            realtime=realtime,
        ),
        fallback=fallback,
        fallback_always=fallback is not None and compat is Compat.NOVA,
        warnings=(*warnings, *_warnings(flavor, stated, query)),
        aggregate_specs=MappingProxyType(
            {
                key.removeprefix(AGGREGATES): value
                for key, value in flavor.extra_specs.items()
                if key.startswith(AGGREGATES)
            }
        ),
    )


@dataclass(frozen=True, slots=True)
class Policies:
    """``cpu_from_policy``: the CPU policy was stated as such, not as resources; so with the thread policy."""

    cpu: CPUPolicy
    threads: ThreadPolicy | None
    emulator: EmulatorThreads | None
    cpu_from_policy: bool
    threads_from_policy: bool


def _policies(flavor: Flavor, image: Image, stated: PlacementQuery) -> Policies:
    """Read all policies, and refuse those that contradict each other."""
    policy = cpu_policy(flavor, image)
    cpu = _with_resources(policy, stated)
    threads = thread_policy(flavor, image)
    trait = stated.trait(HYPER_THREADING_TRAIT)
    if threads is not None and trait is not None:
        message = f"thread policy {threads} and trait {HYPER_THREADING_TRAIT}={trait}: keep one of them"
        raise FlavorRefused(Reason.THREAD_POLICY_WITH_TRAIT, message)
    emulator = choice(
        in_flavor(flavor, "emulator_threads_policy"), EmulatorThreads, Reason.EMULATOR_POLICY_UNKNOWN
    )
    if cpu is CPUPolicy.SHARED:
        if threads is not None:
            message = f"thread policy {threads} needs dedicated CPUs, and the guest has none"
            raise FlavorRefused(Reason.THREAD_POLICY_WITHOUT_PINNING, message)
        if trait is not None:
            message = f"trait {HYPER_THREADING_TRAIT}={trait} needs dedicated CPUs, and the guest has none"
            raise FlavorRefused(Reason.TRAIT_WITHOUT_PINNING, message)
        if emulator is EmulatorThreads.ISOLATE:
            message = "hw:emulator_threads_policy=isolate needs a dedicated CPU, and the guest has none"
            raise FlavorRefused(Reason.EMULATOR_POLICY_WITHOUT_PINNING, message)
    return Policies(
        cpu=cpu,
        threads=threads or (_OF_TRAIT[trait] if trait else None),
        emulator=emulator,
        cpu_from_policy=policy is not None,
        threads_from_policy=threads is not None,
    )


def _with_resources(policy: CPUPolicy | None, stated: PlacementQuery) -> CPUPolicy:
    """Join the stated policy with explicit amounts; an amount of 0 only takes a class out of the defaults."""
    vcpus, pcpus = stated.resources.get(VCPU, 0), stated.resources.get(PCPU, 0)
    if policy is not None:
        for name, amount in ((VCPU, vcpus), (PCPU, pcpus)):
            if amount or (name in _CLASSES[policy] and stated.names(name)):
                request = f"an explicit request for {amount} {name}"
                message = f"CPU policy {policy} and {request}: keep one of them"
                raise FlavorRefused(Reason.CPU_POLICY_WITH_RESOURCES, message)
    if vcpus and pcpus:
        message = f"{vcpus} VCPU and {pcpus} PCPU cannot be requested explicitly in the same request"
        raise FlavorRefused(Reason.MIXED_CPU_RESOURCES, message)
    return policy or (CPUPolicy.DEDICATED if pcpus else CPUPolicy.SHARED)


def _query(
    flavor: Flavor, stated: PlacementQuery, defaults: Mapping[str, int], traits: RequestGroup
) -> PlacementQuery:
    """Return the query that the flavor states, with the defaults of the classes that it does not name."""
    unnamed = stated.groups.get(UNNAMED, RequestGroup())
    amounts = {name: amount for name, amount in defaults.items() if not stated.names(name)}
    completed = RequestGroup(
        {**unnamed.resources, **amounts},
        unnamed.required | traits.required,
        unnamed.forbidden | traits.forbidden,
    )
    groups: dict[str, RequestGroup] = {}
    for suffix, group in sorted({**stated.groups, UNNAMED: completed}.items()):
        resources = {name: amount for name, amount in sorted(group.resources.items()) if amount}
        if resources or group.traits:
            groups[suffix] = replace(group, resources=MappingProxyType(resources))
    several = sum(suffix != UNNAMED for suffix in groups) > 1
    group_policy = stated.group_policy or ("none" if several else None)
    query = replace(stated, groups=MappingProxyType(groups), group_policy=group_policy)

    if not query.resources.keys() & {VCPU, PCPU}:
        message = f"flavor {flavor.name} takes VCPU and PCPU out of the request, and a guest needs CPUs"
        raise FlavorRefused(Reason.NO_CPU_REQUESTED, message)
    for suffix, group in groups.items():
        if not group.resources:
            name = f"group {suffix}" if suffix else "the unnamed group"
            message = f"{name} names traits ({', '.join(sorted(group.traits))}) and no resources"
            raise FlavorRefused(Reason.GROUP_WITHOUT_RESOURCES, message)
    return query


def _warnings(flavor: Flavor, stated: PlacementQuery, query: PlacementQuery) -> Iterator[Finding]:
    vcpus = stated.resources.get(VCPU, 0)
    if vcpus and vcpus != flavor.vcpus:
        message = f"{vcpus} VCPU are requested, and flavor {flavor.name} has {flavor.vcpus} vcpus"
        yield Finding(Reason.VCPU_COUNT_MISMATCH, message)
    if stated.group_policy is None and query.group_policy is not None:
        message = (
            "several groups and no group_policy: group_policy=none is sent, so groups may share a provider"
        )
        yield Finding(Reason.GROUP_POLICY_ASSUMED, message)


def _stated(flavor: Flavor, image: Image, limit: int | None) -> tuple[PlacementQuery, Sequence[Finding]]:
    """Return all that flavor and image say in Placement's words, amounts of 0 included, and warnings."""
    policy = flavor.extra_specs.get("group_policy")
    if policy is not None and policy not in _GROUP_POLICIES:
        message = f"flavor extra spec group_policy = {shown(policy)} is not valid; use none or isolate"
        raise FlavorRefused(Reason.GROUP_POLICY_INVALID, message)
    unnamed_traits = {key: value for key, value in image.properties.items() if key.startswith("trait:")}
    pairs = [("flavor extra spec", *pair) for pair in sorted(flavor.extra_specs.items())]
    pairs += [("image property", *pair) for pair in sorted(unnamed_traits.items())]
    groups: dict[str, RequestGroup] = {}
    warnings: list[Finding] = []
    for kind, key, value in pairs:
        match = _KEY.fullmatch(key)
        if match is None:
            continue
        what, suffix, name = match[1], match[2] or UNNAMED, match[3]
        written = StatedValue(f"{kind} {shown(key)}", value)
        group = groups.get(suffix, RequestGroup())
        if what == "trait":
            groups[suffix] = _with_trait(group, name, written)
        elif name in STANDARD_CLASSES or _CUSTOM_CLASS.fullmatch(name):
            groups[suffix] = replace(group, resources={**group.resources, name: _amount(written)})
        else:
            hint = did_you_mean(name, STANDARD_CLASSES)
            message = f"{written}: it is not requested, since there is no such resource class{hint}"
            warnings.append(Finding(Reason.RESOURCE_CLASS_UNKNOWN, message))
    stated = PlacementQuery(groups, policy, limit)
    for resource_class in (VCPU, PCPU):
        if stated.resources.get(resource_class, 0) > LARGEST_AMOUNT:
            message = f"all groups together ask for more than {LARGEST_AMOUNT} {resource_class}"
            raise FlavorRefused(Reason.RESOURCE_AMOUNT_INVALID, message)
    return stated, warnings


def _amount(written: StatedValue) -> int:
    text = written.value.strip()
    if not (text.isascii() and text.isdigit() and int(text[:11]) <= LARGEST_AMOUNT):
        message = f"{written} is not a whole number from 0 to {LARGEST_AMOUNT}"
        raise FlavorRefused(Reason.RESOURCE_AMOUNT_INVALID, message)
    return int(text)


def _with_trait(group: RequestGroup, name: str, written: StatedValue) -> RequestGroup:
    if not _TRAIT.fullmatch(name):
        raise FlavorRefused(Reason.TRAIT_INVALID, f"{written}: {shown(name)!r} cannot be the name of a trait")
    if written.value not in {"required", "forbidden"}:
        raise FlavorRefused(Reason.TRAIT_INVALID, f"{written} is not valid; use required or forbidden")
    opposite = "forbidden" if written.value == "required" else "required"
    if name in getattr(group, opposite):
        raise FlavorRefused(Reason.TRAIT_CONFLICT, f"{written}, but elsewhere the trait is {opposite}")
    return replace(group, **{written.value: getattr(group, written.value) | {name}})
