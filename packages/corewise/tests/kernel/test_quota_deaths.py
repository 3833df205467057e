"""kill -9 at every point of a leveled update and of restore: the next process ends what the first began.

Real processes, a real journal, a tree of files that refuses what the kernel refuses. On the real kernel the
same is done in test_real_cgroup_v1.py.
"""

from __future__ import annotations

import signal
from itertools import count
from pathlib import Path

import pytest

from corewise.actions import QuotaOwner, WriteQuota
from corewise.kernel.cgroups.files import CgroupFiles, Files
from corewise.kernel.cgroups.layout import Version, find_layout
from corewise.kernel.cgroups.resources import read_bandwidth, read_burst
from corewise.kernel.writing.journal import Journal
from corewise.kernel.writing.journaled_writer import Hook, no_fault
from corewise.kernel.writing.quota_writer import QuotaWriter
from corewise.quantities import Microseconds
from kernel.cgroup_trees import (
    KernelRules,
    bound,
    divided,
    dying,
    in_order_everywhere,
    killed_child,
    plain_tree,
)
from kernel.cgroup_writes import write_burst, write_quota

POD = "/kubepods/burstable/podx"
BASES = {POD: 300_000, f"{POD}/one": 100_000, f"{POD}/two": 200_000}
BURST = 40_000


def wanted(ratio: int) -> list[WriteQuota]:
    return [bound(cgroup, divided(base, ratio), base) for cgroup, base in BASES.items()]


def as_kubelet_made_it(root: Path, version: Version) -> Files:
    plain_tree(root, version, BASES)
    files = CgroupFiles(find_layout(root))
    for cgroup, base in BASES.items():
        write_quota(files, cgroup, Microseconds(base))
    write_burst(files, f"{POD}/one", Microseconds(BURST))
    return KernelRules(files)


def state(files: Files) -> dict[str, int | None]:
    return {cgroup: read_bandwidth(files, cgroup).quota for cgroup in BASES}


class Life:
    """A fresh tree and journal for each death."""

    def __init__(self, directory: Path, version: Version, *, limit: int = 1 << 20) -> None:
        self.files = as_kubelet_made_it(directory / "root", version)
        self.journal = directory / "journal"
        self.limit = limit

    def update(self, ratio: int, at: Hook = no_fault) -> None:
        with Journal.open(self.journal, boot="b", now=lambda: 0.0, limit=self.limit) as log:
            writer = QuotaWriter(self.files, log, now=lambda: 0.0, at=at)
            writer.reconcile(QuotaOwner.NORMALIZATION, wanted(ratio))

    def restore(self, at: Hook = no_fault) -> None:
        with Journal.open(self.journal, boot="b", now=lambda: 0.0, limit=self.limit) as log:
            writer = QuotaWriter(self.files, log, now=lambda: 0.0, at=at)
            assert not writer.restore().failed
            assert not writer.held

    def check_restored(self) -> None:
        assert state(self.files) == BASES
        assert read_burst(self.files, f"{POD}/one") == BURST


def update_dying(life: Life, ratio: int, after: int) -> bool:
    """Whether an update that is killed at its point number ``after`` has so many."""
    return killed_child(lambda: life.update(ratio, dying(after))) == signal.SIGKILL


def restore_dying(life: Life, after: int) -> bool:
    return killed_child(lambda: life.restore(dying(after))) == signal.SIGKILL


@pytest.mark.parametrize("version", Version, ids=lambda version: version.value)
@pytest.mark.parametrize("limit", [1 << 20, 300], ids=["one journal", "a full journal"])
@pytest.mark.parametrize(("before", "after"), [(100, 200), (200, 120), (200, 100)])
def test_update_killed_anywhere_is_completed_and_undone_next(
    tmp_path: Path, version: Version, limit: int, before: int, after: int
) -> None:
    for deaths in count():
        life = Life(tmp_path / f"{deaths}", version, limit=limit)
        life.update(before)
        killed = update_dying(life, after, deaths)
        assert version is Version.V2 or in_order_everywhere(life.files, BASES)
        life.update(after)
        assert state(life.files) == {cgroup: divided(base, after) for cgroup, base in BASES.items()}
        life.restore()
        life.check_restored()
        if not killed:
            break
    assert deaths > len(BASES) * 2


@pytest.mark.parametrize("version", Version, ids=lambda version: version.value)
def test_restore_killed_anywhere_is_completed_by_the_next(tmp_path: Path, version: Version) -> None:
    for deaths in count():
        life = Life(tmp_path / f"{deaths}", version)
        life.update(150)
        killed = restore_dying(life, deaths)
        life.restore()
        life.check_restored()
        if not killed:
            break
    assert deaths > len(BASES) * 2
