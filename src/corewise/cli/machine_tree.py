"""A machine as people think of it: sockets with NUMA nodes with last-level caches with cores with CPUs.

Nesting is a view. A NUMA node that spans sockets stands in each of them, a cache that spans NUMA nodes (Intel
sub-NUMA clustering) in each of those, with the part of its CPUs that is there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from corewise.topology import CPUSet, Host, Topology


@dataclass(frozen=True, slots=True)
class Core:
    """A core with its CPUs (threads) online."""

    number: int
    cpus: CPUSet
    kind: str


@dataclass(frozen=True, slots=True)
class CachePart:
    """The cores of a last-level cache that are in one NUMA node and socket."""

    number: int
    cores: tuple[Core, ...]

    @property
    def cpus(self) -> CPUSet:
        return CPUSet.of(cpu for core in self.cores for cpu in core.cpus)


@dataclass(frozen=True, slots=True)
class NumaPart:
    """The caches of a NUMA node that are in one socket. ``first`` marks its first appearance."""

    number: int
    first: bool
    caches: tuple[CachePart, ...]


@dataclass(frozen=True, slots=True)
class Socket:
    """A socket and the NUMA nodes that have CPUs in it."""

    number: int
    nodes: tuple[NumaPart, ...]

    @property
    def cores(self) -> int:
        return sum(len(cache.cores) for node in self.nodes for cache in node.caches)


def sockets_of(host: Host) -> tuple[Socket, ...]:
    """Return the machine's online CPUs as a tree."""
    seen: set[int] = set()
    return tuple(
        Socket(number, tuple(_nodes(host, host.topology.within(cpus), seen)))
        for number, cpus in host.topology.sockets.items()
    )


def nodes_elsewhere(host: Host) -> CPUSet:
    """Return the NUMA nodes without an online CPU: memory only, or all CPUs offline."""
    linked = {node for node in host.offline.values() if node is not None}
    return CPUSet.of({*host.memory, *linked} - set(host.topology.numa_nodes))


def _nodes(host: Host, socket: Topology, seen: set[int]) -> Iterator[NumaPart]:
    for number, cpus in socket.numa_nodes.items():
        node = socket.within(cpus)
        yield NumaPart(number, number not in seen, tuple(_caches(host, node)))
        seen.add(number)


def _caches(host: Host, node: Topology) -> Iterator[CachePart]:
    for number, cpus in node.caches.items():
        cores = node.within(cpus).cores.items()
        yield CachePart(number, tuple(Core(core, own, host.kind(next(iter(own)))) for core, own in cores))
