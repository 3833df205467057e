"""Enters what is about to happen in the journal, and then lets it happen: one write at a time.

A write that fails the same way as the time before is not entered again, or a node whose cgroups are read-only
would fill its journal with one sentence; once it succeeds it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple

from corewise.kernel.cgroups.files import Files
from corewise.kernel.errors import KernelError
from corewise.kernel.quotas.ledger import Hold
from corewise.kernel.writing.entries import Failed, Released, Wrote
from corewise.kernel.writing.journal import Log
from corewise.policy.reasons import Reason


class Point(StrEnum):
    """Where a fault may strike: a hook is called at each of these, with the cgroup concerned if it is one."""

    READ = "read"
    HELD = "held"
    ENTERED = "entered"
    WRITTEN = "written"
    RELEASED = "released"
    BEGUN_ANEW = "begun-anew"


class Writing(NamedTuple):
    """One file of a cgroup, and its text before and after."""

    file: str
    old: str
    new: str


class Pen:
    """Writes to the journal and to cgroups. ``at`` is called after each thing that may be the last."""

    def __init__(
        self, files: Files, log: Log, now: Callable[[], float], at: Callable[[Point, str], None]
    ) -> None:
        self._files = files
        self._log = log
        self._now = now
        self._at = at

    def hold(self, holds: Mapping[str, Hold]) -> None:
        """Enter what comes back one day."""
        if not holds:
            return
        time = self._now()
        self._log.append([hold.entry(cgroup, time) for cgroup, hold in holds.items()])
        for hold in holds.values():
            hold.entered, hold.changed = True, False
        self._at(Point.HELD, "")

    def write(self, cgroup: str, hold: Hold, writing: Writing, reason: Reason, why: str) -> None:
        """Carry out one write.

        Raises:
            KernelError: if the kernel did not take it.
            JournalError: if it could not be entered, and so was not tried.
        """
        again = hold.refused == writing
        entry = Wrote(self._now(), cgroup, *writing, reason, why)
        if not again:
            self._log.append([entry])
            self._at(Point.ENTERED, cgroup)
        try:
            self._files.write(cgroup, writing.file, writing.new)
        except KernelError as error:
            if not again:
                hold.refused = writing
                self._log.append([Failed(self._now(), cgroup, writing.file, writing.new, str(error))])
            raise
        hold.refused = None
        hold.wrote[writing.file] = writing.old, writing.new
        self._at(Point.WRITTEN, cgroup)
        if again:
            self._log.append([entry])

    def release(self, cgroups: Iterable[str]) -> None:
        """Enter that nothing of these is to come back any more."""
        time = self._now()
        entries = [Released(time, cgroup) for cgroup in cgroups]
        if entries:
            self._log.append(entries)
            self._at(Point.RELEASED, "")

    def begin_anew(self, holds: Mapping[str, Hold]) -> None:
        """Begin a new file of the journal if this one is full.

        Raises:
            JournalError: if it cannot be; the present one goes on.
        """
        if not self._log.full:
            return
        time = self._now()
        held = [hold.entry(cgroup, time, anew=True) for cgroup, hold in holds.items() if hold.entered]
        self._log.begin_anew(held)
        self._at(Point.BEGUN_ANEW, "")
