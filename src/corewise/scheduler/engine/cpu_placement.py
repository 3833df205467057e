"""CPUPlacement: which CPUs and which NUMA nodes a pod gets on the node that was chosen for it.

A pod that owns CPUs by its class gets them from the node's ledger, in the shape it wishes, within the NUMA
nodes of its affinity. On a node with a NUMA policy in force every pod's requests are written down by NUMA
node, so that the use of zones can be rebuilt from what is bound; amounts are the pod's own, not amplified.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from corewise.amplification.numa import distributed, members
from corewise.pinning import CoreUse, Grant, Ledger, Wish, choose
from corewise.policy.cpu_binding import BindPolicy, NumaPolicy
from corewise.policy.reasons import Reason
from corewise.quantities import ONE
from corewise.scheduler.engine.amplified_cpu import policy_on, zones_for
from corewise.scheduler.engine.cluster import EXCLUSIVITY
from corewise.scheduler.engine.framework import ChosenNode, Refused
from corewise.scheduler.engine.nodes import CPU, MEMORY
from corewise.scheduler.engine.pods import Placement, PodFacts
from corewise.topology import CPUSet

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
    return Wish(
        pod.owned_by_class // _MILLI,
        CoreUse.SPREAD if spread and not whole_only else CoreUse.WHOLE,
        required=pod.binding.required or whole_only,
        exclusive=EXCLUSIVITY[pod.binding.exclusive],
        within=_cpus_of(node, mask, ledger) if mask else None,
    )


def _cpus_of(node: ChosenNode, mask: int, ledger: Ledger) -> CPUSet | None:
    """Return CPUs of a set of zones, of each as many as it has amplified room for; None where unknown.

    CPUShare pods hold no CPUs of a zone, and still use it up: free CPUs alone do not tell its room.
    """
    ratio = (node.facts.ratio or ONE).hundredths
    chosen: set[int] = set()
    for place in members(mask):
        zone = node.facts.zones[place]
        cpus = (zone.cpus or ledger.topology.numa_nodes.get(zone.number, CPUSet())) & ledger.free
        if not cpus and not zone.cpus and zone.number not in ledger.topology.numa_nodes:
            return None
        room = max(0, int(node.snapshot.zone_cpu_room[place, node.row])) * ONE.hundredths // (ratio * _MILLI)
        if room < len(cpus):
            answer = choose(ledger, Wish(room, within=cpus)) if room else None
            cpus = answer.cpus if isinstance(answer, Grant) else CPUSet()
        chosen |= cpus.cpus
    return CPUSet.of(chosen)


def _zones(pod: PodFacts, node: ChosenNode, mask: int, cpus: CPUSet) -> Mapping[int, Mapping[str, int]]:
    zones = node.facts.zones
    places = members(mask) or list(range(len(zones)))
    snapshot, row = node.snapshot, node.row
    shares: dict[int, dict[str, int]] = {}
    cpu_shares = _owned_by_zone(node.ledger, cpus) if node.ledger and cpus else None
    if cpu_shares is None:
        room = [(zones[place].number, int(snapshot.zone_cpu_room[place, row])) for place in places]
        cpu_shares = distributed(pod.cpu, room)
    memory = [(zones[place].number, int(snapshot.zone_memory_free[place, row])) for place in places]
    for resource, parts in ((CPU, cpu_shares), (MEMORY, distributed(pod.requests.get(MEMORY, 0), memory))):
        for zone, amount in (parts or {}).items():
            shares.setdefault(zone, {})[resource] = amount
    return shares


def _owned_by_zone(ledger: Ledger, cpus: CPUSet) -> dict[int, int]:
    counts = Counter(thread.numa_node for thread in ledger.topology.threads if thread.cpu in cpus)
    return {zone: count * _MILLI for zone, count in sorted(counts.items())}
