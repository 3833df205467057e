"""Topology and memory of recorded machines, and of trees that contradict themselves."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import machine_trees
from corewise.kernel.machine import cache_size, mem_total, read_machine
from corewise.kernel.usage import busy_share, cpu_times, stolen_share
from corewise.quantities import Bytes
from corewise.topology import CPUSet, Host, LastLevelCache
from machine_trees import CPUS, NODES, Tree

KIBI = 1024


def host_of(tree: Tree) -> Host:
    return read_machine(tree.root).host


def printed(groups: Mapping[int, CPUSet]) -> dict[int, str]:
    return {group: str(cpus) for group, cpus in groups.items()}


def test_two_sockets_with_hyper_threads(tmp_path: Path) -> None:
    host = host_of(machine_trees.intel(tmp_path))
    shape = host.topology
    halves = {0: "0-3,8-11", 1: "4-7,12-15"}
    assert printed(shape.sockets) == printed(shape.numa_nodes) == printed(shape.caches) == halves
    assert printed(shape.cores) == {core: f"{core},{core + 8}" for core in range(8)}
    assert host.caches[0] == LastLevelCache(level=3, size=Bytes(36608 * KIBI))
    assert not host.offline
    assert not host.kinds


def test_equally_numbered_cores_differ_across_dies_and_sockets(
    tmp_path: Path,
) -> None:
    shape = host_of(machine_trees.epyc(tmp_path)).topology
    assert len(shape.cores) == 16
    assert printed(shape.caches) == {n: f"{n}-{n + 1},{n + 16}-{n + 17}" for n in range(0, 16, 2)}
    assert printed(shape.numa_nodes) == {
        n: f"{4 * n}-{4 * n + 3},{4 * n + 16}-{4 * n + 19}" for n in range(4)
    }
    assert printed(shape.sockets) == {0: "0-7,16-23", 1: "8-15,24-31"}


def test_threads_nosmt_took_offline_stay_on_their_node(tmp_path: Path) -> None:
    host = host_of(machine_trees.smt_off(tmp_path))
    assert str(host.topology.cpus) == "0-3"
    assert str(host.offline_of(0)) == "4-7"
    assert not host.topology.hyper_threading


def test_offline_cpus_shrink_cores_and_keep_their_node(tmp_path: Path) -> None:
    host = host_of(machine_trees.offline(tmp_path))
    assert dict(host.offline) == {1: 0, 9: 0, 14: 1}
    assert printed(host.topology.cores)[4] == "5,13"
    assert "6" in printed(host.topology.cores).values()
    assert len(host.topology.cores) == 7
    assert str(host.topology.caches[0]) == "0,2-3,8,10-11"


def test_offline_cpu_without_link_has_no_known_node(tmp_path: Path) -> None:
    host = host_of(machine_trees.bare_vm(tmp_path).cpulists("0-2", "0-3"))
    assert dict(host.offline) == {3: None}
    assert str(host.offline_of(None)) == "3"


def test_capacity_distinguishes_big_and_little_cores(tmp_path: Path) -> None:
    host = host_of(machine_trees.big_little(tmp_path))
    assert {kind: str(cpus) for kind, cpus in host.kinds.items()} == {
        "capacity 1024": "4-5",
        "capacity 446": "0-3",
    }
    assert printed(host.topology.sockets) == {0: "0-5"}
    assert printed(host.topology.caches) == {0: "0-3", 1: "4-5"}
    assert host.caches[1] == LastLevelCache(level=2, size=Bytes(1024 * KIBI))
    assert host.kind(5) == "capacity 1024"


def test_hybrid_processors_are_told_apart_by_device_type(tmp_path: Path) -> None:
    host = host_of(machine_trees.hybrid(tmp_path))
    assert {kind: str(cpus) for kind, cpus in host.kinds.items()} == {"cpu_core": "0-3", "cpu_atom": "4-7"}
    assert list(map(str, host.topology.cores.values())) == ["0-1", "2-3", "4", "5", "6", "7"]


def test_silent_machine_is_one_node_of_single_cores(tmp_path: Path) -> None:
    host = host_of(machine_trees.bare_vm(tmp_path))
    shape = host.topology
    assert printed(shape.cores) == {cpu: str(cpu) for cpu in range(4)}
    assert printed(shape.sockets) == printed(shape.numa_nodes) == printed(shape.caches) == {0: "0-3"}
    assert not host.caches
    assert host.memory[0].total == 4_000_000 * KIBI


def test_unknown_caches_never_span_numa_nodes_or_sockets(tmp_path: Path) -> None:
    tree = machine_trees.intel(tmp_path)
    for cpu in range(16):
        for file in (tree.root / f"{CPUS}/cpu{cpu}/cache").rglob("*"):
            if file.is_file():
                file.unlink()
    host = host_of(tree)
    assert printed(host.topology.caches) == printed(host.topology.numa_nodes)
    assert not host.caches


def test_cache_may_span_nodes_and_nodes_lack_cpus(tmp_path: Path) -> None:
    host = host_of(machine_trees.sub_numa(tmp_path))
    assert printed(host.topology.caches) == {0: "0-7"}
    assert printed(host.numa_nodes) == {0: "0-3", 1: "4-7", 2: ""}
    assert host.caches[0].size == 105 * 1024 * KIBI


def test_caches_with_ambiguous_ids_are_numbered(tmp_path: Path) -> None:
    tree = machine_trees.intel(tmp_path)
    for cpu in range(16):
        tree.put(f"{CPUS}/cpu{cpu}/cache/index3/id", 7)
    assert printed(host_of(tree).topology.caches) == {0: "0-3,8-11", 1: "4-7,12-15"}


def test_directories_name_online_cpus_when_list_is_missing(tmp_path: Path) -> None:
    tree = machine_trees.intel(tmp_path)
    for name in ("online", "present"):
        (tree.root / CPUS / name).unlink()
    tree.put(f"{CPUS}/cpu15/online", 0).put(f"{CPUS}/cpu14/online", 1)
    host = host_of(tree)
    assert str(host.topology.cpus) == "0-14"
    assert dict(host.offline) == {15: 1}


def test_hugepages_are_taken_off_a_nodes_memory(tmp_path: Path) -> None:
    host = host_of(machine_trees.intel(tmp_path))
    assert host.memory_total == 395_000_000 * KIBI
    assert host.memory[1].total == 197_000_000 * KIBI
    assert host.memory[1].hugepages == (2048 * 2048 + 4 * 1048576) * KIBI
    assert host.memory[1].usable == host.memory[1].total - host.memory[1].hugepages


def test_lone_node_0_has_memory_minus_machine_hugepages(tmp_path: Path) -> None:
    host = host_of(machine_trees.big_little(tmp_path))
    assert host.memory[0].usable == (3_900_000 - 64 * 2048) * KIBI


def test_node_with_unreadable_memory_states_none(tmp_path: Path) -> None:
    tree = machine_trees.intel(tmp_path).put(f"{NODES}/node1/meminfo", "Node 1 MemFree: 3 kB")
    reading = read_machine(tree.root)
    assert list(reading.host.memory) == [0]
    assert "has no line MemTotal" in str(reading.problems[0])
    assert printed(reading.host.numa_nodes)[1] == "4-7,12-15"


CONTRADICTIONS = {
    "siblings that are not online": (f"{CPUS}/cpu0/topology/core_cpus_list", "0,99"),
    "siblings that deny each other": (f"{CPUS}/cpu8/topology/core_cpus_list", "8"),
    "everything is one core": (f"{CPUS}/cpu0/topology/core_cpus_list", "0-15"),
    "a cache without the CPU that names it": (f"{CPUS}/cpu0/cache/index3/shared_cpu_list", "4-7"),
    "a negative socket": (f"{CPUS}/cpu0/topology/physical_package_id", "-1"),
    "a CPU in two nodes": (f"{NODES}/node1/cpulist", "0-15"),
    "a node that holds no CPU": (f"{NODES}/node0/cpulist", ""),
    "a level of cache that is a word": (f"{CPUS}/cpu0/cache/index3/level", "three"),
    "a cache as large as nothing": (f"{CPUS}/cpu0/cache/index3/size", "huge"),
    "pages that are not counted": (f"{NODES}/node0/hugepages/hugepages-2048kB/nr_hugepages", "-3"),
}


@pytest.mark.parametrize("contradiction", CONTRADICTIONS)
def test_contradictions_still_give_every_cpu_one_place(tmp_path: Path, contradiction: str) -> None:
    tree = machine_trees.intel(tmp_path).put(*CONTRADICTIONS[contradiction])
    host = host_of(tree)
    for groups in (
        host.topology.cores,
        host.topology.caches,
        host.topology.numa_nodes,
        host.topology.sockets,
    ):
        assert sorted(cpu for cpus in groups.values() for cpu in cpus) == list(range(16))
    for core in host.topology.cores.values():
        assert len({thread.socket for thread in host.topology.within(core).threads}) == 1
    assert all(memory.usable <= memory.total for memory in host.memory.values())


@given(st.text(max_size=12))
def test_cache_size_is_bytes_or_an_error(text: str) -> None:
    with suppress(ValueError):
        assert cache_size(text) >= 0


@given(st.text(max_size=200))
def test_memory_is_bytes_or_an_error(text: str) -> None:
    with suppress(ValueError):
        assert mem_total(text) % KIBI == 0


def test_busy_cpu_time_excludes_idle_and_waiting() -> None:
    before = cpu_times("cpu  9 9 9 9\ncpu0 10 0 10 100 5 0 0 1 0 0\ncpu1 0 0 0 100 0 0 0 0 0 0\n")
    after = cpu_times("cpu0 20 0 20 150 15 0 0 21 0 0\ncpu1 0 0 0 200 0 0 0 0 0 0\n")
    assert busy_share(before, after, CPUSet.parse("0")) == 4000
    assert busy_share(before, after, CPUSet.parse("0-1")) == 2000
    assert busy_share(before, before, CPUSet.parse("0-1")) == 0
    assert stolen_share(before, after, CPUSet.parse("0")) == 2000
    assert busy_share(before, after, CPUSet.parse("7")) == 0


@given(st.text(max_size=200))
def test_cpu_time_is_counted_or_an_error(text: str) -> None:
    with suppress(ValueError):
        assert all(0 <= time.busy <= time.total for time in cpu_times(text).values())
