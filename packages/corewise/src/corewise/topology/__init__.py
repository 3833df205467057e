"""The shape of a machine: sockets, NUMA nodes, last-level caches, cores, threads; and sets of CPUs.

A CPU is a hardware thread, named by the number that the kernel gives it.
"""

from corewise.topology.cpuset import LARGEST_CPU, CPUSet, CPUSetError, NoCPULeftError
from corewise.topology.machine import Host, LastLevelCache, NumaMemory, Thread, Topology

__all__ = [
    "LARGEST_CPU",
    "CPUSet",
    "CPUSetError",
    "Host",
    "LastLevelCache",
    "NoCPULeftError",
    "NumaMemory",
    "Thread",
    "Topology",
]
