"""kubelet's cgroups on one node, with the writers of what limits their tasks; and the way back.

The cgroups are looked for until they are found: an agent may start before kubelet has made them, and a
simulated node may have none yet.

:func:`restore` puts back what was in cgroups from the journal alone; it asks no API server, agent or runtime.
The journal holds what agents have bounded or set in this boot and not released: quotas, weights, CPU sets,
memory limits, the resctrl group of offline pods. Each is written back to its base. An agent that runs
meanwhile would do it all again, and holds the journal: stop it first.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from corewise.actions import QuotaOwner, WriteQuota
from corewise.kernel.cgroups.files import CgroupFiles, Files
from corewise.kernel.cgroups.idle import IdleCgroup
from corewise.kernel.cgroups.layout import (
    Layout,
    PodCgroups,
    QOSClass,
    Version,
    find_layout,
    find_pod_cgroups,
)
from corewise.kernel.errors import KernelError, UnsafeName
from corewise.kernel.host_files import read_boot_id
from corewise.kernel.writing.journal import Journal, Log, damage_text
from corewise.kernel.writing.journaled_writer import WriteReport, Written
from corewise.kernel.writing.quota_writer import QuotaWriter
from corewise.kernel.writing.resctrl_writer import GroupFiles, ResctrlFiles, ResctrlWriter
from corewise.kernel.writing.setting_writer import SettingWriter
from corewise.vocabulary.reasons import Reason

Wrap = Callable[[Files], Files]
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Cycle:
    """The result of one cycle of writes to cgroups.

    ``problems`` are sentences by what they are about; ``bound`` counts the cgroups that normalization bounds.
    """

    written: list[Written] = field(default_factory=list)
    drifted: list[str] = field(default_factory=list)
    problems: dict[str, str] = field(default_factory=dict)
    bound: int = 0

    def add(self, report: WriteReport) -> None:
        """Take in what one call of a writer did."""
        self.written += report.written
        self.drifted += report.drifted
        self.problems |= {about: str(error) for about, error in report.failed.items()}

    def merge(self, other: Cycle) -> None:
        """Take in what another part of the cycle did."""
        self.written += other.written
        self.drifted += other.drifted
        self.problems |= other.problems

    @contextmanager
    def noting_errors(self) -> Iterator[None]:
        """Make an error of the kernel one of the problems; the rest of the block is left out."""
        try:
            yield
        except KernelError as error:
            self.problems[error.path] = str(error)


@dataclass(frozen=True, slots=True)
class CgroupSetup:
    """The files, how pods' cgroups are named in them, and who writes quotas, settings and the resctrl group.

    ``resctrl`` is None where there is none to be made, as in a dry run.
    """

    files: Files
    names: PodCgroups
    writer: QuotaWriter
    settings: SettingWriter
    resctrl: ResctrlWriter | None = None

    @property
    def is_v1(self) -> bool:
        return self.files.version is Version.V1

    def held(self, cgroup: str) -> WriteQuota | None:
        """Return the normalization bound of a cgroup, including across restarts; None without one."""
        claim = self.writer.held.get(cgroup)
        bound = claim.bounds.get(QuotaOwner.NORMALIZATION) if claim else None
        if claim is None or bound is None:
            return None
        return claim.causes.get(QuotaOwner.NORMALIZATION) or WriteQuota(
            cgroup=cgroup,
            owner=QuotaOwner.NORMALIZATION,
            quota=bound.quota,
            base=claim.base.quota_over(bound.period),
            period=bound.period,
            reason=Reason.QUOTA_NORMALIZED,
            why="held since before the restart",
        )

    def leave_alone(self, uids: Iterable[str]) -> None:
        """Have nothing written to the cgroups of these pods, and to no others any more."""
        cgroups: set[str] = set()
        for uid in uids:
            with suppress(UnsafeName):
                cgroups |= {self.names.pod(uid, qos) for qos in QOSClass}
        self.writer.untouched = self.settings.untouched = frozenset(cgroups)

    def concerns(self, owner: QuotaOwner) -> bool:
        """Whether an owner that wants nothing has something to see to: its own bounds, or an unfinished end.

        An end that was cut short leaves nothing but cgroups that are held without a bound.
        """
        return any(owner in claim.bounds or not claim.bounds for claim in self.writer.held.values())

    def bounded_by(self, owner: QuotaOwner) -> frozenset[str]:
        return frozenset(cgroup for cgroup, claim in self.writer.held.items() if owner in claim.bounds)


class NodeCgroups:
    """The cgroups below a root. ``wrap`` may stand between them and who uses them, as a dry run does.

    ``groups`` are the resctrl groups; None: the agent makes none.
    """

    def __init__(
        self,
        root: Path,
        cgroup_root: str,
        log: Log,
        *,
        now: Callable[[], float],
        wrap: Wrap = lambda files: files,
        groups: GroupFiles | None = None,
    ) -> None:
        self._root = root
        self._cgroup_root = cgroup_root
        self._log = log
        self._now = now
        self._wrap = wrap
        self._groups = groups
        self._kernel_files: CgroupFiles | None = None
        self.unified: CgroupFiles | None = None
        self._found: CgroupSetup | None = None

    def find(self) -> CgroupSetup:
        """Return the cgroups.

        Raises:
            KernelError: if they are not there, or not yet.
        """
        if self._found is None:
            if self._kernel_files is None:
                layout = find_layout(self._root)
                self._kernel_files = CgroupFiles(layout)
                if layout.hybrid and layout.unified is not None:
                    self.unified = CgroupFiles(Layout(Version.V2, {"cpu": layout.unified}))
                elif layout.version is Version.V2:
                    self.unified = self._kernel_files
            names = find_pod_cgroups(self._kernel_files, self._cgroup_root)
            files = self._wrap(self._kernel_files)
            quotas = QuotaWriter(files, self._log, now=self._now)
            settings = SettingWriter(files, self._log, now=self._now)
            groups = self._groups
            resctrl = None if groups is None else ResctrlWriter(groups, self._log, now=self._now)
            self._found = CgroupSetup(files, names, quotas, settings, resctrl)
        return self._found

    @property
    def found(self) -> CgroupSetup | None:
        return self._found

    def close_vanished(self) -> None:
        """Close the files of cgroups that were removed, also of those that are no longer read."""
        for files in self._opened:
            files.close_vanished()

    def close(self) -> None:
        """Close all files; the next use opens them again."""
        for files in self._opened:
            files.close()

    @property
    def _opened(self) -> set[CgroupFiles]:
        """All files: where v1 serves the CPU, those of a unified hierarchy beside it are others."""
        return {files for files in (self._kernel_files, self.unified) if files is not None}


def restore(root: Path, state_dir: Path, *, warn: Callable[[str], object] = _log.warning) -> WriteReport:
    """Put everything back that the journal in ``state_dir`` holds; ``warn`` gets what is damaged in it.

    Raises:
        KernelError: if the journal is held or cannot be used, or there are no cgroups.
    """
    layout = find_layout(root)
    IdleCgroup(layout).remove()  # an agent that was killed leaves it, empty
    with (
        CgroupFiles(layout) as files,
        Journal.open(state_dir, boot=read_boot_id(root), now=time.time) as journal,
    ):
        if damaged := journal.damage():
            warn(damage_text(damaged))
        report = QuotaWriter(files, journal, now=time.time).restore()
        report.add(SettingWriter(files, journal, now=time.time).restore())
        report.add(ResctrlWriter(ResctrlFiles(root), journal, now=time.time).restore())
        return report
