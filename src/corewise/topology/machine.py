"""How the CPUs of one machine are arranged.

A row for each hardware thread says which core, last-level cache, NUMA node and socket it belongs to. Ids are
those of the machine as a whole: the reader of /sys makes cores of different sockets differ. Everything else
is derived from the rows, so two views of one machine cannot disagree. Groups come in ascending order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

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
            raise ValueError("a CPU stands in the topology twice")

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
