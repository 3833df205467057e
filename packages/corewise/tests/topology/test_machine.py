"""Cores, caches, NUMA nodes and sockets are all derived from one row per thread."""

from __future__ import annotations

import pytest

from corewise.topology import CPUSet, Thread, Topology

# Two sockets of two cores, two threads each; numbered as Linux does: all first threads, then all second ones.
TWO_SOCKETS = Topology(
    tuple(
        Thread(cpu=core + 4 * thread, core=core, cache=core // 2, numa_node=core // 2, socket=core // 2)
        for thread in range(2)
        for core in range(4)
    )
)


def printed(groups: object) -> dict[int, str]:
    assert hasattr(groups, "items")
    return {group: str(cpus) for group, cpus in groups.items()}


def test_groups_hold_the_cpus_that_belong_together() -> None:
    assert str(TWO_SOCKETS.cpus) == "0-7"
    assert printed(TWO_SOCKETS.cores) == {0: "0,4", 1: "1,5", 2: "2,6", 3: "3,7"}
    assert printed(TWO_SOCKETS.sockets) == {0: "0-1,4-5", 1: "2-3,6-7"}
    assert printed(TWO_SOCKETS.numa_nodes) == printed(TWO_SOCKETS.caches) == printed(TWO_SOCKETS.sockets)


def test_siblings_are_the_threads_of_one_core() -> None:
    assert str(TWO_SOCKETS.siblings(6)) == "2,6"
    with pytest.raises(KeyError):
        TWO_SOCKETS.siblings(8)


def test_machine_without_second_threads_has_no_hyper_threading() -> None:
    assert TWO_SOCKETS.hyper_threading
    first_threads = TWO_SOCKETS.within(CPUSet.parse("0-3"))
    assert not first_threads.hyper_threading
    assert printed(first_threads.sockets) == {0: "0-1", 1: "2-3"}
    assert TWO_SOCKETS.within(CPUSet.parse("0-4")).hyper_threading


def test_a_cpu_stands_in_a_topology_once() -> None:
    with pytest.raises(ValueError, match="twice"):
        Topology((Thread(0, 0, 0, 0, 0), Thread(0, 1, 0, 0, 0)))
