"""Small machines for the tests of pinning: threads are numbered as Linux does, first threads first."""

from __future__ import annotations

from corewise.topology import Thread, Topology


def machine(
    *, sockets: int = 1, numa_nodes: int = 1, cores: int = 4, threads: int = 2, caches: int = 1
) -> Topology:
    """Return a machine of ``cores`` a NUMA node, ``numa_nodes`` a socket, ``caches`` a NUMA node."""
    places = [
        (socket, socket * numa_nodes + node, (socket * numa_nodes + node) * caches + core * caches // cores)
        for socket in range(sockets)
        for node in range(numa_nodes)
        for core in range(cores)
    ]
    return Topology(
        tuple(
            Thread(turn * len(places) + core, core, cache, node, socket)
            for turn in range(threads)
            for core, (socket, node, cache) in enumerate(places)
        )
    )


def hybrid() -> Topology:
    """Return 2 cores of two threads (CPUs 0-3) and 4 cores of one (CPUs 4-7), one cache."""
    big = [Thread(cpu, cpu // 2, 0, 0, 0) for cpu in range(4)]
    small = [Thread(cpu, cpu - 2, 0, 0, 0) for cpu in range(4, 8)]
    return Topology((*big, *small))
