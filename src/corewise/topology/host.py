"""One machine as its kernel shows it: the CPUs that are online, those that are not, and memory.

The kernel takes most of what it knows about a CPU away when the CPU goes offline: of an offline CPU at best
the NUMA node remains. So :class:`Topology` holds the CPUs online, and the offline ones stand beside it.
What the kernel does not tell (caches of many virtual machines, memory of a node) is absent, never a guess.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeVar

from corewise.quantities import Bytes
from corewise.topology.cpuset import CPUSet
from corewise.topology.machine import Topology

V = TypeVar("V")

NO_BYTES = Bytes(0)


def _none() -> Mapping[int, V]:
    return MappingProxyType({})


def _no_kinds() -> Mapping[str, CPUSet]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class NumaMemory:
    """Memory of one NUMA node. ``total`` includes the hugepages."""

    total: Bytes
    hugepages: Bytes = NO_BYTES

    @property
    def usable(self) -> Bytes:
        """What is left for pods that ask for memory: the hugepages are taken off."""
        return Bytes(max(0, self.total - self.hugepages))


@dataclass(frozen=True, slots=True)
class Cache:
    """A last-level cache. ``size`` is None where the kernel does not state it."""

    level: int
    size: Bytes | None = None


@dataclass(frozen=True)
class Host:
    """A machine.

    ``offline`` maps each offline CPU to its NUMA node, or to None where the kernel does not tell.
    ``caches`` describes the caches that ``topology`` refers to; a cache without an entry is unknown to the
    kernel, and its CPUs are those of one NUMA node in one socket. ``kinds`` is empty if all cores are alike;
    else it names the CPUs of each kind in the kernel's words (``cpu_core``, ``cpu_atom``, ``capacity 446``).
    """

    topology: Topology
    offline: Mapping[int, int | None] = field(default_factory=_none)
    memory: Mapping[int, NumaMemory] = field(default_factory=_none)
    memory_total: Bytes | None = None
    caches: Mapping[int, Cache] = field(default_factory=_none)
    kinds: Mapping[str, CPUSet] = field(default_factory=_no_kinds)

    @property
    def numa_nodes(self) -> Mapping[int, CPUSet]:
        """The online CPUs of each NUMA node; nodes with memory and no CPU online are there too."""
        nodes = {**{node: CPUSet() for node in self.memory}, **self.topology.numa_nodes}
        return MappingProxyType({node: nodes[node] for node in sorted(nodes)})

    @property
    def offline_cpus(self) -> CPUSet:
        return CPUSet.of(self.offline)

    def offline_of(self, numa_node: int | None) -> CPUSet:
        """Return the offline CPUs of a NUMA node; of None, those whose node is unknown."""
        return CPUSet.of(cpu for cpu, node in self.offline.items() if node == numa_node)

    def kind(self, cpu: int) -> str:
        """Return the kind of core that a CPU belongs to, or "" if all are alike."""
        return next((kind for kind, cpus in self.kinds.items() if cpu in cpus), "")
