"""Many groups of events, opened together and asked what they have counted since the last time."""

from __future__ import annotations

from collections.abc import Hashable, KeysView, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Generic, TypeVar

from corewise.kernel.absence import Absent
from corewise.kernel.perf.event import PerfEvent
from corewise.kernel.perf.reading import GroupReading, growth, reading_size
from corewise.kernel.perf.system import MISSING, Perf, absence

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Events to be counted together on one CPU."""

    cpu: int
    events: tuple[PerfEvent, ...]


class Group:
    """One group that counts."""

    def __init__(self, perf: Perf, wanted: Wanted) -> None:
        """Begin to count.

        Raises:
            OSError: if the kernel does not, with nothing left open.
        """
        self._perf = perf
        self._fds: list[int] = []
        try:
            for event in wanted.events:
                self._fds.append(perf.open(event, wanted.cpu, self._fds[0] if self._fds else -1))
        except OSError:
            self.close()
            raise
        self._before = self._read()

    def grown(self) -> tuple[int, ...] | None:
        """Return what was counted since the last answer, scaled.

        None: the group did not run, and the next answer has all since the last one; or there is nothing to
        compare with, and the next answer begins here.
        """
        before, after = self._before, self._read()
        if after is None:
            return None
        if before is None or after.is_reset_of(before):
            self._before = after
            return None
        counted = growth(before, after)
        if counted is not None:
            self._before = after
        return counted

    def close(self) -> None:
        """Stop counting."""
        while self._fds:
            with suppress(OSError):
                self._perf.close(self._fds.pop())

    def _read(self) -> GroupReading | None:
        try:
            return GroupReading.parse(self._perf.read(self._fds[0], reading_size(len(self._fds))))
        except (OSError, ValueError):
            return None


class Groups(Generic[K]):
    """Groups that count, by key."""

    def __init__(self, groups: Mapping[K, Group]) -> None:
        self._groups = groups

    @property
    def keys(self) -> KeysView[K]:
        return self._groups.keys()

    def grown(self) -> dict[K, tuple[int, ...]]:
        """Return the growth of every group that has one."""
        grown = ((key, group.grown()) for key, group in self._groups.items())
        return {key: counted for key, counted in grown if counted is not None}

    def close(self) -> None:
        """Stop counting."""
        for group in self._groups.values():
            group.close()


def open_groups(perf: Perf, wanted: Mapping[K, Wanted], what: str) -> Groups[K] | Absent:
    """Begin to count all that is wanted.

    A group that its CPU does not know is left out (an efficiency core, one going offline), unless all are.
    Any other error ends it all: half a machine is no machine.
    """
    groups: dict[K, Group] = {}
    missing: OSError | None = None
    for key, each in wanted.items():
        try:
            groups[key] = Group(perf, each)
        except OSError as error:
            if error.errno not in MISSING:
                Groups(groups).close()
                return absence(error, what)
            missing = missing or error
    if not groups:
        return absence(missing or FileNotFoundError(2, "nothing to count on"), what)
    return Groups(groups)
