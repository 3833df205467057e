"""kill -9 at every point of a change of settings and of restore: the next process ends what the first began.

Real processes, a real journal that also holds quotas, a tree of files that refuses what the kernel refuses.
On the real kernel the same is done in test_real_settings_v1.py.
"""

from __future__ import annotations

import signal
from itertools import count
from pathlib import Path

import pytest

from corewise.actions import Setting, SettingOwner, WriteSetting
from corewise.kernel.cgroups.files import CgroupFiles
from corewise.kernel.cgroups.layout import Version, find_layout
from corewise.kernel.writing.journal import Journal
from corewise.kernel.writing.journaled_writer import Hook, no_fault
from corewise.kernel.writing.quota_writer import QuotaWriter
from corewise.kernel.writing.setting_claims import setting_file
from corewise.kernel.writing.setting_writer import SettingWriter
from kernel.cgroup_trees import KernelRules, bound, dying, killed_child, plain_tree, setting

POD = "/kubepods/besteffort/podx"
ONE, TWO = f"{POD}/one", f"{POD}/two"
VERSIONS = pytest.mark.parametrize("version", Version, ids=lambda version: version.value)
PLANS = {
    "narrow": ("0-3", "0-1", "20", True),
    "elsewhere": ("4-7", "5-6", "30", False),
    "wide": ("0-7", "2-5", "40", True),
}


def wanted(plan: str) -> list[WriteSetting]:
    pod, one, weight, idle = PLANS[plan]
    return [
        setting(POD, Setting.CPUSET, pod),
        setting(ONE, Setting.CPUSET, one),
        setting(ONE, Setting.CPU_WEIGHT, weight, "2"),
        *([setting(ONE, Setting.CPU_IDLE, "1", "0")] if idle else []),
    ]


def intended(version: Version, plan: str) -> list[str]:
    """Return the intended CPU sets of POD, ONE and TWO, and whether ONE is idle and its weight."""
    pod, one, weight, idle = PLANS[plan]
    shown = "3" if version is Version.V1 else "0"
    return [pod, one, pod if version is Version.V1 else "", str(int(idle)), shown if idle else weight]


class Life:
    """A fresh tree and journal for each death."""

    def __init__(self, directory: Path, version: Version, *, limit: int = 1 << 20) -> None:
        plain_tree(directory / "root", version, [ONE, TWO])
        self.files = KernelRules(CgroupFiles(find_layout(directory / "root")))
        self.journal = directory / "journal"
        self.limit = limit
        self.files.write(ONE, setting_file(version, Setting.CPU_WEIGHT), "2")
        with self.opened() as log:
            QuotaWriter(self.files, log, now=lambda: 0.0).apply([bound(ONE, 50_000)])
        self.fresh = self.state()

    def opened(self) -> Journal:
        return Journal.open(self.journal, boot="b", now=lambda: 0.0, limit=self.limit)

    def state(self) -> list[str]:
        sets = [self.files.read(cgroup, "cpuset.cpus") for cgroup in (POD, ONE, TWO)]
        files = [setting_file(self.files.version, each) for each in (Setting.CPU_IDLE, Setting.CPU_WEIGHT)]
        return [*sets, *(self.files.read(ONE, file) for file in files)]

    def bring(self, plan: str, at: Hook = no_fault) -> None:
        with self.opened() as log:
            writer = SettingWriter(self.files, log, now=lambda: 0.0, at=at)
            assert not writer.reconcile(SettingOwner.BATCH, wanted(plan)).failed

    def restore(self, at: Hook = no_fault) -> None:
        with self.opened() as log:
            writer = SettingWriter(self.files, log, now=lambda: 0.0, at=at)
            assert not writer.restore().failed
            assert not writer.held

    def check_restored(self) -> None:
        assert self.state() == self.fresh
        with self.opened() as log:
            assert set(QuotaWriter(self.files, log, now=lambda: 0.0).held) == {ONE}
            assert not SettingWriter(self.files, log, now=lambda: 0.0).held


def bring_dying(life: Life, plan: str, after: int) -> bool:
    """Whether a change that is killed at its point number ``after`` has so many."""
    return killed_child(lambda: life.bring(plan, dying(after))) == signal.SIGKILL


def restore_dying(life: Life, after: int) -> bool:
    return killed_child(lambda: life.restore(dying(after))) == signal.SIGKILL


@VERSIONS
@pytest.mark.parametrize("limit", [1 << 20, 300], ids=["one journal", "a full journal"])
@pytest.mark.parametrize(("before", "after"), [("narrow", "elsewhere"), ("elsewhere", "wide")])
def test_change_killed_anywhere_is_completed_and_undone_next(
    tmp_path: Path, version: Version, limit: int, before: str, after: str
) -> None:
    for deaths in count():
        life = Life(tmp_path / f"{deaths}", version, limit=limit)
        life.bring(before)
        killed = bring_dying(life, after, deaths)
        life.bring(after)
        assert life.state() == intended(version, after)
        life.restore()
        life.check_restored()
        if not killed:
            break
    assert deaths > len(wanted(after)) * 2


@VERSIONS
def test_next_process_can_undo_a_killed_change_immediately(tmp_path: Path, version: Version) -> None:
    for deaths in count():
        life = Life(tmp_path / f"{deaths}", version)
        killed = bring_dying(life, "narrow", deaths)
        life.restore()
        life.check_restored()
        if not killed:
            break
    assert deaths >= len(wanted("narrow")) * 2


@VERSIONS
def test_restore_killed_anywhere_is_completed_by_the_next(tmp_path: Path, version: Version) -> None:
    for deaths in count():
        life = Life(tmp_path / f"{deaths}", version)
        life.bring("elsewhere")
        killed = restore_dying(life, deaths)
        life.restore()
        life.check_restored()
        if not killed:
            break
    assert deaths > len(wanted("elsewhere"))
