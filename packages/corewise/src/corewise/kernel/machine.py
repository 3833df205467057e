"""The machine below a root directory, read in one go: its CPU facts, how its CPUs are arranged, its memory.

What the kernel does not say has a plain reading: without topology files every CPU is a core of its own in
socket 0; without NUMA directories all are in node 0; without cache files the CPUs that share socket and NUMA
node count as sharing an unknown cache. Lists of siblings are read once for each group, and a CPU belongs to
the first group that names it: contradictory lists give a sane partition.

Cores are numbered from 0 in the order of their lowest CPUs, as ``lscpu`` does: the kernel's ``core_id`` is
unique only within a socket. Caches keep the kernel's ids, which resctrl uses too, where those distinguish
them; else they are numbered like cores.

Memory is what kubelet computes: capacity is ``MemTotal`` of /proc/meminfo, hugepages included, and so is a
NUMA node's ``MemTotal``. Hugepages are a resource of their own: they are pre-allocated, so pods that ask for
memory cannot have them. A machine without NUMA directories is one node, 0, with all the memory.

Source: the kernel's Documentation/ABI/testing/sysfs-devices-system-cpu and -node.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

from corewise.kernel.cpu_facts import ObservedCPU, read_cpu_facts
from corewise.kernel.errors import KernelError
from corewise.kernel.host_files import HostFiles
from corewise.kernel.usage import MEMINFO
from corewise.quantities import Bytes
from corewise.topology import CPUSet, Host, LastLevelCache, NumaMemory, Thread, Topology

CPUS = "sys/devices/system/cpu"
NODES = "sys/devices/system/node"
HYBRID_KINDS = ("cpu_core", "cpu_atom", "cpu_lowpower")
"""Device types of hybrid x86 processors: /sys/devices/<kind>/cpus."""

_HUGEPAGES = "sys/kernel/mm/hugepages"
_KIBI = 1024
_MEM_TOTAL = re.compile(r"^(?:Node [0-9]+ )?MemTotal:\s*([0-9]{1,15}) kB$", re.MULTILINE)
_PAGE_SIZE = re.compile(r"hugepages-([0-9]{1,12})kB")
_SIZE_UNITS = {"K": 1024, "M": 1024**2, "G": 1024**3}
_LONGEST_SIZE = 12


@dataclass(frozen=True, slots=True)
class _FoundCache:
    cpus: CPUSet
    level: int
    id: int | None
    size: Bytes | None


@dataclass(frozen=True, slots=True)
class MachineReading:
    """A machine, and the problems in reading it. Two readings are equal if the machine is the same."""

    cpu: ObservedCPU
    host: Host
    problems: tuple[KernelError, ...] = field(default=(), compare=False)


def read_machine(root: str | Path = "/") -> MachineReading:
    """Read a machine. Nothing below ``root`` makes it raise; a host without CPUs means that nothing is."""
    files = HostFiles(root)
    host = replace(
        read_arrangement(files),
        memory=_numa_memory(files),
        memory_total=files.parsed(MEMINFO, mem_total),
    )
    return MachineReading(read_cpu_facts(files, host.topology), host, tuple(files.problems))


def read_arrangement(files: HostFiles) -> Host:
    """Read everything about the CPUs, and nothing about memory. Problems are noted in ``files``."""
    online = _online(files)
    groups = _groups(online, lambda cpu: _siblings(files, cpu))
    cores = {cpu: number for number, group in enumerate(groups) for cpu in group}
    sockets = _sockets(files, online, cores)
    numa = _numa_nodes(files, online)
    found = _found_caches(files, online)
    cache_of, caches = _caches(found, online, sockets, numa)
    threads = (Thread(cpu, cores[cpu], cache_of[cpu], numa[cpu], sockets[cpu]) for cpu in online)
    # An offline CPU is linked to its NUMA node; lists of CPUs have only those online.
    linked = {cpu: files.numbered(f"{CPUS}/cpu{cpu}", "node") for cpu in _present(files) - online}
    offline = {cpu: nodes[0] if nodes else None for cpu, nodes in linked.items()}
    return Host(
        topology=Topology(tuple(threads)),
        offline=MappingProxyType(offline),
        caches=caches,
        kinds=_kinds(files, online),
    )


def read_cpus(files: HostFiles) -> tuple[CPUSet, CPUSet]:
    """Return the CPUs that are online, and those that are there and offline."""
    online = _online(files)
    return online, _present(files) - online


def _online(files: HostFiles) -> CPUSet:
    listed = files.cpus(f"{CPUS}/online")
    if listed:
        return listed
    there = files.numbered(CPUS, "cpu")
    return CPUSet.of(cpu for cpu in there if files.flag(f"{CPUS}/cpu{cpu}/online") is not False)


def _present(files: HostFiles) -> CPUSet:
    listed = files.cpus(f"{CPUS}/present")
    return CPUSet.of(files.numbered(CPUS, "cpu")) if listed is None else listed


def _groups(cpus: CPUSet, members: Callable[[int], CPUSet]) -> list[CPUSet]:
    """Return the CPUs in groups, in the order of their lowest CPUs; asks once for each group."""
    left = set(cpus)
    groups = []
    for cpu in cpus:
        if cpu in left:
            group = CPUSet.of({cpu, *(members(cpu).cpus & left)})
            left -= group.cpus
            groups.append(group)
    return groups


def _siblings(files: HostFiles, cpu: int) -> CPUSet:
    directory = f"{CPUS}/cpu{cpu}/topology"
    newer = files.cpus(f"{directory}/core_cpus_list")
    return newer or files.cpus(f"{directory}/thread_siblings_list") or CPUSet()


def _sockets(files: HostFiles, online: CPUSet, cores: Mapping[int, int]) -> dict[int, int]:
    """Return each CPU's socket. ARM kernels without ACPI tables say -1: one socket."""
    of_core: dict[int, int] = {}
    for cpu in online:
        if cores[cpu] not in of_core:
            socket = files.number(f"{CPUS}/cpu{cpu}/topology/physical_package_id")
            of_core[cores[cpu]] = max(0, socket or 0)
    return {cpu: of_core[cores[cpu]] for cpu in online}


def _numa_nodes(files: HostFiles, online: CPUSet) -> dict[int, int]:
    nodes = files.numbered(NODES, "node")
    numa = dict.fromkeys(online, nodes[0] if nodes else 0)
    for node in nodes:
        cpus = files.cpus(f"{NODES}/node{node}/cpulist") or CPUSet()
        numa |= dict.fromkeys(cpus & online, node)
    return numa


def _found_caches(files: HostFiles, online: CPUSet) -> list[_FoundCache]:
    found: list[_FoundCache] = []
    left = set(online)
    for cpu in online:
        cache = _last_level(files, f"{CPUS}/cpu{cpu}/cache") if cpu in left else None
        if cache is not None:
            cpus = CPUSet.of({cpu, *(cache.cpus.cpus & left)})
            left -= cpus.cpus
            found.append(_FoundCache(cpus, cache.level, cache.id, cache.size))
    return found


def _last_level(files: HostFiles, directory: str) -> _FoundCache | None:
    levels = [
        (level, f"{directory}/index{index}")
        for index in files.numbered(directory, "index")
        if (level := files.number(f"{directory}/index{index}/level")) is not None
        and files.text(f"{directory}/index{index}/type") != "Instruction"
    ]
    if not levels:
        return None
    level, where = max(levels)
    cpus = files.cpus(f"{where}/shared_cpu_list") or CPUSet()
    return _FoundCache(cpus, level, files.number(f"{where}/id"), files.parsed(f"{where}/size", cache_size))


def cache_size(text: str) -> Bytes:
    """Return the size of a cache: "32768K".

    Raises:
        ValueError: if it is not written so.
    """
    digits, unit = (text[:-1], text[-1:]) if text[-1:] in _SIZE_UNITS else (text, "")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= _LONGEST_SIZE):
        raise ValueError(f"{text[:40]!r} is not the size of a cache")
    return Bytes(int(digits) * _SIZE_UNITS.get(unit, 1))


def _caches(
    found: list[_FoundCache], online: CPUSet, sockets: Mapping[int, int], numa: Mapping[int, int]
) -> tuple[dict[int, int], Mapping[int, LastLevelCache]]:
    """Return the cache of each CPU, and what is known about the caches."""
    ids = [cache.id for cache in found if cache.id is not None and cache.id >= 0]
    numbers = ids if len(set(ids)) == len(found) else list(range(len(found)))
    cache_of = {cpu: number for number, cache in zip(numbers, found, strict=True) for cpu in cache.cpus}
    unknown = _groups(
        CPUSet.of(cpu for cpu in online if cpu not in cache_of),
        lambda cpu: CPUSet.of(c for c in online if (sockets[c], numa[c]) == (sockets[cpu], numa[cpu])),
    )
    for number, cpus in enumerate(unknown, start=max(numbers, default=-1) + 1):
        cache_of |= dict.fromkeys(cpus, number)
    known = {number: LastLevelCache(c.level, c.size) for number, c in zip(numbers, found, strict=True)}
    return cache_of, MappingProxyType(known)


def _kinds(files: HostFiles, online: CPUSet) -> Mapping[str, CPUSet]:
    """Return the kinds of cores, if there is more than one."""
    hybrid = {kind: files.cpus(f"sys/devices/{kind}/cpus") or CPUSet() for kind in HYBRID_KINDS}
    kinds = {kind: cpus & online for kind, cpus in hybrid.items() if cpus & online}
    if len(kinds) <= 1:
        capacities = {cpu: files.number(f"{CPUS}/cpu{cpu}/cpu_capacity") for cpu in online}
        distinct = sorted({each for each in capacities.values() if each is not None}, reverse=True)
        kinds = {
            f"capacity {capacity}": CPUSet.of(cpu for cpu, each in capacities.items() if each == capacity)
            for capacity in distinct
        }
    return MappingProxyType(kinds if len(kinds) > 1 else {})


def _numa_memory(files: HostFiles) -> Mapping[int, NumaMemory]:
    """Return the memory of each NUMA node whose account can be read."""
    nodes = {node: f"{NODES}/node{node}" for node in files.numbered(NODES, "node")}
    places = {node: (f"{where}/meminfo", f"{where}/hugepages") for node, where in nodes.items()}
    memory = {}
    for node, (meminfo, hugepages) in (places or {0: (MEMINFO, _HUGEPAGES)}).items():
        total = files.parsed(meminfo, mem_total)
        if total is not None:
            memory[node] = NumaMemory(total, _hugepages(files, hugepages))
    return MappingProxyType(memory)


def mem_total(meminfo: str) -> Bytes:
    """Return MemTotal of a meminfo file, the machine's or a NUMA node's.

    Raises:
        ValueError: if there is none.
    """
    match = _MEM_TOTAL.search(meminfo)
    if match is None:
        raise ValueError("has no line MemTotal")
    return Bytes(int(match[1]) * _KIBI)


def _hugepages(files: HostFiles, directory: str) -> Bytes:
    sizes = [
        (entry, int(match[1]) * _KIBI)
        for entry in files.entries(directory)
        if (match := _PAGE_SIZE.fullmatch(entry))
    ]
    counts = ((files.number(f"{directory}/{entry}/nr_hugepages") or 0, size) for entry, size in sizes)
    return Bytes(sum(max(0, count) * size for count, size in counts))
