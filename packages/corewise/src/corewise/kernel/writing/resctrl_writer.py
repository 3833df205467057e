"""The one writer of resctrl: it makes one group, sets its schemata, moves tasks into it, and removes it.

The group's name, ``corewise-offline``, says whose it is. Groups of others are never touched.

What comes back is that the group is not there: when it is removed, the kernel moves its tasks to the root
group. So what is entered in the journal is the group, with what the kernel offered it when it was new, and
each change of its schemata; not each task. A group that is there and not in the journal, or whose offer was
not entered any more (a kill in between), is removed and made again: its offer cannot be read again.

A task is a thread; what it forks is in its group from the start. One that has ended meanwhile is no error.
The kernel's own words about a refusal stand in ``info/last_cmd_status``, and become part of the error.

Source: the kernel's Documentation/filesystems/resctrl.rst ("Resource alloc and monitor groups").
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from corewise.kernel.errors import KernelError, Missing, reading_error, writing_error
from corewise.kernel.host_files import HostFiles
from corewise.kernel.resctrl import MOUNT_POINT, NO_GROUPS, ROOT_GROUP, AllocationInfo, read_allocation
from corewise.kernel.writing.entries import HeldGroup, still_held
from corewise.kernel.writing.journal import Log
from corewise.kernel.writing.journaled_writer import (
    Hook,
    JournaledWriter,
    WriteReport,
    Writing,
    Written,
    no_fault,
)
from corewise.vocabulary.findings import Finding
from corewise.vocabulary.reasons import Reason

GROUP = "corewise-offline"
SCHEMATA = "schemata"
DIRECTORY, MADE, NONE = "directory", "made", "none"
"""The group itself in the journal, as a file with two contents."""
_HIDDEN = f"cannot be seen, and {GROUP} may be in it: run corewise agent restore on the node itself"

Cause = tuple[Reason, str]


class GroupFiles(Protocol):
    """A mounted resctrl; errors are :class:`KernelError`. Groups go by their names, "" is the root."""

    def allocation(self) -> AllocationInfo | Finding: ...

    def groups(self) -> frozenset[str]: ...

    def read(self, group: str, file: str) -> str: ...

    def write(self, cgroup: str, file: str, text: str) -> None: ...

    def move(self, group: str, tasks: Iterable[int]) -> int: ...


class ResctrlFiles:
    """The files of resctrl below a root directory."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._mount = root / MOUNT_POINT

    def allocation(self) -> AllocationInfo | Finding:
        """Return the resources that can be limited; a Finding if there is no resctrl."""
        return read_allocation(HostFiles(self._root))

    def groups(self) -> frozenset[str]:
        """Return the names of all control groups but the root."""
        return frozenset(HostFiles(self._root).directories(MOUNT_POINT)) - NO_GROUPS

    def read(self, group: str, file: str) -> str:
        """Return a file of a group.

        Raises:
            KernelError: if it cannot be read.
        """
        path = self._mount / group / file
        try:
            return path.read_text()
        except OSError as error:
            raise reading_error(str(path), error) from error

    def write(self, cgroup: str, file: str, text: str) -> None:
        """Write one line to a file of a group, or make or remove the group.

        Raises:
            KernelError: with the kernel's own words, if it did not take it.
        """
        group = self._mount / cgroup
        try:
            if file != DIRECTORY:
                _write(group / file, [text])
            elif text == MADE:
                group.mkdir()
            else:
                group.rmdir()
        except OSError as error:
            raise self._error(group / file, error, text) from error

    def move(self, group: str, tasks: Iterable[int]) -> int:
        """Move tasks to a group; return how many there still were.

        Raises:
            KernelError: if the kernel does not take one that is there.
        """
        path = self._mount / group / "tasks"
        try:
            return _write(path, map(str, tasks), passed_over=errno.ESRCH)
        except OSError as error:
            raise self._error(path, error, "a task") from error

    def _error(self, path: Path, error: OSError, value: str) -> KernelError:
        failed = writing_error(str(path), error, value=value)
        status = HostFiles(self._root).text(f"{MOUNT_POINT}/info/last_cmd_status") or "ok"
        if status == "ok":
            return failed
        message = str(failed).removeprefix(f"{failed.path}: ")
        return type(failed)(failed.path, f'{message}; the kernel says "{status}"', code=failed.code)


def _write(path: Path, lines: Iterable[str], *, passed_over: int = 0) -> int:
    """Write each line in a call of its own; return how many were taken."""
    taken = 0
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        for line in lines:
            try:
                os.write(descriptor, f"{line}\n".encode())
                taken += 1
            except OSError as error:
                if error.errno != passed_over:
                    raise
    finally:
        os.close(descriptor)
    return taken


@dataclass(slots=True)
class GroupClaim:
    """The group. ``base`` are the schemata that the kernel offered it; empty until they were read.

    The rest is as in :class:`JournaledClaim`.
    """

    base: str = ""
    wrote: dict[str, tuple[str, str]] = field(default_factory=dict)
    refused: Writing | None = None
    entered: bool = False
    changed: bool = True

    def entry(self, key: str, time: float) -> HeldGroup:
        return HeldGroup(time, key, self.base)


class ResctrlWriter:
    """Makes, sets and removes the group. All methods raise KernelError where the kernel does not take it."""

    def __init__(self, files: GroupFiles, log: Log, *, now: Callable[[], float], at: Hook = no_fault) -> None:
        self.files = files
        self._journaled = JournaledWriter(files, log, now, at)
        held = [each for each in still_held(log.entries()) if isinstance(each, HeldGroup)]
        self._claim = GroupClaim(held[-1].base, entered=True, changed=False) if held else None

    @property
    def is_held(self) -> bool:
        """Whether there is something to undo."""
        return self._claim is not None or GROUP in self.files.groups()

    def make(self, cause: Cause, report: WriteReport) -> str:
        """See that the group is there; return the schemata that the kernel offered it when it was new."""
        with self._journaled.turn:
            claim = self._claim = self._claim or GroupClaim()
            if GROUP in self.files.groups():
                if claim.base:
                    return claim.base
                self._put(DIRECTORY, MADE, NONE, (cause[0], "made again: its offer is unknown"), report)
            if claim.base or not claim.entered:
                claim.base = ""
                self._journaled.enter({GROUP: claim})
            self._put(DIRECTORY, NONE, MADE, cause, report)
            claim.base = self.files.read(GROUP, SCHEMATA)
            self._journaled.enter({GROUP: claim})
            return claim.base

    def set_line(self, old: str, new: str, cause: Cause, report: WriteReport) -> None:
        """Bring one resource of the group from an old line of schemata to a new one."""
        with self._journaled.turn:
            self._put(SCHEMATA, old, new, cause, report)

    def tasks(self) -> frozenset[int]:
        """Return the tasks in the group."""
        return frozenset(map(int, self.files.read(GROUP, "tasks").split()))

    def move_in(self, tasks: Iterable[int]) -> int:
        return self.files.move(GROUP, tasks)

    def move_out(self, tasks: Iterable[int]) -> int:
        return self.files.move(ROOT_GROUP, tasks)

    def remove(self, why: str, report: WriteReport) -> None:
        """Remove the group, if it is there, and forget it; the kernel moves its tasks to the root group.

        Raises:
            Missing: if the group was made in this boot and no resctrl is visible, so it may still be there.
        """
        with self._journaled.turn:
            if GROUP in self.files.groups():
                with suppress(Missing):
                    self._put(DIRECTORY, MADE, NONE, (Reason.RESCTRL_RELEASED, why), report)
            elif self._claim is not None and self._claim.entered and self._is_hidden():
                raise Missing(MOUNT_POINT, _HIDDEN)
            if self._claim is not None and self._claim.entered:
                self._journaled.release([(GROUP, "")])
            self._claim = None
            self._journaled.begin_anew(report)

    def restore(self) -> WriteReport:
        """Remove the group; a second call does nothing."""
        report = WriteReport()
        try:
            if self.is_held:
                self.remove("restored", report)
        except KernelError as error:
            report.failed[error.path] = error
        return report

    def _is_hidden(self) -> bool:
        """Whether this process sees none of resctrl: where it is only not mounted, its directory is there."""
        absent = self.files.allocation()
        return isinstance(absent, Finding) and absent.reason is Reason.RESCTRL_UNSUPPORTED

    def _put(self, file: str, old: str, new: str, cause: Cause, report: WriteReport) -> None:
        claim = self._claim or GroupClaim()
        written: Written = self._journaled.write(GROUP, claim, Writing(file, old, new), cause)
        report.written.append(written)
