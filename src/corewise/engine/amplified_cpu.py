"""AmplifiedCPU: CPUs that CPUSet pods own count amplified, on the node and in each of its NUMA nodes.

The arithmetic is that of :mod:`corewise.amplification.occupancy` and :mod:`corewise.amplification.numa`.
Who is refused beyond it:

- a pod that owns CPUs, on a node whose ratio cannot be read; to other pods such a node has ratio 1.00;
- a pod that owns CPUs by its class, on a node that does not state how its CPUs are arranged;
- a pod that owns more CPUs than are free, or requires them in a shape in which they are not;
- a pod with a NUMA policy, on a node that has another; either alone is in force;
- a pod under Restricted or SingleNUMANode, on a node whose zones are unknown or have no room so.

CPUs are counted here, in the shape that is required, and CPUPlacement chooses by the same counts: whoever is
admitted is given what it needs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from corewise.amplification import Column, Flags, occupied
from corewise.amplification.numa import ZoneAmounts, admitted, affinity
from corewise.engine.framework import Cause, Inputs, Verdicts, verdicts
from corewise.engine.nodes import MEMORY
from corewise.engine.pods import PodFacts
from corewise.engine.snapshot import NUMA_POLICIES, ClusterSnapshot, Indices
from corewise.quantities import ONE
from corewise.vocabulary.cpu_binding import BindPolicy, NumaPolicy
from corewise.vocabulary.reasons import Reason

_MILLI: Final = 1000
_NONE: Final = 0
_Refusals = list[tuple[Flags, Cause]]


def cpu_text(milli: int) -> str:
    """Return milli-CPU as CPUs: 2500 is "2.5"."""
    sign, whole, rest = "-" * (milli < 0), abs(milli) // _MILLI, abs(milli) % _MILLI
    return f"{sign}{whole}" + (f".{rest:03d}".rstrip("0") if rest else "")


def _short_of_cpu(numbers: Inputs) -> str:
    owned = f", of which {cpu_text(numbers['owned'])} owned" if numbers["owned"] else ""
    ratio = f"{numbers['ratio'] // 100}.{numbers['ratio'] % 100:02d}"
    request = f"{cpu_text(numbers['request'])} requested{owned}"
    return (
        f"needs {cpu_text(numbers['needed'])} amplified CPUs ({request}, "
        f"ratio {ratio}), {cpu_text(numbers['room'])} of {cpu_text(numbers['allocatable'])} are left"
    )


def _short_of_cpus(numbers: Inputs) -> str:
    return f"needs {numbers['owned'] // _MILLI} CPUs of its own, {numbers['free_cpus']} are free"


_SHORT = Cause(Reason.AMPLIFIED_CPU_INSUFFICIENT, "Insufficient amplified cpu", message=_short_of_cpu)
_NO_CPUS = Cause(Reason.NOT_ENOUGH_CPUS, "not enough CPUs that nobody owns", message=_short_of_cpus)
_BAD_RATIO = Cause(
    Reason.AMPLIFICATION_RATIO_INVALID, "the node's amplification ratio cannot be read", hopeless=True
)
_NO_TOPOLOGY = Cause(Reason.CPU_TOPOLOGY_UNKNOWN, "the node does not state its CPU topology", hopeless=True)
_UNALIGNED_CORES = Cause(
    Reason.NOT_WHOLE_CORES, "the requested CPUs are not a multiple of the threads of a core", hopeless=True
)
_NO_WHOLE_CORES = Cause(Reason.NOT_WHOLE_CORES, "not enough whole cores that nobody owns")
_NO_CORES = Cause(Reason.NOT_ENOUGH_CORES, "not enough cores with a thread that nobody owns")
_WHOLE_CORES_ONLY = Cause(
    Reason.BIND_POLICY_CONFLICT,
    "the node gives whole cores only, the pod requires single threads",
    hopeless=True,
)
_OTHER_POLICY = Cause(
    Reason.NUMA_POLICY_CONFLICT, "the node's NUMA topology policy is not the pod's", hopeless=True
)
_NO_ZONES = Cause(Reason.NUMA_ZONES_UNUSABLE, "the node states no usable NUMA zones", hopeless=True)
_UNALIGNED = Cause(Reason.NUMA_NOT_ALIGNED, "no room within the NUMA nodes that its policy allows")


@dataclass(frozen=True, slots=True)
class AmplifiedCPU:
    """The filter."""

    name: str = "AmplifiedCPU"

    def filter(self, pod: PodFacts, snapshot: ClusterSnapshot) -> Verdicts | None:
        """Refuse nodes without the amplified CPU, the CPUs or the NUMA zones that a pod needs."""
        owned = owned_on(pod, snapshot)
        needed = needed_on(pod, owned, snapshot)
        refusals: _Refusals = []
        if pod.owned_by_class or pod.owned_if_static:
            refusals += _without_cpus(pod, owned, snapshot)
        if pod.cpu:
            refusals.append((needed > snapshot.cpu_room, _SHORT))
        refusals += _not_aligned(pod, owned, snapshot)
        return verdicts(snapshot.size, refusals, _inputs(pod, owned, needed, snapshot))


def owned_on(pod: PodFacts, snapshot: ClusterSnapshot) -> int | Column:
    """Return how many milli-CPU of its request the pod owns on each node."""
    if pod.owned_by_class or not pod.owned_if_static or not snapshot.static_cpu_manager.any():
        return pod.owned_by_class
    return np.where(snapshot.static_cpu_manager, pod.owned_if_static, 0)


def needed_on(pod: PodFacts, owned: int | Column, snapshot: ClusterSnapshot) -> int | Column:
    """Return how many amplified milli-CPU the pod takes of each node; one number where it owns nothing."""
    return pod.cpu if isinstance(owned, int) and not owned else occupied(pod.cpu, owned, snapshot.ratio)


def effective_policy(pod: PodFacts, snapshot: ClusterSnapshot) -> Column:
    """Return the number of the NUMA policy in force for the pod on each node: the node's, else the pod's."""
    own = NUMA_POLICIES.index(pod.numa_policy) if pod.numa_policy else _NONE
    if own == _NONE:
        return snapshot.numa_policy
    return np.where(snapshot.numa_policy == _NONE, own, snapshot.numa_policy)


def policy_on(pod: PodFacts, snapshot: ClusterSnapshot, row: int) -> NumaPolicy:
    """Return the NUMA policy in force for the pod on one node."""
    own = NUMA_POLICIES[int(snapshot.numa_policy[row])]
    return own if own is not NumaPolicy.NONE else pod.numa_policy or NumaPolicy.NONE


def zone_amounts(
    pod: PodFacts, owned: int | Column, snapshot: ClusterSnapshot, rows: Indices
) -> list[ZoneAmounts]:
    """Return what the pod needs of the NUMA nodes of some nodes, cpu first; its own CPUs are amplified.

    CPUs that it is to own count one by one too. Where zones state no memory, cpu alone decides.
    """
    amounts: list[ZoneAmounts] = []
    if pod.cpu:
        own: Column = np.broadcast_to(owned[rows] if isinstance(owned, np.ndarray) else owned, rows.shape)
        needed = occupied(pod.cpu, own, snapshot.ratio[rows])
        cpu = ZoneAmounts(snapshot.zone_cpu[:, rows], snapshot.zone_cpu_room[:, rows], needed)
        amounts.append(cpu)
        if pod.owned_by_class or pod.owned_if_static:
            counted = ZoneAmounts(snapshot.zone_cpus[:, rows], grantable(pod, snapshot, rows), own // _MILLI)
            amounts.append(_where(own > 0, counted, cpu))
    memory = pod.requests.get(MEMORY, 0)
    if memory:
        total, free = snapshot.zone_memory[:, rows], snapshot.zone_memory_free[:, rows]
        stated = ZoneAmounts(total, free, np.full(len(rows), memory, dtype=np.int64))
        amounts.append(_where(np.any(total, axis=0), stated, amounts[0]) if amounts else stated)
    return amounts


def _where(holds: Flags, amounts: ZoneAmounts, others: ZoneAmounts) -> ZoneAmounts:
    """Return amounts on the nodes where something holds, others on the rest."""
    return ZoneAmounts(
        np.where(holds, amounts.allocatable, others.allocatable),
        np.where(holds, amounts.free, others.free),
        np.where(holds, amounts.needed, others.needed),
    )


def grantable(pod: PodFacts, snapshot: ClusterSnapshot, rows: Indices) -> Column:
    """Return how many CPUs of each zone of some nodes the pod can own: the filter and the choice go by this.

    They are free, in the shape that the pod or the node requires, and each takes its ratio of the zone's
    amplified room, which CPUShare pods use up too without holding any CPU.
    """
    ratio = snapshot.ratio[rows]
    room = np.maximum(snapshot.zone_cpu_room[:, rows], 0) * ONE.hundredths // (ratio * _MILLI)
    if not pod.owned_by_class:
        return room
    if pod.binding.required and pod.binding.policy is BindPolicy.SPREAD_BY_PCPUS:
        return np.minimum(room, snapshot.zone_free_cores[:, rows])
    whole = snapshot.full_cores_only[rows] | pod.binding.required
    free = np.where(whole, snapshot.zone_free_whole_cpus[:, rows], snapshot.zone_free_cpus[:, rows])
    count = np.minimum(room, free)
    return np.where(whole, count - count % np.maximum(snapshot.zone_core_size[:, rows], 1), count)


def zones_for(pod: PodFacts, snapshot: ClusterSnapshot, row: int) -> int:
    """Return the set of zones where the pod goes on a node, as a mask of their places; 0 if it has none."""
    policy = policy_on(pod, snapshot, row)
    if policy is NumaPolicy.NONE:
        return 0
    amounts = zone_amounts(pod, owned_on(pod, snapshot), snapshot, np.array([row]))
    return int(affinity(policy, amounts)[0]) if amounts else 0


def _without_cpus(pod: PodFacts, owned: int | Column, snapshot: ClusterSnapshot) -> _Refusals:
    owns = np.broadcast_to(np.asarray(owned) > 0, snapshot.present.shape)
    refusals: _Refusals = [
        (owns & ~snapshot.ratio_known, _BAD_RATIO),
        (owns & (np.asarray(owned) > snapshot.free_cpus * _MILLI), _NO_CPUS),
    ]
    if not pod.owned_by_class:
        return refusals
    count = pod.owned_by_class // _MILLI
    refusals.insert(1, (~snapshot.topology_known, _NO_TOPOLOGY))
    return refusals + _in_the_wrong_shape(pod, count, snapshot)


def _in_the_wrong_shape(pod: PodFacts, count: int, snapshot: ClusterSnapshot) -> _Refusals:
    required = pod.binding.required
    whole = snapshot.full_cores_only
    if required and pod.binding.policy is BindPolicy.SPREAD_BY_PCPUS:
        return [(whole, _WHOLE_CORES_ONLY), (snapshot.free_cores < count, _NO_CORES)]
    if required:
        whole = np.ones_like(whole)
    elif not whole.any():
        return []
    return [
        (whole & (count % snapshot.core_size != 0), _UNALIGNED_CORES),
        (whole & (snapshot.free_whole_cpus < count), _NO_WHOLE_CORES),
    ]


def _not_aligned(pod: PodFacts, owned: int | Column, snapshot: ClusterSnapshot) -> _Refusals:
    if pod.numa_policy in {None, NumaPolicy.NONE} and not snapshot.numa_policy.any():
        return []
    refusals: _Refusals = []
    if pod.numa_policy not in {None, NumaPolicy.NONE}:
        own = NUMA_POLICIES.index(pod.numa_policy)
        other = (snapshot.numa_policy != _NONE) & (snapshot.numa_policy != own)
        refusals.append((other, _OTHER_POLICY))
    if not pod.cpu and MEMORY not in pod.requests:
        return refusals
    policies = effective_policy(pod, snapshot)
    for policy in (NumaPolicy.RESTRICTED, NumaPolicy.SINGLE_NUMA_NODE):
        under = snapshot.present & (policies == NUMA_POLICIES.index(policy))
        rows = np.flatnonzero(under)
        if not len(rows):
            continue
        unaligned = np.zeros_like(under)
        amounts = zone_amounts(pod, owned, snapshot, rows)
        unaligned[rows] = ~admitted(policy, amounts, len(rows))
        refusals += [(under & ~snapshot.zones_known, _NO_ZONES), (unaligned, _UNALIGNED)]
    return refusals


def _inputs(
    pod: PodFacts, owned: int | Column, needed: int | Column, snapshot: ClusterSnapshot
) -> dict[str, Column | int]:
    return {
        "request": pod.cpu,
        "owned": owned,
        "needed": needed,
        "ratio": snapshot.ratio,
        "room": snapshot.cpu_room,
        "allocatable": snapshot.allocatable["cpu"],
        "free_cpus": snapshot.free_cpus,
    }
