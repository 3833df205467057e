"""Reports the machine as NodeResourceTopology: read now and then, written when something differs.

The object is shared: other programs own zones of other types, other resources in the same zones, attributes
and annotations. Lists of a custom resource cannot be patched by item, so a change carries all zones, those of
others as they were read, under the resourceVersion that they were read at. A conflict is left to the next
check, as is every other failure.

- Ours are ``cpu`` and ``memory`` in the zones ``node-<N>`` of type Node, one for each NUMA node with CPUs or
  memory, and the annotations named in :func:`_annotations`.
- Zone CPU is floor(raw x ratio), with the ratio stated beside it in the same change, so that no reader
  doubles it. Offline CPUs do not count. Zone memory has the hugepages taken off.
- capacity = allocatable: kubelet keeps its reservations back from the node, not from a NUMA node.
  available = allocatable less what pods take whose NUMA placement is known; without any, allocatable.
- The raw capacity is kubelet's: online CPUs, and MemTotal including hugepages. So is the raw allocatable
  amount, by kubelet's configuration. With them stands which record of the Node they are newer than: its
  generation is that of the Node as it was *before* the machine was read.
- A fact that could not be read is left out. Equal amounts in another notation are no change.

Only the annotation ``scheduling.koordinator.sh/resource-status`` tells where a pod is placed: the CPUs that a
CPUSet pod owns, and the amounts it was given on each NUMA node. An owned CPU takes one raw CPU, which is the
ratio in amplified CPUs. Pods without the annotation, or with one that cannot be read, are placed nowhere in
particular and take nothing of a zone.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from corewise.agent.local_node import LocalNode
from corewise.agent.objects import AgentNode, QuotaPod
from corewise.kernel.cpu_facts import ObservedCPU
from corewise.kernel.host_files import read_boot_id
from corewise.kernel.machine import MachineReading, read_machine
from corewise.kube.client import Client
from corewise.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from corewise.kube.resources import NODE_RESOURCE_TOPOLOGIES, Resource
from corewise.quantities import AmplifiedMilli, Bytes, Quantity, QuantityError, Ratio, amplify
from corewise.quantities.quantity import NANO, Format
from corewise.topology import CPUSet, Host, Topology
from corewise.vocabulary.cpu_annotations import (
    ResourceStatus,
    parse_resource_status,
    print_cpu_topology,
    stated_status,
)
from corewise.vocabulary.names import (
    CPU_BASIC_INFO,
    CPU_EVALUATION,
    CPU_MANAGER_POLICY,
    CPU_RATIO_APPLIED,
    CPU_TOPOLOGY,
    MACHINE_RAW_ALLOCATABLE,
    MACHINE_RAW_CAPACITY,
    POD_CPUS,
    RECORD_GENERATION,
    RESOURCE_STATUS,
)

ZONE_TYPE = "Node"
OWN_RESOURCES = ("cpu", "memory")
NOBODY = "[]"
FIELD_MANAGER = "corewise-agent"
TOPOLOGIES: Resource[dict[str, Any]] = NODE_RESOURCE_TOPOLOGIES.typed(dict)
_OWN_ZONE = re.compile(r"node-[0-9]+")
_AMOUNTS = ("capacity", "allocatable", "available")
_NOTHING = Quantity(0)

JSON = Mapping[str, Any]
"""An object, or a part of one, as the API has it: what others wrote must survive, so it is not decoded."""
Read = Callable[[Path], MachineReading]


@dataclass(frozen=True, slots=True)
class ZoneDemand:
    """The amounts that pods use of one NUMA node."""

    cpu: AmplifiedMilli
    memory: Bytes


NO_DEMAND = ZoneDemand(AmplifiedMilli(0), Bytes(0))


def zone_demand(statuses: Iterable[str], topology: Topology, ratio: Ratio) -> Mapping[int, ZoneDemand]:
    """Return the amounts that pods use of each NUMA node.

    ``statuses`` are the texts of the annotation on the pods that hold resources: neither ended nor pending.
    """
    cpu: Counter[int] = Counter()
    memory: Counter[int] = Counter()
    for text in statuses:
        status = parse_resource_status(text)
        if not isinstance(status, ResourceStatus):
            continue
        for node, amounts in status.zones.items():
            # Owned CPUs are counted where they are, whatever the amounts say.
            cpu[node] += 0 if status.cpus else amounts.get("cpu", _NOTHING).milli
            memory[node] += amounts.get("memory", _NOTHING).units
        for node, cpus in topology.numa_nodes.items() if status.cpus else ():
            cpu[node] += amplify(len(cpus & status.cpus) * 1000, ratio)
    return {node: ZoneDemand(AmplifiedMilli(taken), Bytes(memory[node])) for node, taken in cpu.items()}


@dataclass(frozen=True, slots=True)
class TopologyReport:
    """The agent's knowledge of its node.

    ``ratio`` is the CPU amplification ratio in use, ``boot_id`` the boot in which all this was read,
    ``cpu_manager`` kubelet's policy, ``reserved`` the CPUs that kubelet reserves, and ``pod_cpus`` who owns
    which CPUs, as the annotation has it. ``allocatable`` is what kubelet leaves of the machine, and
    ``generation`` that of the Node's record before the machine was read. ``evaluation`` is the annotation
    with the node's own measurement. What is empty is unknown and left out.
    """

    node: str
    node_uid: str
    cpu: ObservedCPU
    host: Host
    ratio: Ratio
    demand: Mapping[int, ZoneDemand] = field(default_factory=dict)
    boot_id: str = ""
    cpu_manager: str = ""
    reserved: CPUSet = field(default_factory=CPUSet)
    pod_cpus: str = ""
    allocatable: Mapping[str, str] = field(default_factory=dict)
    generation: str = ""
    evaluation: str = ""


@dataclass(frozen=True, slots=True)
class TopologyChange:
    """Create ``body`` if ``create``, else send it as a merge patch. ``why`` names what differs."""

    create: bool
    body: dict[str, Any]
    why: str


def topology_change(report: TopologyReport, existing: JSON | None) -> TopologyChange | None:
    """Return the change that makes the object say what the report says, or None if it does."""
    if existing is None:
        return TopologyChange(create=True, body=_new(report), why="there is no NodeResourceTopology yet")
    before = existing.get("metadata") or {}
    stated = before.get("annotations") or {}
    wanted = _annotations(report, stated)
    annotations: dict[str, str | None] = {
        name: text for name, text in wanted.items() if not _says_the_same(name, text, stated.get(name))
    }
    if MACHINE_RAW_ALLOCATABLE in stated and not report.allocatable:
        annotations[MACHINE_RAW_ALLOCATABLE] = None
    owners = _owners(report, before.get("ownerReferences") or [])
    zones = _merged_zones(report, existing.get("zones") or [])
    if not annotations and owners is None and zones is None:
        return None
    differing = list(annotations)
    metadata: dict[str, Any] = {"annotations": annotations} if annotations else {}
    body: dict[str, Any] = {"metadata": metadata}
    if owners is not None:
        metadata["ownerReferences"] = owners
        differing.append("ownerReferences")
    if zones is not None:
        body["zones"] = zones
        differing.append("zones")
    if version := before.get("resourceVersion"):
        metadata["resourceVersion"] = version
    return TopologyChange(create=False, body=body, why="differs: " + ", ".join(differing))


def _new(report: TopologyReport) -> dict[str, Any]:
    return {
        "apiVersion": "topology.node.k8s.io/v1alpha1",
        "kind": "NodeResourceTopology",
        "metadata": {
            "name": report.node,
            "annotations": _annotations(report, {}),
            "ownerReferences": [_owner(report)],
        },
        "topologyPolicies": ["None"],
        "zones": _merged_zones(report, []) or [],
    }


def _annotations(report: TopologyReport, stated: Mapping[str, str]) -> dict[str, str]:
    """Return the annotations; what could not be read is left out. ``stated`` are those of the object."""
    cpu, host = report.cpu, report.host
    facts = {
        "cpuModel": cpu.model,
        "hyperThreadEnabled": cpu.hyper_threading,
        "turboEnabled": cpu.turbo,
        "catL3CbmMask": cpu.l3_mask or None,
        "vendorID": cpu.vendor or None,
    }
    raw = {
        "cpu": str(len(host.topology.cpus)),
        "memory": None if host.memory_total is None else _bytes(host.memory_total),
        "bootID": report.boot_id or None,
        "generation": report.generation or None,
    }
    annotations = {
        CPU_BASIC_INFO: _known(facts),
        MACHINE_RAW_CAPACITY: _known(raw),
        CPU_RATIO_APPLIED: str(report.ratio),
        CPU_TOPOLOGY: print_cpu_topology(report.host.topology),
    }
    if report.allocatable:
        annotations[MACHINE_RAW_ALLOCATABLE] = _known(report.allocatable)
    if report.cpu_manager:
        reserved = {"reservedCPUs": str(report.reserved)} if report.reserved else {}
        annotations[CPU_MANAGER_POLICY] = json.dumps({"policy": report.cpu_manager, **reserved})
    # An empty list of owners is shown only where pods owned CPUs before.
    if report.pod_cpus and (report.pod_cpus != NOBODY or POD_CPUS in stated):
        annotations[POD_CPUS] = report.pod_cpus
    if report.evaluation:
        annotations[CPU_EVALUATION] = report.evaluation
    return annotations


def _known(facts: Mapping[str, object]) -> str:
    return json.dumps({key: value for key, value in facts.items() if value is not None})


def _bytes(amount: int) -> str:
    return str(Quantity(amount * NANO, Format.BINARY_SI))


def _says_the_same(name: str, wanted: str, existing: str | None) -> bool:
    """Whether an annotation needs no change.

    Options of the policy that somebody else knows may stay, and so may CPUs that it reserves if none are
    known here.
    """
    if existing is None or wanted == existing or not wanted.startswith("{"):
        return wanted == existing
    try:
        stated, ours = json.loads(existing), json.loads(wanted)
    except (ValueError, RecursionError):
        return False
    if name == CPU_MANAGER_POLICY:
        return isinstance(stated, dict) and stated == stated | ours
    return bool(stated == ours)


def _owner(report: TopologyReport) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Node", "name": report.node, "uid": report.node_uid}


def _owners(report: TopologyReport, existing: Iterable[JSON]) -> list[JSON] | None:
    """Return the owners with the Node among them, or None if it is. A Node's older uid owns nothing."""
    owner, before = _owner(report), list(existing)
    if any(all(each.get(key) == value for key, value in owner.items()) for each in before):
        return None
    return [*(each for each in before if each.get("kind") != "Node"), owner]


def _merged_zones(report: TopologyReport, existing: Iterable[JSON]) -> list[JSON] | None:
    """Return all zones with ours as they should be, or None if they are."""
    before = list(existing)
    wanted = _wanted_zones(report)
    after: list[JSON] = []
    for zone in before:
        if zone.get("type") != ZONE_TYPE or not _OWN_ZONE.fullmatch(str(zone.get("name"))):
            after.append(zone)
            continue
        resources = _merged_resources(zone.get("resources") or [], wanted.pop(zone["name"], []))
        if resources:
            after.append({**zone, "resources": resources})
    after += [{"name": name, "type": ZONE_TYPE, "resources": own} for name, own in wanted.items()]
    return None if after == before else after


def _merged_resources(existing: list[JSON], own: list[JSON]) -> list[JSON]:
    """Return a zone's resources: ours in place of the older ones, those of others as they are."""
    left = {resource["name"]: resource for resource in own}
    merged: list[JSON] = []
    for resource in existing:
        name = resource.get("name")
        if name not in OWN_RESOURCES:
            merged.append(resource)
        elif name in left:
            wanted = left.pop(str(name))
            merged.append(resource if _same_amounts(resource, wanted) else wanted)
    return [*merged, *left.values()]


def _same_amounts(existing: JSON, wanted: JSON) -> bool:
    try:
        return all(Quantity.parse(str(existing[key])) == Quantity.parse(wanted[key]) for key in _AMOUNTS)
    except (KeyError, QuantityError):
        return False


def _wanted_zones(report: TopologyReport) -> dict[str, list[JSON]]:
    zones: dict[str, list[JSON]] = {}
    for node, cpus in report.host.numa_nodes.items():
        demand = report.demand.get(node, NO_DEMAND)
        milli = amplify(len(cpus) * 1000, report.ratio)
        cpu = _resource("cpu", *(str(Quantity.of_milli(m)) for m in (milli, max(0, milli - demand.cpu))))
        zones[f"node-{node}"] = [cpu]
        memory = report.host.memory.get(node)
        if memory is not None:
            amounts = (memory.usable, max(0, memory.usable - demand.memory))
            zones[f"node-{node}"].append(_resource("memory", *map(_bytes, amounts)))
    return zones


def _resource(name: str, all_of_it: str, available: str) -> JSON:
    return {"name": name, "capacity": all_of_it, "allocatable": all_of_it, "available": available}


class TopologyReporter:
    """The report of one node; ``read`` reads the machine below its root.

    ``evaluation`` is the annotation with the node's own measurement, "" where nothing is known of it.
    """

    def __init__(self, client: Client, local: LocalNode, root: Path, *, read: Read = read_machine) -> None:
        self._client = client
        self._local = local
        self._root = root
        self._read = read
        self.evaluation = ""

    async def check(self, node: AgentNode, pods: Collection[QuotaPod]) -> TopologyChange | None:
        """Bring the report up to date; return what was changed.

        Raises:
            KubeError: if the API server did not take it.
        """
        change = await self.change(node, pods)
        if change is None:
            return None
        await write_change(self._client, node.metadata.name, change)
        return change

    async def change(self, node: AgentNode, pods: Collection[QuotaPod]) -> TopologyChange | None:
        """Return the change that brings the report up to date; None if it is."""
        reading = await asyncio.to_thread(self._read, self._root)
        problems = {problem.path: f"left out: {problem}" for problem in reading.problems}
        self._local.problem_log.update("topology", problems)
        if not reading.host.topology.threads:
            self._local.problem_log.update("machine", {"cpus": f"no CPU is online below {self._root}"})
            return None
        self._local.problem_log.update("machine", {})
        try:
            existing = await self._client.get(TOPOLOGIES, node.metadata.name)
        except NotFound:
            existing = None
        return topology_change(self._report(node, pods, reading), existing)

    def _report(self, node: AgentNode, pods: Collection[QuotaPod], reading: MachineReading) -> TopologyReport:
        local, ratio = self._local, self._local.amplification
        statuses = [
            status
            for pod in pods
            if not pod.has_ended
            and (status := pod.metadata.annotations.get(RESOURCE_STATUS)) is not None
            and not local.rules.claim_problem(
                pod.metadata.labels, pod.metadata.namespace, stated_status(status), pod.cpu_request
            )
        ]
        return TopologyReport(
            node=node.metadata.name,
            node_uid=node.metadata.uid,
            cpu=reading.cpu,
            host=reading.host,
            ratio=ratio,
            demand=zone_demand(statuses, reading.host.topology, ratio),
            boot_id=read_boot_id(self._root),
            cpu_manager=local.cpu_manager().policy,
            reserved=local.pins.reserved,
            pod_cpus=local.pins.report,
            allocatable=local.pins.kubelet.allocatable(reading.host),
            generation=node.metadata.annotations.get(RECORD_GENERATION, ""),
            evaluation=self.evaluation,
        )


async def write_change(client: Client, node: str, change: TopologyChange) -> None:
    """Carry out a change of a node's report.

    Raises:
        KubeError: if the API server did not take it.
    """
    if change.create:
        await client.create(TOPOLOGIES, change.body)
    else:
        await client.patch(TOPOLOGIES, node, change.body, field_manager=FIELD_MANAGER)


def result_of(error: KubeError) -> str:
    """Return the metric label of a failed write; a concurrent write by another client is no error."""
    return "conflict" if isinstance(error, Conflict | AlreadyExists) else "error"
