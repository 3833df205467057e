"""Annotations about CPUs, as Koordinator has them: a node's CPUs, a pod's wishes, and what a pod was given.

``cpu-topology`` of a NodeResourceTopology: how a node's CPUs are arranged.
``{"detail": [{"id": 0, "core": 0, "socket": 0, "node": 0}, ...]}``: one entry for each CPU that is online.
Cores may be numbered within their socket. Caches are not in it: the CPUs of a NUMA node count as sharing one.

``resource-spec`` and ``numa-topology-spec`` of a pod: how it wants its CPUs placed::

    {"preferredCPUBindPolicy": "FullPCPUs", "requiredCPUBindPolicy": "SpreadByPCPUs",
     "preferredCPUExclusivePolicy": "PCPULevel"}
    {"numaTopologyPolicy": "SingleNUMANode"}

Absent and empty values are the default. A required bind policy wins over a preferred one. Texts longer than
LONGEST_SPEC characters are refused: whoever creates a pod writes them.

``normalize-cpuset`` of a pod, corewise's own: ``true`` if the CPUs that it requests are normalized ones. The
label of that name on its namespace counts for new pods.

``reservation`` of a Node: CPUs that no pod may own.
``{"reservedCPUs": "0-5", "resources": {"cpu": "4"}, "applyPolicy": "ReservedCPUsOnly"}``
Without ``reservedCPUs`` the amount of cpu, rounded up, is a number of CPUs: the first ones, core by core.
Anything in it that Koordinator does not have makes all of it unreadable: a misspelled key reserves nothing.

``resource-status`` of a pod: what it was bound with.
``{"cpuset": "0-3", "numaNodeResources": [{"node": 0, "resources": {"cpu": "4", "memory": "8Gi"}}]}``
``requestedCPUs`` is there where the pod owns fewer CPUs than it requests, because its CPUs are normalized.
Amounts on NUMA nodes are the pod's own requests, not amplified. CPUs that can be read count even if the
amounts cannot be read: no other pod must be given them. Whoever may write the annotation chooses its text, so
it is bounded: LONGEST_STATUS characters, CPUs that a machine can have and each named once, NUMA nodes named
once, amounts within what a machine can have. A text is read once, however many pods state it and however
often their readers ask.

Elsewhere unknown keys are ignored: Koordinator has more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Literal

import msgspec

from corewise.quantities import LARGEST_MILLI, MILLI, Quantity, QuantityError, largest
from corewise.topology import LARGEST_CPU, CPUSet, CPUSetError, Thread, Topology
from corewise.vocabulary.errors import UNREADABLE
from corewise.vocabulary.findings import Finding
from corewise.vocabulary.names import NORMALIZE_CPUSET, NUMA_SPEC, RESERVATION, RESOURCE_SPEC
from corewise.vocabulary.reasons import Reason
from corewise.vocabulary.text_cache import CPU_BYTES, MIB, remembered, text_bytes


class _CPU(msgspec.Struct):
    id: int
    core: int
    socket: int
    node: int


class _Topology(msgspec.Struct):
    detail: list[_CPU] = []


_TOPOLOGY = msgspec.json.Decoder(_Topology)


def parse_cpu_topology(text: str) -> Topology | str:
    """Read the annotation; a text that cannot be used gives what is wrong with it."""
    try:
        cpus = _TOPOLOGY.decode(text).detail
    except UNREADABLE as error:
        return str(error)
    if not cpus:
        return "it states no CPUs"
    wrong = [cpu for cpu in cpus if min(cpu.id, cpu.core, cpu.socket, cpu.node) < 0 or cpu.id > LARGEST_CPU]
    if wrong:
        return f"CPU {wrong[0].id} cannot exist: numbers are 0 to {LARGEST_CPU}"
    numbers: dict[tuple[int, int], int] = {}
    threads = tuple(
        Thread(
            cpu.id, numbers.setdefault((cpu.socket, cpu.core), len(numbers)), cpu.node, cpu.node, cpu.socket
        )
        for cpu in sorted(cpus, key=lambda each: each.id)
    )
    try:
        return Topology(threads)
    except ValueError as error:
        return str(error)


def print_cpu_topology(topology: Topology) -> str:
    """Write the annotation."""
    cpus = [_CPU(each.cpu, each.core, each.socket, each.numa_node) for each in topology.threads]
    return msgspec.json.encode(_Topology(cpus)).decode()


class BindPolicy(StrEnum):
    """Where the CPUs of a CPUSet pod lie on cores."""

    FULL_PCPUS = "FullPCPUs"
    SPREAD_BY_PCPUS = "SpreadByPCPUs"


class ExclusivePolicy(StrEnum):
    """The place that a CPUSet pod would rather not share with others of the same policy."""

    NONE = "None"
    PCPU_LEVEL = "PCPULevel"
    NUMA_NODE_LEVEL = "NUMANodeLevel"


class NumaPolicy(StrEnum):
    """On which NUMA nodes of a node a pod may be placed."""

    NONE = "None"
    BEST_EFFORT = "BestEffort"
    RESTRICTED = "Restricted"
    SINGLE_NUMA_NODE = "SingleNUMANode"


_KUBELETS_WORDS = {
    "none": NumaPolicy.NONE,
    "best-effort": NumaPolicy.BEST_EFFORT,
    "restricted": NumaPolicy.RESTRICTED,
    "single-numa-node": NumaPolicy.SINGLE_NUMA_NODE,
}
_BIND_POLICIES = {"": None, "Default": None, **{policy.value: policy for policy in BindPolicy}}
_CONSTRAINED_BURST = "ConstrainedBurst"
"""A bind policy that Koordinator's API names: shared CPUs, but only some of them."""
_EXCLUSIVE_POLICIES = {"": ExclusivePolicy.NONE, **{policy.value: policy for policy in ExclusivePolicy}}
LONGEST_SPEC = 4096
_LONGEST_SHOWN = 40


@dataclass(frozen=True, slots=True)
class CPUBinding:
    """The placement that a CPUSet pod wants for its CPUs; ``required``: it fits nowhere else."""

    policy: BindPolicy = BindPolicy.FULL_PCPUS
    required: bool = False
    exclusive: ExclusivePolicy = ExclusivePolicy.NONE


DEFAULT_BINDING = CPUBinding()


class _ResourceSpec(msgspec.Struct):
    preferred: str | None = msgspec.field(default=None, name="preferredCPUBindPolicy")
    required: str | None = msgspec.field(default=None, name="requiredCPUBindPolicy")
    exclusive: str | None = msgspec.field(default=None, name="preferredCPUExclusivePolicy")


class _NumaSpec(msgspec.Struct):
    policy: str | None = msgspec.field(default=None, name="numaTopologyPolicy")


_RESOURCE_SPEC = msgspec.json.Decoder(_ResourceSpec)
_NUMA_SPEC = msgspec.json.Decoder(_NumaSpec)


def parse_cpu_binding(text: str | None) -> CPUBinding | Finding:
    """Read the annotation resource-spec. Anything wrong with it is a Finding, never an exception."""
    if text is None:
        return DEFAULT_BINDING
    try:
        spec = _RESOURCE_SPEC.decode(_bounded(text))
    except UNREADABLE as error:
        return _unreadable(RESOURCE_SPEC, str(error))
    required, preferred, exclusive = (spec.required or "", spec.preferred or "", spec.exclusive or "")
    bad = next((word for word in (required, preferred) if word not in _BIND_POLICIES), None)
    if bad is not None:
        return _unserved(bad)
    if exclusive not in _EXCLUSIVE_POLICIES:
        return _unknown(RESOURCE_SPEC, exclusive, "CPU exclusive policy", ExclusivePolicy)
    chosen = _BIND_POLICIES[required or preferred] or DEFAULT_BINDING.policy
    return CPUBinding(chosen, bool(required), _EXCLUSIVE_POLICIES[exclusive])


def parse_numa_spec(text: str | None) -> NumaPolicy | Finding | None:
    """Read the annotation numa-topology-spec: the pod's own NUMA policy, None if it states none."""
    if text is None:
        return None
    try:
        word = _NUMA_SPEC.decode(_bounded(text)).policy or ""
    except UNREADABLE as error:
        return _unreadable(NUMA_SPEC, str(error))
    if not word:
        return None
    policy = numa_policy(word)
    return policy if policy is not None else _unknown(NUMA_SPEC, word, "NUMA topology policy", NumaPolicy)


YES, NO = "true", "false"
"""The values of normalize-cpuset."""


def asks_to_normalize(annotations: Mapping[str, str]) -> bool:
    """Return whether a pod's annotation asks for normalized CPUs, if it owns any."""
    return annotations.get(NORMALIZE_CPUSET) == YES


def normalize_problem(annotations: Mapping[str, str]) -> Finding | None:
    """Return the problem of a pod's annotation normalize-cpuset; None if it is absent or good."""
    text = annotations.get(NORMALIZE_CPUSET)
    if text in {None, YES, NO}:
        return None
    shown = (text or "")[:_LONGEST_SHOWN]
    message = f"annotation {NORMALIZE_CPUSET}: {shown!r} is not valid; the choices are {YES}, {NO}"
    return Finding(Reason.RESOURCE_SPEC_INVALID, message)


def misplaced_label(labels: Mapping[str, str], annotations: Mapping[str, str]) -> str:
    """Say that a pod has normalize-cpuset as a label, and what to do; "" if nothing else would follow."""
    text = labels.get(NORMALIZE_CPUSET)
    if text is None or text == annotations.get(NORMALIZE_CPUSET, NO):
        return ""
    return (
        f'the label {NORMALIZE_CPUSET}="{text}" of the pod has no effect: on pods it is an annotation. Write '
        f'{NORMALIZE_CPUSET}: "{YES}" or "{NO}" below metadata.annotations of the pod template, and delete '
        "the pods that exist"
    )


_MEANT_AS_NO = frozenset({"false", "no", "off", "0", "n"})


def normalize_label_problem(namespace: str, labels: Mapping[str, str]) -> Finding | None:
    """Return the problem of a namespace's label normalize-cpuset; None if it is absent or good."""
    text = labels.get(NORMALIZE_CPUSET)
    if text in {None, YES, NO}:
        return None
    message = (
        f'namespace {namespace}: the label {NORMALIZE_CPUSET}="{text}" is neither {YES} nor {NO}, so it '
        f"counts as absent; to correct it: {normalize_label_command(namespace, labels)}"
    )
    return Finding(Reason.NORMALIZE_LABEL_INVALID, message)


def normalize_label_command(namespace: str, labels: Mapping[str, str]) -> str:
    """Return the command that sets a namespace's label normalize-cpuset to what it seems to mean."""
    meant = NO if labels.get(NORMALIZE_CPUSET, "").casefold() in _MEANT_AS_NO else YES
    return f"kubectl label --overwrite namespace {namespace} {NORMALIZE_CPUSET}={meant}"


def numa_policy(word: str) -> NumaPolicy | None:
    """Return the policy of this name, as Koordinator or kubelet spells it; None for any other name."""
    if word in _KUBELETS_WORDS:
        return _KUBELETS_WORDS[word]
    return NumaPolicy(word) if word in tuple(NumaPolicy) else None


def _bounded(text: str) -> str:
    if len(text) > LONGEST_SPEC:
        raise msgspec.DecodeError(
            f"{len(text)} characters are more than the annotation may have ({LONGEST_SPEC})"
        )
    return text


def _unreadable(annotation: str, error: str) -> Finding:
    return Finding(Reason.RESOURCE_SPEC_INVALID, f"annotation {annotation} cannot be read: {error}")


def _unserved(policy: str) -> Finding:
    if policy == _CONSTRAINED_BURST:
        message = f"annotation {RESOURCE_SPEC}: CPU bind policy {policy} is not served"
        return Finding(Reason.CONSTRAINED_BURST_NOT_SERVED, message)
    return _unknown(RESOURCE_SPEC, policy, "CPU bind policy", BindPolicy)


def _unknown(annotation: str, word: str, what: str, known: type[StrEnum]) -> Finding:
    choices = ", ".join(known)
    message = f"annotation {annotation}: {word[:_LONGEST_SHOWN]!r} is not a {what}; the choices are {choices}"
    return Finding(Reason.RESOURCE_SPEC_INVALID, message)


class _Reservation(msgspec.Struct, forbid_unknown_fields=True):
    resources: dict[str, str | int | float] | None = None
    reserved: str | None = msgspec.field(default=None, name="reservedCPUs")
    policy: Literal["", "Default", "ReservedCPUsOnly"] | None = msgspec.field(
        default=None, name="applyPolicy"
    )


_RESERVATION = msgspec.json.Decoder(_Reservation)


@dataclass(frozen=True, slots=True)
class Reservation:
    """The CPUs that a Node's annotation keeps from owners: by number, or else the first ``count``."""

    cpus: CPUSet = field(default_factory=CPUSet)
    count: int = 0

    def on(self, topology: Topology | None) -> CPUSet:
        """Return the CPUs of this machine that are reserved."""
        if not self.count or topology is None:
            return self.cpus
        first = sorted(topology.threads, key=lambda each: (each.socket, each.core, each.cpu))
        return CPUSet.of(each.cpu for each in first[: self.count])


NOTHING_RESERVED = Reservation()


def parse_reservation(text: str) -> Reservation | str:
    """Read the annotation reservation; a text that cannot be used gives what is wrong with it."""
    if not text:
        return NOTHING_RESERVED
    try:
        stated = _RESERVATION.decode(_bounded(text))
        if stated.reserved:
            return Reservation(CPUSet.parse(stated.reserved))
        amount = Quantity.parse(str((stated.resources or {}).get("cpu", 0)))
    except (*UNREADABLE, CPUSetError, QuantityError) as error:
        return f"annotation {RESERVATION} cannot be read: {error}"
    if amount.nano < 0 or amount > largest("cpu"):
        return f"annotation {RESERVATION}: no machine has {amount} CPUs to reserve"
    return Reservation(count=-(-amount.milli // MILLI))


LONGEST_STATUS = 4096
_LARGEST_NODE = 1023
_LARGEST_REQUEST = LARGEST_MILLI // MILLI
_REMEMBERED = 12 * MIB
_ZONE_BYTES = 400
_STATUS_BYTES = 700


@dataclass(frozen=True, slots=True)
class ResourceStatus:
    """The CPUs a pod owns, and its amounts by NUMA node; either may be empty.

    ``problem``: what is wrong with the amounts, which are then empty. ``request``: the CPUs that the pod
    requests; 0: as many as it owns.
    """

    cpus: CPUSet = field(default_factory=CPUSet)
    zones: Mapping[int, Mapping[str, Quantity]] = field(default_factory=dict)
    problem: str = ""
    request: int = 0

    @property
    def surplus(self) -> int:
        """The milli-CPU that the pod requests beyond the CPUs it owns."""
        return (self.request - len(self.cpus)) * MILLI if self.request and self.cpus else 0


NO_STATUS = ResourceStatus()


class _Share(msgspec.Struct):
    node: int
    resources: dict[str, str | int] = {}


class _Status(msgspec.Struct):
    cpuset: str = ""
    request: int = msgspec.field(default=0, name="requestedCPUs")
    shares: msgspec.Raw = msgspec.field(default=msgspec.Raw(b"null"), name="numaNodeResources")


class _Written(msgspec.Struct, omit_defaults=True):
    cpuset: str = ""
    request: int = msgspec.field(default=0, name="requestedCPUs")
    shares: list[_Share] | None = msgspec.field(default=None, name="numaNodeResources")


_DECODER = msgspec.json.Decoder(_Status)
_SHARES = msgspec.json.Decoder(list[_Share] | None)


def parse_resource_status(text: str | None) -> ResourceStatus | str:
    """Read the annotation; a text whose CPUs cannot be read gives what is wrong with it."""
    if text is None:
        return NO_STATUS
    if len(text) > LONGEST_STATUS:
        return f"{len(text)} characters are more than the annotation may have ({LONGEST_STATUS})"
    return _parsed(text)


def _weight(status: ResourceStatus | str, text: str) -> int:
    texts = 3 * text_bytes(text) + _STATUS_BYTES
    if isinstance(status, str):
        return texts
    amounts = sum(len(each) + 1 for each in status.zones.values())
    return texts + CPU_BYTES * len(status.cpus) + _ZONE_BYTES * amounts


@remembered(most=_REMEMBERED, weigh=_weight)
def _parsed(text: str) -> ResourceStatus | str:
    try:
        status = _DECODER.decode(text)
        cpus = CPUSet.parse_claim(status.cpuset)
    except (msgspec.DecodeError, RecursionError, CPUSetError) as error:
        return str(error)
    request = status.request
    if request and not len(cpus) <= request < _LARGEST_REQUEST:
        return f"requestedCPUs is {request}, and cpuset names {len(cpus)} CPUs"
    try:
        shares = _SHARES.decode(status.shares) or []
        zones = {share.node: _amounts(share) for share in shares}
        if len(zones) < len(shares):
            twice = "numaNodeResources names a NUMA node twice"
            return ResourceStatus(cpus, problem=twice, request=request)
    except (msgspec.DecodeError, RecursionError, QuantityError) as error:
        return ResourceStatus(cpus, problem=str(error), request=request)
    return ResourceStatus(cpus, MappingProxyType(zones), request=request)


def stated_status(text: str | None) -> ResourceStatus:
    """Return the content of the annotation; nothing where it cannot be read."""
    status = parse_resource_status(text)
    return status if isinstance(status, ResourceStatus) else NO_STATUS


def stated_cpus(text: str | None) -> CPUSet:
    """Return the CPUs that the annotation names; none where they cannot be read."""
    return stated_status(text).cpus


def _amounts(share: _Share) -> Mapping[str, Quantity]:
    if not 0 <= share.node <= _LARGEST_NODE:
        raise QuantityError(f"{share.node} is not a NUMA node")
    amounts = {name: Quantity.parse(str(amount)) for name, amount in share.resources.items()}
    for name, amount in amounts.items():
        if amount > largest(name):
            raise QuantityError(f"{amount} of {name} is more than any machine has")
    return {name: amount for name, amount in amounts.items() if amount.nano > 0}


def print_resource_status(status: ResourceStatus) -> str:
    """Write the annotation."""
    shares = [
        _Share(node, {name: str(amount) for name, amount in sorted(amounts.items())})
        for node, amounts in sorted(status.zones.items())
    ]
    request = status.request if status.surplus else 0
    return msgspec.json.encode(_Written(str(status.cpus), request, shares or None)).decode()
