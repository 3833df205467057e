"""The state of a host, read anew for each pass: its machine, its options, its guests.

The agent writes what schedulers need into the host's directory (``--state-dir``): the topology, and the
options that say what its CPUs are for; only when they have changed, and atomically.

Guests that the hypervisor reports and the ledger does not have are adopted as they are. A guest CPU that is
pinned to one host CPU owns it. Emulator threads own a CPU if they are pinned to one that none of the guest's
CPUs has. What the hypervisor does not report stays absent: Placement knows what the guest holds. The ledger's
own entries, which record what was chosen, are never changed by what the hypervisor reports.

:func:`domains_of` is the only place that talks to a hypervisor; another one is an adapter beside
``openstack.libvirt`` that returns the same :class:`Domain`, and a branch there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from dataclasses import replace as replaced
from types import MappingProxyType

import msgspec

from corewise.actions import Reshape
from corewise.compute.beside_nova import MARK, refuse_cpus_of_nova
from corewise.compute.errors import FileUnusable
from corewise.compute.hosts import (
    LEDGER,
    OPTIONS,
    REPORTED,
    TOPOLOGY,
    OptionsUnusable,
    nova_cpus_in,
    read_machine_file,
)
from corewise.compute.ledger import CellRecord, Change, GuestRecord, GuestState, LedgerFile, put
from corewise.compute.machine_file import machine_document
from corewise.compute.offering import Offering, note_moves
from corewise.compute.offers import Offers
from corewise.compute.options import ComputeOptions
from corewise.compute.scheduling import settle
from corewise.kernel.machine import read_machine
from corewise.openstack.libvirt import connected
from corewise.openstack.libvirt_xml import Domain
from corewise.openstack.nova_conf import NovaConf, read_nova_conf
from corewise.topology import CPUSet, Host
from corewise.tracking import HostedGuest, HostFacts, HostOptions, OptionProblem, check_options
from corewise.vocabulary.guests import CPUPolicy, ThreadPolicy
from corewise.vocabulary.placement import DISK_GB, MEMORY_MB, Inventory

_MIB = 1 << 20


def adopt(change: Change, domains: Iterable[Domain], machine: Host) -> tuple[str, ...]:
    """Enter the guests that the ledger does not have, and return their UUIDs.

    Raises:
        LedgerUnusable: if the ledger cannot be written.
    """
    known = change.host.guests
    found = {each.uuid: record_of_domain(each, machine) for each in domains if each.uuid not in known}
    change.write({**known, **found})
    return tuple(found)


def domains_of(uri: str) -> tuple[Domain, ...]:
    """Return the guests that a hypervisor reports.

    Raises:
        LibvirtError: if it does not answer.
        ExtraMissing: if its package is not installed.
    """
    with connected(uri) as libvirt:
        return libvirt.domains()


def guests_of(uri: str, machine: Host) -> tuple[HostedGuest, ...]:
    """Return a hypervisor's guests as the host sees them; raises as ``domains_of``."""
    return tuple(
        replaced(record_of_domain(each, machine).hosted(each.uuid), name=each.name)
        for each in domains_of(uri)
    )


def record_of_domain(domain: Domain, machine: Host) -> GuestRecord:
    """Return what a ledger keeps of a guest as its hypervisor reports it."""
    own = CPUSet.of(domain.pins.values())
    policy = CPUPolicy.DEDICATED if len(domain.pins) == domain.vcpus else CPUPolicy.MIXED
    stated = domain.extra_specs.get("hw:cpu_thread_policy") or domain.image_properties.get(
        "hw_cpu_thread_policy", ""
    )
    threads = ThreadPolicy(stated) if stated in set(ThreadPolicy) else None
    withheld = CPUSet()
    if threads is ThreadPolicy.ISOLATE:
        siblings = (machine.topology.siblings(cpu) for cpu in own & machine.topology.cpus)
        withheld = CPUSet.of(beside for core in siblings for beside in core) - own
    cpus = domain.emulator
    alone = cpus is not None and len(cpus) == 1 and cpus.isdisjoint(own)
    return GuestRecord(
        state=GuestState.HELD,
        resources={},
        vcpus=domain.vcpus,
        flavor=domain.flavor,
        cpu_policy=policy if own else CPUPolicy.SHARED,
        thread_policy=threads,
        cells=tuple(_cells(domain, machine)),
        emulator=next(iter(cpus)) if cpus is not None and alone else None,
        withheld=tuple(withheld),
    )


def _cells(domain: Domain, machine: Host) -> Iterable[CellRecord]:
    """Yield the guest's NUMA nodes, or the host's nodes with its pins if it has none."""
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
        yield CellRecord(node, pins, cell.memory // _MIB, tuple(cell.vcpus - CPUSet.of(pins)))


_RESERVED_MEMORY_MB = "512"
"""Nova's default."""


@dataclass(frozen=True)
class HostState:
    """A host as it is. ``warnings`` concern its options."""

    offering: Offering
    warnings: tuple[OptionProblem, ...]
    adopted: tuple[str, ...] = ()


class HostReader:
    """Reads one host."""

    def __init__(self, options: ComputeOptions) -> None:
        self._options = options
        self._written: dict[str, str] = {}
        folder = options.state_dir
        self._ledger = None if folder is None else LedgerFile(folder / LEDGER, options.name)

    def read(self, offers: Offers | None) -> HostState:
        """Return the host. ``offers`` settles guests whose scheduler has died; None for a dry run.

        Raises:
            OptionsUnusable: if its options have errors, or do not suit its guests.
            ComputeError, OpenStackError: if a file, the ledger or libvirt cannot be used.
        """
        options = self._options
        machine = self._machine()
        self._make_folder()
        conf = read_nova_conf(options.conf_files) if options.conf_files else None
        adopted = self._adopt(machine)
        guests = self._guests(offers)
        stated = HostOptions() if conf is None else HostOptions.of(conf.values)
        checked = check_options(stated, HostFacts.of(machine), guests, options.compat)
        if checked.settings is None:
            first, *rest = checked.errors
            lines = [str(first), *(f"{each.reason}: {each}" for each in rest)]
            raise OptionsUnusable("\n".join(lines), first.reason)
        nova_cpus = nova_cpus_in(options.beside_nova, options.name, machine)
        if not options.checks_only:
            refuse_cpus_of_nova(options.name, checked.settings, nova_cpus)
        self._keep(machine, conf, nova_cpus)
        others = _standalone(machine, conf, options.disk_gb) if options.standalone else {}
        offering = Offering(options.name, machine, checked.settings, guests, MappingProxyType(others))
        return HostState(offering, checked.warnings, adopted)

    def _make_folder(self) -> None:
        folder = self._options.state_dir
        if folder is None or self._options.dry_run:
            return
        try:
            folder.mkdir(mode=0o750, parents=True, exist_ok=True)
        except OSError as error:
            raise FileUnusable(f"{folder} cannot be made: {error.strerror}") from error

    def mark_reported(self) -> None:
        """Leave the time for schedulers, which send no guest to a host that is silent.

        Raises:
            FileUnusable: if the file cannot be written.
        """
        folder = self._options.state_dir
        if folder is None or self._options.dry_run:
            return
        try:
            (folder / REPORTED).touch()
        except OSError as error:
            raise FileUnusable(f"{folder / REPORTED} cannot be written: {error.strerror}") from error

    def note(self, done: Reshape) -> None:
        """Record in the ledger what guests hold after a reshape.

        Raises:
            LedgerUnusable: if it cannot be written.
        """
        if self._ledger is not None:
            note_moves(self._ledger, done)

    def _machine(self) -> Host:
        options = self._options
        if options.topology is not None:
            return read_machine_file(options.topology)
        host = read_machine(options.root).host
        if not host.topology.threads:
            raise FileUnusable(f"no CPU is online below {options.root}")
        return host

    def _adopt(self, machine: Host) -> tuple[str, ...]:
        options = self._options
        if options.libvirt is None or self._ledger is None or options.dry_run:
            return ()
        domains = domains_of(options.libvirt)
        with self._ledger.changing() as change:
            return adopt(change, domains, machine)

    def _guests(self, offers: Offers | None) -> tuple[HostedGuest, ...]:
        if self._ledger is None:
            return ()
        if offers is not None:
            with self._ledger.changing() as change:
                settle(change, offers)
        return tuple(record.hosted(uuid) for uuid, record in self._ledger.read().guests.items())

    def _keep(self, machine: Host, conf: NovaConf | None, nova_cpus: CPUSet | None) -> None:
        folder = self._options.state_dir
        if folder is None or self._options.dry_run:
            return
        document = msgspec.json.format(msgspec.json.encode(machine_document(machine)), indent=1).decode()
        kept = {TOPOLOGY: document + "\n", OPTIONS: options_text(conf)}
        if nova_cpus is None:
            (folder / MARK).unlink(missing_ok=True)
        else:
            kept = {MARK: f"{nova_cpus}\n", **kept}
        for name, text in kept.items():
            if self._written.get(name) == text:
                continue
            try:
                put(folder / name, text.encode())
            except OSError as error:
                raise FileUnusable(f"{folder / name} cannot be written: {error.strerror}") from error
            self._written[name] = text


def options_text(conf: NovaConf | None) -> str:
    """Return the options that say what the host's CPUs are for, as nova.conf has them."""
    groups: dict[str, list[str]] = {}
    for (group, name), value in sorted((conf.values if conf else {}).items()):
        if (group, name) in _KEPT:
            groups.setdefault(group, []).append(f"{name} = {value}\n")
    return "".join(f"[{group}]\n{''.join(lines)}" for group, lines in groups.items())


_KEPT = {
    ("DEFAULT", "cpu_allocation_ratio"),
    ("DEFAULT", "initial_cpu_allocation_ratio"),
    ("DEFAULT", "vcpu_pin_set"),
    ("DEFAULT", "reserved_host_cpus"),
    ("compute", "cpu_dedicated_set"),
    ("compute", "cpu_shared_set"),
    ("libvirt", "cpu_power_management"),
}


def _standalone(machine: Host, conf: NovaConf | None, disk_gb: int) -> dict[str, Inventory]:
    """Return the memory and disk of a host whose Nova reports neither; neither is overcommitted."""
    others: dict[str, Inventory] = {}
    if machine.memory_total is not None:
        text = (conf.get("DEFAULT", "reserved_host_memory_mb") if conf else None) or _RESERVED_MEMORY_MB
        if not (text.isascii() and text.isdigit()):
            raise FileUnusable(f"[DEFAULT] reserved_host_memory_mb = {text}: it is not a whole number of MiB")
        total = machine.memory_total // _MIB
        others[MEMORY_MB] = Inventory(total, total, min(int(text), total))
    if disk_gb:
        others[DISK_GB] = Inventory(disk_gb, disk_gb)
    return others
