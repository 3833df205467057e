"""From the API's nodes, NodeResourceTopologies and pods to what the engine reads of them.

Nothing that they state raises an error. What cannot be used is a finding, and the object is read without it.

- The CPU ratio of a node is the one by which owned CPUs count. One that cannot be read is None.
- Owned CPUs are normalized by the node's normalization ratio, and by no more than that CPU ratio: what the
  node does not offer cannot stand for CPUs. kubelet's static CPU manager gives pods as many CPUs as they
  request, so where it runs they are not normalized.
- Zones count only if their raw CPUs are at least the node's raw allocatable, and at most its raw capacity.
  Those without CPUs, such as the memory of accelerators, do not count: no pod is placed there.
- CPUs that kubelet or the Node's annotation reserves are not given out. While the annotation cannot be read,
  none are.
- A pod's request of corewise.io/owned-cpus says only that kube-scheduler is to ask the extender: no node
  offers it.
- Requests of pods are counted as :mod:`corewise.amplification.demand` counts them, which is how
  kube-scheduler and kubelet do. A pod that asks for CPUs of its own and contradicts itself in how, or that
  requests more than any machine has, has a problem, and fits nowhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

import msgspec

from corewise.amplification import (
    NodeAmounts,
    PodDemand,
    is_cpuset_by_class,
    normalization_of_owned,
    owned_milli,
    pod_request,
    ratio_of_owned,
    raw_amounts,
    unfolded,
)
from corewise.amplification.annotations import read_node_in_force
from corewise.amplification.numa import MOST_IN_SETS, MOST_ZONES, POLICIES_WITH_SETS
from corewise.config.configuration import LARGEST_NORMALIZATION_RATIO
from corewise.config.interference.amounts import parse_bandwidth
from corewise.engine.facts import (
    CPU,
    MEMORY,
    BlockingTaint,
    Constraints,
    NodeFacts,
    NodeRequirement,
    Placement,
    PodFacts,
    Term,
    Toleration,
    Zone,
)
from corewise.engine.objects import ReportedTopology
from corewise.quantities import (
    MILLI,
    ONE,
    Quantity,
    Ratio,
    RatioError,
    bounded,
    deamplified_ceil,
    largest,
    offered,
    offered_amounts,
)
from corewise.topology import CPUSet, CPUSetError, Topology
from corewise.vocabulary.cpu_annotations import (
    DEFAULT_BINDING,
    CPUBinding,
    NumaPolicy,
    Reservation,
    ResourceStatus,
    asks_to_normalize,
    normalize_problem,
    numa_policy,
    parse_cpu_binding,
    parse_cpu_topology,
    parse_numa_spec,
    parse_reservation,
    parse_resource_status,
)
from corewise.vocabulary.errors import UNREADABLE
from corewise.vocabulary.findings import Finding
from corewise.vocabulary.foreign_names import NamePlace, unserved_on
from corewise.vocabulary.names import (
    CPU_BIND_POLICY,
    CPU_MANAGER_POLICY,
    CPU_RATIO_APPLIED,
    CPU_TOPOLOGY,
    MEMORY_BANDWIDTH,
    NORMALIZATION_RATIO,
    NORMALIZE_CPUSET,
    NUMA_POLICY,
    NUMA_SPEC,
    OWNED_CPUS_RESOURCE,
    QOS_CLASS,
    RESERVATION,
    RESOURCE_SPEC,
    RESOURCE_STATUS,
)
from corewise.vocabulary.owned_cpus import read_owned_cpus, whole_cpus
from corewise.vocabulary.qos import DEFAULT_RULES, QoSRules
from corewise.vocabulary.reasons import Reason
from corewise.vocabulary.text_cache import MIB, remembered, text_bytes
from corewise.workload.nodes import Node
from corewise.workload.pods import Pod, SelectorRequirement, SelectorTerm
from corewise.workload.requests import pod_demand

_REMEMBERED = 4096
_TOPOLOGIES_REMEMBERED = 16 * MIB
_CPU_BYTES = 800
FINISHED = frozenset({"Succeeded", "Failed"})
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
    """The facts that the engine reads of a node, and the findings that could not be used."""

    facts: NodeFacts
    findings: tuple[Finding, ...] = ()


def read_node_facts(node: Node, topology: ReportedTopology | None) -> NodeReading:
    """Read a node; ``topology`` is its NodeResourceTopology, None if it has none."""
    labels, annotations = node.metadata.labels, node.metadata.annotations
    stated: Mapping[str, str] = topology.metadata.annotations if topology else {}
    manager, reserved = _cpu_manager(stated.get(CPU_MANAGER_POLICY, "{}"))
    amounts = offered_amounts(node.status.allocatable)
    findings = [
        Finding(
            Reason.AMOUNT_TOO_LARGE,
            f"{node.metadata.name}: allocatable of {name} is {amount}: it counts as {largest(name)}",
        )
        for name, amount in amounts.items()
        if amount > largest(name)
    ]
    recorded = read_node_in_force(annotations)
    owned = read_owned_cpus(annotations, whole_cpus(offered(node.status.capacity.get(CPU, ""))))
    if owned.problem:
        findings.append(Finding(Reason.OWNED_CPUS_DAMAGED, f"{node.metadata.name}: {owned.problem}"))
    ratio = ratio_of_owned(recorded)
    normalization = _normalization(node.metadata.name, annotations.get(NORMALIZATION_RATIO), findings)
    topology_of_cpus = _arrangement(node.metadata.name, stated.get(CPU_TOPOLOGY), findings)
    reservation = _reservation(node.metadata.name, annotations.get(RESERVATION, ""), findings)
    findings += [
        Finding(Reason.NAME_NOT_SERVED, f"{node.metadata.name}: {each}")
        for each in unserved_on(NamePlace.NODE, labels, annotations)
    ]
    allocatable = {name: amount_of(name, each) for name, each in amounts.items()}
    if CPU in allocatable:
        allocatable[CPU] = unfolded(allocatable[CPU], recorded)
    policy, zones = _numa(node, topology, findings)
    facts = NodeFacts(
        name=node.metadata.name,
        allocatable=allocatable,
        labels=labels,
        taints=tuple(BlockingTaint(each.key, each.effect, each.value) for each in node.spec.taints),
        unschedulable=node.spec.unschedulable,
        ratio=ratio,
        normalization=normalization_of_owned(
            normalization, ratio, static_cpu_manager=manager.policy == "static"
        ),
        static_cpu_manager=manager.policy == "static",
        full_cores_only=labels.get(CPU_BIND_POLICY) == "FullPCPUsOnly"
        or (manager.options or {}).get("full-pcpus-only") == "true",
        numa_policy=policy,
        zones=zones,
        topology=topology_of_cpus,
        reserved=reserved | reservation.on(topology_of_cpus) if reservation else reserved,
        reservation_known=reservation is not None,
        memory_bandwidth=_memory_bandwidth(node.metadata.name, annotations.get(MEMORY_BANDWIDTH), findings),
        owned=owned,
    )
    return NodeReading(facts, tuple(findings))


def _normalization(name: str, text: str | None, findings: list[Finding]) -> Ratio | None:
    """Return a node's normalization ratio, 1.00 if it states none; None where it cannot be read."""
    if text is None:
        return ONE
    with suppress(RatioError):
        ratio = Ratio.parse(text)
        if ONE <= ratio <= LARGEST_NORMALIZATION_RATIO:
            return ratio
    message = f"{name}: annotation {NORMALIZATION_RATIO} is {text[:40]!r}, not a ratio such as 1.20"
    findings.append(Finding(Reason.NORMALIZATION_RATIO_INVALID, message))
    return None


def _memory_bandwidth(name: str, text: str | None, findings: list[Finding]) -> int | None:
    stated = None if text is None else parse_bandwidth(text)
    if isinstance(stated, str):
        message = f"{name}: annotation {MEMORY_BANDWIDTH} cannot be read: {stated}"
        findings.append(Finding(Reason.MEMORY_BANDWIDTH_INVALID, message))
        return None
    return stated


def _cpu_manager(text: str) -> tuple[_CPUManager, CPUSet]:
    """Return the policy of kubelet's CPU manager, and the CPUs that it reserves."""
    try:
        manager = _CPU_MANAGER.decode(text)
    except UNREADABLE:
        return _CPUManager(), CPUSet()
    try:
        return manager, CPUSet.parse(manager.reserved)
    except CPUSetError:
        return manager, CPUSet()


def _numa(
    node: Node, topology: ReportedTopology | None, findings: list[Finding]
) -> tuple[NumaPolicy, tuple[Zone, ...]]:
    """Return a node's NUMA policy, and its NUMA nodes if they are known."""
    policy = _numa_policy(node.metadata.labels, topology, findings)
    zones = _zones(node, topology) if topology and topology.zones else ()
    if policy in POLICIES_WITH_SETS and len(zones) > MOST_IN_SETS:
        message = (
            f"{node.metadata.name}: {len(zones)} NUMA nodes have CPUs, more than the {MOST_IN_SETS} among "
            f"which {policy} can choose; they count as unknown: state SingleNUMANode or None"
        )
        findings.append(Finding(Reason.NUMA_ZONES_UNUSABLE, message))
    return policy, zones


def _numa_policy(
    labels: Mapping[str, str], topology: ReportedTopology | None, findings: list[Finding]
) -> NumaPolicy:
    word = labels.get(NUMA_POLICY, "")
    if word:
        policy = numa_policy(word)
        if policy is None:
            message = f"label {NUMA_POLICY}: {word!r} is not a NUMA topology policy; it counts as None"
            findings.append(Finding(Reason.NUMA_POLICY_UNKNOWN, message))
        return policy or NumaPolicy.NONE
    policies = topology.topology_policies if topology else None
    return _NRT_POLICIES.get(_LEVELS.sub("", policies[0]), NumaPolicy.NONE) if policies else NumaPolicy.NONE


def _arrangement(node: str, text: str | None, findings: list[Finding]) -> Topology | None:
    if text is None:
        return None
    arrangement = _parsed_topology(text)
    if not isinstance(arrangement, Topology):
        message = f"{node}: annotation {CPU_TOPOLOGY} cannot be read: {arrangement}"
        findings.append(Finding(Reason.CPU_TOPOLOGY_INVALID, message))
        return None
    return arrangement


def _reservation(node: str, text: str, findings: list[Finding]) -> Reservation | None:
    reservation = parse_reservation(text)
    if isinstance(reservation, Reservation):
        return reservation
    findings.append(Finding(Reason.NODE_RESERVATION_INVALID, f"{node}: {reservation}"))
    return None


def _topology_bytes(read: Topology | str, text: str) -> int:
    cpus = len(read.threads) if isinstance(read, Topology) else 0
    return 2 * text_bytes(text) + _CPU_BYTES * (cpus + 1)


@remembered(most=_TOPOLOGIES_REMEMBERED, weigh=_topology_bytes)
def _parsed_topology(text: str) -> Topology | str:
    """Read the arrangement of CPUs once for all nodes of the same kind."""
    return parse_cpu_topology(text)


def _zones(node: Node, topology: ReportedTopology) -> tuple[Zone, ...]:
    """Return the NUMA nodes, or none if they are not those of this node."""
    try:
        applied = Ratio.parse(topology.metadata.annotations.get(CPU_RATIO_APPLIED, str(ONE)))
    except RatioError:
        return ()
    if applied < ONE:
        return ()
    zones = sorted(_stated_zones(topology, applied), key=lambda zone: zone.number)
    amounts = NodeAmounts(offered_amounts(node.status.capacity), offered_amounts(node.status.allocatable))
    raw = raw_amounts(amounts, node.metadata.annotations)
    if CPU not in raw.allocatable or CPU not in raw.capacity:
        return ()
    together = sum(zone.cpu for zone in zones)
    match = raw.allocatable[CPU].milli <= together <= raw.capacity[CPU].milli
    unique = len({zone.number for zone in zones}) == len(zones)
    return tuple(zones) if match and unique and len(zones) <= MOST_ZONES else ()


def _stated_zones(topology: ReportedTopology, applied: Ratio) -> Iterator[Zone]:
    for zone in topology.zones or ():
        name = _ZONE.fullmatch(zone.name)
        if name is None or zone.type != "Node":
            continue
        amounts = {each.name: offered(each.allocatable) for each in zone.resources}
        cpu, memory = amounts.get(CPU), amounts.get(MEMORY)
        if cpu is not None and cpu.milli > 0:
            raw = bounded(CPU, deamplified_ceil(cpu.milli, applied))
            yield Zone(int(name[1]), raw, bounded(MEMORY, memory.units) if memory else 0)


def key_of(pod: Pod) -> str:
    """Return the name by which the engine knows a pod."""
    return f"{_namespace(pod)}/{pod.metadata.name}"


def _namespace(pod: Pod) -> str:
    return pod.metadata.namespace or "default"


def holds_resources(pod: Pod) -> bool:
    """Whether the pod is bound and unfinished."""
    return bool(pod.spec.node_name) and pod.status.phase not in FINISHED


def pod_facts(pod: Pod, rules: QoSRules = DEFAULT_RULES) -> PodFacts:
    """Return the engine's facts about a pod. One of a class that it may not have owns no CPUs by it."""
    stated = _stated(pod)
    counted = stated.counted
    refused = rules.class_problem(pod.metadata.labels, _namespace(pod)) if counted.by_class else None
    return PodFacts(
        key=key_of(pod),
        requests=counted.requests,
        owned_by_class=counted.owned if counted.by_class and not refused else 0,
        owned_if_static=0 if counted.by_class else counted.owned,
        normalizes=stated.normalizes and counted.by_class,
        binding=stated.binding,
        numa_policy=stated.numa_policy,
        constraints=stated.constraints,
        problem=stated.problem or refused,
        refused_class=refused,
        labels=pod.metadata.labels,
        daemon=any(each.kind == "DaemonSet" for each in pod.metadata.owner_references),
        uid=pod.metadata.uid,
    )


@dataclass(frozen=True, slots=True)
class _Counted:
    """The requests of a pod, and the CPUs it owns: by its class, or where kubelet gives it whole CPUs."""

    requests: Mapping[str, int]
    owned: int
    by_class: bool


@dataclass(frozen=True, slots=True)
class _StatedByPod:
    """The facts of a pod that others of the same template share."""

    counted: _Counted
    normalizes: bool
    binding: CPUBinding
    numa_policy: NumaPolicy | None
    problem: Finding | None
    constraints: Constraints


_ENCODER = msgspec.json.Encoder(enc_hook=dict)
"""The maps of a pod may be of a type that cannot be changed, which msgspec does not know."""
_read_before: dict[bytes, _StatedByPod] = {}


def _stated(pod: Pod) -> _StatedByPod:
    """Read what a pod states; pods that state the same are read once, and they come by hundreds."""
    meta, spec, status = pod.metadata, pod.spec, pod.status
    stated = (
        spec.containers,
        spec.init_containers,
        spec.overhead,
        spec.resources,
        status.container_statuses,
        status.init_container_statuses,
        status.qos_class,
        pod.is_infeasible,
        spec.node_selector,
        spec.affinity,
        spec.tolerations,
        meta.labels.get(QOS_CLASS),
        meta.annotations.get(NUMA_SPEC),
        meta.annotations.get(RESOURCE_SPEC),
        meta.annotations.get(NORMALIZE_CPUSET),
    )
    key = _ENCODER.encode(stated)
    known = _read_before.get(key)
    if known is None:
        demand = pod_demand(pod)
        owned = bounded(CPU, owned_milli(demand, static_cpu_manager=True))
        counted = _Counted(_requests(demand), owned, is_cpuset_by_class(demand))
        if len(_read_before) >= _REMEMBERED:
            _read_before.clear()
        normalizes = asks_to_normalize(meta.annotations)
        _read_before[key] = known = _StatedByPod(
            counted, normalizes, *_wishes(pod, counted), _constraints(pod)
        )
    return known


def placement(pod: Pod, rules: QoSRules = DEFAULT_RULES) -> tuple[Placement, Finding | None]:
    """Return where a bound pod is; what its resource-status says, if it can be read and believed."""
    text = pod.metadata.annotations.get(RESOURCE_STATUS)
    if text is None:
        return Placement(pod.spec.node_name, since=scheduled_at(pod)), None
    status = parse_resource_status(text)
    if not isinstance(status, ResourceStatus):
        return Placement(pod.spec.node_name, since=scheduled_at(pod)), _problem(pod, status)
    zones = {
        number: {name: amount_of(name, quantity) for name, quantity in amounts.items()}
        for number, amounts in status.zones.items()
    }
    request = pod_request(pod_demand(pod), CPU).milli if status.cpus else 0
    doubted = rules.claim_problem(pod.metadata.labels, _namespace(pod), status, request)
    if doubted:
        where = Placement(pod.spec.node_name, zones=zones, since=scheduled_at(pod))
        return where, Finding(doubted.reason, f"{key_of(pod)} claims CPUs {status.cpus}: {doubted.message}")
    where = Placement(pod.spec.node_name, status.cpus, zones, scheduled_at(pod), status.surplus)
    return where, _problem(pod, status.problem)


def scheduled_at(pod: Pod) -> float | None:
    """Return the Unix time at which the pod was given its node; None where it does not say."""
    return _unix_time(pod.scheduled_at)


@lru_cache(maxsize=64)
def _unix_time(text: str) -> float | None:
    """Read a time that states whole seconds: pods bound within one all state the same."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        return None


def _problem(pod: Pod, what: str) -> Finding | None:
    message = f"{key_of(pod)}: annotation {RESOURCE_STATUS} cannot be read: {what}"
    return Finding(Reason.RESOURCE_STATUS_INVALID, message) if what else None


def amount_of(resource: str, quantity: Quantity) -> int:
    """Return an amount in the engine's units: milli for cpu, units for everything else."""
    return bounded(resource, quantity.milli if resource == CPU else quantity.units)


def _requests(demand: PodDemand) -> dict[str, int]:
    lists = [demand.requests, demand.overhead]
    lists += [each.requests for each in (*demand.containers, *demand.init_containers)]
    names = dict.fromkeys(name for each in lists for name in each)
    amounts = {name: amount_of(name, pod_request(demand, name)) for name in names}
    return {name: amount for name, amount in amounts.items() if amount > 0 and name != OWNED_CPUS_RESOURCE}


def _too_large(requests: Mapping[str, int]) -> Finding | None:
    """Say which amount no machine has, if there is one."""
    for name, amount in requests.items():
        if amount == bounded(name, amount + 1):
            message = f"the request of {name} cannot be read, or is more than any machine has"
            return Finding(Reason.AMOUNT_TOO_LARGE, message)
    return None


def _wishes(pod: Pod, counted: _Counted) -> tuple[CPUBinding, NumaPolicy | None, Finding | None]:
    annotations, cpu = pod.metadata.annotations, counted.requests.get(CPU, 0)
    too_large = _too_large(counted.requests)
    if too_large:
        return DEFAULT_BINDING, None, too_large
    numa = parse_numa_spec(annotations.get(NUMA_SPEC))
    if isinstance(numa, Finding):
        return DEFAULT_BINDING, None, numa
    if not counted.by_class:
        return DEFAULT_BINDING, numa, None
    if cpu % MILLI:
        message = f"the requested CPUs must be integer: {Quantity.of_milli(cpu)} is no whole number of CPUs"
        return DEFAULT_BINDING, numa, Finding(Reason.CPUS_NOT_INTEGER, message)
    binding = parse_cpu_binding(annotations.get(RESOURCE_SPEC))
    if isinstance(binding, Finding):
        return DEFAULT_BINDING, numa, binding
    return binding, numa, normalize_problem(annotations)


def _constraints(pod: Pod) -> Constraints:
    spec = pod.spec
    selector = tuple(
        NodeRequirement(key, "In", (value,)) for key, value in sorted(spec.node_selector.items())
    )
    tolerations = tuple(
        Toleration(each.key or "", each.operator or "Equal", each.value or "", each.effect or "")
        for each in spec.tolerations
    )
    affinity = spec.affinity.node_affinity if spec.affinity else None
    if affinity is None:
        return Constraints("", selector, None, tolerations)
    terms = affinity.required.node_selector_terms or () if affinity.required else None
    required = None if terms is None else tuple(map(_term, terms))
    preferred = tuple((each.weight, _term(each.preference)) for each in affinity.preferred or ())
    return Constraints("", selector, required, tolerations, preferred)


def _term(term: SelectorTerm) -> Term:
    return (*_read(term.match_expressions, field=False), *_read(term.match_fields, field=True))


def _read(requirements: tuple[SelectorRequirement, ...] | None, *, field: bool) -> Term:
    return tuple(
        NodeRequirement(each.key, each.operator, tuple(each.values or ()), field)
        for each in requirements or ()
    )
