"""Carries out what a pass of the host agent decides; a dry run swaps this for one that writes nothing.

With a libvirt, the ledger follows its domains (:mod:`adoption`): its domains are read and the ledger is
changed under one lock, so nothing that ``compute apply`` writes is seen half done. What a guest gives back is
released in Placement first, then in the ledger, so whatever dies in between, the next pass finishes it.
Files of the host's directory are written only when they have changed, and atomically.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

from corewise.topology import CPUSet, Host
from corewise_openstack.compute.adoption import LedgerChange, LedgerChangeKind, follow
from corewise_openstack.compute.applying import ApplyJournal, apply_locked, journal_of
from corewise_openstack.compute.errors import FileUnusable, NUMANodeGone
from corewise_openstack.compute.hosts import LEDGER, OPTIONS, REPORTED, ComputeHost
from corewise_openstack.compute.ledger import Change, Guests, GuestState, LedgerFile, put
from corewise_openstack.compute.offering import DryReporter, Offering, PlacementWrite
from corewise_openstack.compute.options import ComputeOptions
from corewise_openstack.compute.placement import PlacementOffers, Reporter
from corewise_openstack.compute.scheduling import settle
from corewise_openstack.openstack.errors import LibvirtError
from corewise_openstack.openstack.libvirt import Libvirt, connected
from corewise_openstack.openstack.libvirt_xml import Domain
from corewise_openstack.openstack.placement_client import PlacementClient
from corewise_openstack.openstack.placement_writes import Patience
from corewise_openstack.tracking import HostSettings


@dataclass(frozen=True)
class LedgerState:
    """The guests of a host's ledger, and how their domains differ from it.

    ``changes``: what the domains have changed in it, in all passes since the last that was completed.
    ``unapplied``: guests whose domains do not have the CPUs that were chosen. ``refused``: guest -> why
    libvirt did not take them. ``unfinished``: guests whose domains were written in part. ``kept``: guest ->
    why it could not give back CPUs.
    """

    guests: Guests
    changes: tuple[LedgerChange, ...] = ()
    unapplied: tuple[str, ...] = ()
    refused: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    unfinished: tuple[str, ...] = ()
    kept: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


class PassExecutor(Protocol):
    """Something that carries a pass out; ``writes``: whether the writes that it returns have been made."""

    writes: bool

    def update_ledger(self, machine: Host, settings: HostSettings | None, now: float) -> LedgerState:
        """Have the ledger follow the domains, and settle what dead schedulers left.

        ``settings`` is None if the host's options have errors: then the ledger stays as it is, since nothing
        says which CPUs guests may own.

        Raises:
            ComputeError, OpenStackError: if a file, the ledger, libvirt or Placement cannot be used.
        """

    def carry_out(self, files: Mapping[str, str | None], offering: Offering) -> Sequence[PlacementWrite]:
        """Write the files of the host's directory, and what Placement does not have of a host.

        Raises:
            ComputeError, OpenStackError: if a file or Placement cannot be used.
        """


def executor_of(options: ComputeOptions, client: PlacementClient | None, patience: Patience) -> PassExecutor:
    """Choose the executor: a dry run writes nothing, and a check beside Nova nothing to Placement."""
    ledger = None if options.state_dir is None else LedgerFile(options.state_dir / LEDGER, options.name)
    dry = DryReporter(client, options.compat, of_nova=options.checks_only)
    if options.dry_run or client is None:
        return PlacementExecutor(dry, ledger)
    reporter = dry if options.checks_only else Reporter(client, options.compat, ledger, patience=patience)
    if ledger is None:
        return PlacementExecutor(reporter)
    return HostExecutor(options, ledger, reporter, PlacementOffers(client, patience=patience))


class PlacementExecutor:
    """Leaves the host's directory and its domains as they are; ``reporter`` may write to Placement."""

    def __init__(self, reporter: Reporter | DryReporter, ledger: LedgerFile | None = None) -> None:
        self.writes = reporter.writes
        self._reporter = reporter
        self._ledger = ledger

    def update_ledger(self, machine: Host, settings: HostSettings | None, now: float) -> LedgerState:
        return LedgerState({} if self._ledger is None else self._ledger.read().guests)

    def carry_out(self, files: Mapping[str, str | None], offering: Offering) -> Sequence[PlacementWrite]:
        return self._reporter.report(offering)


class HostExecutor:
    """Writes to a host's directory, its domains and Placement. For one thread at a time."""

    def __init__(
        self,
        options: ComputeOptions,
        ledger: LedgerFile,
        reporter: Reporter | DryReporter,
        offers: PlacementOffers,
    ) -> None:
        self.writes = reporter.writes
        self._options = options
        self._ledger = ledger
        self._folder = ledger.path.parent
        self._reporter = reporter
        self._offers = offers
        self._written: dict[str, str | None] = {}
        self._since: Mapping[str, float] = {}
        self._changes: list[LedgerChange] = []

    def update_ledger(self, machine: Host, settings: HostSettings | None, now: float) -> LedgerState:
        try:
            self._folder.mkdir(mode=0o750, parents=True, exist_ok=True)
        except OSError as error:
            raise FileUnusable(f"{self._folder} cannot be made: {error.strerror}") from error
        uri = self._options.libvirt
        followed = LedgerState({})
        if settings is None:
            self._since = {}  # domains may come back meanwhile
        elif uri is not None:
            followed = self._follow(uri, machine, settings, now)
        with self._ledger.changing() as change:
            settle(change, self._offers)
        return replace(followed, guests=self._ledger.read().guests, changes=tuple(self._changes))

    def carry_out(self, files: Mapping[str, str | None], offering: Offering) -> Sequence[PlacementWrite]:
        # Until Placement has the change, the previous options say why it reserves VCPU.
        late = [OPTIONS] if offering.reserved_by_option else []
        for name in (each for each in files if each not in late):
            self._keep(self._folder / name, files[name])
        writes = self._reporter.report(offering)
        for name in late:
            self._keep(self._folder / name, files[name])
        self._changes.clear()
        reported = self._folder / REPORTED
        try:  # schedulers send no guest to a host that is silent
            reported.touch()
        except OSError as error:
            raise FileUnusable(f"{reported} cannot be written: {error.strerror}") from error
        return writes

    def _keep(self, file: Path, text: str | None) -> None:
        if text is None:
            file.unlink(missing_ok=True)
        elif self._written.get(file.name) != text:
            try:
                put(file, text.encode())
            except OSError as error:
                raise FileUnusable(f"{file} cannot be written: {error.strerror}") from error
        self._written[file.name] = text

    def _follow(self, uri: str, machine: Host, settings: HostSettings, now: float) -> LedgerState:
        """Have the ledger follow the domains of a libvirt."""
        options = self._options
        journal = journal_of(self._ledger.path)
        refused: dict[str, str] = {}
        try:
            # Connected before the lock is taken: a libvirt that hangs does not keep it from the commands.
            with connected(uri) as libvirt, self._ledger.changing() as change:
                domains = libvirt.domains()
                if options.apply:
                    host = ComputeHost(options.name, machine, settings, self._ledger)
                    refused = self._apply(libvirt, host, change, journal, domains)
                    domains = libvirt.domains()
                there = {each.uuid for each in domains}
                unfinished = tuple(each for each in journal.unfinished() if each in there)
                if options.beside_nova and options.config:
                    domains = tuple(each for each in domains if _concerns(each, settings))
                followed = follow(
                    change.host.guests,
                    domains,
                    machine,
                    settings,
                    since=self._since,
                    now=now,
                    grace=options.grace,
                    busy={*refused, *unfinished},
                )
                change.write(followed.guests)
                self._changes += followed.entered
                self._since = followed.since
                kept = {each.guest: self._returned(change, journal, each) for each in followed.returned}
        except LibvirtError:
            self._since = {}  # they may have been gone meanwhile
            raise
        return LedgerState(
            followed.guests,
            unapplied=followed.unapplied,
            refused=refused,
            unfinished=unfinished,
            kept={guest: why for guest, why in kept.items() if why},
        )

    def _apply(
        self,
        libvirt: Libvirt,
        host: ComputeHost,
        change: Change,
        journal: ApplyJournal,
        domains: Iterable[Domain],
    ) -> dict[str, str]:
        """Write chosen CPUs into the domains that never had them; return why some cannot be written.

        A domain that is resized in place gets its CPUs when that is confirmed or reverted.
        """
        refused: dict[str, str] = {}
        unfinished = journal.unfinished()
        for domain in domains:
            record = change.host.guests.get(domain.uuid)
            if record is None or record.state is GuestState.CLAIMING:
                continue
            if record.move is not None and record.move.in_place:
                continue
            if record.applied and domain.uuid not in unfinished:
                continue
            try:
                done = apply_locked(libvirt, host, domain.uuid, journal, change)
            except (LibvirtError, NUMANodeGone) as error:
                refused[domain.uuid] = str(error)
                continue
            if done.changes:
                self._changes.append(
                    LedgerChange(
                        domain.uuid, LedgerChangeKind.APPLIED, record, change.host.guests[domain.uuid]
                    )
                )
        return refused

    def _returned(self, change: Change, journal: ApplyJournal, returned: LedgerChange) -> str | None:
        """Release what a guest gives back, in Placement, then in the ledger; or say why it keeps it.

        The journal of a domain that is gone has nothing left to undo.
        """
        guests = dict(change.host.guests)
        if returned.after is None:
            self._reporter.give_back(self._options.name, returned.guest)
            if returned.guest in journal.read():
                journal.write(returned.guest, None)
            del guests[returned.guest]
        else:
            name, kept, floating = self._options.name, returned.kept, returned.floating
            refused = self._reporter.share(name, returned.guest, kept, floating)
            if refused is not None:
                return refused
            guests[returned.guest] = returned.after
        change.write(guests)
        self._changes.append(returned)
        return None


def _concerns(domain: Domain, settings: HostSettings) -> bool:
    """Whether the ledger has a domain, on a host where Nova has CPUs too: Nova's only if they take ours."""
    ours = settings.dedicated | settings.pinnable
    return not domain.of_nova or not ours.isdisjoint(CPUSet.of(domain.pins.values()))
