"""Enters each write in the journal and then carries it out: one at a time; and reports what was done.

A write that fails the same way as the time before is not entered again, or a node whose cgroups are read-only
would fill its journal with one sentence; once it succeeds it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Protocol, TypeVar

from corewise.kernel.errors import JournalError, KernelError
from corewise.kernel.writing.entries import Entry, Failed, Released, Wrote
from corewise.kernel.writing.journal import Log
from corewise.quantities import Microseconds
from corewise.vocabulary.reasons import Reason

ROUNDS = 3
"""The most times one call computes the order of writes. Two suffice unless somebody writes meanwhile."""


class Writing(NamedTuple):
    """A change of one file of a cgroup: its text before and after."""

    file: str
    old: str
    new: str


class Written(NamedTuple):
    """One write that the kernel took."""

    cgroup: str
    file: str
    old: str
    new: str


@dataclass(slots=True)
class WriteReport:
    """The outcome of one call of a writer.

    ``drifted`` is what somebody else had changed and what was put right. ``gone`` are cgroups that no longer
    exist (or not yet). ``failed`` is left as it is until the next call. Both go by cgroup for quotas, and by
    file ("/kubepods/…/cpu.weight") for settings, and in ``failed`` the journal by its path. For
    ``foreign_periods``, quotas were scaled to the period found; whoever bounds them computes them exactly and
    calls again.
    """

    written: list[Written] = field(default_factory=list)
    drifted: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    failed: dict[str, KernelError] = field(default_factory=dict)
    foreign_periods: dict[str, Microseconds] = field(default_factory=dict)
    examined: int = 0
    refused: int = 0

    def add(self, other: WriteReport) -> None:
        self.written += other.written
        self.drifted += other.drifted
        self.gone += [cgroup for cgroup in other.gone if cgroup not in self.gone]
        self.failed |= other.failed
        self.foreign_periods |= other.foreign_periods
        self.examined += other.examined
        self.refused += other.refused

    def counts(self) -> dict[str, int]:
        """Return the number of entries of each kind, for totals. ``refused``: EINVAL, resolved or not."""
        return {
            "written": len(self.written),
            "drifted": len(self.drifted),
            "gone": len(self.gone),
            "failed": len(self.failed),
            "refused": self.refused,
        }


class Point(StrEnum):
    """The points at which tests inject faults: a hook is called at each, with the cgroup if there is one."""

    READ = "read"
    HELD = "held"
    ENTERED = "entered"
    WRITTEN = "written"
    RELEASED = "released"
    BEGUN_ANEW = "begun-anew"


Hook = Callable[[Point, str], None]


def no_fault(_point: Point, _cgroup: str) -> None:
    """Let no fault strike."""


K = TypeVar("K")
K_contra = TypeVar("K_contra", contravariant=True)


class JournaledClaim(Protocol[K_contra]):
    """The parts of a claim to a cgroup's quota or setting that the journal needs.

    ``wrote`` has the texts of each file that are ours: what we wrote last, and while it is not known whether
    that happened, what was there before. ``refused`` is the write that failed last. ``entered``: the claim is
    in the journal; ``changed``: it has changed since.
    """

    wrote: dict[str, tuple[str, str]]
    refused: Writing | None
    entered: bool
    changed: bool

    def entry(self, key: K_contra, time: float) -> Entry: ...


class WritableFiles(Protocol):
    """The files that the writer writes: of cgroups or of resctrl groups; errors are :class:`KernelError`."""

    def write(self, cgroup: str, file: str, text: str) -> None: ...


class JournaledWriter:
    """Writes to the journal and to cgroups. ``at`` is called after each thing that may be the last."""

    def __init__(self, files: WritableFiles, log: Log, now: Callable[[], float], at: Hook) -> None:
        self._files = files
        self._log = log
        self._now = now
        self._at = at

    @property
    def turn(self) -> AbstractContextManager[object]:
        """Held during a call: all who write one journal take turns."""
        return self._log.turn

    def enter(self, claims: Mapping[K, JournaledClaim[K]]) -> None:
        """Enter what is to be restored one day."""
        if not claims:
            return
        time = self._now()
        self._log.append([claim.entry(key, time) for key, claim in claims.items()])
        for claim in claims.values():
            claim.entered, claim.changed = True, False
        self._at(Point.HELD, "")

    def write(
        self, cgroup: str, claim: JournaledClaim[K], writing: Writing, cause: tuple[Reason, str]
    ) -> Written:
        """Carry out one write, for a reason and with its explanation.

        Raises:
            KernelError: if the kernel did not take it.
            JournalError: if it could not be entered, and so was not tried.
        """
        again = claim.refused == writing
        entry = Wrote(self._now(), cgroup, *writing, *cause)
        if not again:
            self._log.append([entry])
            self._at(Point.ENTERED, cgroup)
        try:
            self._files.write(cgroup, writing.file, writing.new)
        except KernelError as error:
            if not again:
                claim.refused = writing
                self._log.append([Failed(self._now(), cgroup, writing.file, writing.new, str(error))])
            raise
        claim.refused = None
        claim.wrote[writing.file] = writing.new, writing.new
        self._at(Point.WRITTEN, cgroup)
        if again:
            self._log.append([entry])
        return Written(cgroup, *writing)

    def take_back(self, claim: JournaledClaim[K], done: Sequence[Written]) -> None:
        """Undo writes whose step cannot be entered to its end; their own entries state both texts.

        Raises:
            KernelError: if the kernel did not take it.
        """
        for each in reversed(done):
            self._files.write(each.cgroup, each.file, each.old)
            claim.wrote[each.file] = each.old, each.new

    def release(self, places: Iterable[tuple[str, str]]) -> None:
        """Enter that nothing of these (cgroup, file of a setting or "") is to be restored any more."""
        time = self._now()
        entries = [Released(time, cgroup, file) for cgroup, file in places]
        if entries:
            self._log.append(entries)
            self._at(Point.RELEASED, "")

    def begin_anew(self, report: WriteReport) -> None:
        """Begin a new file of the journal if this one is full; if that fails, the present one goes on."""
        if not self._log.full:
            return
        try:
            self._log.begin_anew()
        except JournalError as error:
            report.failed[error.path] = error
        else:
            self._at(Point.BEGUN_ANEW, "")
