"""The state of a host, read again for each pass: its machine, its options, its guests.

The agent writes what schedulers need into the host's directory (``--state-dir``): the topology, and the
options that say what its CPUs are for; only when they have changed, and atomically.

With a libvirt, the ledger follows its domains (:mod:`adoption`): its domains are read and the ledger is
changed under one lock, so nothing that ``compute apply`` writes is seen half done. What a guest gives back is
released in Placement first, then in the ledger, so whatever dies in between, the next pass finishes it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import msgspec

from corewise.config.machine_file import machine_document
from corewise.kernel.machine import read_machine
from corewise.pinning.ledger import ClaimConflict
from corewise.topology import CPUSet, Host
from corewise.vocabulary.reasons import Reason
from corewise_openstack.compute.adoption import LedgerChange, LedgerChangeKind, follow
from corewise_openstack.compute.applying import ApplyJournal, apply_locked, journal_of
from corewise_openstack.compute.beside_nova import MARK, refuse_cpus_of_nova
from corewise_openstack.compute.errors import FileUnusable
from corewise_openstack.compute.hosts import (
    LEDGER,
    OPTIONS,
    REPORTED,
    TOPOLOGY,
    ComputeHost,
    OptionsUnusable,
    conflicts_of,
    nova_cpus_in,
    read_machine_file,
)
from corewise_openstack.compute.ledger import Change, Guests, GuestState, LedgerFile, put
from corewise_openstack.compute.offering import Offering, note_moves
from corewise_openstack.compute.offers import Offers
from corewise_openstack.compute.options import ComputeOptions
from corewise_openstack.compute.placement import Reporter
from corewise_openstack.compute.scheduling import settle
from corewise_openstack.openstack.errors import LibvirtError
from corewise_openstack.openstack.libvirt import Libvirt, connected
from corewise_openstack.openstack.libvirt_xml import Domain
from corewise_openstack.openstack.nova_conf import NovaConf, read_nova_conf
from corewise_openstack.tracking import HostFacts, HostOptions, HostSettings, OptionProblem, check_options
from corewise_openstack.vocabulary.placement import DISK_GB, MEMORY_MB, Consumer, Inventory

_MIB = 1 << 20


def _concerns(domain: Domain, settings: HostSettings) -> bool:
    """Whether the ledger has a domain, on a host where Nova has CPUs too: Nova's only if they take ours."""
    ours = settings.dedicated | settings.pinnable
    return not domain.of_nova or not ours.isdisjoint(CPUSet.of(domain.pins.values()))


_RESERVED_MEMORY_MB = "512"
"""Nova's default."""
_MEBIBYTES = re.compile(r"[0-9]{1,12}")
_SHOWN = 80


@dataclass(frozen=True)
class HostState:
    """A host as it is.

    ``warnings`` concern its options. ``changes``: what its domains have changed in the ledger. ``unapplied``:
    guests whose domains do not have the CPUs that were chosen. ``conflicts``: CPUs that several guests own.
    ``refused``: guest -> why libvirt did not take them. ``unfinished``: guests whose domains were written in
    part. ``kept``: guest -> why it could not give back CPUs.
    """

    offering: Offering
    warnings: tuple[OptionProblem, ...]
    changes: tuple[LedgerChange, ...] = ()
    unapplied: tuple[str, ...] = ()
    refused: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    unfinished: tuple[str, ...] = ()
    conflicts: tuple[ClaimConflict, ...] = ()
    kept: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def warning_lines(self) -> Iterator[str]:
        """The problems of the host, a line each."""
        for problem in self.warnings:
            yield f"{problem.reason}: {problem}"
        for conflict in self.conflicts:
            yield f"{Reason.CPUS_PROMISED_TWICE}: {conflict.message}"
        for guest in self.unapplied:
            chosen = "the CPUs that were chosen for it"
            yield f"{Reason.GUEST_UNAPPLIED}: the domain of guest {guest} is not pinned to {chosen}"
        for guest, why in self.refused.items():
            yield f"{Reason.GUEST_UNAPPLIED}: the domain of guest {guest} cannot be written: {why}"
        for guest in set(self.unfinished) - self.refused.keys():
            yield f"{Reason.PINS_HALF_WRITTEN}: the domain of guest {guest} may be written in part"
        for guest, why in self.kept.items():
            yield f"{Reason.GUEST_KEEPS_PCPU}: guest {guest} is not pinned, and cannot hold VCPU: {why}"


class HostReader:
    """Reads one host."""

    def __init__(self, options: ComputeOptions) -> None:
        self._options = options
        self._written: dict[str, str] = {}
        self._since: Mapping[str, float] = {}
        self._changes: list[LedgerChange] = []
        """What no completed pass has told yet."""
        folder = options.state_dir
        self._ledger = None if folder is None else LedgerFile(folder / LEDGER, options.name)

    def read(self, offers: Offers | None, reporter: Reporter | None = None, *, now: float = 0.0) -> HostState:
        """Return the host at a time, in seconds that only grow.

        ``offers`` settles guests whose scheduler has died, and ``reporter`` gives back what guests hold that
        are gone; both are None for a dry run.

        Raises:
            OptionsUnusable: if its options have errors, or do not suit its guests.
            ComputeError, OpenStackError: if a file, the ledger or libvirt cannot be used.
        """
        options = self._options
        machine = self._machine()
        self._make_folder()
        conf = read_nova_conf(options.conf_files) if options.conf_files else None
        stated = HostOptions() if conf is None else HostOptions.of(conf.values)
        facts = HostFacts.of(machine)
        settings = check_options(stated, facts, compat=options.compat).settings
        following = self._follow(machine, settings, reporter, now)
        records = self._records(offers)
        guests = tuple(record.hosted(uuid) for uuid, record in records.items())
        checked = check_options(stated, facts, guests, options.compat)
        if checked.settings is None:
            first, *rest = checked.errors
            lines = [str(first), *(f"{each.reason}: {each}" for each in rest)]
            raise OptionsUnusable("\n".join(lines), first.reason)
        nova_cpus = nova_cpus_in(options.beside_nova, options.name, machine)
        if not options.checks_only:
            refuse_cpus_of_nova(options.name, checked.settings, nova_cpus)
        self._keep(machine, conf, nova_cpus)
        others = _standalone(machine, conf, options.disk_gb) if options.standalone else {}
        return HostState(
            Offering(options.name, machine, checked.settings, guests, MappingProxyType(others)),
            checked.warnings,
            tuple(self._changes),
            conflicts=conflicts_of(records),
            **following,
        )

    def _make_folder(self) -> None:
        folder = self._options.state_dir
        if folder is None or self._options.dry_run:
            return
        try:
            folder.mkdir(mode=0o750, parents=True, exist_ok=True)
        except OSError as error:
            raise FileUnusable(f"{folder} cannot be made: {error.strerror}") from error

    def mark_reported(self) -> None:
        """End a pass: leave the time for schedulers, which send no guest to a host that is silent.

        Raises:
            FileUnusable: if the file cannot be written.
        """
        self._changes.clear()
        folder = self._options.state_dir
        if folder is None or self._options.dry_run:
            return
        try:
            (folder / REPORTED).touch()
        except OSError as error:
            raise FileUnusable(f"{folder / REPORTED} cannot be written: {error.strerror}") from error

    def note(self, provider: str, consumers: Iterable[Consumer]) -> None:
        """Record in the ledger which guests hold PCPU after an upgrade, as these consumers do.

        Raises:
            LedgerUnusable: if it cannot be written.
        """
        if self._ledger is not None:
            note_moves(self._ledger, provider, consumers)

    def _machine(self) -> Host:
        options = self._options
        if options.topology is not None:
            return read_machine_file(options.topology)
        host = read_machine(options.root).host
        if not host.topology.threads:
            raise FileUnusable(f"no CPU is online below {options.root}")
        return host

    def _follow(
        self, machine: Host, settings: HostSettings | None, reporter: Reporter | None, now: float
    ) -> dict[str, Any]:
        """Have the ledger follow the domains; return what the state says of them."""
        options = self._options
        if options.libvirt is None or self._ledger is None or reporter is None:
            return {}
        journal = journal_of(self._ledger.path)
        refused: dict[str, str] = {}
        try:
            # Connected before the lock is taken: a libvirt that hangs does not keep it from the commands.
            with connected(options.libvirt) as libvirt, self._ledger.changing() as change:
                domains = libvirt.domains()
                if options.apply and settings is not None:
                    host = ComputeHost(options.name, machine, settings, self._ledger)
                    refused = self._apply(libvirt, host, change, journal, domains)
                    domains = libvirt.domains()
                unfinished = journal.unfinished()
                if options.beside_nova and options.config and settings is not None:
                    domains = tuple(each for each in domains if _concerns(each, settings))
                followed = follow(
                    change.host.guests,
                    domains,
                    machine,
                    shared=CPUSet() if settings is None else settings.shared - settings.pinnable,
                    since=self._since,
                    now=now,
                    grace=options.grace,
                    busy={*refused, *unfinished},
                )
                change.write(followed.guests)
                self._changes += followed.entered
                self._since = followed.since
                kept = {each.guest: self._returned(change, each, reporter) for each in followed.returned}
        except LibvirtError:
            self._since = {}  # they may have been gone meanwhile
            raise
        return {
            "unapplied": followed.unapplied,
            "refused": refused,
            "unfinished": unfinished,
            "kept": {guest: why for guest, why in kept.items() if why},
        }

    def _apply(
        self,
        libvirt: Libvirt,
        host: ComputeHost,
        change: Change,
        journal: ApplyJournal,
        domains: Iterable[Domain],
    ) -> dict[str, str]:
        """Write chosen CPUs into the domains that never had them; return why some cannot be written."""
        refused: dict[str, str] = {}
        unfinished = journal.unfinished()
        for domain in domains:
            record = change.host.guests.get(domain.uuid)
            if record is None or record.state is GuestState.CLAIMING:
                continue
            if record.applied and domain.uuid not in unfinished:
                continue
            try:
                done = apply_locked(libvirt, host, domain.uuid, journal, change)
            except LibvirtError as error:
                refused[domain.uuid] = str(error)
                continue
            if done.changes:
                self._changes.append(
                    LedgerChange(
                        domain.uuid, LedgerChangeKind.APPLIED, record, change.host.guests[domain.uuid]
                    )
                )
        return refused

    def _returned(self, change: Change, returned: LedgerChange, reporter: Reporter) -> str | None:
        """Release what a guest gives back, in Placement, then in the ledger; or say why it keeps it."""
        guests = dict(change.host.guests)
        if returned.after is None:
            reporter.give_back(self._options.name, returned.guest)
            del guests[returned.guest]
        else:
            refused = reporter.share(self._options.name, returned.guest, returned.fewer)
            if refused is not None:
                return refused
            guests[returned.guest] = returned.after
        change.write(guests)
        self._changes.append(returned)
        return None

    def _records(self, offers: Offers | None) -> Guests:
        if self._ledger is None:
            return {}
        if offers is not None:
            with self._ledger.changing() as change:
                settle(change, offers)
        return self._ledger.read().guests

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
        if not _MEBIBYTES.fullmatch(text):
            why = "write a whole number of MiB, such as 512"
            raise FileUnusable(f"[DEFAULT] reserved_host_memory_mb = {text[:_SHOWN]}: {why}")
        total = machine.memory_total // _MIB
        others[MEMORY_MB] = Inventory(total, total, min(int(text), total))
    if disk_gb:
        others[DISK_GB] = Inventory(disk_gb, disk_gb)
    return others
