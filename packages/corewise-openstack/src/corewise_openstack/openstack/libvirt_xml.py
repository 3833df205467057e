"""libvirt's XML: the machine and its guests are read from it, and the CPUs of a guest written into it.

Reading is strict: an error names what is missing. A document is refused if it is longer than libvirt sends,
nested deeper than libvirt itself reads, or has a DTD: libvirt writes none, and its entities make a document
grow. No domain that somebody edited ends a program.

- The machine (``virsh capabilities``). A CPU without ``siblings`` is offline. Cores are numbered from 0 in
  the order of their lowest CPUs, as in ``kernel.cpu_topology``; libvirt's core_id is unique only within a
  socket. Only caches of the highest level count, numbered as their banks; CPUs of no bank share an unknown
  cache with the others of their socket and NUMA node.
- A guest (``virsh dumpxml GUEST``). A guest CPU is pinned when its ``<vcpupin>`` names one host CPU. What
  Nova knows beyond libvirt (flavor, extra specs, image properties) is in the domain's metadata since newer
  releases; elsewhere it is absent, never guessed.
- The CPUs of a guest: ``<vcpupin>``, ``<emulatorpin>`` and ``<numatune>`` are replaced, and nothing else.
  Each NUMA node of the guest gets its host node; memory comes from the host nodes named, and from no other
  (``strict``).

Source: https://libvirt.org/format.html, formatcaps.html, formatdomain.html ("CPU Tuning", "NUMA Node
Tuning"), nova.virt.libvirt.config.LibvirtConfigGuestMetaNovaInstance.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from xml.etree import ElementTree as ET

from corewise.quantities import Bytes
from corewise.topology import (
    LARGEST_CPU,
    CPUSet,
    CPUSetError,
    Host,
    LastLevelCache,
    NumaMemory,
    Thread,
    Topology,
)
from corewise_openstack.openstack.errors import LibvirtXMLError

_UNITS = {
    "b": 1,
    "bytes": 1,
    "KB": 10**3,
    "k": 2**10,
    "KiB": 2**10,
    "MB": 10**6,
    "M": 2**20,
    "MiB": 2**20,
    "GB": 10**9,
    "G": 2**30,
    "GiB": 2**30,
    "TB": 10**12,
    "T": 2**40,
    "TiB": 2**40,
}
_LONGEST = 4 << 20
"""libvirt's REMOTE_STRING_MAX."""

_DEEPEST = 256
"""libxml2's xmlParserMaxDepth."""


class _Builder(ET.TreeBuilder):
    """Builds the tree; stops at a DTD, and where it is nested too deep."""

    def __init__(self) -> None:
        super().__init__()
        self._level = 0

    def start(self, tag: str, attrs: dict[str, str], /) -> ET.Element:
        self._level += 1
        if self._level > _DEEPEST:
            raise LibvirtXMLError(f"nested deeper than {_DEEPEST} levels")
        return super().start(tag, attrs)

    def end(self, tag: str, /) -> ET.Element:
        self._level -= 1
        return super().end(tag)

    def doctype(self, name: str, _public: str | None, _system: str | None) -> None:
        raise LibvirtXMLError(f"it has a document type declaration, <!DOCTYPE {name[:20]}>")


def _parsed(text: str, root: str) -> ET.Element:
    if len(text) > _LONGEST:
        raise LibvirtXMLError(f"longer than {_LONGEST >> 20} MiB")
    parser = ET.XMLParser(target=_Builder())  # noqa: S314 - the builder refuses what makes it dangerous
    try:
        parser.feed(text)
        document: ET.Element = parser.close()
    except (ET.ParseError, UnicodeEncodeError) as error:
        raise LibvirtXMLError(f"not XML: {error}") from error
    if document.tag != root:
        raise LibvirtXMLError(f"expected root element <{root}>, got <{document.tag}>")
    return document


def _child(element: ET.Element, path: str) -> ET.Element:
    found = element.find(path)
    if found is None:
        raise LibvirtXMLError(f"<{element.tag}> has no <{path}>")
    return found


def _attribute(element: ET.Element, name: str) -> str:
    value = element.get(name)
    if value is None:
        raise LibvirtXMLError(f"<{element.tag}> has no {name}")
    return value


def _number(element: ET.Element, name: str) -> int:
    return _whole(_attribute(element, name), f"<{element.tag} {name}>")


def _content_number(element: ET.Element) -> int:
    return _whole((element.text or "").strip(), f"<{element.tag}>")


def _cpus(text: str, where: str) -> CPUSet:
    try:
        return CPUSet.parse(text)
    except CPUSetError as error:
        raise LibvirtXMLError(f"{where}: {error}") from error


def _size(element: ET.Element, amount: int) -> Bytes:
    """Return an amount in the unit that the element states, else KiB."""
    unit = element.get("unit", "KiB")
    if unit not in _UNITS:
        raise LibvirtXMLError(f"<{element.tag}> has the unknown unit {unit[:20]!r}")
    return Bytes(amount * _UNITS[unit])


def _whole(text: str, where: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise LibvirtXMLError(f"{where} is {text[:40]!r}, not a whole number")
    return int(text)


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
        LibvirtXMLError: if the document is not a host's capabilities.
    """
    host = _child(_parsed(text, "capabilities"), "host")
    cells = _child(host, "topology/cells").findall("cell")
    elements = [(_number(cell, "id"), cpu) for cell in cells for cpu in cell.iterfind("cpus/cpu")]
    online = sorted(
        (_online(node, cpu) for node, cpu in elements if cpu.get("siblings") is not None),
        key=lambda each: each.cpu,
    )
    if not online:
        raise LibvirtXMLError("the capabilities name no CPU that is online")
    offline = {_number(cpu, "id"): node for node, cpu in elements if cpu.get("siblings") is None}
    cache_of, caches = _caches(host, online)
    memory = {_number(cell, "id"): _memory(cell) for cell in cells}
    return Host(
        topology=_topology(online, cache_of),
        offline=MappingProxyType(offline),
        memory=MappingProxyType(memory),
        memory_total=Bytes(sum(each.total for each in memory.values())),
        caches=caches,
    )


def _online(node: int, cpu: ET.Element) -> _CPU:
    siblings = _cpus(_attribute(cpu, "siblings"), "<cpu siblings>")
    return _CPU(_number(cpu, "id"), node, _number(cpu, "socket_id"), siblings)


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


def _caches(host: ET.Element, online: list[_CPU]) -> tuple[dict[int, int], Mapping[int, LastLevelCache]]:
    banks = host.findall("cache/bank")
    level = max((_number(bank, "level") for bank in banks), default=0)
    cache_of: dict[int, int] = {}
    caches: dict[int, LastLevelCache] = {}
    for bank in banks:
        if _number(bank, "level") == level:
            known = _number(bank, "id")
            caches[known] = LastLevelCache(level, _size(bank, _number(bank, "size")))
            cache_of |= dict.fromkeys(_cpus(_attribute(bank, "cpus"), "<bank cpus>"), known)
    first = max(caches, default=-1) + 1
    unknown = [each for each in online if each.cpu not in cache_of]
    groups = _numbered(unknown, lambda each: (each.socket, each.numa_node))
    return cache_of | {cpu: first + group for cpu, group in groups.items()}, MappingProxyType(caches)


def _memory(cell: ET.Element) -> NumaMemory:
    memory = cell.find("memory")
    total = _size(memory, _content_number(memory)) if memory is not None else Bytes(0)
    pages = [page for page in cell.findall("pages") if _number(page, "size") >= _SMALLEST_HUGEPAGE_KIB]
    huge = sum(_size(page, _number(page, "size")) * _content_number(page) for page in pages)
    return NumaMemory(total, Bytes(huge))


@dataclass(frozen=True, slots=True)
class GuestCell:
    """A NUMA node of a guest: its own CPUs, its memory, and the host nodes it must lie on (None: any)."""

    cell: int
    vcpus: CPUSet
    memory: Bytes
    host_nodes: CPUSet | None


@dataclass(frozen=True)
class Domain:
    """A guest. ``affinity``: guest CPU -> the host CPUs that it may run on, where libvirt states it.

    ``of_nova``: it has the metadata that nova-compute writes into its domains.
    """

    uuid: str
    name: str
    vcpus: int
    memory: Bytes
    affinity: Mapping[int, CPUSet]
    emulator: CPUSet | None
    cells: tuple[GuestCell, ...]
    flavor: str
    extra_specs: Mapping[str, str]
    image_properties: Mapping[str, str]
    of_nova: bool = False

    @property
    def pins(self) -> Mapping[int, int]:
        """Guest CPU -> its host CPU, of those that are pinned to one."""
        return {vcpu: next(iter(cpus)) for vcpu, cpus in self.affinity.items() if len(cpus) == 1}


def read_domain(text: str) -> Domain:
    """Return a guest.

    Raises:
        LibvirtXMLError: if the document is not a domain.
    """
    domain = parsed_domain(text)
    memory = _child(domain, "memory")
    vcpus = _content_number(_child(domain, "vcpu"))
    if vcpus > LARGEST_CPU:
        raise LibvirtXMLError(f"<vcpu> is {vcpus}: more than {LARGEST_CPU} CPUs")
    pin = domain.find("cputune/emulatorpin")
    return Domain(
        uuid=_text(domain, "uuid"),
        name=_text(domain, "name"),
        vcpus=vcpus,
        memory=_size(memory, _content_number(memory)),
        affinity=MappingProxyType(_affinity(domain, vcpus)),
        emulator=None if pin is None else _cpus(_attribute(pin, "cpuset"), "<emulatorpin cpuset>"),
        cells=_cells(domain),
        flavor=next((each.get("name", "") for each in domain.iterfind(f"{_NOVA}/{{*}}flavor")), ""),
        extra_specs=_named(domain, "{*}flavor/{*}extraSpecs/{*}extraSpec"),
        image_properties=_named(domain, "{*}image/{*}properties/{*}property"),
        of_nova=domain.find(_NOVA) is not None,
    )


_NOVA = "metadata/{*}instance"
_MOST_IN_SETS = 1 << 22
"""Room for 2048 guest CPUs on 2048 host CPUs, no two of them with the same set."""


def _text(domain: ET.Element, name: str) -> str:
    text = (_child(domain, name).text or "").strip()
    if not text:
        raise LibvirtXMLError(f"<domain> has an empty <{name}>")
    return text


def _affinity(domain: ET.Element, vcpus: int) -> dict[int, CPUSet]:
    every = _child(domain, "vcpu").get("cpuset")
    affinity = dict.fromkeys(range(vcpus), _cpus(every, "<vcpu cpuset>")) if every else {}
    sets: dict[str, CPUSet] = {}
    room = _MOST_IN_SETS
    for pin in domain.iterfind("cputune/vcpupin"):
        text = _attribute(pin, "cpuset")
        if text not in sets:
            sets[text] = _cpus(text, "<vcpupin cpuset>")
            room -= len(sets[text].cpus)
        if room < 0:
            raise LibvirtXMLError(f"the sets of <vcpupin> have more than {_MOST_IN_SETS} CPUs together")
        affinity[_number(pin, "vcpu")] = sets[text]
    return {vcpu: cpus for vcpu, cpus in affinity.items() if vcpu < vcpus}


def _cells(domain: ET.Element) -> tuple[GuestCell, ...]:
    nodes = {
        _number(node, "cellid"): _cpus(_attribute(node, "nodeset"), "<memnode nodeset>")
        for node in domain.iterfind("numatune/memnode")
    }
    return tuple(
        GuestCell(
            number,
            _cpus(cell.get("cpus", ""), "<cell cpus>"),  # a cell of memory alone has none
            _size(cell, _number(cell, "memory")),
            nodes.get(number),
        )
        for number, cell in enumerate(domain.iterfind("cpu/numa/cell"))
    )


def _named(domain: ET.Element, below: str) -> Mapping[str, str]:
    found = domain.iterfind(f"{_NOVA}/{below}")
    return MappingProxyType({each.get("name", ""): (each.text or "").strip() for each in found})


_NO_CPUS = CPUSet()
REALTIME_PRIORITY = "1"
"""As in Nova, whose default of ``[libvirt] realtime_scheduler_priority`` is 1."""

_MOST_IO_THREADS = 1024

_NAMESPACES = {
    "nova": "http://openstack.org/xmlns/libvirt/nova/1.1",
    "qemu": "http://libvirt.org/schemas/domain/qemu/1.0",
}


@dataclass(frozen=True, slots=True)
class CPUTuning:
    """Where a guest may run.

    ``vcpus`` maps each guest CPU to its host CPUs: one if pinned, several if shared. ``emulator`` is for
    QEMU's own threads and its I/O threads; None leaves them to the kernel. ``cells`` maps each NUMA node of
    the guest to its host node. ``realtime``: guest CPUs that run under SCHED_FIFO.
    """

    vcpus: Mapping[int, CPUSet]
    emulator: CPUSet | None
    cells: Mapping[int, int]
    realtime: CPUSet = _NO_CPUS


def uuid_of(text: str) -> str:
    """Return the UUID of a domain.

    Raises:
        LibvirtXMLError: if the document is not a domain, or has no UUID.
    """
    return _text(parsed_domain(text), "uuid")


def tuned(text: str, tuning: CPUTuning) -> str:
    """Return the domain with these CPUs.

    Raises:
        LibvirtXMLError: if the document is not a domain, has other CPUs than these, or leaves one of them
            without a host CPU.
    """
    check_vcpus(text, len(tuning.vcpus))
    domain = parsed_domain(text)
    nowhere = [vcpu for vcpu, cpus in tuning.vcpus.items() if not cpus]
    if nowhere:
        raise LibvirtXMLError(f"CPU {nowhere[0]} of the guest would have no host CPU to run on")
    _pin(domain, tuning)
    _bind_memory(domain, tuning)
    return text_of_domain(domain)


def check_vcpus(text: str, given: int) -> None:
    """Check that a domain has as many CPUs as its guest is given.

    Raises:
        LibvirtXMLError: if the document is not a domain, or has another number of CPUs.
    """
    vcpus = _content_number(_child(parsed_domain(text), "vcpu"))
    if vcpus != given:
        raise LibvirtXMLError(
            f"the domain has {vcpus} CPUs, but the guest was given {given}",
            hint="correct <vcpu> in the domain, or resize the guest: "
            "corewise compute resize GUEST --flavor FILE",
        )


def parsed_domain(text: str) -> ET.Element:
    """Return a domain's element.

    Raises:
        LibvirtXMLError: if the document is not a domain.
    """
    return _parsed(text, "domain")


def text_of_domain(domain: ET.Element) -> str:
    """Return a domain's document."""
    for prefix, namespace in _NAMESPACES.items():
        ET.register_namespace(prefix, namespace)
    ET.indent(domain)
    return ET.tostring(domain, encoding="unicode")


def _pin(domain: ET.Element, tuning: CPUTuning) -> None:
    section = section_of(domain, "cputune", after="vcpu")
    for name in ("vcpupin", "emulatorpin", "iothreadpin", "vcpusched"):
        for old in section.findall(name):
            section.remove(old)
    for vcpu, cpus in sorted(tuning.vcpus.items()):
        ET.SubElement(section, "vcpupin", vcpu=str(vcpu), cpuset=str(cpus))
    if tuning.emulator is not None:
        ET.SubElement(section, "emulatorpin", cpuset=str(tuning.emulator))
        for number in _io_threads(domain):
            ET.SubElement(section, "iothreadpin", iothread=str(number), cpuset=str(tuning.emulator))
    if tuning.realtime:
        ET.SubElement(
            section, "vcpusched", vcpus=str(tuning.realtime), scheduler="fifo", priority=REALTIME_PRIORITY
        )


def _io_threads(domain: ET.Element) -> list[int]:
    """Return the numbers of the domain's I/O threads: those that are named, and as many more as it counts."""
    named = [_number(each, "id") for each in domain.iterfind("iothreadids/iothread")]
    count = domain.find("iothreads")
    every = 0 if count is None else min(_content_number(count), _MOST_IO_THREADS)
    free = (number for number in range(1, _MOST_IO_THREADS + 1) if number not in named)
    return sorted([*named, *itertools.islice(free, max(every - len(named), 0))])


def _bind_memory(domain: ET.Element, tuning: CPUTuning) -> None:
    if not tuning.cells:
        return
    section = section_of(domain, "numatune", after="cputune")
    section.clear()
    nodes = str(CPUSet.of(tuning.cells.values()))
    ET.SubElement(section, "memory", mode="strict", nodeset=nodes)
    of_guest = len(domain.findall("cpu/numa/cell"))
    for cell, node in sorted(tuning.cells.items()):
        if cell < of_guest:
            ET.SubElement(section, "memnode", cellid=str(cell), mode="strict", nodeset=str(node))


def section_of(domain: ET.Element, name: str, *, after: str) -> ET.Element:
    """Return a section of the domain, created behind another if it is missing."""
    found = domain.find(name)
    if found is None:
        found = ET.Element(name)
        domain.insert(list(domain).index(_child(domain, after)) + 1, found)
    return found
