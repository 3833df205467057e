"""Watches marked files: which are rewritten, by whom, and after how long."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from corewise.kernel.cgroups.files import CgroupFiles, depth
from corewise.kernel.cgroups.layout import Layout
from corewise.kernel.errors import KernelError
from corewise.kube.clock import Clock
from experiments.kubelet_rewrites.marks import (
    Machine,
    Watched,
    WatchedCgroup,
    bottom_up,
    files_of,
    mark_of,
    read_or_none,
)
from experiments.kubelet_rewrites.writers import Writers

LOOK_EVERY = 0.05
"""Seconds; so exact is the time of a rewrite."""
_RECENT = 1.0
"""Seconds before a rewrite is seen in which its writer has written."""


class Rewrite(msgspec.Struct, frozen=True, omit_defaults=True):
    """One file that was marked and then had another value.

    ``after``: seconds since the step began. ``by``: the process that wrote it; "" if that is not known.
    ``new``: the cgroup is a new one, with this value from the start.
    """

    cgroup: str
    file: str
    mark: str
    value: str
    after: float
    by: str = ""
    new: bool = False


class Observer:
    """Marks files, and finds rewrites of them; a rewritten file is marked again."""

    def __init__(
        self, layout: Layout, files: CgroupFiles, machine: Machine, writers: Writers, clock: Clock
    ) -> None:
        self._layout = layout
        self._files = files
        self._machine = machine
        self._writers = writers
        self._clock = clock
        self._watched: list[Watched] = []
        self._originals: dict[Watched, str] = {}
        self._marks: dict[Watched, str] = {}
        self.unmarked: dict[tuple[str, str], str] = {}
        """The reasons that files have no mark."""

    @property
    def marked(self) -> set[tuple[str, str]]:
        """Return the files that have a mark."""
        return {watched.key for watched in self._marks}

    def follow(self, cgroups: Iterable[WatchedCgroup]) -> list[Watched]:
        """Watch these cgroups from now on; return the files that are new, with their originals read."""
        watched = [each for cgroup in cgroups for each in files_of(cgroup, self._machine.version)]
        new = [each for each in watched if each not in self._watched]
        self._watched = bottom_up(watched)
        for gone in set(self._originals) - set(watched):
            self._originals.pop(gone)
            self._marks.pop(gone, None)
        for each in new:
            original = read_or_none(self._files, each)
            if original is None:
                self.unmarked[each.key] = "the kernel has no such file"
            else:
                self._originals[each] = original
        return new

    def original(self, watched: Watched) -> str | None:
        """Return the value that kubelet last gave a file."""
        return self._originals.get(watched)

    def mark(self) -> None:
        """Give each watched file its mark, children first."""
        for watched in self._watched:
            if watched in self._originals:
                self._mark(watched)

    def _mark(self, watched: Watched) -> None:
        try:
            mark = mark_of(watched, self._originals[watched], self._files, self._machine)
            if mark is None:
                self.unmarked[watched.key] = "this machine has one CPU"
                return
            if self._files.read(watched.cgroup.path, watched.file) != mark:
                self._files.write(watched.cgroup.path, watched.file, mark)
            # the kernel may show another value than was written
            self._marks[watched] = self._files.read(watched.cgroup.path, watched.file)
            self.unmarked.pop(watched.key, None)
        except (KernelError, ValueError) as error:
            self._marks.pop(watched, None)
            self.unmarked[watched.key] = str(error)

    async def watch(self, seconds: float, is_over: Callable[[], bool]) -> list[Rewrite]:
        """Look for so long, and until what was begun is over; return the rewrites in their order."""
        began, found = self._clock.monotonic(), []
        while self._clock.monotonic() - began < seconds or not is_over():
            await self._clock.sleep(LOOK_EVERY)
            found += self._look(began)
        return found

    def _look(self, began: float) -> list[Rewrite]:
        found = []
        for watched, mark in list(self._marks.items()):
            value = read_or_none(self._files, watched)
            if value is None or value == mark:
                continue
            now = self._clock.monotonic()
            about, file = watched.key
            writer = self._writer(watched, now)
            found.append(Rewrite(about, file, mark, value, round(now - began, 2), writer))
            self._originals[watched] = value
        for watched in bottom_up([each for each in self._marks if self._is_original(each, found)]):
            self._mark(watched)
        return found

    def _is_original(self, watched: Watched, found: list[Rewrite]) -> bool:
        return any((each.cgroup, each.file) == watched.key for each in found)

    def _writer(self, watched: Watched, now: float) -> str:
        controller = watched.file.partition(".")[0]
        path = Path(f"{self._layout.mounts[controller]}/{watched.cgroup.path}/{watched.file}")
        write = self._writers.last(str(path))
        return write.process if write is not None and now - write.when < _RECENT else ""

    def restore(self) -> list[str]:
        """Give each file back what kubelet last gave it, parents first; return what could not be written."""
        failed = []
        for watched, original in sorted(self._originals.items(), key=lambda item: depth(item[0].cgroup.path)):
            if read_or_none(self._files, watched) in {None, original}:
                continue
            try:
                self._files.write(watched.cgroup.path, watched.file, original)
            except KernelError as error:
                failed.append(str(error))
        return failed
