"""What the pods of one node take of it: sums that follow each pod put or taken away, exactly.

    A = 1000 x (distinct CPUs named by resource-status + whole CPUs that CPUSet pods own without being named)

CPUs are named by number, so a CPU that two pods name counts once. CPUs that are named are owned in the NUMA
node where they are, if that is known. All other amounts by NUMA node are those stated in resource-status;
of a pod that owns CPUs there, they count as owned up to what the pod owns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from corewise.engine.facts import CPU, MEMORY, PODS, NodeFacts, Placement, PodFacts
from corewise.topology import Topology

_MILLI = 1000


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
    _named: Counter[int] = field(default_factory=Counter)
    _unnamed: int = 0

    @property
    def owned(self) -> int:
        """A, in milli-CPU."""
        return len(self._named) * _MILLI + self._unnamed

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
                named = len(cpus & placement.cpus) * _MILLI
                yield zone, named, named, placement.zones.get(zone, {}).get(MEMORY, 0)
            return
        left = len(placement.cpus) * _MILLI or pod.owned(static_cpu_manager=self.static_cpu_manager)
        for zone, amounts in sorted(placement.zones.items()):
            cpu = amounts.get(CPU, 0)
            owned = min(cpu, left)
            left -= owned
            yield zone, cpu, owned, amounts.get(MEMORY, 0)
