"""The ledger's CPUs written into domains, and taken back from them.

A guest's domain is written with its ledger locked, so the agent never sees it half done. Each write is in the
journal (``applied.json`` beside the ledger) before the first call to libvirt, with the value that was there
before, and is read back when all calls were made.

- libvirt refuses a call: the calls before it are taken back, and the journal is as it was.
- libvirt or this program dies in between: the entry stays ``unfinished``. Whoever applies the guest next
  finishes it, since every write states the whole value; ``undo`` takes it back. Until then the ledger does
  not follow that domain. The entry ends with the guest if the domain is gone.
- ``undo`` restores what was there before the first write. A setting that somebody else has changed since
  stays as it is, and is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec
from msgspec.structs import replace

from corewise.topology import CPUSet
from corewise.vocabulary.errors import UNREADABLE, unreadable_text
from corewise_openstack.compute.errors import GuestUnknown, JournalUnusable
from corewise_openstack.compute.hosts import ComputeHost, tuning_of
from corewise_openstack.compute.ledger import Change, GuestState, put
from corewise_openstack.openstack.errors import LibvirtError
from corewise_openstack.openstack.libvirt import Libvirt
from corewise_openstack.openstack.libvirt_pins import DomainChange, DomainSettings

JOURNAL = "applied.json"


class AppliedGuest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The changes written into a guest's domain. ``unfinished``: perhaps not all of them were."""

    unfinished: bool
    changes: tuple[DomainChange, ...]


class _Journal(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: int
    guests: dict[str, AppliedGuest]


class ApplyJournal:
    """The journal of one host's domains; whoever changes it holds the ledger's lock."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def read(self) -> Mapping[str, AppliedGuest]:
        """Return the changes written so far, by guest.

        Raises:
            JournalUnusable: if the file is not what was written.
        """
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=_Journal).guests
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise JournalUnusable(f"{self._file} cannot be read: {error.strerror}") from error
        except UNREADABLE as error:
            raise JournalUnusable(f"{self._file} is damaged: {unreadable_text(error)}") from None

    def write(self, guest: str, entry: AppliedGuest | None) -> None:
        """Set what was written into a guest's domain; None or no changes: nothing.

        Raises:
            JournalUnusable: if the file cannot be written; it is then unchanged.
        """
        guests = {uuid: each for uuid, each in self.read().items() if uuid != guest}
        if entry is not None and entry.changes:
            guests[guest] = entry
        text = msgspec.json.format(msgspec.json.encode(_Journal(1, guests)), indent=1)
        try:
            put(self._file, text + b"\n")
        except OSError as error:
            raise JournalUnusable(f"{self._file} cannot be written: {error.strerror}") from error

    def unfinished(self) -> tuple[str, ...]:
        """Return the guests whose domains may be written in part."""
        return tuple(guest for guest, entry in self.read().items() if entry.unfinished)


def journal_of(ledger: Path) -> ApplyJournal:
    """Return the journal beside a ledger."""
    return ApplyJournal(ledger.with_name(JOURNAL))


@dataclass(frozen=True, slots=True)
class AppliedChanges:
    """The changes in a guest's domain, and notes on what cannot change now."""

    guest: str
    changes: tuple[DomainChange, ...]
    notes: tuple[str, ...] = ()


def planned_changes(libvirt: Libvirt, host: ComputeHost, guest: str) -> AppliedChanges:
    """Return the changes that bring a guest's domain to what the ledger has for it.

    Raises:
        GuestUnknown: if the ledger does not have the guest, or its claim is unanswered.
        NUMANodeGone: if the host does not have a NUMA node of the guest.
        DomainGone, LibvirtError: if libvirt has no such domain, or refuses.
    """
    record = host.guests().get(guest)
    if record is None or record.state is GuestState.CLAIMING:
        raise GuestUnknown(f"the ledger of host {host.name} has no guest {guest}")
    tuning = tuning_of(record.cpus, record.pins, host)
    changes, notes = libvirt.differences(guest, tuning, CPUSet.of(host.machine.numa_nodes))
    return AppliedChanges(guest, tuple(changes), tuple(notes))


def apply(libvirt: Libvirt, host: ComputeHost, guest: str, journal: ApplyJournal) -> AppliedChanges:
    """Write a guest's CPUs into its domain, and return what changed; raises as ``apply_locked``."""
    with host.ledger.changing() as change:
        return apply_locked(libvirt, host, guest, journal, change)


def apply_locked(
    libvirt: Libvirt, host: ComputeHost, guest: str, journal: ApplyJournal, change: Change
) -> AppliedChanges:
    """Write a guest's CPUs into its domain, with the ledger of its host locked; return what changed.

    Raises:
        GuestUnknown: if the ledger does not have the guest, or its claim is unanswered.
        NUMANodeGone: if the host does not have a NUMA node of the guest.
        LibvirtError: if libvirt refuses, or has another value afterwards; what was written is taken back, or
            else stays in the journal.
        JournalUnusable, LedgerUnusable: if these cannot be written; the domain is then unchanged.
    """
    planned = planned_changes(libvirt, host, guest)
    _write(libvirt, guest, planned.changes, journal)
    record = change.host.guests[guest]
    change.write({**change.host.guests, guest: replace(record, applied=True)})
    return planned


def _write(libvirt: Libvirt, guest: str, changes: tuple[DomainChange, ...], journal: ApplyJournal) -> None:
    """Write changes of a domain; an earlier write that was broken off is finished with it."""
    before = journal.read().get(guest)
    if not changes and (before is None or not before.unfinished):
        return
    entry = AppliedGuest(unfinished=True, changes=_together(before, changes))
    journal.write(guest, entry)
    try:
        libvirt.write(guest, changes)
        _check(libvirt.settings(guest), guest, changes)
    except LibvirtError:
        with suppress(LibvirtError):
            there = libvirt.settings(guest)
            made = [each for each in changes if there.value(each.kind, each.setting) != each.before]
            libvirt.write(guest, [each.reversed for each in made])
            journal.write(guest, before)
        raise
    journal.write(guest, replace(entry, unfinished=False))


def _together(before: AppliedGuest | None, changes: Iterable[DomainChange]) -> tuple[DomainChange, ...]:
    """Join what was written earlier and what is written now, each with the value before the first write."""
    joined = {(each.kind, each.setting): each for each in (before.changes if before else ())}
    for each in changes:
        earlier = joined.get((each.kind, each.setting))
        ours = earlier is not None and each.before in {earlier.before, earlier.after}
        first = earlier.before if earlier is not None and ours else each.before
        joined[each.kind, each.setting] = DomainChange(each.kind, each.setting, first, each.after)
    return tuple(each for each in joined.values() if each.before != each.after)


def _check(there: DomainSettings, guest: str, changes: Iterable[DomainChange]) -> None:
    for each in changes:
        value = there.value(each.kind, each.setting)
        if value is not None and value != each.after:
            raise LibvirtError(
                f"libvirt took {each.setting} {each.after} of guest {guest} ({each.kind}), and has "
                f"{value or 'none'}"
            )


@dataclass(frozen=True, slots=True)
class UndoneChanges:
    """The settings restored in a guest's domain, and those that stay because somebody else changed them."""

    guest: str
    restored: tuple[DomainChange, ...]
    changed_since: tuple[DomainChange, ...]


def planned_undo(libvirt: Libvirt, _host: ComputeHost, guest: str, journal: ApplyJournal) -> UndoneChanges:
    """Return the settings that an undo would restore.

    Raises:
        GuestUnknown: if nothing was written into the guest's domain.
        DomainGone, LibvirtError: if libvirt has no such domain, or refuses.
    """
    entry = journal.read().get(guest)
    if entry is None:
        raise GuestUnknown(f"the journal has no guest {guest}: nothing was written into its domain")
    there = libvirt.settings(guest)
    restored: list[DomainChange] = []
    since: list[DomainChange] = []
    for each in entry.changes:
        value = there.value(each.kind, each.setting)
        if value == each.after:
            restored.append(each.reversed)
        elif value is not None and value != each.before:
            since.append(DomainChange(each.kind, each.setting, value, each.before))
    return UndoneChanges(guest, tuple(restored), tuple(since))


def undo(libvirt: Libvirt, host: ComputeHost, guest: str, journal: ApplyJournal) -> UndoneChanges:
    """Restore what a guest's domain had before the first write.

    Raises:
        GuestUnknown: if nothing was written into the guest's domain.
        LibvirtError: if libvirt refuses; what is left to restore stays in the journal.
    """
    with host.ledger.changing() as change:
        planned = planned_undo(libvirt, host, guest, journal)
        libvirt.write(guest, planned.restored)
        _check(libvirt.settings(guest), guest, planned.restored)
        journal.write(guest, None)
        record = change.host.guests.get(guest)
        if record is not None:
            change.write({**change.host.guests, guest: replace(record, applied=False)})
    return planned


@dataclass(frozen=True, slots=True)
class DomainExecutor:
    """Carries out what domains need, or only returns it, where ``writes`` is False."""

    writes: bool
    apply: Callable[[Libvirt, ComputeHost, str, ApplyJournal], AppliedChanges]
    undo: Callable[[Libvirt, ComputeHost, str, ApplyJournal], UndoneChanges]


WRITING = DomainExecutor(True, apply, undo)
DRY = DomainExecutor(
    False, lambda libvirt, host, guest, _journal: planned_changes(libvirt, host, guest), planned_undo
)
