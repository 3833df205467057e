"""The state of a host, read again for each pass: its machine, its options, its guests.

Files in the host's directory (``--state-dir``) tell schedulers its topology, and the options that say what
its CPUs are for. Nothing is written here: an :mod:`executor` brings the ledger up to date before its guests
are read, and carries out what follows from the state.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import msgspec

from corewise.config.machine_file import machine_document
from corewise.kernel.machine import read_machine
from corewise.pinning.ledger import ClaimConflict
from corewise.topology import Host
from corewise.vocabulary.reasons import Reason
from corewise_openstack.compute.adoption import LedgerChange
from corewise_openstack.compute.beside_nova import MARK, refuse_cpus_of_nova
from corewise_openstack.compute.errors import FileUnusable
from corewise_openstack.compute.executor import LedgerState, PassExecutor
from corewise_openstack.compute.hosts import (
    OPTIONS,
    TOPOLOGY,
    OptionsUnusable,
    conflicts_of,
    nova_cpus_in,
    options_in,
    read_machine_file,
)
from corewise_openstack.compute.offering import Offering
from corewise_openstack.compute.options import ComputeOptions
from corewise_openstack.openstack.nova_conf import NovaConf, read_nova_conf
from corewise_openstack.tracking import HostFacts, HostOptions, OptionProblem, check_options
from corewise_openstack.vocabulary.placement import DISK_GB, MEMORY_MB, Inventory

_MIB = 1 << 20


_RESERVED_MEMORY_MB = "512"
"""Nova's default."""
_MEBIBYTES = re.compile(r"[0-9]{1,12}")
_SHOWN = 80


@dataclass(frozen=True)
class HostState:
    """A host as it is. ``warnings`` concern its options; ``conflicts``: CPUs that several guests own.

    ``files`` of its directory say so to schedulers: name -> content, or None for a file that is not to be.
    """

    offering: Offering
    warnings: tuple[OptionProblem, ...]
    files: Mapping[str, str | None]
    ledger: LedgerState
    conflicts: tuple[ClaimConflict, ...] = ()

    @property
    def changes(self) -> tuple[LedgerChange, ...]:
        """The changes that its domains have made to the ledger."""
        return self.ledger.changes

    @property
    def warning_lines(self) -> Iterator[str]:
        """The problems of the host, a line each."""
        for problem in self.warnings:
            yield f"{problem.reason}: {problem}"
        for conflict in self.conflicts:
            yield f"{Reason.CPUS_PROMISED_TWICE}: {conflict.message}"
        ledger = self.ledger
        for guest in ledger.unapplied:
            chosen = "the CPUs that were chosen for it"
            yield f"{Reason.GUEST_UNAPPLIED}: the domain of guest {guest} is not pinned to {chosen}"
        for guest, why in ledger.refused.items():
            yield f"{Reason.GUEST_UNAPPLIED}: the domain of guest {guest} cannot be written: {why}"
        for guest in set(ledger.unfinished) - ledger.refused.keys():
            yield f"{Reason.PINS_HALF_WRITTEN}: the domain of guest {guest} may be written in part"
        for guest, why in ledger.kept.items():
            yield f"{Reason.GUEST_KEEPS_PCPU}: guest {guest} is not pinned, and cannot hold VCPU: {why}"


def read_state(options: ComputeOptions, executor: PassExecutor, now: float = 0.0) -> HostState:
    """Return a host at a time, in seconds that only grow; ``executor`` brings its ledger up to date first.

    Raises:
        OptionsUnusable: if its options have errors, or do not suit its guests.
        ComputeError, OpenStackError: if a file, the ledger or libvirt cannot be used.
    """
    machine = _machine(options)
    conf = read_nova_conf(options.conf_files) if options.conf_files else None
    stated = HostOptions() if conf is None else HostOptions.of(conf.values)
    facts = HostFacts.of(machine)
    settings = check_options(stated, facts, compat=options.compat).settings
    ledger = executor.update_ledger(machine, settings, now)
    guests = tuple(record.hosted(uuid) for uuid, record in ledger.guests.items())
    checked = check_options(stated, facts, guests, options.compat)
    if checked.settings is None:
        first, *rest = checked.errors
        lines = [str(first), *(f"{each.reason}: {each}" for each in rest)]
        raise OptionsUnusable("\n".join(lines), first.reason)
    nova_cpus = nova_cpus_in(options.beside_nova, options.name, machine)
    if not options.checks_only:
        refuse_cpus_of_nova(options.name, checked.settings, nova_cpus)
    others = _standalone(machine, conf, options.disk_gb) if options.standalone else {}
    by_option = not checked.settings.legacy and _has_reserved(options, facts)
    offering = Offering(options.name, machine, checked.settings, guests, MappingProxyType(others), by_option)
    document = msgspec.json.format(msgspec.json.encode(machine_document(machine)), indent=1).decode()
    files = {
        MARK: None if nova_cpus is None else f"{nova_cpus}\n",
        TOPOLOGY: document + "\n",
        OPTIONS: options_text(conf),
    }
    return HostState(offering, checked.warnings, files, ledger, conflicts_of(ledger.guests))


def _has_reserved(options: ComputeOptions, facts: HostFacts) -> bool:
    """Whether ``reserved_host_cpus`` counted in the options that Placement was last told."""
    if options.state_dir is None:
        return False
    try:
        before = options_in(options.state_dir / OPTIONS)
    except FileUnusable:
        return False  # this pass replaces the file
    settings = check_options(before, facts, compat=options.compat).settings
    return settings is not None and settings.reserved > 0


def _machine(options: ComputeOptions) -> Host:
    if options.topology is not None:
        return read_machine_file(options.topology)
    host = read_machine(options.root).host
    if not host.topology.threads:
        raise FileUnusable(f"no CPU is online below {options.root}")
    return host


def options_text(conf: NovaConf | None) -> str:
    """Return the options that say what the host's CPUs are for, as nova.conf has them, each on one line."""
    groups: dict[str, list[str]] = {}
    for (group, name), value in sorted((conf.values if conf else {}).items()):
        if (group, name) in _KEPT:
            groups.setdefault(group, []).append(f"{name} = {' '.join(value.split())}\n")
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
        if not _MEBIBYTES.fullmatch(text):
            why = "write a whole number of MiB, such as 512"
            raise FileUnusable(f"[DEFAULT] reserved_host_memory_mb = {text[:_SHOWN]}: {why}")
        total = machine.memory_total // _MIB
        others[MEMORY_MB] = Inventory(total, total, min(int(text), total))
    if disk_gb:
        others[DISK_GB] = Inventory(disk_gb, disk_gb)
    return others
