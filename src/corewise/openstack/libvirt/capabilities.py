"""The machine, from libvirt's capabilities: ``virsh capabilities``.

A CPU without ``siblings`` is offline. Cores are numbered from 0 in the order of their lowest CPUs, as in
``kernel.cpu_topology``; libvirt's core_id is unique only within a socket. Caches have the numbers of their
banks, of the highest level only; CPUs of no bank count as sharing one that nobody knows with those of their
socket and NUMA node.

Source: https://libvirt.org/formatcaps.html.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from xml.etree import ElementTree as ET

from corewise.openstack.errors import LibvirtXMLError
from corewise.openstack.libvirt import xml
from corewise.quantities import Bytes
from corewise.topology import Cache, CPUSet, Host, NumaMemory, Thread, Topology

_SMALLEST_HUGEPAGE_KIB = 65
"""Ordinary pages have 4, 16 or 64 KiB."""


@dataclass(frozen=True, slots=True)
class _CPU:
    cpu: int
    numa_node: int
    socket: int
    siblings: CPUSet


def read_host(text: str) -> Host:
    """Return the machine.

    Raises:
        LibvirtXMLError: if the document is not that of a host's capabilities.
    """
    host = xml.child(xml.parsed(text, "capabilities"), "host")
    cells = xml.child(host, "topology/cells").findall("cell")
    elements = [(xml.number(cell, "id"), cpu) for cell in cells for cpu in cell.iterfind("cpus/cpu")]
    online = sorted(
        (_online(node, cpu) for node, cpu in elements if cpu.get("siblings") is not None),
        key=lambda each: each.cpu,
    )
    if not online:
        raise LibvirtXMLError("the capabilities name no CPU that is online")
    offline = {xml.number(cpu, "id"): node for node, cpu in elements if cpu.get("siblings") is None}
    cache_of, caches = _caches(host, online)
    memory = {xml.number(cell, "id"): _memory(cell) for cell in cells}
    return Host(
        topology=_topology(online, cache_of),
        offline=MappingProxyType(offline),
        memory=MappingProxyType(memory),
        memory_total=Bytes(sum(each.total for each in memory.values())),
        caches=caches,
    )


def _online(node: int, cpu: ET.Element) -> _CPU:
    siblings = xml.cpus(xml.attribute(cpu, "siblings"), "<cpu siblings>")
    return _CPU(xml.number(cpu, "id"), node, xml.number(cpu, "socket_id"), siblings)


def _topology(online: list[_CPU], cache_of: Mapping[int, int]) -> Topology:
    there = CPUSet.of(each.cpu for each in online)
    cores = _numbered(online, lambda each: min((each.siblings & there).cpus | {each.cpu}))
    try:
        return Topology(
            tuple(
                Thread(each.cpu, cores[each.cpu], cache_of[each.cpu], each.numa_node, each.socket)
                for each in online
            )
        )
    except ValueError as error:
        raise LibvirtXMLError(str(error)) from error


def _numbered(online: list[_CPU], key: Callable[[_CPU], object]) -> dict[int, int]:
    """Number the groups that have a key in common, in the order of their lowest CPUs."""
    numbers: dict[object, int] = {}
    return {each.cpu: numbers.setdefault(key(each), len(numbers)) for each in online}


def _caches(host: ET.Element, online: list[_CPU]) -> tuple[dict[int, int], Mapping[int, Cache]]:
    banks = host.findall("cache/bank")
    level = max((xml.number(bank, "level") for bank in banks), default=0)
    cache_of: dict[int, int] = {}
    caches: dict[int, Cache] = {}
    for bank in banks:
        if xml.number(bank, "level") == level:
            known = xml.number(bank, "id")
            caches[known] = Cache(level, xml.size(bank, xml.number(bank, "size")))
            cache_of |= dict.fromkeys(xml.cpus(xml.attribute(bank, "cpus"), "<bank cpus>"), known)
    first = max(caches, default=-1) + 1
    unknown = [each for each in online if each.cpu not in cache_of]
    groups = _numbered(unknown, lambda each: (each.socket, each.numa_node))
    return cache_of | {cpu: first + group for cpu, group in groups.items()}, MappingProxyType(caches)


def _memory(cell: ET.Element) -> NumaMemory:
    memory = cell.find("memory")
    total = xml.size(memory, xml.content_number(memory)) if memory is not None else Bytes(0)
    pages = [page for page in cell.findall("pages") if xml.number(page, "size") >= _SMALLEST_HUGEPAGE_KIB]
    huge = sum(xml.size(page, xml.number(page, "size")) * xml.content_number(page) for page in pages)
    return NumaMemory(total, Bytes(huge))
