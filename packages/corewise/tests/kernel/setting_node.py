"""A tree of an offline pod's cgroups for tests, with the writer of its settings and their journal."""

from __future__ import annotations

from collections.abc import Callable

from corewise.actions import Setting, SettingOwner, WriteSetting
from corewise.kernel.cgroups.layout import Version
from corewise.kernel.writing.journal import MemoryLog
from corewise.kernel.writing.journaled_writer import Point, WriteReport, no_fault
from corewise.kernel.writing.setting_claims import setting_file
from corewise.kernel.writing.setting_writer import SettingWriter
from kernel.cgroup_trees import KernelRules, StoredCgroups

SLICE = "/kubepods/besteffort"
POD = f"{SLICE}/podx"
ONE, TWO = f"{POD}/one", f"{POD}/two"
BATCH, PINNING = SettingOwner


class Node:
    """A tree, its writer and its journal."""

    def __init__(self, version: Version) -> None:
        self.version = version
        self.stored = StoredCgroups(version, [ONE, TWO])
        self.rules = KernelRules(self.stored)
        self.log = MemoryLog()
        self.before_each: Callable[[Point, str], None] = no_fault
        self.writer = self.restarted()

    def restarted(self) -> SettingWriter:
        def at(point: Point, cgroup: str) -> None:
            self.before_each(point, cgroup)

        self.writer = SettingWriter(self.rules, self.log, now=lambda: 12.0, at=at)
        return self.writer

    def file(self, what: Setting) -> str:
        return setting_file(self.version, what)

    def shown(self, what: Setting, *cgroups: str) -> list[str]:
        return [self.stored.contents[cgroup][self.file(what)] for cgroup in cgroups]

    def write(self, cgroup: str, what: Setting, text: str) -> None:
        """Write as somebody else."""
        self.rules.write(cgroup, self.file(what), text)
        self.stored.writes.clear()

    def batch(self, *actions: WriteSetting) -> WriteReport:
        return self.writer.reconcile(BATCH, actions)
