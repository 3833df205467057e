"""Enters what is about to happen in the journal, and then lets it happen: one write at a time.

A write that fails the same way as the time before is not entered again, or a node whose cgroups are read-only
would fill its journal with one sentence; once it succeeds it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from enum import StrEnum
from typing import NamedTuple, Protocol, TypeVar

from corewise.kernel.cgroups.files import Files
from corewise.kernel.errors import KernelError
from corewise.kernel.writing.entries import Entry, Failed, Released, Wrote
from corewise.kernel.writing.journal import Log
from corewise.vocabulary.reasons import Reason

ROUNDS = 3
"""How often the order of writes is worked out in one call. Two suffice unless somebody writes meanwhile."""


class Point(StrEnum):
    """Where a fault may strike: a hook is called at each of these, with the cgroup concerned if it is one."""

    READ = "read"
    HELD = "held"
    ENTERED = "entered"
    WRITTEN = "written"
    RELEASED = "released"
    BEGUN_ANEW = "begun-anew"


Hook = Callable[[Point, str], None]


def go_on(_point: Point, _cgroup: str) -> None:
    """Let no fault strike."""


class Writing(NamedTuple):
    """One file of a cgroup, and its text before and after."""

    file: str
    old: str
    new: str


K = TypeVar("K")
K_contra = TypeVar("K_contra", contravariant=True)


class Holding(Protocol[K_contra]):
    """What is held of a cgroup, as the pen needs to know it.

    ``wrote`` has the texts of each file that are ours: what we wrote last, and while it is not known whether
    that happened, what was there before. ``refused`` is the write that failed last. ``entered``: the journal
    knows of it, ``changed``: but not the latest.
    """

    wrote: dict[str, tuple[str, str]]
    refused: Writing | None
    entered: bool
    changed: bool

    def entry(self, key: K_contra, time: float) -> Entry: ...


class Pen:
    """Writes to the journal and to cgroups. ``at`` is called after each thing that may be the last."""

    def __init__(self, files: Files, log: Log, now: Callable[[], float], at: Hook) -> None:
        self._files = files
        self._log = log
        self._now = now
        self._at = at

    @property
    def turn(self) -> AbstractContextManager[object]:
        """Held during a call: all who write one journal take turns."""
        return self._log.turn

    def hold(self, holdings: Mapping[K, Holding[K]]) -> None:
        """Enter what comes back one day."""
        if not holdings:
            return
        time = self._now()
        self._log.append([holding.entry(key, time) for key, holding in holdings.items()])
        for holding in holdings.values():
            holding.entered, holding.changed = True, False
        self._at(Point.HELD, "")

    def write(self, cgroup: str, holding: Holding[K], writing: Writing, reason: Reason, why: str) -> None:
        """Carry out one write.

        Raises:
            KernelError: if the kernel did not take it.
            JournalError: if it could not be entered, and so was not tried.
        """
        again = holding.refused == writing
        entry = Wrote(self._now(), cgroup, *writing, reason, why)
        if not again:
            self._log.append([entry])
            self._at(Point.ENTERED, cgroup)
        try:
            self._files.write(cgroup, writing.file, writing.new)
        except KernelError as error:
            if not again:
                holding.refused = writing
                self._log.append([Failed(self._now(), cgroup, writing.file, writing.new, str(error))])
            raise
        holding.refused = None
        holding.wrote[writing.file] = writing.new, writing.new
        self._at(Point.WRITTEN, cgroup)
        if again:
            self._log.append([entry])

    def release(self, places: Iterable[tuple[str, str]]) -> None:
        """Enter that nothing of these (cgroup, file of a setting or "") is to come back any more."""
        time = self._now()
        entries = [Released(time, cgroup, file) for cgroup, file in places]
        if entries:
            self._log.append(entries)
            self._at(Point.RELEASED, "")

    def begin_anew(self) -> None:
        """Begin a new file of the journal if this one is full.

        Raises:
            JournalError: if it cannot be; the present one goes on.
        """
        if self._log.full:
            self._log.begin_anew()
            self._at(Point.BEGUN_ANEW, "")
