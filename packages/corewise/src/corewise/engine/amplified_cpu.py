"""Which nodes have the amplified CPU that a pod needs, how good they are, and which CPUs the pod gets.

AmplifiedCPU, the filter: CPUs that pods own count amplified, on the node and in each of its NUMA nodes. The
arithmetic is that of :mod:`corewise.amplification.occupancy`. It also refuses

- a pod that owns CPUs, on a node whose ratio cannot be read; to other pods such a node has ratio 1.00;
- a pod whose CPUs are normalized, on a node whose normalization ratio cannot be read;
- a pod that owns CPUs by its class, on a node that does not state its CPU topology, whose ledger of owned
  CPUs is damaged, or whose annotation reserves CPUs in words that cannot be read;
- a pod that owns more CPUs than are free, or requires them in a shape in which they are not free;
- a pod with a NUMA policy, on a node that has another one; where only one of the two has a policy, it
  applies;
- a pod under Restricted or SingleNUMANode, on a node whose zones are unknown or have no such room; under
  Restricted also on one that has too many zones for sets of them.

A pod whose CPUs are normalized owns on each node the physical CPUs that do their work there, by the node's
own ratio, rounded up to whole cores where these are required: another number on another node. Where that is
more than it requests, the node is refused, as any pod is whose request is not whole cores.

CPUPlacement, the Reserve plugin: a pod that owns CPUs by its class gets them from the node's ledger, in the
shape it wishes, within the NUMA nodes of its affinity; under BestEffort anywhere if need be. On a node with
a NUMA policy every pod's requests are recorded by NUMA node, so that the use of zones can be rebuilt from
what is bound; amounts are the pod's own, not amplified. The filter counts CPUs by the same numbers by which
CPUPlacement chooses them: a pod that is admitted gets what it needs.

AllocationScore: nodes with much left (LeastAllocated) or little left (MostAllocated) suit a pod best.

    least(resource) = (left after the pod) x 100 / allocatable        0..100, rounded down
    most(resource)  = 100 - the same, before rounding: (allocatable - left) x 100 / allocatable
    score           = mean over cpu and memory, rounded down

For an offline pod batch-cpu and batch-memory count too, where a node offers them, with the weights that
``corewise scheduler config`` prints for kube-scheduler: mainly the batch CPU that is left decides.
Its cpu is the amplified cpu of the filter. Where a NUMA policy gives the pod an affinity, both are those of
the zones that it would get: what is left in others is of no use to it. Shares are divided as doubles, which
is several times faster and rounds down like whole numbers do: of amounts below 2**46 (64 TiB) no quotient is
nearer to a whole number than a double can tell. Source: plugins/noderesources/{least,most}_allocated.go of
kube-scheduler.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from corewise.amplification import amplified_up, normalized_cpus, occupied
from corewise.amplification.numa import (
    MOST_IN_SETS,
    BoolColumn,
    IntColumn,
    ZoneAmounts,
    admitted,
    affinity,
    distributed,
    has_too_many,
    members,
)
from corewise.engine.cluster import EXCLUSIVITY
from corewise.engine.columns import NUMA_POLICIES, ClusterSnapshot, Indices
from corewise.engine.facts import CPU, MEMORY, Placement, PodFacts
from corewise.engine.framework import BEST_SCORE, Cause, ChosenNode, Inputs, Verdicts, verdicts
from corewise.engine.kube_plugins import FIT_WEIGHTS
from corewise.pinning.choice import choose
from corewise.pinning.ledger import CoreUse, Grant, Ledger, Wish
from corewise.quantities import MILLI, ONE
from corewise.topology import CPUSet
from corewise.vocabulary.cpu_annotations import BindPolicy, NumaPolicy
from corewise.vocabulary.findings import Finding
from corewise.vocabulary.names import BATCH_CPU, BATCH_MEMORY
from corewise.vocabulary.reasons import Reason

_NONE: Final = 0
_Refusals = list[tuple[BoolColumn, Cause]]


def cpu_text(milli: int) -> str:
    """Return milli-CPU as CPUs: 2500 is "2.5"."""
    sign, whole, rest = "-" * (milli < 0), abs(milli) // MILLI, abs(milli) % MILLI
    return f"{sign}{whole}" + (f".{rest:03d}".rstrip("0") if rest else "")


def _short_of_cpu(numbers: Inputs) -> str:
    owned = f", of which {cpu_text(numbers['owned'])} owned" if numbers["owned"] else ""
    if numbers["owned"] and numbers.get("normalization"):
        owned = f", for which it owns {cpu_text(numbers['owned'])}"
    ratio = f"{numbers['ratio'] // 100}.{numbers['ratio'] % 100:02d}"
    request = f"{cpu_text(numbers['request'])} requested{owned}"
    return (
        f"needs {cpu_text(numbers['needed'])} amplified CPUs ({request}, "
        f"ratio {ratio}), {cpu_text(numbers['room'])} of {cpu_text(numbers['allocatable'])} are left"
    )


def _short_of_cpus(numbers: Inputs) -> str:
    normalized = ""
    if numbers.get("normalization"):
        by = f"{numbers['normalization'] // 100}.{numbers['normalization'] % 100:02d}"
        normalized = f" for the {cpu_text(numbers['request'])} it requests (normalization ratio {by})"
    return f"needs {numbers['owned'] // MILLI} CPUs of its own{normalized}, {numbers['free_cpus']} are free"


_SHORT = Cause(Reason.AMPLIFIED_CPU_INSUFFICIENT, "Insufficient amplified cpu", message=_short_of_cpu)
_NO_CPUS = Cause(Reason.NOT_ENOUGH_CPUS, "not enough free CPUs", message=_short_of_cpus)
_BAD_RATIO = Cause(
    Reason.AMPLIFICATION_RATIO_INVALID, "the node's amplification ratio cannot be read", unresolvable=True
)
_BAD_NORMALIZATION = Cause(
    Reason.NORMALIZATION_RATIO_INVALID, "the node's normalization ratio cannot be read", unresolvable=True
)
_DAMAGED_LEDGER = Cause(
    Reason.OWNED_CPUS_DAMAGED, "the node's ledger of owned CPUs is damaged", unresolvable=True
)
_NO_TOPOLOGY = Cause(
    Reason.CPU_TOPOLOGY_UNKNOWN, "the node does not state its CPU topology", unresolvable=True
)
_BAD_RESERVATION = Cause(
    Reason.NODE_RESERVATION_INVALID, "which CPUs of the node are reserved cannot be read", unresolvable=True
)
_UNALIGNED_CORES = Cause(
    Reason.NOT_WHOLE_CORES,
    "the requested CPUs are not a multiple of the threads of a core",
    unresolvable=True,
)
_NO_WHOLE_CORES = Cause(Reason.NOT_WHOLE_CORES, "not enough free whole cores")
_NO_CORES = Cause(Reason.NOT_ENOUGH_CORES, "not enough cores with a free thread")
_WHOLE_CORES_ONLY = Cause(
    Reason.BIND_POLICY_CONFLICT,
    "the node gives whole cores only, the pod requires single threads",
    unresolvable=True,
)
_OTHER_POLICY = Cause(
    Reason.NUMA_POLICY_CONFLICT, "the node's NUMA topology policy is not the pod's", unresolvable=True
)
_NO_ZONES = Cause(Reason.NUMA_ZONES_UNUSABLE, "the node states no usable NUMA zones", unresolvable=True)
_TOO_MANY_ZONES = Cause(
    Reason.NUMA_ZONES_UNUSABLE,
    f"the node has more than {MOST_IN_SETS} NUMA nodes with CPUs, too many for policy Restricted",
    unresolvable=True,
)
_UNALIGNED = Cause(Reason.NUMA_NOT_ALIGNED, "no room within the NUMA nodes that its policy allows")


@dataclass(frozen=True, slots=True)
class AmplifiedCPU:
    """The filter."""

    name: str = "AmplifiedCPU"
    by_node: ClassVar[bool] = True

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
        refused = verdicts(snapshot.size, refusals)
        if refused is None:
            return None
        inputs: dict[str, IntColumn | int] = {
            "request": pod.cpu,
            "owned": owned,
            "needed": needed,
            "ratio": snapshot.ratio,
            "room": snapshot.cpu_room,
            "allocatable": snapshot.allocatable[CPU],
            "free_cpus": snapshot.free_cpus,
        }
        if pod.normalizes:
            inputs["normalization"] = snapshot.normalization
        return replace(refused, inputs=inputs)


def owned_on(pod: PodFacts, snapshot: ClusterSnapshot) -> int | IntColumn:
    """Return the milli-CPU that the pod owns on each node: of its request, or for it."""
    if pod.owned_by_class and pod.normalizes:
        return pod.kept * MILLI if pod.kept else _normalized_on(pod, snapshot) * MILLI
    if pod.owned_by_class or not pod.owned_if_static or not snapshot.static_cpu_manager.any():
        return pod.owned_by_class
    return np.where(snapshot.static_cpu_manager, pod.owned_if_static, 0)


def _normalized_on(pod: PodFacts, snapshot: ClusterSnapshot) -> IntColumn:
    """Return the CPUs that a pod owns on each node if they are normalized, in whole cores where required."""
    count = normalized_cpus(pod.owned_by_class // MILLI, np.maximum(snapshot.normalization, ONE.hundredths))
    size = np.where(_needs_whole_cores(pod, snapshot), np.maximum(snapshot.core_size, 1), 1)
    return -(-count // size) * size


def normalized_owned(pod: PodFacts, snapshot: ClusterSnapshot) -> dict[str, int]:
    """Return the CPUs that a pod whose CPUs are normalized would own, by node."""
    owned = np.broadcast_to(owned_on(pod, snapshot), snapshot.size)
    return {name: int(owned[row]) // MILLI for name, row in snapshot.index.items()}


def _needs_whole_cores(pod: PodFacts, snapshot: ClusterSnapshot) -> BoolColumn:
    """Return the nodes where the pod gets whole cores or nothing."""
    required, spread = pod.binding.required, pod.binding.policy is BindPolicy.SPREAD_BY_PCPUS
    return snapshot.full_cores_only | np.bool_(required and not spread)


def _surplus(pod: PodFacts, owned: int | IntColumn) -> int | IntColumn:
    """Return the milli-CPU that the pod requests beyond the CPUs it owns."""
    return pod.cpu - owned if pod.normalizes and pod.owned_by_class else 0


def needed_on(pod: PodFacts, owned: int | IntColumn, snapshot: ClusterSnapshot) -> int | IntColumn:
    """Return the amplified milli-CPU that the pod takes of each node; one number where it owns nothing."""
    if isinstance(owned, int) and not owned:
        return pod.cpu
    return occupied(pod.cpu, owned, snapshot.ratio, _surplus(pod, owned))


def policy_on(pod: PodFacts, snapshot: ClusterSnapshot, row: int) -> NumaPolicy:
    """Return the NUMA policy that applies to the pod on one node."""
    own = NUMA_POLICIES[int(snapshot.numa_policy[row])]
    return own if own is not NumaPolicy.NONE else pod.numa_policy or NumaPolicy.NONE


def zone_amounts(
    pod: PodFacts, owned: int | IntColumn, snapshot: ClusterSnapshot, rows: Indices
) -> list[ZoneAmounts]:
    """Return the pod's needs of the NUMA nodes of some nodes, cpu first; its own CPUs are amplified.

    CPUs that it is to own count one by one too. Where zones state no memory, cpu alone decides. Of a pod
    whose CPUs are normalized these count, and not its request: in zones that alone is recorded.
    """
    amounts: list[ZoneAmounts] = []
    if pod.cpu:
        own: IntColumn = np.broadcast_to(_at(owned, rows), rows.shape)
        surplus = _surplus(pod, own)
        needed = occupied(pod.cpu - surplus, own, snapshot.ratio[rows])
        cpu = ZoneAmounts(snapshot.zone_cpu[:, rows], snapshot.zone_cpu_room[:, rows], needed)
        amounts.append(cpu)
        if pod.owned_by_class or pod.owned_if_static:
            counted = ZoneAmounts(snapshot.zone_cpus[:, rows], grantable(pod, snapshot, rows), own // MILLI)
            amounts.append(_where(own > 0, counted, cpu))
    memory = pod.requests.get(MEMORY, 0)
    if memory:
        total, free = snapshot.zone_memory[:, rows], snapshot.zone_memory_free[:, rows]
        stated = ZoneAmounts(total, free, np.full(len(rows), memory, dtype=np.int64))
        amounts.append(_where(np.any(total, axis=0), stated, amounts[0]) if amounts else stated)
    return amounts


def _where(holds: BoolColumn, amounts: ZoneAmounts, others: ZoneAmounts) -> ZoneAmounts:
    """Return amounts on the nodes where something holds, others on the rest."""
    return ZoneAmounts(
        np.where(holds, amounts.allocatable, others.allocatable),
        np.where(holds, amounts.free, others.free),
        np.where(holds, amounts.needed, others.needed),
    )


def grantable(pod: PodFacts, snapshot: ClusterSnapshot, rows: Indices) -> IntColumn:
    """Return the number of CPUs of each zone that the pod can own: the filter and the choice go by this.

    They are free, in the shape that the pod or the node requires, and each takes its ratio of the zone's
    amplified room, which CPUShare pods use up too without holding any CPU.
    """
    ratio = snapshot.ratio[rows]
    room = np.maximum(snapshot.zone_cpu_room[:, rows], 0) * ONE.hundredths // (ratio * MILLI)
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


def _without_cpus(pod: PodFacts, owned: int | IntColumn, snapshot: ClusterSnapshot) -> _Refusals:
    owns = np.asarray(owned) > 0
    bad_ratio = (owns & ~snapshot.ratio_known, _BAD_RATIO)
    no_cpus = (owns & (np.asarray(owned) > snapshot.free_cpus * MILLI), _NO_CPUS)
    if not pod.owned_by_class:
        return [bad_ratio, no_cpus]
    count = owned // MILLI
    refusals: _Refusals = [
        bad_ratio,
        *([(snapshot.normalization == 0, _BAD_NORMALIZATION)] if pod.normalizes and not pod.kept else []),
        (~snapshot.topology_known, _NO_TOPOLOGY),
        (~snapshot.ledger_intact, _DAMAGED_LEDGER),
        (~snapshot.reservation_known, _BAD_RESERVATION),
        no_cpus,
    ]
    return refusals + _in_the_wrong_shape(pod, count, snapshot)


def _in_the_wrong_shape(pod: PodFacts, count: int | IntColumn, snapshot: ClusterSnapshot) -> _Refusals:
    if pod.binding.required and pod.binding.policy is BindPolicy.SPREAD_BY_PCPUS:
        return [(snapshot.full_cores_only, _WHOLE_CORES_ONLY), (snapshot.free_cores < count, _NO_CORES)]
    whole = _needs_whole_cores(pod, snapshot)
    if not whole.any():
        return []
    unaligned = (count % np.maximum(snapshot.core_size, 1) != 0) | (np.asarray(count) * MILLI > pod.cpu)
    return [
        (whole & unaligned, _UNALIGNED_CORES),
        (whole & (snapshot.free_whole_cpus < count), _NO_WHOLE_CORES),
    ]


def _not_aligned(pod: PodFacts, owned: int | IntColumn, snapshot: ClusterSnapshot) -> _Refusals:
    own = NUMA_POLICIES.index(pod.numa_policy) if pod.numa_policy else _NONE
    if own == _NONE and not np.count_nonzero(snapshot.numa_policy):
        return []
    refusals: _Refusals = []
    policies = snapshot.numa_policy
    if own != _NONE:
        refusals.append(((policies != _NONE) & (policies != own), _OTHER_POLICY))
        policies = np.where(policies == _NONE, own, policies)
    if not pod.cpu and MEMORY not in pod.requests:
        return refusals
    strict = np.zeros(snapshot.size, dtype=np.bool_)
    unaligned = strict.copy()
    for policy in (NumaPolicy.RESTRICTED, NumaPolicy.SINGLE_NUMA_NODE):
        rows = np.flatnonzero(snapshot.present & (policies == NUMA_POLICIES.index(policy)))
        if len(rows):
            strict[rows] = True
            amounts = zone_amounts(pod, owned, snapshot, rows)
            unaligned[rows] = ~admitted(policy, amounts, len(rows))
    restricted = policies == NUMA_POLICIES.index(NumaPolicy.RESTRICTED)
    return [
        *refusals,
        (strict & ~snapshot.zones_known, _NO_ZONES),
        (restricted & has_too_many(snapshot.zone_cpu), _TOO_MANY_ZONES),
        (unaligned, _UNALIGNED),
    ]


def _zones_of(
    pod: PodFacts, owned: int | IntColumn, snapshot: ClusterSnapshot, among: BoolColumn
) -> Iterator[tuple[Indices, IntColumn]]:
    """Yield rows of nodes whose NUMA policy gives the pod an affinity, and 1 for each zone of it, else 0."""
    policies = snapshot.numa_policy
    if pod.numa_policy:
        policies = np.where(policies == _NONE, NUMA_POLICIES.index(pod.numa_policy), policies)
    elif not np.count_nonzero(policies):
        return
    places = np.arange(len(snapshot.zone_cpu))[:, np.newaxis]
    for number in set(policies[among & snapshot.zones_known].tolist()) - {_NONE}:
        rows = np.flatnonzero(among & snapshot.zones_known & (policies == number))
        amounts = zone_amounts(pod, owned, snapshot, rows)
        masks = affinity(NUMA_POLICIES[number], amounts) if amounts else np.zeros_like(rows)
        yield rows[masks > 0], masks[masks > 0] >> places & 1


def _summed(zones: IntColumn, rows: Indices, inside: IntColumn) -> IntColumn:
    """Return a zone column's sum over the zones that count, for some nodes."""
    total: IntColumn = (zones[:, rows] * inside).sum(axis=0)
    return total


def _at(amount: int | IntColumn, rows: Indices) -> int | IntColumn:
    return amount[rows] if isinstance(amount, np.ndarray) else amount


class Allocation(Enum):
    """Which nodes suit best."""

    LEAST = "LeastAllocated"
    MOST = "MostAllocated"


@dataclass(frozen=True, slots=True)
class AllocationScore:
    """The Score plugin."""

    allocation: Allocation = Allocation.LEAST
    weight: int = 1
    by_node: ClassVar[bool] = True

    @property
    def name(self) -> str:
        return self.allocation.value

    def score(self, pod: PodFacts, snapshot: ClusterSnapshot, feasible: BoolColumn) -> IntColumn:
        """Return 0 to 100 for every node."""
        owned, memory = owned_on(pod, snapshot), pod.requests.get(MEMORY, 0)
        needed = needed_on(pod, owned, snapshot)
        cpu_of, memory_of = snapshot.allocatable[CPU], snapshot.allocatable[MEMORY]
        cpu_left, memory_left = snapshot.cpu_room - needed, snapshot.free[MEMORY] - memory
        divisors = snapshot.divisors[CPU], snapshot.divisors[MEMORY]
        zones = list(_zones_of(pod, owned, snapshot, feasible))
        if zones:
            cpu_of, memory_of = cpu_of.copy(), memory_of.copy()
        for rows, inside in zones:
            cpu_of[rows] = _summed(snapshot.zone_cpu, rows, inside)
            cpu_left[rows] = _summed(snapshot.zone_cpu_room, rows, inside) - _at(needed, rows)
            stated = _summed(snapshot.zone_memory, rows, inside)
            free = _summed(snapshot.zone_memory_free, rows, inside) - memory
            memory_left[rows] = np.where(stated > 0, free, memory_left[rows])
            memory_of[rows] = np.where(stated > 0, stated, memory_of[rows])
        if zones:
            divisors = np.maximum(cpu_of, 1.0), np.maximum(memory_of, 1.0)
        share = self._share(cpu_left, cpu_of, divisors[0])
        share += self._share(memory_left, memory_of, divisors[1])
        if BATCH_CPU in pod.requests or BATCH_MEMORY in pod.requests:
            return self._with_batch(share, pod, snapshot)
        share >>= 1
        return share.astype(np.int64)

    def _with_batch(self, share: NDArray[np.int32], pod: PodFacts, snapshot: ClusterSnapshot) -> IntColumn:
        """Return the mean of the shares of cpu and memory, which are added up, and of batch resources."""
        weights = np.full(snapshot.size, 2)
        for resource in {BATCH_CPU, BATCH_MEMORY} & pod.requests.keys() & snapshot.allocatable.keys():
            allocatable = snapshot.allocatable[resource]
            left = snapshot.free[resource] - pod.requests[resource]
            weight = FIT_WEIGHTS[resource] * (allocatable > 0)
            share = share + weight * self._share(left, allocatable, np.maximum(allocatable, 1.0))
            weights += weight
        score: IntColumn = share // weights
        return score

    def _share(
        self, left: IntColumn, allocatable: IntColumn, divisor: NDArray[np.float64]
    ) -> NDArray[np.int32]:
        """Return the share that is left, or taken, in whole hundredths; more than there is is never left.

        To 32 bits doubles are rounded several numbers at once, to 64 bits one by one.
        """
        least = self.allocation is Allocation.LEAST
        counted = left if least else allocatable - left
        share = counted.astype(np.float64)
        share *= BEST_SCORE
        share /= divisor
        if least:
            np.maximum(share, 0.0, out=share)
        else:
            np.minimum(share, float(BEST_SCORE), out=share)
        return share.astype(np.int32)


@dataclass(frozen=True, slots=True)
class CPUPlacement:
    """The Reserve plugin."""

    name: str = "CPUPlacement"

    def reserve(self, pod: PodFacts, node: ChosenNode, placement: Placement) -> Placement | Finding:
        """Choose CPUs and NUMA nodes; refuses if the ledger has no CPUs of the shape that is required.

        No filter has seen a pod that somebody else bound: refuses if it would own more than it requests.
        """
        policy = policy_on(pod, node.snapshot, node.row)
        if policy is NumaPolicy.NONE and not pod.owned_by_class:
            return placement
        mask = zones_for(pod, node.snapshot, node.row)
        cpus, surplus = CPUSet(), 0
        if pod.owned_by_class:
            if node.ledger is None:
                return Finding(Reason.CPU_TOPOLOGY_UNKNOWN, Reason.CPU_TOPOLOGY_UNKNOWN.meaning)
            wish = _wish(pod, node, mask, node.ledger)
            if wish.count * MILLI > pod.cpu:
                message = f"it requests {cpu_text(pod.cpu)} CPUs, and would own {wish.count} in whole cores"
                return Finding(Reason.NOT_WHOLE_CORES, message, unresolvable=True)
            answer = choose(node.ledger, wish)
            if not isinstance(answer, Grant) and policy is NumaPolicy.BEST_EFFORT:
                answer = choose(node.ledger, _wish(pod, node, 0, node.ledger))
            if not isinstance(answer, Grant):
                return answer
            if mask and pod.kept:
                mask = _mask_of(node, answer.cpus)
            cpus, surplus = answer.cpus, int(_surplus(pod, len(answer.cpus) * MILLI))
        if policy is NumaPolicy.NONE or not node.facts.zones:
            return replace(placement, cpus=cpus, surplus=surplus) if cpus else placement
        return replace(placement, cpus=cpus, zones=_zones(pod, node, mask, cpus), surplus=surplus)


def _wish(pod: PodFacts, node: ChosenNode, mask: int, ledger: Ledger) -> Wish:
    spread = pod.binding.policy is BindPolicy.SPREAD_BY_PCPUS
    whole_only = node.facts.full_cores_only
    owned = np.broadcast_to(owned_on(pod, node.snapshot), node.snapshot.size)
    wish = Wish(
        int(owned[node.row]) // MILLI,
        CoreUse.SPREAD if spread and not whole_only else CoreUse.WHOLE,
        required=pod.binding.required or whole_only,
    )
    # A pod keeps the CPUs that it was given: the ledger offers no others.
    within = _cpus_of(pod, node, mask, ledger, wish) if mask and not pod.kept else None
    return replace(wish, exclusive=EXCLUSIVITY[pod.binding.exclusive], within=within)


def _mask_of(node: ChosenNode, cpus: CPUSet) -> int:
    """Return the set of zones in which CPUs are."""
    held = _owned_by_zone(node.ledger, cpus) if node.ledger else {}
    return sum(1 << place for place, zone in enumerate(node.facts.zones) if zone.number in held)


def _cpus_of(pod: PodFacts, node: ChosenNode, mask: int, ledger: Ledger, wish: Wish) -> CPUSet:
    """Return CPUs of a set of zones, of each as many as the pod can own there."""
    counts = grantable(pod, node.snapshot, np.array([node.row]))[:, 0].tolist()
    chosen: set[int] = set()
    for place in members(mask):
        cpus = ledger.topology.numa_nodes.get(node.facts.zones[place].number, CPUSet())
        answer = choose(ledger, replace(wish, count=counts[place], within=cpus)) if counts[place] else None
        if isinstance(answer, Grant):
            chosen |= answer.cpus.cpus
    return CPUSet.of(chosen)


def _zones(pod: PodFacts, node: ChosenNode, mask: int, cpus: CPUSet) -> Mapping[int, Mapping[str, int]]:
    zones = node.facts.zones
    places = members(mask) or list(range(len(zones)))
    cpu = _owned_by_zone(node.ledger, cpus) if node.ledger and cpus else _spread(pod, node, places)
    free = node.snapshot.zone_memory_free[:, node.row].tolist()
    memory = distributed(
        pod.requests.get(MEMORY, 0), [(zones[place].number, free[place]) for place in places]
    )
    shares: dict[int, dict[str, int]] = {}
    for resource, parts in ((CPU, cpu), (MEMORY, memory)):
        for zone, amount in (parts or {}).items():
            shares.setdefault(zone, {})[resource] = amount
    return shares


def _spread(pod: PodFacts, node: ChosenNode, places: Sequence[int]) -> Mapping[int, int]:
    """Return a pod's milli-CPU by zone: first what it is to own, in whole CPUs, then what it shares."""
    zones, snapshot, row = node.facts.zones, node.snapshot, node.row
    owned = pod.owned(static_cpu_manager=node.facts.static_cpu_manager)
    counts = grantable(pod, snapshot, np.array([row]))[:, 0].tolist()
    room = snapshot.zone_cpu_room[:, row].tolist()
    own = distributed(owned, [(zones[place].number, counts[place] * MILLI) for place in places]) or {}
    ratio = int(snapshot.ratio[row])
    left = [
        (zone := zones[place].number, room[place] - amplified_up(own.get(zone, 0), ratio)) for place in places
    ]
    shared = distributed(pod.cpu - sum(own.values()), left) or {}
    return Counter(own) + Counter(shared)


def _owned_by_zone(ledger: Ledger, cpus: CPUSet) -> dict[int, int]:
    counts = {zone: len(own & cpus) for zone, own in ledger.topology.numa_nodes.items()}
    return {zone: count * MILLI for zone, count in counts.items() if count}
