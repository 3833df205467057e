"""How the CPUs of a machine are arranged, as Linux numbers them: first threads, then second ones."""

from __future__ import annotations

from functools import lru_cache

from corewise.topology import Thread, Topology


@lru_cache(maxsize=1024)
def arrangement(cpus: int, threads: int, numa_nodes: int, sockets: int) -> Topology:
    """Return an arrangement of so many CPUs; cores are spread evenly over NUMA nodes, these over sockets.

    Where CPUs do not divide by the threads of a core, the last cores have fewer.
    """
    cores = -(-cpus // threads)
    return Topology(tuple(_thread(cpu, cpu % cores, cores, numa_nodes, sockets) for cpu in range(cpus)))


def _thread(cpu: int, core: int, cores: int, numa_nodes: int, sockets: int) -> Thread:
    numa_node = core * numa_nodes // cores
    return Thread(cpu, core, numa_node, numa_node, numa_node * sockets // numa_nodes)
