"""A guest, from its domain: ``virsh dumpxml GUEST``.

A guest CPU is pinned when its ``<vcpupin>`` names one host CPU; a guest whose CPUs may all run on several is
not. What Nova knows beyond libvirt (flavor, extra specs, image properties) stands in its metadata, in newer
releases; where it does not, it is absent, never a guess.

Source: https://libvirt.org/formatdomain.html, nova.virt.libvirt.config.LibvirtConfigGuestMetaNovaInstance.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from xml.etree import ElementTree as ET

from corewise.openstack.errors import LibvirtXMLError
from corewise.openstack.libvirt import xml
from corewise.quantities import Bytes
from corewise.topology import LARGEST_CPU, CPUSet


@dataclass(frozen=True, slots=True)
class GuestCell:
    """A NUMA node of a guest: its own CPUs, its memory, and the host nodes it must lie on (None: any)."""

    cell: int
    vcpus: CPUSet
    memory: Bytes
    host_nodes: CPUSet | None


@dataclass(frozen=True)
class Domain:
    """A guest. ``affinity`` maps each guest CPU to the host CPUs that it may run on, where that is stated."""

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

    @property
    def pins(self) -> Mapping[int, int]:
        """Guest CPU -> its host CPU, of those that are pinned to one."""
        return {vcpu: next(iter(cpus)) for vcpu, cpus in self.affinity.items() if len(cpus) == 1}


def read_domain(text: str) -> Domain:
    """Return a guest.

    Raises:
        LibvirtXMLError: if the document is not that of a domain.
    """
    domain = xml.parsed(text, "domain")
    memory = xml.child(domain, "memory")
    vcpus = xml.content_number(xml.child(domain, "vcpu"))
    if vcpus > LARGEST_CPU:
        raise LibvirtXMLError(f"<vcpu> is {vcpus}: more than {LARGEST_CPU} CPUs")
    return Domain(
        uuid=_text(domain, "uuid"),
        name=_text(domain, "name"),
        vcpus=vcpus,
        memory=xml.size(memory, xml.content_number(memory)),
        affinity=MappingProxyType(_affinity(domain, vcpus)),
        emulator=_emulator(domain),
        cells=_cells(domain),
        flavor=next((each.get("name", "") for each in domain.iterfind(f"{_NOVA}/{{*}}flavor")), ""),
        extra_specs=_named(domain, "{*}flavor/{*}extraSpecs/{*}extraSpec"),
        image_properties=_named(domain, "{*}image/{*}properties/{*}property"),
    )


_NOVA = "metadata/{*}instance"
_MOST_IN_SETS = 1 << 22
"""Room for 2048 guest CPUs on 2048 host CPUs, no two of them with the same set."""


def _text(domain: ET.Element, name: str) -> str:
    text = (xml.child(domain, name).text or "").strip()
    if not text:
        raise LibvirtXMLError(f"<domain> has an empty <{name}>")
    return text


def _affinity(domain: ET.Element, vcpus: int) -> dict[int, CPUSet]:
    every = xml.child(domain, "vcpu").get("cpuset")
    affinity = dict.fromkeys(range(vcpus), xml.cpus(every, "<vcpu cpuset>")) if every else {}
    sets: dict[str, CPUSet] = {}
    room = _MOST_IN_SETS
    for pin in domain.iterfind("cputune/vcpupin"):
        text = xml.attribute(pin, "cpuset")
        if text not in sets:
            sets[text] = xml.cpus(text, "<vcpupin cpuset>")
            room -= len(sets[text].cpus)
        if room < 0:
            raise LibvirtXMLError(f"the sets of <vcpupin> have more than {_MOST_IN_SETS} CPUs together")
        affinity[xml.number(pin, "vcpu")] = sets[text]
    return {vcpu: cpus for vcpu, cpus in affinity.items() if vcpu < vcpus}


def _emulator(domain: ET.Element) -> CPUSet | None:
    pin = domain.find("cputune/emulatorpin")
    return None if pin is None else xml.cpus(xml.attribute(pin, "cpuset"), "<emulatorpin cpuset>")


def _cells(domain: ET.Element) -> tuple[GuestCell, ...]:
    nodes = {
        xml.number(node, "cellid"): xml.cpus(xml.attribute(node, "nodeset"), "<memnode nodeset>")
        for node in domain.iterfind("numatune/memnode")
    }
    return tuple(
        GuestCell(
            number,
            xml.cpus(xml.attribute(cell, "cpus"), "<cell cpus>"),
            xml.size(cell, xml.number(cell, "memory")),
            nodes.get(number),
        )
        for number, cell in enumerate(domain.iterfind("cpu/numa/cell"))
    )


def _named(domain: ET.Element, below: str) -> Mapping[str, str]:
    found = domain.iterfind(f"{_NOVA}/{below}")
    return MappingProxyType({each.get("name", ""): (each.text or "").strip() for each in found})
