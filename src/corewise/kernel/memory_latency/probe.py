"""The latency of memory by NUMA node: on CPUs of the node, with memory of the node.

A probe is 64 rounds of 256 reads, each from memory, and the median of the rounds; what is interrupted in
between is an outlier that the median does not see. The first round, which also meets pages and code for the
first time, does not count.

The calling thread is bound to the node's CPUs meanwhile, without those that the kernel isolates. The kernel
takes away what the thread may not have anyway (its cgroup's CPU set), so a probe never runs on CPUs that a
pod owns.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from statistics import median

from corewise.kernel.cpu_topology import CPUS, NODES, read_cpus
from corewise.kernel.host_files import HostFiles
from corewise.kernel.memory_latency.library import Chase
from corewise.topology import CPUSet

ROUNDS = 64
_NANO = 1e9


@dataclass(frozen=True, slots=True)
class Latency:
    """One probe: seconds of one read in each round that counts, and the CPU time that the probe took."""

    rounds: tuple[float, ...]
    cpu_seconds: float

    @property
    def seconds(self) -> float:
        """The median."""
        return median(self.rounds)


def numa_cpus(files: HostFiles) -> Mapping[int, CPUSet]:
    """Return the CPUs to probe on, for each NUMA node that has any; without NUMA directories, of node 0."""
    isolated = files.cpus(f"{CPUS}/isolated") or CPUSet()
    nodes = files.numbered(NODES, "node")
    found = {node: (files.cpus(f"{NODES}/node{node}/cpulist") or CPUSet()) - isolated for node in nodes}
    if not nodes:
        found = {0: read_cpus(files)[0] - isolated}
    return {node: cpus for node, cpus in found.items() if cpus}


def probe(chase: Chase, cpus: CPUSet, rounds: int = ROUNDS) -> Latency:
    """Probe from these CPUs. Takes some milliseconds; belongs into a thread of its own.

    Raises:
        OSError: if none of the CPUs may be used, or there is no memory.
    """
    with bound_to(cpus):
        began = time.thread_time()
        times = chase.run(rounds + 1)[1:]
        cost = time.thread_time() - began
    return Latency(tuple(each / chase.lines / _NANO for each in times), cost)


@contextmanager
def bound_to(cpus: CPUSet) -> Iterator[None]:
    """Run this thread on these CPUs only."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        with suppress(OSError):  # its CPU set has changed meanwhile: the next probe binds it anew
            os.sched_setaffinity(0, before)
