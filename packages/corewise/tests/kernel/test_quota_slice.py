"""One quota on the BestEffort slice, stepped as suppression does, while others live in and write to it.

====================================================  =====================================================
what happens                                          what comes of it
====================================================  =====================================================
a child has more than the slice is to have (v1)       narrowed before it, widened with it, also after kill -9
somebody resets the slice, once or every tick         put back at once, counted, also by a later process
somebody resets it to what it had just before         likewise
somebody changes the period                           kept; the same share of time, then exactly
the slice is not there, or comes back                 no failure; bounded when it is there
====================================================  =====================================================
"""

from __future__ import annotations

import signal
from itertools import count
from pathlib import Path

import pytest

from corewise.actions import QuotaOwner, WriteQuota
from corewise.kernel.cgroups.files import CgroupFiles
from corewise.kernel.cgroups.layout import Version, find_layout
from corewise.kernel.cgroups.resources import Bandwidth, quota_file, read_bandwidth
from corewise.kernel.errors import Malformed
from corewise.kernel.writing.entries import Opened
from corewise.kernel.writing.journal import Journal, MemoryLog
from corewise.kernel.writing.journaled_writer import Hook, WriteReport, no_fault
from corewise.kernel.writing.quota_writer import QuotaWriter
from corewise.quantities import Microseconds
from kernel.cgroup_trees import (
    KernelRules,
    StoredCgroups,
    bound,
    dying,
    in_order_everywhere,
    killed_child,
    plain_tree,
)
from kernel.cgroup_writes import write_quota

SLICE = "/kubepods/besteffort"
POD, OTHER = f"{SLICE}/podx", f"{SLICE}/pody"
ONE = f"{POD}/one"
CHILDREN = {POD: 400_000, ONE: 300_000, OTHER: 50_000}
VERSIONS = pytest.mark.parametrize("version", Version, ids=lambda version: version.value)


def suppressed(quota: int, period: int = 100_000, base_period: int | None = None) -> list[WriteQuota]:
    wanted = bound(
        SLICE, quota, owner=QuotaOwner.SUPPRESSION, period=period, base_period=base_period, why="offer"
    )
    return [wanted]


class Node:
    """A slice with children that have quotas of their own, and the agent's writer."""

    def __init__(self, version: Version) -> None:
        self.version = version
        self.stored = StoredCgroups(version, [ONE, OTHER])
        self.rules = KernelRules(self.stored)
        for cgroup, quota in CHILDREN.items():
            write_quota(self.rules, cgroup, Microseconds(quota))
        self.log = MemoryLog()
        self.restart()

    def restart(self) -> None:
        self.log.append([Opened(0.0, "boot")])
        self.writer = QuotaWriter(self.rules, self.log, now=lambda: 0.0)

    def suppress(self, quota: int, period: int = 100_000) -> WriteReport:
        return self.writer.reconcile(QuotaOwner.SUPPRESSION, suppressed(quota, period))

    def period(self, period: int) -> None:
        """Change the period, as systemd does on v2 when it resets the quota."""
        changed = {"cpu.max": f"max {period}"}
        if self.version is Version.V1:
            changed = {"cpu.cfs_period_us": str(period)}
        self.stored.contents[SLICE] |= changed

    def reset(self, quota: int | None = None) -> None:
        """Write as systemd does."""
        write_quota(self.rules, SLICE, None if quota is None else Microseconds(quota))

    @property
    def slice(self) -> Bandwidth:
        return read_bandwidth(self.stored, SLICE)

    def applied(self) -> int | None:
        return self.writer.applied(SLICE, self.slice)

    def quotas(self) -> dict[str, int | None]:
        return {cgroup: read_bandwidth(self.stored, cgroup).quota for cgroup in CHILDREN}


@pytest.fixture(params=Version, ids=lambda version: version.value)
def node(request: pytest.FixtureRequest) -> Node:
    return Node(request.param)


def test_larger_children_follow_slice_where_kernel_requires_it(
    node: Node,
) -> None:
    for quota in (800_000, 350_000, 100_000, 20_000, 100_000, 350_000):
        assert node.suppress(quota).failed == {}
        assert node.slice.quota == quota
        narrowed = {cgroup: min(own, quota) for cgroup, own in CHILDREN.items()}
        assert node.quotas() == (narrowed if node.version is Version.V1 else CHILDREN)
        node.restart()
    assert node.writer.reconcile(QuotaOwner.SUPPRESSION, []).failed == {}
    assert (node.slice.quota, node.quotas()) == (None, CHILDREN)
    assert not node.writer.held


def test_reset_is_undone_at_next_call_and_counted(node: Node) -> None:
    node.suppress(400_000)
    node.suppress(300_000)
    for step in (300_000, 200_000, 250_000):
        node.reset()
        report = node.suppress(step)
        assert (node.slice.quota, report.drifted) == (step, [SLICE])
    assert node.writer.totals["drifted"] == 3
    assert node.suppress(250_000).drifted == []


def test_last_applied_value_survives_foreign_writes_and_restart(node: Node) -> None:
    assert node.applied() is None
    node.suppress(400_000)
    assert node.applied() == 400_000
    node.suppress(300_000)
    for foreign in (400_000, 700_000, None):
        node.reset(foreign)
        assert node.applied() == 300_000
    node.log.begin_anew()
    node.restart()
    assert node.applied() == 300_000
    assert node.suppress(300_000).drifted == [SLICE]
    assert node.applied() == 300_000
    node.writer.reconcile(QuotaOwner.SUPPRESSION, [])
    assert node.applied() is None


def test_reset_to_an_older_value_is_still_reset(node: Node) -> None:
    node.suppress(400_000)
    node.reset()
    assert node.applied() == 400_000
    assert node.suppress(400_000).drifted == [SLICE]


def test_failed_write_does_not_count_as_applied(node: Node) -> None:
    node.suppress(400_000)
    node.stored.faults[SLICE, "write"] = 16
    assert list(node.suppress(300_000).failed) == [SLICE]
    assert node.applied() == 400_000
    node.stored.faults.clear()
    assert node.suppress(200_000).drifted == []


def test_foreign_period_is_kept_quota_scaled_then_exact(node: Node) -> None:
    node.suppress(400_000)
    node.period(50_000)
    assert node.applied() == 200_000
    report = node.suppress(300_001)
    assert report.foreign_periods == {SLICE: 50_000}
    assert node.slice == Bandwidth(Microseconds(150_000), Microseconds(50_000))
    assert node.suppress(150_001, 50_000).foreign_periods == {}
    assert node.slice == Bandwidth(Microseconds(150_001), Microseconds(50_000))
    assert node.applied() == 150_001
    node.writer.restore()
    assert node.slice == Bandwidth(None, Microseconds(50_000))


def test_missing_slice_is_no_failure_and_bounded_later(node: Node) -> None:
    node.stored.remove(SLICE)
    for _ in range(2):
        report = node.suppress(300_000)
        assert (report.gone, report.failed, report.written) == ([SLICE], {}, [])
    assert not node.writer.held
    node.stored.make(ONE)
    assert len(node.suppress(300_000).written) == 1
    assert node.slice.quota == 300_000


def test_recreated_slice_is_bounded_again(node: Node) -> None:
    node.suppress(300_000)
    node.stored.remove(SLICE)
    assert SLICE in node.suppress(300_000).gone
    node.stored.make(ONE)
    node.suppress(300_000)
    assert node.slice.quota == 300_000
    node.writer.restore()
    assert node.slice.quota is None


@pytest.mark.parametrize("content", ["", "garbage"])
def test_an_unreadable_slice_is_left_alone_and_told(node: Node, content: str) -> None:
    node.suppress(300_000)
    node.stored.contents[SLICE][quota_file(node.version)] = content
    assert isinstance(node.suppress(200_000).failed[SLICE], Malformed)
    assert node.stored.contents[SLICE][quota_file(node.version)] == content


class Life:
    """The same slice in files, with a journal, for a process that is killed."""

    def __init__(self, directory: Path, version: Version) -> None:
        plain_tree(directory / "root", version, [ONE, OTHER])
        self.files = KernelRules(CgroupFiles(find_layout(directory / "root")))
        for cgroup, quota in CHILDREN.items():
            write_quota(self.files, cgroup, Microseconds(quota))
        self.journal = directory / "journal"

    def suppress(self, quota: int | None, at: Hook = no_fault) -> None:
        """Set a quota over a long period, as that of idle pods."""
        with Journal.open(self.journal, boot="b", now=lambda: 0.0) as log:
            writer = QuotaWriter(self.files, log, now=lambda: 0.0, at=at)
            wanted = [] if quota is None else suppressed(quota * 10, 1_000_000, 100_000)
            assert not writer.reconcile(QuotaOwner.SUPPRESSION, wanted).failed

    def dies(self, quota: int | None, after: int) -> bool:
        return killed_child(lambda: self.suppress(quota, dying(after))) == signal.SIGKILL

    def quotas(self) -> dict[str, int | None]:
        return {cgroup: read_bandwidth(self.files, cgroup).quota for cgroup in CHILDREN}

    @property
    def slice(self) -> str:
        return str(read_bandwidth(self.files, SLICE))


@VERSIONS
@pytest.mark.parametrize(("before", "after"), [(None, 100_000), (100_000, 350_000), (100_000, None)])
def test_killed_slice_update_converges_with_its_children(
    tmp_path: Path, version: Version, before: int | None, after: int | None
) -> None:
    for deaths in count():
        life = Life(tmp_path / f"{deaths}", version)
        life.suppress(before)
        killed = life.dies(after, deaths)
        assert version is Version.V2 or in_order_everywhere(life.files, CHILDREN)
        life.suppress(after)
        narrowed = {
            cgroup: own if after is None or version is Version.V2 else min(own, after)
            for cgroup, own in CHILDREN.items()
        }
        assert life.quotas() == narrowed
        assert life.slice == ("max 100000" if after is None else f"{after * 10} 1000000")
        life.suppress(None)
        assert life.quotas() == CHILDREN
        assert life.slice == "max 100000"
        if not killed:
            break
    assert deaths > 3
