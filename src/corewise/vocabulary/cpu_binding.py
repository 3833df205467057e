"""How a pod wants its CPUs placed: the annotations resource-spec and numa-topology-spec.

``scheduling.koordinator.sh/resource-spec``::

    {"preferredCPUBindPolicy": "FullPCPUs", "requiredCPUBindPolicy": "SpreadByPCPUs",
     "preferredCPUExclusivePolicy": "PCPULevel"}

``scheduling.koordinator.sh/numa-topology-spec``: ``{"numaTopologyPolicy": "SingleNUMANode"}``.
Absent and empty values are the default. Unknown keys are passed over: Koordinator has more. Texts longer
than LONGEST_SPEC characters are refused: whoever creates a pod writes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import msgspec

from corewise.vocabulary.errors import UNREADABLE
from corewise.vocabulary.names import NUMA_SPEC, RESOURCE_SPEC
from corewise.vocabulary.reasons import Reason


class BindPolicy(StrEnum):
    """Where the CPUs of a CPUSet pod lie on cores."""

    FULL_PCPUS = "FullPCPUs"
    SPREAD_BY_PCPUS = "SpreadByPCPUs"


class ExclusivePolicy(StrEnum):
    """What a CPUSet pod would rather not share with others of the same policy."""

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
_EXCLUSIVE_POLICIES = {"": ExclusivePolicy.NONE, **{policy.value: policy for policy in ExclusivePolicy}}
LONGEST_SPEC = 4096
_LONGEST_SHOWN = 40


@dataclass(frozen=True, slots=True)
class CPUBinding:
    """How a CPUSet pod wants its CPUs; ``required``: it fits nowhere else."""

    policy: BindPolicy = BindPolicy.FULL_PCPUS
    required: bool = False
    exclusive: ExclusivePolicy = ExclusivePolicy.NONE


DEFAULT_BINDING = CPUBinding()


@dataclass(frozen=True, slots=True)
class SpecProblem:
    """Why what a pod states about its CPUs cannot be followed; it then fits nowhere."""

    reason: Reason
    message: str


class _ResourceSpec(msgspec.Struct):
    preferred: str | None = msgspec.field(default=None, name="preferredCPUBindPolicy")
    required: str | None = msgspec.field(default=None, name="requiredCPUBindPolicy")
    exclusive: str | None = msgspec.field(default=None, name="preferredCPUExclusivePolicy")


class _NumaSpec(msgspec.Struct):
    policy: str | None = msgspec.field(default=None, name="numaTopologyPolicy")


_RESOURCE_SPEC = msgspec.json.Decoder(_ResourceSpec)
_NUMA_SPEC = msgspec.json.Decoder(_NumaSpec)


def parse_cpu_binding(text: str | None) -> CPUBinding | SpecProblem:
    """Read the annotation resource-spec. Anything wrong with it is a SpecProblem, never an exception."""
    if text is None:
        return DEFAULT_BINDING
    try:
        spec = _RESOURCE_SPEC.decode(_bounded(text))
    except UNREADABLE as error:
        return _unreadable(RESOURCE_SPEC, str(error))
    required, preferred, exclusive = (spec.required or "", spec.preferred or "", spec.exclusive or "")
    for word in (required, preferred):
        if word not in _BIND_POLICIES:
            return _unknown(RESOURCE_SPEC, word, "CPU bind policy", BindPolicy)
    if exclusive not in _EXCLUSIVE_POLICIES:
        return _unknown(RESOURCE_SPEC, exclusive, "CPU exclusive policy", ExclusivePolicy)
    must, should = _BIND_POLICIES[required], _BIND_POLICIES[preferred]
    if must and should and must is not should:
        message = f"annotation {RESOURCE_SPEC} requires {must} and prefers {should}"
        return SpecProblem(Reason.BIND_POLICY_CONFLICT, message)
    chosen = must or should or DEFAULT_BINDING.policy
    return CPUBinding(chosen, bool(required), _EXCLUSIVE_POLICIES[exclusive])


def parse_numa_spec(text: str | None) -> NumaPolicy | SpecProblem | None:
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


def numa_policy(word: str) -> NumaPolicy | None:
    """Return the policy of this name, as Koordinator or kubelet spells it; None if there is no such."""
    if word in _KUBELETS_WORDS:
        return _KUBELETS_WORDS[word]
    return NumaPolicy(word) if word in tuple(NumaPolicy) else None


def _bounded(text: str) -> str:
    if len(text) > LONGEST_SPEC:
        raise msgspec.DecodeError(
            f"{len(text)} characters are more than the annotation may have ({LONGEST_SPEC})"
        )
    return text


def _unreadable(annotation: str, error: str) -> SpecProblem:
    return SpecProblem(Reason.RESOURCE_SPEC_INVALID, f"annotation {annotation} cannot be read: {error}")


def _unknown(annotation: str, word: str, what: str, known: type[StrEnum]) -> SpecProblem:
    choices = ", ".join(known)
    message = f"annotation {annotation}: {word[:_LONGEST_SHOWN]!r} is no {what}; there are {choices}"
    return SpecProblem(Reason.RESOURCE_SPEC_INVALID, message)
