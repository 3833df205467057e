"""Cgroup files of which a dry run makes believe that they were written."""

from __future__ import annotations

from corewise.kernel.cgroups.files import Files
from corewise.kernel.cgroups.layout import Version


class Rehearsal:
    """Reads what is there, or what would be there by now."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._written: dict[tuple[str, str], str] = {}

    @property
    def version(self) -> Version:
        return self._files.version

    def read(self, cgroup: str, file: str) -> str:
        found = self._files.read(cgroup, file)
        return self._written.get((cgroup, file), found)

    def write(self, cgroup: str, file: str, text: str) -> None:
        before = self.read(cgroup, file)
        kept_period = before.partition(" ")[2] if file == "cpu.max" else ""
        self._written[cgroup, file] = f"{text} {kept_period}".rstrip()

    def exists(self, cgroup: str) -> bool:
        return self._files.exists(cgroup)

    def children(self, cgroup: str) -> tuple[str, ...]:
        return self._files.children(cgroup)
