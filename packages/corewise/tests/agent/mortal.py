"""An agent that may die after each write, to a cgroup or to the journal."""

from __future__ import annotations

from collections.abc import Iterable

from corewise.kernel.cgroups.files import Files
from corewise.kernel.writing.entries import Entry
from corewise.kernel.writing.journal import MemoryLog


class Killed(BaseException):
    """The agent is gone from one moment to the next."""


class Fate:
    """Counts down to the death of the agent; each write, and each one announced, may be the last thing it
    does."""

    def __init__(self) -> None:
        self.left: int | None = None

    def strike(self) -> None:
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise Killed


class MortalFiles:
    """Files before and after each write to which the agent may die."""

    def __init__(self, files: Files, fate: Fate) -> None:
        self._files = files
        self._fate = fate
        self.version = files.version
        self.read, self.exists, self.children = files.read, files.exists, files.children

    def write(self, cgroup: str, file: str, text: str) -> None:
        self._fate.strike()
        self._files.write(cgroup, file, text)
        self._fate.strike()


class MortalLog(MemoryLog):
    """A journal after each entry of which the agent may die."""

    def __init__(self, fate: Fate) -> None:
        super().__init__()
        self._fate = fate

    def append(self, entries: Iterable[Entry]) -> None:
        super().append(entries)
        self._fate.strike()
