"""Memory of a machine and of its NUMA nodes, as kubelet computes it.

kubelet's capacity is ``MemTotal`` of /proc/meminfo, hugepages included, and so is a NUMA node's ``MemTotal``.
Hugepages are a resource of their own: they are pre-allocated, so pods that ask for memory cannot have them.
A machine without NUMA directories is one node, 0, with all the memory.

What is in use is the working set: all that is neither free nor in pages of files that nobody has used lately
(``Inactive(file)``), which the kernel gives back first. Hugepages (``Hugetlb``, since Linux 4.16) are not in
it, used or not: allocatable memory is without them already.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from corewise.kernel.host_files import HostFiles
from corewise.quantities import Bytes
from corewise.topology import NumaMemory

MEMINFO = "proc/meminfo"
NODES = "sys/devices/system/node"
HUGEPAGES = "sys/kernel/mm/hugepages"

_KIBI = 1024
_MEM_TOTAL = re.compile(r"^(?:Node [0-9]+ )?MemTotal:\s*([0-9]{1,15}) kB$", re.MULTILINE)
_LINE = re.compile(r"^(MemTotal|MemFree|Inactive\(file\)|Hugetlb):\s*([0-9]{1,15}) kB$", re.MULTILINE)
_PAGE_SIZE = re.compile(r"hugepages-([0-9]{1,12})kB")


def read_memory_total(files: HostFiles) -> Bytes | None:
    """Return the machine's memory, or None if the kernel's account of it cannot be read."""
    return files.parsed(MEMINFO, mem_total)


def read_node_working_set(files: HostFiles) -> Bytes | None:
    """Return how much of the machine's memory is in use, or None if the kernel's account cannot be read."""
    return files.parsed(MEMINFO, working_set)


def read_numa_memory(files: HostFiles) -> Mapping[int, NumaMemory]:
    """Return the memory of each NUMA node whose account can be read."""
    memory = {node: _node_memory(files, f"{NODES}/node{node}") for node in files.numbered(NODES, "node")}
    if not memory:
        total = read_memory_total(files)
        memory = {0: None if total is None else NumaMemory(total, _hugepages(files, HUGEPAGES))}
    return MappingProxyType({node: known for node, known in memory.items() if known is not None})


def mem_total(meminfo: str) -> Bytes:
    """Return MemTotal of a meminfo file, the machine's or a NUMA node's.

    Raises:
        ValueError: if there is none.
    """
    match = _MEM_TOTAL.search(meminfo)
    if match is None:
        raise ValueError("there is no line MemTotal")
    return Bytes(int(match[1]) * _KIBI)


def working_set(meminfo: str) -> Bytes:
    """Return MemTotal - MemFree - Inactive(file) - Hugetlb of a meminfo file.

    Raises:
        ValueError: if one of the first three is not there.
    """
    amounts = {"Hugetlb": 0} | {name: int(kibi) * _KIBI for name, kibi in _LINE.findall(meminfo)}
    try:
        not_in_use = amounts["MemFree"] + amounts["Inactive(file)"] + amounts["Hugetlb"]
        return Bytes(max(0, amounts["MemTotal"] - not_in_use))
    except KeyError as error:
        raise ValueError(f"there is no line {error.args[0]}") from None


def _node_memory(files: HostFiles, directory: str) -> NumaMemory | None:
    total = files.parsed(f"{directory}/meminfo", mem_total)
    return None if total is None else NumaMemory(total, _hugepages(files, f"{directory}/hugepages"))


def _hugepages(files: HostFiles, directory: str) -> Bytes:
    sizes = [
        (entry, int(match[1]) * _KIBI)
        for entry in files.entries(directory)
        if (match := _PAGE_SIZE.fullmatch(entry))
    ]
    counts = ((files.number(f"{directory}/{entry}/nr_hugepages") or 0, size) for entry, size in sizes)
    return Bytes(sum(max(0, count) * size for count, size in counts))
