"""CPUPlacement: which CPUs and which NUMA nodes a pod gets on the node that was chosen for it.

A pod that owns CPUs by its class gets them from the node's ledger, in the shape it wishes, within the NUMA
nodes of its affinity; under BestEffort anywhere if need be. On a node with a NUMA policy in force every pod's
requests are written down by NUMA node, so that the use of zones can be rebuilt from what is bound; amounts
are the pod's own, not amplified.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from corewise.amplification import amplified_up
from corewise.amplification.numa import distributed, members
from corewise.engine.amplified_cpu import grantable, policy_on, zones_for
from corewise.engine.cluster import EXCLUSIVITY
from corewise.engine.framework import ChosenNode, Refused
from corewise.engine.nodes import CPU, MEMORY
from corewise.engine.pods import Placement, PodFacts
from corewise.pinning import CoreUse, Grant, Ledger, Wish, choose
from corewise.topology import CPUSet
from corewise.vocabulary.cpu_binding import BindPolicy, NumaPolicy
from corewise.vocabulary.reasons import Reason

_MILLI = 1000


@dataclass(frozen=True, slots=True)
class CPUPlacement:
    """The Reserve plugin."""

    name: str = "CPUPlacement"

    def reserve(self, pod: PodFacts, node: ChosenNode, placement: Placement) -> Placement | Refused:
        """Choose CPUs and NUMA nodes; refuses if the ledger has no CPUs of the shape that is required."""
        policy = policy_on(pod, node.snapshot, node.row)
        mask = zones_for(pod, node.snapshot, node.row)
        cpus = CPUSet()
        if pod.owned_by_class:
            if node.ledger is None:
                text = Reason.CPU_TOPOLOGY_UNKNOWN.text.meaning
                return Refused(self.name, Reason.CPU_TOPOLOGY_UNKNOWN, text)
            answer = choose(node.ledger, _wish(pod, node, mask, node.ledger))
            if not isinstance(answer, Grant) and policy is NumaPolicy.BEST_EFFORT:
                answer = choose(node.ledger, _wish(pod, node, 0, node.ledger))
            if not isinstance(answer, Grant):
                return Refused(self.name, answer.reason, answer.message)
            cpus = answer.cpus
        if policy is NumaPolicy.NONE or not node.facts.zones:
            return replace(placement, cpus=cpus) if cpus else placement
        return replace(placement, cpus=cpus, zones=_zones(pod, node, mask, cpus))

    def unreserve(self, pod: PodFacts, placement: Placement) -> None:
        """Nothing is to be undone: the placement is a value."""


def _wish(pod: PodFacts, node: ChosenNode, mask: int, ledger: Ledger) -> Wish:
    spread = pod.binding.policy is BindPolicy.SPREAD_BY_PCPUS
    whole_only = node.facts.full_cores_only
    wish = Wish(
        pod.owned_by_class // _MILLI,
        CoreUse.SPREAD if spread and not whole_only else CoreUse.WHOLE,
        required=pod.binding.required or whole_only,
    )
    within = _cpus_of(pod, node, mask, ledger, wish) if mask else None
    return replace(wish, exclusive=EXCLUSIVITY[pod.binding.exclusive], within=within)


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
    own = distributed(owned, [(zones[place].number, counts[place] * _MILLI) for place in places]) or {}
    ratio = int(snapshot.ratio[row])
    left = [
        (zone := zones[place].number, room[place] - amplified_up(own.get(zone, 0), ratio)) for place in places
    ]
    shared = distributed(pod.cpu - sum(own.values()), left) or {}
    return Counter(own) + Counter(shared)


def _owned_by_zone(ledger: Ledger, cpus: CPUSet) -> dict[int, int]:
    counts = {zone: len(own & cpus) for zone, own in ledger.topology.numa_nodes.items()}
    return {zone: count * _MILLI for zone, count in counts.items() if count}
