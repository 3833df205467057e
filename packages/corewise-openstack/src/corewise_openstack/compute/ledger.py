"""The ledger of one host on disk: which guest holds which CPU. It changes in one step or not at all.

A guest that shares all its CPUs has no pins. ``withheld`` are threads beside its own that no other guest may
get; ``emulator`` is the CPU of its emulator threads, if it has one of its own.

- A change is written to another file, synced, and renamed to the ledger's name (rename(2)): the ledger is
  complete at every moment, whatever dies. The previous ledger stays beside it, as ``<name>.1``.
- Intent is recorded first: a guest is ``claiming`` from before Placement is asked until its answer is known.
  A writer that finds such a guest later, with the lock held, knows that its scheduler has died.
- The last field is a digest of all the others. A ledger that was cut off, or changed by hand, is refused: it
  might show a CPU as free that a guest holds.
- A writer holds one lock, on a file beside the ledger; the kernel releases it however its holder ends.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final, Protocol, TypeAlias

import msgspec

from corewise.topology import LARGEST_CPU, CPUSet
from corewise.vocabulary.errors import UNREADABLE
from corewise_openstack.compute.errors import LedgerBusy, LedgerDamaged, LedgerUnusable
from corewise_openstack.guest_pinning.ledger import CellPins, GuestPins
from corewise_openstack.tracking import HostedGuest
from corewise_openstack.vocabulary.guests import (
    CPUPolicy,
    EmulatorThreads,
    GuestCPUs,
    GuestNode,
    ThreadPolicy,
)

LARGEST_AMOUNT: Final = 2**31 - 1
"""Placement's largest amount of a resource."""


class GuestState(StrEnum):
    """``claiming``: its CPUs are chosen, and Placement has been or is about to be asked for them."""

    CLAIMING = "claiming"
    HELD = "held"


class MovePhase(StrEnum):
    """How far a move has come (:mod:`corewise_openstack.compute.moving`)."""

    CLAIMED = "claimed"
    MOVED = "moved"
    CONFIRMING = "confirming"
    REVERTING = "reverting"


class MoveRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A move of a guest that is neither confirmed nor reverted.

    ``migration`` is the UUID of the consumer that holds the claim which the guest does not. ``before`` and
    ``after``: what the guest holds in Placement on either side, provider -> class -> amount.
    """

    guest: str
    migration: str
    source: str
    destination: str
    phase: MovePhase
    before: Mapping[str, Mapping[str, int]] = {}
    after: Mapping[str, Mapping[str, int]] = {}

    @property
    def in_place(self) -> bool:
        """Whether the guest stays on its host."""
        return self.source == self.destination


class HostDemands(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The demands of a guest on its host, wherever it moves.

    ``zone``: an availability zone. ``specs``: property of an aggregate -> what its flavor wants there
    (:mod:`~.aggregates`). ``required`` and ``forbidden``: traits.
    """

    zone: str = ""
    specs: Mapping[str, str] = {}
    required: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()

    @property
    def of_aggregates(self) -> bool:
        """Whether only aggregates say which hosts suit."""
        return bool(self.zone or self.specs)


NO_DEMANDS: Final = HostDemands()


class GuestRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One guest. ``resources`` is what it holds of the host's provider, whose uuid is ``provider``.

    ``realtime``: its guest CPUs that run with a realtime scheduling policy. ``applied``: its domain has been
    seen with these CPUs. ``move``: the guest is being moved, and this is one of its two claims. ``demands``:
    which hosts it may be on.
    """

    state: GuestState
    resources: Mapping[str, int]
    vcpus: int
    flavor: str = ""
    provider: str = ""
    cpu_policy: CPUPolicy = CPUPolicy.SHARED
    thread_policy: ThreadPolicy | None = None
    cells: tuple[CellPins, ...] = ()
    emulator: int | None = None
    withheld: tuple[int, ...] = ()
    emulator_threads: EmulatorThreads | None = None
    realtime: tuple[int, ...] = ()
    applied: bool = False
    move: MoveRecord | None = None
    demands: HostDemands = NO_DEMANDS

    @property
    def cpus(self) -> GuestCPUs:
        """The CPUs it was promised."""
        nodes = (
            GuestNode(CPUSet.of((*cell.pins, *cell.floating)), CPUSet.of(cell.pins), cell.memory_mb)
            for cell in self.cells
        )
        return GuestCPUs(
            vcpus=self.vcpus,
            policy=self.cpu_policy,
            thread_policy=self.thread_policy,
            emulator=self.emulator_threads,
            nodes=tuple(nodes),
            realtime=CPUSet.of(self.realtime),
        )

    def impossible_number(self) -> str:
        """Name a number of the record that no machine, guest or Placement has; "" if there is none.

        What is done with CPUs costs as much as their largest number is large.
        """
        if not 1 <= self.vcpus <= LARGEST_CPU + 1:
            return f"vcpus {self.vcpus} is not between 1 and {LARGEST_CPU + 1}"
        numbers: list[tuple[str, Iterable[int], int]] = [
            ("CPU of its emulator threads", () if self.emulator is None else (self.emulator,), LARGEST_CPU),
            ("withheld CPU", self.withheld, LARGEST_CPU),
            ("realtime guest CPU", self.realtime, LARGEST_CPU),
            ("amount", self.resources.values(), LARGEST_AMOUNT),
        ]
        for cell in self.cells:
            numbers += [
                ("NUMA node", (cell.node,), LARGEST_CPU),
                ("guest CPU", (*cell.pins, *cell.floating), LARGEST_CPU),
                ("CPU", cell.pins.values(), LARGEST_CPU),
                ("memory_mb", (cell.memory_mb,), LARGEST_AMOUNT),
            ]
        for held in (self.move.before, self.move.after) if self.move is not None else ():
            numbers += [("amount", amounts.values(), LARGEST_AMOUNT) for amounts in held.values()]
        for what, stated, largest in numbers:
            for number in stated:
                if not 0 <= number <= largest:
                    return f"{what} {number} is not between 0 and {largest}"
        return ""

    @property
    def pins(self) -> GuestPins:
        """Where the guest lies."""
        return GuestPins(self.cells, self.emulator, CPUSet.of(self.withheld))

    def hosted(self, uuid: str) -> HostedGuest:
        """Return the guest as ``tracking`` sees it."""
        pins = self.pins
        emulator = CPUSet() if self.emulator is None else CPUSet.of((self.emulator,))
        shared = self.vcpus - self.cpus.dedicated
        return HostedGuest(uuid, "", pins.cpus, shared, emulator, self.thread_policy)


class GuestClaim(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The share of a host that a guest is to get: CPUs and allocations; ``provider`` is the host's own.

    An agent is sent it as JSON (:mod:`corewise_openstack.compute.ledger_server`). ``allocations`` are empty
    until the guest has a host. ``pack``: on the fullest host and NUMA nodes, not the emptiest. ``demands``
    are kept for when the guest moves. ``project`` and ``user`` own it in Placement.
    """

    guest: str
    cpus: GuestCPUs
    allocations: Mapping[str, Mapping[str, int]]
    provider: str = ""
    flavor: str = ""
    pack: bool = False
    demands: HostDemands = NO_DEMANDS
    project: str | None = None
    user: str | None = None


Guests: TypeAlias = Mapping[str, GuestRecord]
"""Guest's UUID -> its record, in the order in which they came."""


class HostRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All guests of one host."""

    name: str
    guests: Mapping[str, GuestRecord] = {}


def record_of(claim: GuestClaim, pins: GuestPins) -> GuestRecord:
    """Return the ledger entry for a guest that is about to be claimed."""
    guest = claim.cpus
    return GuestRecord(
        state=GuestState.CLAIMING,
        resources=dict(claim.allocations[claim.provider]),
        vcpus=guest.vcpus,
        flavor=claim.flavor,
        provider=claim.provider,
        cpu_policy=guest.policy,
        thread_policy=guest.thread_policy,
        cells=pins.cells,
        emulator=pins.emulator,
        withheld=tuple(pins.withheld),
        emulator_threads=guest.emulator,
        realtime=tuple(guest.realtime),
        demands=claim.demands,
    )


MODE = 0o640


def put(path: Path, text: bytes, *, keep: Path | None = None) -> None:
    """Replace a file's content atomically; ``keep`` is the file that gets the former content.

    Raises:
        OSError: if it fails; the file is then unchanged.
    """
    following = path.with_name(f"{path.name}.next")
    try:
        descriptor = os.open(following, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, MODE)
        with os.fdopen(descriptor, "wb") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        if keep is not None and path.exists():
            keep.unlink(missing_ok=True)
            keep.hardlink_to(path)
        following.replace(path)
        directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
    except OSError:
        with suppress(OSError):
            following.unlink(missing_ok=True)
        raise


VERSION = 1
LONGEST_WAIT = 60.0
"""Seconds that a change waits for the lock; Placement's answer to a claim takes far less."""

_PAUSE = 0.01
_LARGEST = 64 << 20
_ENCODER = msgspec.json.Encoder()


class _Document(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file. ``serial`` counts the changes."""

    version: int
    serial: int
    host: HostRecord
    digest: str


class _RawDocument(msgspec.Struct, frozen=True):
    """The file; the digest is of the host as it is written, so a later version may add fields."""

    host: msgspec.Raw


_DECODER = msgspec.json.Decoder(_Document)
_RAW_DECODER = msgspec.json.Decoder(_RawDocument)
_Mark = tuple[int, int, int, int]
"""Identifies an unchanged file: every change makes another file."""


class LedgerStore(Protocol):
    """Where the ledger of one host is kept."""

    def read(self) -> HostRecord:
        """Return the ledger's record of the host."""

    def changing(self) -> AbstractContextManager[Change]:
        """Lock the ledger; others wait."""


class MemoryLedger:
    """A ledger in memory, for when nothing is recorded on disk."""

    def __init__(self, of: str, guests: Guests | None = None) -> None:
        self._host = HostRecord(of, guests or {})

    def read(self) -> HostRecord:
        """Return the record of the host."""
        return self._host

    @contextmanager
    def changing(self) -> Iterator[Change]:
        """Yield it; there is no other holder."""
        yield Change(self._write, 0, self._host)

    def _write(self, _serial: int, host: HostRecord) -> None:
        self._host = host


class LedgerFile:
    """The ledger of one host. ``of`` is the host's name, for a ledger that does not exist yet."""

    def __init__(self, path: Path, of: str, *, longest_wait: float = LONGEST_WAIT) -> None:
        self.path = path
        self._of = of
        self._longest_wait = longest_wait
        self._name = str(path)
        self._none = _Document(VERSION, 0, HostRecord(of), "")
        self._last: tuple[_Mark, _Document] | None = None

    def read(self) -> HostRecord:
        """Return the ledger's record of the host; without a ledger, no guest holds anything.

        Raises:
            LedgerDamaged: if it is not what was written.
            LedgerUnusable: if it cannot be read.
        """
        return self._document().host

    @contextmanager
    def changing(self) -> Iterator[Change]:
        """Lock the ledger and yield it; others wait.

        Raises:
            LedgerBusy: if another process holds it for too long.
            LedgerDamaged, LedgerUnusable: as ``read``.
        """
        lock = self._locked()
        try:
            document = self._document()
            yield Change(self._write, document.serial, document.host)
        finally:
            os.close(lock)

    def _document(self) -> _Document:
        try:
            now = _mark(self._name)
            if self._last is not None and self._last[0] == now:
                return self._last[1]
            with self.path.open("rb") as file:
                mark = _mark(file.fileno())
                text = file.read(_LARGEST)
        except FileNotFoundError:
            return self._none
        except OSError as error:
            raise _unusable(self.path, "read", error) from error
        document = self._decoded(text)
        written = msgspec.json.format(bytes(_RAW_DECODER.decode(text).host), indent=-1)
        if document.digest != _digest(document.serial, written):
            raise self._damaged("it does not agree with its digest: it was changed, or a part is missing")
        if document.host.name != self._of:
            whose = f"it is the ledger of {document.host.name}, not of {self._of}"
            raise self._damaged(f"{whose}: is the host's name right?")
        self._last = mark, document
        return document

    def _decoded(self, text: bytes) -> _Document:
        try:
            document = _DECODER.decode(text)
        except msgspec.ValidationError as error:
            raise self._damaged(f"it does not hold what a ledger holds: {error}") from None
        except UNREADABLE:
            raise self._damaged(f"it ends or breaks off within its {len(text)} bytes") from None
        if document.version != VERSION:
            raise self._damaged(f"it has version {document.version}, and this program knows {VERSION}")
        return document

    def _damaged(self, why: str) -> LedgerDamaged:
        former = _former(self.path)
        kept = f" (the ledger before the last change is {former.name})" if former.exists() else ""
        hint = (
            f"nothing was changed; put a good copy in its place{kept}, or move it away if the host is empty"
        )
        return LedgerDamaged(f"the ledger {self.path} cannot be used: {why}", hint=hint)

    def _locked(self) -> int:
        path = self.path.with_name(f"{self.path.name}.lock")
        try:
            lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, MODE)
        except OSError as error:
            raise _unusable(path, "opened", error) from error
        end = time.monotonic() + self._longest_wait
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= end:
                    os.close(lock)
                    held = f"{path} has been held by another process for {self._longest_wait:.0f} s"
                    raise LedgerBusy(held) from None
                time.sleep(_PAUSE)
            else:
                return lock

    def _write(self, serial: int, host: HostRecord) -> None:
        """Replace the ledger completely, or leave it as it is. The caller holds the lock."""
        document = _Document(VERSION, serial, host, _digest(serial, _ENCODER.encode(host)))
        text = msgspec.json.format(_ENCODER.encode(document), indent=1)
        try:
            put(self.path, text + b"\n", keep=_former(self.path))
        except OSError as error:
            raise _unusable(self.path, "written", error) from error


@dataclass
class Change:
    """A locked ledger: ``host`` is what it says now."""

    _put: Callable[[int, HostRecord], None]
    _serial: int
    host: HostRecord

    def write(self, guests: Guests) -> None:
        """Write the ledger with these guests.

        Raises:
            LedgerUnusable: if it cannot be written; it is then unchanged.
        """
        changed = msgspec.structs.replace(self.host, guests=guests)
        if changed == self.host:
            return
        self._put(self._serial + 1, changed)
        self._serial, self.host = self._serial + 1, changed


def _digest(serial: int, host: bytes) -> str:
    return "sha256:" + hashlib.sha256(b"[%d,%d,%s]" % (VERSION, serial, host)).hexdigest()


def _former(path: Path) -> Path:
    return path.with_name(f"{path.name}.1")


def _mark(file: int | str) -> _Mark:
    status = os.stat(file)  # noqa: PTH116 - of a path or an open file; a Path would double the time
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _unusable(path: Path, attempt: str, error: OSError) -> LedgerUnusable:
    return LedgerUnusable(f"{path} cannot be {attempt}: {os.strerror(error.errno or 0)}")
