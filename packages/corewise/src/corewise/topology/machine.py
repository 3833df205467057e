"""One machine as its kernel shows it: how its online CPUs are arranged, its offline CPUs, its memory.

In a :class:`Topology`, a row for each hardware thread says which core, last-level cache, NUMA node and socket
it belongs to. Ids are those of the machine as a whole: the reader of /sys makes cores of different sockets
differ. Everything else is derived from the rows, so two views of one machine cannot disagree. Groups come in
ascending order.

The kernel removes most of what it knows about a CPU when the CPU goes offline: at best the NUMA node remains.
So a topology holds the online CPUs only, and :class:`Host` lists the offline ones beside it. What the kernel
does not state (caches of many virtual machines, memory of a node) is absent, never a guess.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType

from corewise.quantities import Bytes
from corewise.topology.cpuset import CPUSet


@dataclass(frozen=True, slots=True)
class Thread:
    """One hardware thread: what the kernel calls a CPU."""

    cpu: int
    core: int
    cache: int
    numa_node: int
    socket: int


@dataclass(frozen=True)
class Topology:
    """The threads of a machine, each CPU once."""

    threads: tuple[Thread, ...]

    def __post_init__(self) -> None:
        if len({thread.cpu for thread in self.threads}) != len(self.threads):
            raise ValueError("the topology has a CPU twice")

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash(self.threads)

    @cached_property
    def cpus(self) -> CPUSet:
        return CPUSet.of(thread.cpu for thread in self.threads)

    @cached_property
    def in_order(self) -> tuple[Thread, ...]:
        """The threads in the order of their CPUs."""
        return tuple(sorted(self.threads, key=lambda thread: thread.cpu))

    @cached_property
    def cores(self) -> Mapping[int, CPUSet]:
        return self._grouped(lambda thread: thread.core)

    @cached_property
    def caches(self) -> Mapping[int, CPUSet]:
        """The CPUs that share each last-level cache."""
        return self._grouped(lambda thread: thread.cache)

    @cached_property
    def numa_nodes(self) -> Mapping[int, CPUSet]:
        return self._grouped(lambda thread: thread.numa_node)

    @cached_property
    def sockets(self) -> Mapping[int, CPUSet]:
        return self._grouped(lambda thread: thread.socket)

    @cached_property
    def hyper_threading(self) -> bool:
        """Whether any core has more than one thread here."""
        return any(len(cpus) > 1 for cpus in self.cores.values())

    def siblings(self, cpu: int) -> CPUSet:
        """Return the CPUs of the core that a CPU belongs to, itself included.

        Raises:
            KeyError: if the machine has no such CPU.
        """
        return self._siblings[cpu]

    def within(self, cpus: CPUSet) -> Topology:
        """Return the same machine with only these CPUs, such as those online."""
        return Topology(tuple(thread for thread in self.threads if thread.cpu in cpus))

    @cached_property
    def _siblings(self) -> Mapping[int, CPUSet]:
        return {cpu: cpus for cpus in self.cores.values() for cpu in cpus}

    def _grouped(self, key: Callable[[Thread], int]) -> Mapping[int, CPUSet]:
        groups: dict[int, set[int]] = {}
        for thread in sorted(self.threads, key=lambda each: each.cpu):
            groups.setdefault(key(thread), set()).add(thread.cpu)
        return MappingProxyType({group: CPUSet.of(groups[group]) for group in sorted(groups)})


NO_BYTES = Bytes(0)


@dataclass(frozen=True, slots=True)
class NumaMemory:
    """Memory of one NUMA node. ``total`` includes the hugepages."""

    total: Bytes
    hugepages: Bytes = NO_BYTES

    @property
    def usable(self) -> Bytes:
        """The memory left for pods that request memory: without hugepages."""
        return Bytes(max(0, self.total - self.hugepages))


@dataclass(frozen=True, slots=True)
class LastLevelCache:
    """A last-level cache. ``size`` is None where the kernel does not state it."""

    level: int
    size: Bytes | None = None


@dataclass(frozen=True)
class Host:
    """A machine.

    ``offline`` maps each offline CPU to its NUMA node, or to None where the kernel does not say.
    ``caches`` describes the caches that ``topology`` refers to; a cache without an entry is unknown to the
    kernel, and its CPUs are those of one NUMA node in one socket. ``kinds`` is empty if all cores are alike;
    else it names the CPUs of each kind in the kernel's words (``cpu_core``, ``cpu_atom``, ``capacity 446``).
    """

    topology: Topology
    offline: Mapping[int, int | None] = field(default_factory=dict)
    memory: Mapping[int, NumaMemory] = field(default_factory=dict)
    memory_total: Bytes | None = None
    caches: Mapping[int, LastLevelCache] = field(default_factory=dict)
    kinds: Mapping[str, CPUSet] = field(default_factory=dict)

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
