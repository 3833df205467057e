"""Nodes and pods as the engine reads them: values, whoever made them (API objects, a dump, a trace).

Amounts are whole numbers: milli for ``cpu``, units for everything else. A node's allocatable is as in
status, so amplified, but for the fold of its owned CPUs (amplification/occupancy.py), which is added back;
zones have raw amounts, which the engine amplifies by the node's ratio. A pod owns CPUs by its QoS class on
every node, or by a kubelet's static CPU manager on the nodes that run one.

What the pods of one node take of it are sums, which follow each pod that is put or removed, exactly.

    A = 1000 x (distinct named CPUs + whole CPUs that CPUSet pods own without being named)

A pod whose CPUs are normalized requests more than it owns; that surplus is known with its named CPUs. One
that names none yet counts as if it was to own all it requests.

CPUs are named by the Node's ledger and by the pods' resource-status, by number, so a CPU that two pods name
counts once. CPUs that are named are owned in the NUMA node where they are, if that is known. All other
amounts by NUMA node are those stated in resource-status; of a pod that owns CPUs there, they count as owned
up to what the pod owns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from corewise.quantities import MILLI, ONE, Ratio
from corewise.topology import CPUSet, Topology
from corewise.vocabulary.cpu_annotations import DEFAULT_BINDING, CPUBinding, NumaPolicy
from corewise.vocabulary.findings import Finding
from corewise.vocabulary.owned_cpus import NOTHING_OWNED, OwnedCPUs

CPU = "cpu"
MEMORY = "memory"
PODS = "pods"


def _nothing() -> Mapping[Any, Any]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class BlockingTaint:
    """A taint; only the effects NoSchedule and NoExecute keep pods away."""

    key: str
    effect: str
    value: str = ""

    @property
    def repels(self) -> bool:
        return self.effect in {"NoSchedule", "NoExecute"}


@dataclass(frozen=True, slots=True)
class Zone:
    """A NUMA node: raw milli-CPU, and bytes."""

    number: int
    cpu: int
    memory: int = 0


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """A node.

    ``ratio``: its CPU amplification ratio; None if the annotation cannot be read. ``normalization``: the
    ratio by which owned CPUs are normalized there, at most ``ratio``; None likewise. ``static_cpu_manager``:
    its kubelet gives whole CPUs to Guaranteed pods. ``zones`` is empty where they are unknown or contradict
    the node. ``topology``: its CPUs online, None where they are unknown; ``reserved`` ones stay free, and
    ``reservation_known`` says whether those are all: where not, no pod gets CPUs by its class.
    ``memory_bandwidth``: what somebody states that its memory can move, in bytes/s. ``owned``: its ledger.
    """

    name: str
    allocatable: Mapping[str, int] = field(default_factory=_nothing)
    labels: Mapping[str, str] = field(default_factory=_nothing)
    taints: tuple[BlockingTaint, ...] = ()
    unschedulable: bool = False
    ratio: Ratio | None = ONE
    normalization: Ratio | None = ONE
    static_cpu_manager: bool = False
    full_cores_only: bool = False
    numa_policy: NumaPolicy = NumaPolicy.NONE
    zones: tuple[Zone, ...] = ()
    topology: Topology | None = None
    reserved: CPUSet = field(default_factory=CPUSet)
    reservation_known: bool = True
    memory_bandwidth: int | None = None
    owned: OwnedCPUs = NOTHING_OWNED


_EXISTS = "Exists"


@dataclass(frozen=True, slots=True)
class Toleration:
    """A toleration; an empty key with Exists tolerates every taint, an empty effect all effects."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def tolerates(self, key: str, value: str, effect: str) -> bool:
        """Check if it tolerates a taint, as k8s.io/api/core/v1 toleration.go does."""
        if self.effect and self.effect != effect:
            return False
        if self.key and self.key != key:
            return False
        if self.operator == _EXISTS:
            return True
        return bool(self.key) and self.value == value


@dataclass(frozen=True, slots=True)
class NodeRequirement:
    """One condition on a label of the node, or on its name with ``field``.

    ``operator``: In, NotIn, Exists, DoesNotExist, Gt or Lt.
    """

    key: str
    operator: str
    values: tuple[str, ...] = ()
    field: bool = False


Term = tuple[NodeRequirement, ...]
"""Requirements that must all hold; without any, a term matches no node."""


@dataclass(frozen=True, slots=True)
class Constraints:
    """Where a pod may go whatever it requests, and where it would rather go; equal ones are decided once.

    ``affinity``: one of the terms must match; None: there is no affinity. ``preferred``: terms and weights.
    """

    node_name: str = ""
    selector: tuple[NodeRequirement, ...] = ()
    affinity: tuple[Term, ...] | None = None
    tolerations: tuple[Toleration, ...] = ()
    preferred: tuple[tuple[int, Term], ...] = ()


UNCONSTRAINED = Constraints()


@dataclass(frozen=True, slots=True)
class PodFacts:
    """A pod. ``requests`` has positive amounts only: milli for cpu, units for everything else.

    ``owned_by_class`` and ``owned_if_static`` are 1000 x the CPUs that it is to own. ``normalizes``: of the
    first it owns as many physical ones as do their work on its node; ``kept``: as many as a ledger keeps for
    it already, whatever the node's ratio; 0: none are. ``problem``: why it fits no node at all.
    ``refused_class``: why its QoS class, by which it would own CPUs, does not count.
    ``daemon``: it belongs to a DaemonSet, so it goes to the node that it was made for.
    ``uid``: by which ledgers know it; "" for a pod that does not exist yet.
    """

    key: str
    requests: Mapping[str, int] = field(default_factory=_nothing)
    owned_by_class: int = 0
    owned_if_static: int = 0
    normalizes: bool = False
    kept: int = 0
    binding: CPUBinding = DEFAULT_BINDING
    numa_policy: NumaPolicy | None = None
    constraints: Constraints = UNCONSTRAINED
    problem: Finding | None = None
    refused_class: Finding | None = None
    labels: Mapping[str, str] = field(default_factory=_nothing)
    daemon: bool = False
    uid: str = ""

    @property
    def cpu(self) -> int:
        return self.requests.get(CPU, 0)

    def owned(self, *, static_cpu_manager: bool) -> int:
        """Return the milli-CPU of its request that it owns on a node of this kind."""
        return self.owned_by_class or (self.owned_if_static if static_cpu_manager else 0)


@dataclass(frozen=True, slots=True)
class Placement:
    """A node, the CPUs the pod owns there, and its requests by NUMA node, as resource-status states them.

    ``since``: Unix time at which the pod was placed, where it is known. ``surplus``: the milli-CPU that the
    pod requests beyond the CPUs it owns: they are normalized.
    """

    node: str
    cpus: CPUSet = field(default_factory=CPUSet)
    zones: Mapping[int, Mapping[str, int]] = field(default_factory=_nothing)
    since: float | None = None
    surplus: int = 0

    def since_earliest(self, since: float | None) -> Placement:
        """Return the same placement since the earlier of two times; None is a time not known."""
        if since is None or (self.since is not None and self.since <= since):
            return self
        return replace(self, since=since)


@dataclass(slots=True)
class ZoneAccount:
    """Milli-CPU requested and owned, and bytes, in one NUMA node."""

    cpu: int = 0
    owned: int = 0
    memory: int = 0


@dataclass(slots=True)
class NodeAccount:
    """The pods of one node and their sums, which depend on how it manages its CPUs and where they lie."""

    static_cpu_manager: bool = False
    topology: Topology | None = None
    pods: dict[str, tuple[PodFacts, Placement]] = field(default_factory=dict)
    requests: Counter[str] = field(default_factory=Counter)
    zones: dict[int, ZoneAccount] = field(default_factory=dict)
    surplus: int = 0
    """What pods request beyond the named CPUs they own, in milli-CPU."""
    _named: Counter[int] = field(default_factory=Counter)
    _unnamed: int = 0

    @property
    def owned(self) -> int:
        """A, in milli-CPU."""
        return len(self._named) * MILLI + self._unnamed

    def put(self, pod: PodFacts, placement: Placement) -> None:
        """Count a pod; one of the same key gives its place to it."""
        before = self.pods.get(pod.key)
        if before is not None:
            self._count(*before, -1)
            if before[1].cpus != placement.cpus:
                del self.pods[pod.key]
        self.pods[pod.key] = pod, placement
        self._count(pod, placement, 1)

    def take(self, key: str) -> tuple[PodFacts, Placement] | None:
        """Count a pod no more; return it, or None if it was not here."""
        found = self.pods.pop(key, None)
        if found is not None:
            self._count(*found, -1)
        return found

    def on(self, facts: NodeFacts) -> NodeAccount:
        """Return the same pods as they count on a node; itself if nothing is different."""
        if self.static_cpu_manager == facts.static_cpu_manager and self.topology is facts.topology:
            return self
        account = NodeAccount(facts.static_cpu_manager, facts.topology)
        for pod, placement in self.pods.values():
            account.put(pod, placement)
        return account

    def _count(self, pod: PodFacts, placement: Placement, sign: int) -> None:
        for resource, amount in pod.requests.items():
            self.requests[resource] += sign * amount
        self.requests[PODS] += sign
        if placement.cpus:
            self.surplus += sign * placement.surplus
            for cpu in placement.cpus.cpus:
                self._named[cpu] += sign
                if not self._named[cpu]:
                    del self._named[cpu]
        else:
            self._unnamed += sign * pod.owned(static_cpu_manager=self.static_cpu_manager)
        for zone, cpu_milli, owned, memory in self._shares(pod, placement):
            account = self.zones.setdefault(zone, ZoneAccount())
            account.cpu += sign * cpu_milli
            account.owned += sign * owned
            account.memory += sign * memory

    def _shares(self, pod: PodFacts, placement: Placement) -> Iterator[tuple[int, int, int, int]]:
        """Yield (zone, milli-CPU, how much of it is owned, bytes)."""
        if placement.cpus and self.topology is not None:
            for zone, cpus in self.topology.numa_nodes.items():
                named = len(cpus & placement.cpus) * MILLI
                yield zone, named, named, placement.zones.get(zone, {}).get(MEMORY, 0)
            return
        if not placement.zones:
            return
        left = len(placement.cpus) * MILLI or pod.owned(static_cpu_manager=self.static_cpu_manager)
        for zone, amounts in sorted(placement.zones.items()):
            cpu = amounts.get(CPU, 0)
            owned = min(cpu, left)
            left -= owned
            yield zone, cpu, owned, amounts.get(MEMORY, 0)
