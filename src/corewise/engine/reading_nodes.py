"""From a node of the API and its NodeResourceTopology to what the engine reads of it.

Nothing that they state raises an error; what cannot be used is a finding, and the node is read without it.

- The CPU ratio is the larger of the one annotated and the one recorded in status: while a change of ratio is
  under way, CPUs that are owned count by the larger, so that nothing is promised that one of the two does not
  have. One that cannot be read is None.
- Zones count only if their raw CPUs are at least the node's raw allocatable, and at most its raw capacity.
- CPUs that kubelet reserves are not given out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

import msgspec

from corewise.amplification import MAXIMUM, Amounts, Record, raw_amounts, read_ratios, read_record
from corewise.config.interference.stated import parse_bandwidth
from corewise.engine.nodes import CPU, MEMORY, NodeFacts, Taint, Zone
from corewise.engine.objects import SchedulableNode, Topology
from corewise.engine.reading_pods import Finding, amount_of, quantities, quantity
from corewise.quantities import ONE, Quantity, Ratio, RatioError, bounded, deamplified_ceil, largest
from corewise.topology import CPUSet, CPUSetError
from corewise.topology import Topology as Arrangement
from corewise.vocabulary.cpu_binding import NumaPolicy, numa_policy
from corewise.vocabulary.cpu_topology import parse_cpu_topology
from corewise.vocabulary.errors import UNREADABLE
from corewise.vocabulary.names import (
    AMPLIFICATION_RATIO,
    CPU_MANAGER_POLICY,
    CPU_RATIO_APPLIED,
    CPU_TOPOLOGY,
    MEMORY_BANDWIDTH,
    NUMA_POLICY,
)
from corewise.vocabulary.reasons import Reason

_ZONE = re.compile(r"node-([0-9]{1,4})")
_NRT_POLICIES = {
    "SingleNUMANode": NumaPolicy.SINGLE_NUMA_NODE,
    "Restricted": NumaPolicy.RESTRICTED,
    "BestEffort": NumaPolicy.BEST_EFFORT,
    "None": NumaPolicy.NONE,
}
_LEVELS = re.compile(r"(?:PodLevel|ContainerLevel)$")


class _CPUManager(msgspec.Struct):
    policy: str = ""
    options: dict[str, str] | None = None
    reserved: str = msgspec.field(default="", name="reservedCPUs")


_CPU_MANAGER = msgspec.json.Decoder(_CPUManager)


@dataclass(frozen=True, slots=True)
class NodeReading:
    """What the engine reads of a node, and what could not be used."""

    facts: NodeFacts
    findings: tuple[Finding, ...] = ()


def read_node_facts(
    node: SchedulableNode, topology: Topology | None, *, maximum: Ratio = MAXIMUM
) -> NodeReading:
    """Read a node; ``topology`` is its NodeResourceTopology, None if it has none."""
    labels, annotations = node.metadata.labels, node.metadata.annotations
    stated: Mapping[str, str] = topology.metadata.annotations if topology else {}
    manager = _cpu_manager(stated.get(CPU_MANAGER_POLICY, "{}"))
    findings: list[Finding] = []
    offered = quantities(node.status.allocatable)
    findings += _too_large(node.metadata.name, offered)
    facts = NodeFacts(
        name=node.metadata.name,
        allocatable={name: amount_of(name, each) for name, each in offered.items()},
        labels=labels,
        taints=tuple(Taint(each.key, each.effect, each.value) for each in node.spec.taints or ()),
        unschedulable=node.spec.unschedulable,
        ratio=_ratio(annotations, maximum),
        static_cpu_manager=manager.policy == "static",
        full_cores_only=(manager.options or {}).get("full-pcpus-only") == "true",
        numa_policy=_numa_policy(labels, topology, findings),
        zones=_zones(node, topology) if topology and topology.zones else (),
        topology=_arrangement(node.metadata.name, stated.get(CPU_TOPOLOGY), findings),
        reserved=_reserved(manager),
        memory_bandwidth=_memory_bandwidth(node.metadata.name, annotations.get(MEMORY_BANDWIDTH), findings),
    )
    return NodeReading(facts, tuple(findings))


def _too_large(node: str, offered: Mapping[str, Quantity]) -> Iterator[Finding]:
    for name, amount in offered.items():
        if amount > largest(name):
            message = f"{node}: allocatable of {name} is {amount}: it counts as {largest(name)}"
            yield Finding(Reason.AMOUNT_TOO_LARGE, message)


def _memory_bandwidth(name: str, text: str | None, findings: list[Finding]) -> int | None:
    stated = None if text is None else parse_bandwidth(text)
    if isinstance(stated, str):
        message = f"{name}: annotation {MEMORY_BANDWIDTH} cannot be read: {stated}"
        findings.append(Finding(Reason.MEMORY_BANDWIDTH_INVALID, message))
        return None
    return stated


def _ratio(annotations: Mapping[str, str], maximum: Ratio) -> Ratio | None:
    reading = read_ratios(
        annotations.get(AMPLIFICATION_RATIO), annotation=AMPLIFICATION_RATIO, maximum=maximum
    )
    if reading.is_bad(CPU):
        return None
    record = read_record(annotations)
    recorded = record.ratios.get(CPU, ONE) if isinstance(record, Record) else ONE
    return max(ONE, recorded, reading.ratios.get(CPU, ONE))


def _cpu_manager(text: str) -> _CPUManager:
    try:
        return _CPU_MANAGER.decode(text)
    except UNREADABLE:
        return _CPUManager()


def _numa_policy(labels: Mapping[str, str], topology: Topology | None, findings: list[Finding]) -> NumaPolicy:
    word = labels.get(NUMA_POLICY, "")
    if word:
        policy = numa_policy(word)
        if policy is None:
            message = f"label {NUMA_POLICY}: {word!r} is no NUMA topology policy; it counts as None"
            findings.append(Finding(Reason.NUMA_POLICY_UNKNOWN, message))
        return policy or NumaPolicy.NONE
    policies = topology.topology_policies if topology else None
    return _NRT_POLICIES.get(_LEVELS.sub("", policies[0]), NumaPolicy.NONE) if policies else NumaPolicy.NONE


def _reserved(manager: _CPUManager) -> CPUSet:
    try:
        return CPUSet.parse(manager.reserved)
    except CPUSetError:
        return CPUSet()


def _arrangement(node: str, text: str | None, findings: list[Finding]) -> Arrangement | None:
    if text is None:
        return None
    arrangement = _parsed_topology(text)
    if not isinstance(arrangement, Arrangement):
        message = f"{node}: annotation {CPU_TOPOLOGY} cannot be read: {arrangement}"
        findings.append(Finding(Reason.CPU_TOPOLOGY_INVALID, message))
        return None
    return arrangement


@lru_cache(maxsize=1024)
def _parsed_topology(text: str) -> Arrangement | str:
    """Read the arrangement of CPUs once for all nodes of the same kind."""
    return parse_cpu_topology(text)


def _zones(node: SchedulableNode, topology: Topology) -> tuple[Zone, ...]:
    """Return the NUMA nodes, or none if they are not those of this node."""
    try:
        applied = Ratio.parse(topology.metadata.annotations.get(CPU_RATIO_APPLIED, str(ONE)))
    except RatioError:
        return ()
    if applied < ONE:
        return ()
    zones = sorted(_stated_zones(topology, applied), key=lambda zone: zone.number)
    amounts = Amounts(quantities(node.status.capacity), quantities(node.status.allocatable))
    raw = raw_amounts(amounts, node.metadata.annotations)
    if CPU not in raw.allocatable or CPU not in raw.capacity:
        return ()
    together = sum(zone.cpu for zone in zones)
    match = raw.allocatable[CPU].milli <= together <= raw.capacity[CPU].milli
    unique = len({zone.number for zone in zones}) == len(zones)
    return tuple(zones) if match and unique else ()


def _stated_zones(topology: Topology, applied: Ratio) -> Iterator[Zone]:
    for zone in topology.zones or ():
        name = _ZONE.fullmatch(zone.name)
        if name is None or zone.type != "Node":
            continue
        amounts = {each.name: quantity(each.allocatable) for each in zone.resources}
        cpu, memory = amounts.get(CPU), amounts.get(MEMORY)
        if cpu is not None:
            raw = bounded(CPU, deamplified_ceil(max(0, cpu.milli), applied))
            yield Zone(int(name[1]), raw, bounded(MEMORY, memory.units) if memory else 0)
