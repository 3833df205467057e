"""Guests that libvirt shows on a host and the ledger does not know: entered as the facts they are.

A guest CPU that is pinned to one host CPU owns it. Emulator threads own a CPU if they are pinned to one that
none of the guest's CPUs has. What libvirt does not tell is absent: what the guest holds in Placement stands
there. A guest that the ledger knows stays as the ledger has it: there stands what was chosen for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace as replaced

from corewise.compute.ledger_file import Change
from corewise.compute.records import CellRecord, GuestRecord, GuestState
from corewise.openstack.libvirt.connection import connected
from corewise.openstack.libvirt.domains import Domain
from corewise.policy.guests import CPUPolicy, ThreadPolicy
from corewise.topology import Host
from corewise.tracking import HostedGuest

_MIB = 1 << 20


def adopt(change: Change, domains: Iterable[Domain], machine: Host) -> tuple[str, ...]:
    """Enter the guests that are missing, and return their UUIDs.

    Raises:
        LedgerUnusable: if the ledger cannot be written.
    """
    known = change.host.guests
    found = {each.uuid: record_of_domain(each, machine) for each in domains if each.uuid not in known}
    change.write({**known, **found})
    return tuple(found)


def guests_of(uri: str, machine: Host) -> tuple[HostedGuest, ...]:
    """Return the guests that a libvirt shows.

    Raises:
        LibvirtError: if it does not answer.
        ExtraMissing: if its package is not installed.
    """
    with connected(uri) as libvirt:
        domains = libvirt.domains()
    return tuple(
        replaced(record_of_domain(each, machine).hosted(each.uuid), name=each.name) for each in domains
    )


def record_of_domain(domain: Domain, machine: Host) -> GuestRecord:
    """Return what a ledger keeps of a guest as libvirt shows it."""
    pins = domain.pins
    return GuestRecord(
        state=GuestState.HELD,
        resources={},
        vcpus=domain.vcpus,
        flavor=domain.flavor,
        cpu_policy=_cpu_policy(len(pins), domain.vcpus),
        thread_policy=_thread_policy(domain),
        cells=tuple(_cells(domain, machine)),
        emulator=_emulator(domain),
        withheld=_withheld(domain, machine),
    )


def _cpu_policy(pinned: int, vcpus: int) -> CPUPolicy:
    if not pinned:
        return CPUPolicy.SHARED
    return CPUPolicy.DEDICATED if pinned == vcpus else CPUPolicy.MIXED


def _thread_policy(domain: Domain) -> ThreadPolicy | None:
    stated = domain.extra_specs.get("hw:cpu_thread_policy") or domain.image_properties.get(
        "hw_cpu_thread_policy", ""
    )
    return ThreadPolicy(stated) if stated in set(ThreadPolicy) else None


def _emulator(domain: Domain) -> int | None:
    cpus = domain.emulator
    own = set(domain.pins.values())
    return next(iter(cpus)) if cpus is not None and len(cpus) == 1 and not cpus.cpus & own else None


def _withheld(domain: Domain, machine: Host) -> tuple[int, ...]:
    """Return the threads beside an isolated guest's own: nobody else may get them."""
    if _thread_policy(domain) is not ThreadPolicy.ISOLATE:
        return ()
    own = set(domain.pins.values())
    known = own & machine.topology.cpus.cpus
    return tuple(sorted({beside for cpu in known for beside in machine.topology.siblings(cpu)} - own))


def _cells(domain: Domain, machine: Host) -> Iterable[CellRecord]:
    """Yield the guest's NUMA nodes; of one that libvirt shows none of, where its pins are."""
    node_of = {thread.cpu: thread.numa_node for thread in machine.topology.threads}
    if not domain.cells:
        nodes = sorted({node_of.get(cpu, 0) for cpu in domain.pins.values()})
        for node in nodes:
            pins = {own: cpu for own, cpu in domain.pins.items() if node_of.get(cpu, 0) == node}
            yield CellRecord(node, pins, domain.memory // _MIB // len(nodes))
        return
    for cell in domain.cells:
        pins = {own: cpu for own, cpu in domain.pins.items() if own in cell.vcpus}
        bound = next(iter(cell.host_nodes), 0) if cell.host_nodes else 0
        node = next((node_of[cpu] for cpu in pins.values() if cpu in node_of), bound)
        yield CellRecord(node, pins, cell.memory // _MIB)
