"""How much of each NUMA node the pods with a known NUMA placement take. Pure.

Only the annotation ``scheduling.koordinator.sh/resource-status`` tells where a pod is placed: the CPUs that a
CPUSet pod owns, and the amounts it was given on each NUMA node. An owned CPU takes one raw CPU, which is the
ratio in amplified CPUs. Pods without the annotation, or with one that cannot be read, are placed nowhere in
particular and take nothing here: what they use is seen in the node's requests, not in a zone's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from corewise.quantities import AmplifiedMilli, Bytes, Quantity, Ratio, amplify
from corewise.topology import Topology
from corewise.vocabulary.resource_status import ResourceStatus, parse_resource_status


@dataclass(frozen=True, slots=True)
class ZoneDemand:
    """What is taken of one NUMA node."""

    cpu: AmplifiedMilli
    memory: Bytes

    def __add__(self, other: ZoneDemand) -> ZoneDemand:
        return ZoneDemand(AmplifiedMilli(self.cpu + other.cpu), Bytes(self.memory + other.memory))


_NO_CPU = AmplifiedMilli(0)
_NO_MEMORY = Bytes(0)
NO_DEMAND = ZoneDemand(_NO_CPU, _NO_MEMORY)


def zone_demand(statuses: Iterable[str], topology: Topology, ratio: Ratio) -> Mapping[int, ZoneDemand]:
    """Return what is taken of each NUMA node.

    ``statuses`` are the texts of the annotation on the pods that hold resources: neither ended nor pending.
    """
    demand: dict[int, ZoneDemand] = {}
    for status in statuses:
        for node, share in _placed(status, topology, ratio).items():
            demand[node] = demand.get(node, NO_DEMAND) + share
    return MappingProxyType(demand)


def _placed(text: str, topology: Topology, ratio: Ratio) -> Mapping[int, ZoneDemand]:
    status = parse_resource_status(text)
    if not isinstance(status, ResourceStatus):
        return {}
    shares = {node: _share(amounts) for node, amounts in status.zones.items()}
    if not status.cpus:
        return shares
    placed = {node: ZoneDemand(_NO_CPU, share.memory) for node, share in shares.items()}
    for node, cpus in topology.numa_nodes.items():
        taken = amplify(len(cpus & status.cpus) * 1000, ratio)
        placed[node] = placed.get(node, NO_DEMAND) + ZoneDemand(AmplifiedMilli(taken), _NO_MEMORY)
    return placed


def _share(amounts: Mapping[str, Quantity]) -> ZoneDemand:
    nothing = Quantity(0)
    return ZoneDemand(
        AmplifiedMilli(amounts.get("cpu", nothing).milli), Bytes(amounts.get("memory", nothing).units)
    )
