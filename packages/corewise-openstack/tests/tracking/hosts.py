"""A host of the tests: 24 cores of two threads as the document has it, and smaller ones."""

from __future__ import annotations

from corewise.topology import CPUSet, Host, Thread, Topology
from corewise_openstack.tracking import HostFacts


def topology(cores: int = 24, threads: int = 2, nodes: int = 2) -> Topology:
    """Return a machine whose siblings are neighbors: core 0 has CPUs 0 and 1."""
    return Topology(
        tuple(
            Thread(core * threads + thread, core, core * nodes // cores, core * nodes // cores, 0)
            for core in range(cores)
            for thread in range(threads)
        )
    )


DOCUMENT = topology()
"""CPUs 0-47: the host of the document's example."""


def facts(online: str = "0-47", present: str = "0-47", *, hyper_threading: bool = True) -> HostFacts:
    return HostFacts(CPUSet.parse(online), CPUSet.parse(present), hyper_threading)


def facts_of(machine: Topology) -> HostFacts:
    return HostFacts.of(Host(machine))
