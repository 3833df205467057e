"""The CPUs of a guest, written into its domain: ``<vcpupin>``, ``<emulatorpin>``, ``<numatune>``.

Only those are replaced. Other tuning (shares, quotas, scheduler), devices and metadata stay as they are.
Where the guest has NUMA nodes of its own, each gets the host node that it lies on; memory comes from the host
nodes named, and from no other (``strict``).

Source: https://libvirt.org/formatdomain.html, "CPU Tuning" and "NUMA Node Tuning".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from xml.etree import ElementTree as ET

from corewise.openstack.errors import LibvirtXMLError
from corewise.openstack.libvirt import xml
from corewise.topology import CPUSet

_NAMESPACES = {
    "nova": "http://openstack.org/xmlns/libvirt/nova/1.1",
    "qemu": "http://libvirt.org/schemas/domain/qemu/1.0",
}


@dataclass(frozen=True, slots=True)
class CPUTuning:
    """Where a guest may run.

    ``vcpus`` maps each guest CPU to its host CPUs: one if pinned, several if shared. ``emulator`` is for
    QEMU's own threads; None leaves them to the kernel. ``cells`` maps each NUMA node of the guest to its host
    node.
    """

    vcpus: Mapping[int, CPUSet]
    emulator: CPUSet | None
    cells: Mapping[int, int]


def tuned(text: str, tuning: CPUTuning) -> str:
    """Return the domain with these CPUs.

    Raises:
        LibvirtXMLError: if the document is not that of a domain, or has not these guest CPUs, or one of them
            could run nowhere.
    """
    domain = xml.parsed(text, "domain")
    vcpus = xml.content_number(xml.child(domain, "vcpu"))
    unknown = [vcpu for vcpu in tuning.vcpus if not 0 <= vcpu < vcpus]
    if unknown:
        raise LibvirtXMLError(f"the guest has {vcpus} CPUs, and no CPU {unknown[0]}")
    nowhere = [vcpu for vcpu, cpus in tuning.vcpus.items() if not cpus]
    if nowhere:
        raise LibvirtXMLError(f"CPU {nowhere[0]} of the guest would have no host CPU to run on")
    _pin(domain, tuning)
    _bind_memory(domain, tuning)
    for prefix, namespace in _NAMESPACES.items():
        ET.register_namespace(prefix, namespace)
    ET.indent(domain)
    return ET.tostring(domain, encoding="unicode")


def _pin(domain: ET.Element, tuning: CPUTuning) -> None:
    section = _section(domain, "cputune", after="vcpu")
    for old in [*section.findall("vcpupin"), *section.findall("emulatorpin")]:
        section.remove(old)
    for vcpu, cpus in sorted(tuning.vcpus.items()):
        ET.SubElement(section, "vcpupin", vcpu=str(vcpu), cpuset=str(cpus))
    if tuning.emulator is not None:
        ET.SubElement(section, "emulatorpin", cpuset=str(tuning.emulator))


def _bind_memory(domain: ET.Element, tuning: CPUTuning) -> None:
    if not tuning.cells:
        return
    section = _section(domain, "numatune", after="cputune")
    section.clear()
    nodes = str(CPUSet.of(tuning.cells.values()))
    ET.SubElement(section, "memory", mode="strict", nodeset=nodes)
    of_guest = len(domain.findall("cpu/numa/cell"))
    for cell, node in sorted(tuning.cells.items()):
        if cell < of_guest:
            ET.SubElement(section, "memnode", cellid=str(cell), mode="strict", nodeset=str(node))


def _section(domain: ET.Element, name: str, *, after: str) -> ET.Element:
    """Return a section of the domain, made behind another if it is not there."""
    found = domain.find(name)
    if found is None:
        found = ET.Element(name)
        domain.insert(list(domain).index(xml.child(domain, after)) + 1, found)
    return found
