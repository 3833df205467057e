"""From a flavor and an image to one query to Placement, and what the guest is promised of its host's CPUs.

========= ============================ ============================= ===========================
policy    VCPU                         PCPU                          fallback
========= ============================ ============================= ===========================
none      vcpus                        -                             -
shared    vcpus                        -                             -
dedicated -                            vcpus (+ 1 for the emulator)  VCPU = vcpus, without trait
mixed     vcpus - dedicated            dedicated (+ 1 likewise)      -
========= ============================ ============================= ===========================

Amounts that the flavor states itself (``resources:PCPU=8``) take the place of the policy and of the defaults,
be they 0; no query goes out without a CPU class. Thread policy ``isolate`` forbids the trait
HW_CPU_HYPERTHREADING, ``require`` requires it. Hosts that only the fallback finds are legacy ones: whether
they can take the guest is decided when its CPUs are chosen.

Source: the document "CPU resource tracking"; where it is silent, what Nova does with flavors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from corewise.policy.guests import CPUPolicy, EmulatorThreads, GuestCPUs, ThreadPolicy
from corewise.policy.placement import DISK_GB, HYPER_THREADING_TRAIT, MEMORY_MB, PCPU, VCPU
from corewise.policy.reasons import Reason
from corewise.tracking.compat import Compat
from corewise.tracking.flavor import (
    NO_IMAGE,
    Flavor,
    Image,
    Refused,
    RequestRefusal,
    RequestWarning,
    check_flavor,
)
from corewise.tracking.groups import Explicit, read_groups
from corewise.tracking.guest_numa import guest_nodes
from corewise.tracking.masks import dedicated_cpus, realtime_cpus
from corewise.tracking.policies import Policies, read_policies
from corewise.tracking.query import DEFAULT_LIMIT, UNNAMED, Group, PlacementQuery


@dataclass(frozen=True, slots=True)
class GuestRequest:
    """What to ask Placement for, and what the guest is then promised.

    ``fallback`` is asked when the query finds nothing, or always if ``fallback_always``; None if there is
    none.
    """

    query: PlacementQuery
    cpus: GuestCPUs
    fallback: PlacementQuery | None = None
    fallback_always: bool = False
    warnings: tuple[RequestWarning, ...] = ()


def translate(
    flavor: Flavor,
    image: Image = NO_IMAGE,
    *,
    compat: Compat = Compat.SPEC,
    limit: int | None = DEFAULT_LIMIT,
) -> GuestRequest | RequestRefusal:
    """Make the query, or say why there is none."""
    try:
        return _translate(flavor, image, compat, limit)
    except Refused as refused:
        return refused.refusal


def _translate(flavor: Flavor, image: Image, compat: Compat, limit: int | None) -> GuestRequest:
    check_flavor(flavor)
    explicit = read_groups(flavor, image)
    policies = read_policies(flavor, image, explicit)
    realtime = realtime_cpus(flavor, image, policies.emulator)
    dedicated = dedicated_cpus(flavor, policies.cpu, realtime)
    if realtime and not dedicated:
        raise Refused(
            Reason.REALTIME_WITHOUT_PINNING, "hw:cpu_realtime needs dedicated CPUs, and there are none"
        )
    cpus = GuestCPUs(
        vcpus=flavor.vcpus,
        policy=policies.cpu,
        thread_policy=policies.threads,
        emulator=policies.emulator,
        nodes=guest_nodes(flavor, image, policies.cpu, dedicated),
        realtime=realtime,
    )
    _check_amounts(flavor, explicit, policies)
    query = _query(flavor, explicit, policies, _defaults(flavor, policies, len(dedicated)), limit)
    fallback = _fallback(flavor, explicit, policies, limit)
    return GuestRequest(
        query=query,
        cpus=cpus,
        fallback=fallback,
        fallback_always=fallback is not None and compat is Compat.NOVA,
        warnings=(*explicit.warnings, *_remarks(flavor, explicit, query)),
    )


def _check_amounts(flavor: Flavor, explicit: Explicit, policies: Policies) -> None:
    pcpus = explicit.amount(PCPU)
    expected = flavor.vcpus + (policies.emulator is EmulatorThreads.ISOLATE)
    if pcpus and pcpus != expected:
        more = " and 1 for isolated emulator threads" if expected != flavor.vcpus else ""
        message = f"{pcpus} PCPU are requested, and flavor {flavor.name} has {flavor.vcpus} vcpus{more}"
        raise Refused(Reason.PCPU_COUNT_MISMATCH, message)


def _defaults(flavor: Flavor, policies: Policies, dedicated: int) -> Mapping[str, int]:
    """Return what is asked for unless the flavor says otherwise."""
    emulator = 1 if policies.emulator is EmulatorThreads.ISOLATE else 0
    cpus = {VCPU: flavor.vcpus - dedicated, PCPU: dedicated + emulator if dedicated else 0}
    return {**cpus, MEMORY_MB: flavor.ram, DISK_GB: flavor.disk_gb}


def _query(
    flavor: Flavor, explicit: Explicit, policies: Policies, defaults: Mapping[str, int], limit: int | None
) -> PlacementQuery:
    required: frozenset[str] = frozenset()
    forbidden: frozenset[str] = frozenset()
    if policies.threads_from_policy:
        trait = frozenset({HYPER_THREADING_TRAIT})
        required = trait if policies.threads is ThreadPolicy.REQUIRE else required
        forbidden = trait if policies.threads is ThreadPolicy.ISOLATE else forbidden
    return _assembled(flavor, explicit, defaults, Group(required=required, forbidden=forbidden), limit)


def _fallback(
    flavor: Flavor, explicit: Explicit, policies: Policies, limit: int | None
) -> PlacementQuery | None:
    """Return the query for hosts that count pinned guests as VCPU."""
    if policies.cpu is not CPUPolicy.DEDICATED or not policies.cpu_from_policy or explicit.names(VCPU):
        return None
    defaults = {VCPU: flavor.vcpus, MEMORY_MB: flavor.ram, DISK_GB: flavor.disk_gb}
    return _assembled(flavor, explicit, defaults, Group(), limit)


def _assembled(
    flavor: Flavor, explicit: Explicit, defaults: Mapping[str, int], traits: Group, limit: int | None
) -> PlacementQuery:
    """Join what the flavor states with the defaults of the classes that it does not name."""
    groups: dict[str, Group] = {}
    own = {name: amount for name, amount in defaults.items() if not explicit.names(name)}
    for suffix in {UNNAMED, *explicit.groups}:
        draft = explicit.group(suffix)
        resources = {**draft.resources, **(own if suffix == UNNAMED else {})}
        unnamed = traits if suffix == UNNAMED else Group()
        group = Group(
            MappingProxyType({name: resources[name] for name in sorted(resources) if resources[name]}),
            unnamed.required | draft.required,
            unnamed.forbidden | draft.forbidden,
        )
        if group.resources or group.required or group.forbidden:
            groups[suffix] = group
    query = PlacementQuery(
        MappingProxyType(dict(sorted(groups.items()))), _group_policy(explicit, groups), limit
    )
    _check_query(flavor, query)
    return query


def _group_policy(explicit: Explicit, groups: Mapping[str, Group]) -> str | None:
    several = sum(suffix != UNNAMED for suffix in groups) > 1
    return explicit.group_policy or ("none" if several else None)


def _check_query(flavor: Flavor, query: PlacementQuery) -> None:
    if not query.resources.keys() & {VCPU, PCPU}:
        message = f"flavor {flavor.name} takes VCPU and PCPU out of the request, and a guest needs CPUs"
        raise Refused(Reason.NO_CPU_REQUESTED, message)
    for suffix, group in query.groups.items():
        if not group.resources:
            name = f"group {suffix}" if suffix else "the unnamed group"
            traits = ", ".join(sorted(group.required | group.forbidden))
            message = f"{name} names traits ({traits}) and no resources"
            raise Refused(Reason.GROUP_WITHOUT_RESOURCES, message)


def _remarks(flavor: Flavor, explicit: Explicit, query: PlacementQuery) -> list[RequestWarning]:
    remarks = []
    vcpus = explicit.amount(VCPU)
    if vcpus and vcpus != flavor.vcpus:
        message = f"{vcpus} VCPU are requested, and flavor {flavor.name} has {flavor.vcpus} vcpus"
        remarks.append(RequestWarning(Reason.VCPU_COUNT_MISMATCH, message))
    if explicit.group_policy is None and query.group_policy is not None:
        message = (
            "several groups and no group_policy: group_policy=none is sent, so groups may share a provider"
        )
        remarks.append(RequestWarning(Reason.GROUP_POLICY_ASSUMED, message))
    return remarks
