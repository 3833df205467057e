"""The writer brings cgroups to what their owners want, with no write too many, and back again.

Every test runs on a tree that refuses what the kernel refuses, in v1 and in v2.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from contextlib import suppress

import pytest

from corewise.actions import QuotaOwner, WriteQuota
from corewise.kernel.cgroups.layout import Version
from corewise.kernel.cgroups.resources import Bandwidth, quota_file, quota_text, read_bandwidth
from corewise.kernel.errors import (
    Busy,
    JournalError,
    KernelError,
    Malformed,
    ReadOnly,
    Unreadable,
    UnsafeName,
    ValueRefused,
)
from corewise.kernel.writing.entries import Failed, Held, Released, Wrote
from corewise.kernel.writing.journal import MemoryLog
from corewise.kernel.writing.journaled_writer import Point, WriteReport, no_fault
from corewise.kernel.writing.quota_writer import QuotaWriter
from corewise.quantities import Microseconds
from corewise.vocabulary.reasons import Reason
from kernel.cgroup_trees import KernelRules, StoredCgroups, bound, divided, in_order_everywhere
from kernel.full_log import FullLog

KUBEPODS = "/kubepods"
SLICE = "/kubepods/besteffort"
POD = "/kubepods/burstable/podx"
ONE, TWO = f"{POD}/one", f"{POD}/two"
OFFLINE = f"{SLICE}/pody"
OFFLINE_ONE = f"{OFFLINE}/one"
NORMALIZATION, SUPPRESSION, BATCH = QuotaOwner


class Node:
    """A tree, its writer and its journal."""

    def __init__(self, version: Version) -> None:
        self.version = version
        self.stored = StoredCgroups(version, [ONE, TWO, OFFLINE_ONE])
        self.rules = KernelRules(self.stored)
        self.log = MemoryLog()
        self.before_each: Callable[[Point, str], None] = no_fault
        self.writer = self.restarted()

    def restarted(self) -> QuotaWriter:
        def at(point: Point, cgroup: str) -> None:
            self.before_each(point, cgroup)
            if self.version is Version.V1:
                assert in_order_everywhere(self.stored, self.stored.contents), (point, cgroup)

        self.writer = QuotaWriter(self.rules, self.log, now=lambda: 12.0, at=at)
        return self.writer

    def set(self, cgroup: str, quota: int | None) -> None:
        """Write as somebody else."""
        text = quota_text(self.version, None if quota is None else Microseconds(quota))
        self.rules.write(cgroup, quota_file(self.version), text)

    def kubelet(self) -> None:
        for cgroup, quota in ((POD, 200_000), (ONE, 100_000), (TWO, 100_000)):
            self.set(cgroup, quota)
        self.forget()

    def forget(self) -> None:
        self.stored.writes.clear()
        self.rules.refused.clear()

    def normalize(self, ratio: int) -> WriteReport:
        return self.writer.reconcile(NORMALIZATION, actions(ratio))

    def quotas(self, *cgroups: str) -> list[int | None]:
        return [read_bandwidth(self.stored, cgroup).quota for cgroup in cgroups]

    @property
    def burst(self) -> str:
        return "cpu.cfs_burst_us" if self.version is Version.V1 else "cpu.max.burst"


def actions(ratio: int, base: int = 100_000, period: int = 100_000) -> list[WriteQuota]:
    amounts = {POD: 2 * base, ONE: base, TWO: base}
    return [
        bound(cgroup, divided(amount, ratio), amount, why=f"ratio {ratio}", period=period)
        for cgroup, amount in amounts.items()
    ]


@pytest.fixture(params=Version, ids=lambda version: version.value)
def node(request: pytest.FixtureRequest) -> Node:
    made = Node(request.param)
    made.kubelet()
    return made


def test_every_ratio_change_reaches_right_quotas_without_refusal(node: Node) -> None:
    for ratio, expected in ((100, 100_000), (200, 50_000), (120, 83_334), (150, 66_667), (100, 100_000)):
        report = node.normalize(ratio)
        assert node.quotas(ONE, TWO) == [expected, expected]
        assert node.quotas(POD) == [divided(200_000, ratio)]
        assert (report.failed, report.refused, report.drifted) == ({}, 0, [])
    assert node.rules.refused == []


def test_nothing_is_written_where_nothing_changes(node: Node) -> None:
    assert node.normalize(100).written == []
    assert len(node.normalize(150).written) == 3
    assert node.normalize(150).written == []
    assert node.restarted().reconcile(NORMALIZATION, actions(150)).written == []
    assert len(node.stored.writes) == 3


def test_journal_has_no_entry_for_skipped_writes(node: Node) -> None:
    node.normalize(100)
    assert node.log.entries() == ()


def test_full_write_entry_is_journaled_before_the_write(node: Node) -> None:
    seen = []

    def look(point: Point, cgroup: str) -> None:
        if point is Point.ENTERED:
            entry = tuple(node.log.entries())[-1]
            assert isinstance(entry, Wrote)
            seen.append((entry, node.quotas(cgroup)))

    node.before_each = look
    node.normalize(150)
    file = quota_file(node.version)
    assert (Wrote(12.0, ONE, file, "100000", "66667", "RatioFromModel", "ratio 150"), [100_000]) in seen
    assert len(seen) == 3
    held = [entry for entry in node.log.entries() if isinstance(entry, Held)]
    assert {entry.cgroup for entry in held} == {POD, ONE, TWO}


def test_parents_grow_before_children_and_shrink_after_them(node: Node) -> None:
    node.normalize(200)
    assert [cgroup for cgroup, _, _ in node.stored.writes] == [ONE, TWO, POD]
    node.forget()
    node.normalize(100)
    assert [cgroup for cgroup, _, _ in node.stored.writes] == [POD, ONE, TWO]


def test_drift_is_repaired_and_counted_with_found_value(node: Node) -> None:
    node.normalize(150)
    node.set(ONE, 50_000)
    report = node.normalize(150)
    assert report.drifted == [ONE]
    assert node.quotas(ONE) == [66_667]
    last = tuple(node.log.entries())[-1]
    assert isinstance(last, Wrote)
    assert (last.reason, last.old) == (Reason.QUOTA_DRIFT_REPAIRED, "50000")
    assert "50000" in last.why
    assert "ratio 150" in last.why
    assert node.writer.totals["drifted"] == 1


def test_drift_is_known_after_a_restart(node: Node) -> None:
    node.normalize(150)
    node.set(ONE, 50_000)
    assert node.restarted().reconcile(NORMALIZATION, actions(150)).drifted == [ONE]


def test_a_resize_by_kubelet_is_no_drift(node: Node) -> None:
    node.normalize(200)
    node.set(POD, 400_000)
    node.set(ONE, 200_000)
    node.set(TWO, 200_000)
    report = node.writer.reconcile(NORMALIZATION, actions(200, base=200_000))
    assert node.quotas(POD, ONE, TWO) == [200_000, 100_000, 100_000]
    assert report.drifted == []
    node.set(ONE, 5_000)
    assert node.writer.reconcile(NORMALIZATION, actions(200, base=200_000)).drifted == [ONE]


def test_smallest_bound_of_all_owners_wins_until_released(node: Node) -> None:
    node.normalize(150)
    node.writer.apply([bound(ONE, 40_000, 100_000, owner=SUPPRESSION)])
    assert node.quotas(ONE) == [40_000]
    assert node.normalize(200).written
    assert node.quotas(ONE, TWO) == [40_000, 50_000]
    assert node.normalize(300).drifted == []
    assert node.quotas(ONE) == [33_334]
    node.normalize(100)
    assert node.quotas(ONE) == [40_000]
    node.writer.reconcile(SUPPRESSION, [])
    assert node.quotas(ONE) == [100_000]


def test_another_owner_s_bound_outlives_a_restart(node: Node) -> None:
    node.normalize(150)
    node.writer.apply([bound(ONE, 40_000, 100_000, owner=SUPPRESSION)])
    report = node.restarted().reconcile(NORMALIZATION, actions(100))
    assert node.quotas(ONE, TWO) == [40_000, 100_000]
    assert report.drifted == []
    node.set(ONE, 30_000)
    assert node.restarted().reconcile(NORMALIZATION, actions(100)).drifted == [ONE]
    last = tuple(node.log.entries())[-1]
    assert isinstance(last, Wrote)
    assert "suppression" in last.why


def test_owner_dropping_a_cgroup_restores_and_forgets_it(node: Node) -> None:
    node.normalize(150)
    report = node.writer.reconcile(NORMALIZATION, [])
    assert node.quotas(POD, ONE, TWO) == [200_000, 100_000, 100_000]
    assert len(report.written) == 3
    assert not node.writer.held
    node.set(ONE, 5_000)
    assert node.writer.reconcile(NORMALIZATION, []).written == []


def test_restore_needs_only_the_journal_and_can_repeat(node: Node) -> None:
    node.normalize(150)
    node.writer.apply([bound(SLICE, 40_000, owner=SUPPRESSION), bound(OFFLINE_ONE, 30_000, owner=BATCH)])
    report = node.restarted().restore()
    assert node.quotas(POD, ONE, TWO, SLICE, OFFLINE_ONE) == [200_000, 100_000, 100_000, None, None]
    assert (len(report.written), report.failed) == (5, {})
    assert {entry.cgroup for entry in node.log.entries() if isinstance(entry, Released)} == {
        POD,
        ONE,
        TWO,
        SLICE,
        OFFLINE_ONE,
    }
    assert node.writer.restore().written == []
    assert node.restarted().restore().written == []


def test_restore_overwrites_what_somebody_else_left(node: Node) -> None:
    node.normalize(150)
    node.set(ONE, 2_000)
    node.restarted().restore()
    assert node.quotas(ONE) == [100_000]


def test_one_pod_is_updated_without_touching_others(node: Node) -> None:
    node.stored.make("/kubepods/burstable/podz")
    node.normalize(150)
    node.set(ONE, 5_000)
    report = node.writer.apply([bound("/kubepods/burstable/podz", 30_000, 50_000)])
    assert [each.cgroup for each in report.written] == ["/kubepods/burstable/podz"]
    assert report.examined == 1
    assert node.quotas(ONE) == [5_000]


def test_unlimited_is_left_alone_until_bounded_then_freed(node: Node) -> None:
    node.writer.apply([bound(SLICE, 140_000, None, owner=SUPPRESSION)])
    assert node.quotas(SLICE, OFFLINE, OFFLINE_ONE) == [140_000, None, None]
    node.writer.apply([bound(SLICE, None, None, owner=SUPPRESSION)])
    assert node.quotas(SLICE) == [None]


def test_quota_never_falls_below_the_kernel_minimum(node: Node) -> None:
    assert node.writer.apply([bound(SLICE, 1, None, owner=SUPPRESSION)]).failed == {}
    assert node.quotas(SLICE) == [1_000]


def test_unnamed_children_shrink_and_grow_with_their_parent() -> None:
    node = Node(Version.V1)
    node.set(OFFLINE, 300_000)
    node.set(OFFLINE_ONE, 200_000)
    report = node.writer.apply([bound(SLICE, 50_000, owner=SUPPRESSION)])
    assert node.quotas(SLICE, OFFLINE, OFFLINE_ONE) == [50_000] * 3
    assert (report.failed, report.refused) == ({}, 1)
    node.writer.apply([bound(SLICE, 250_000, owner=SUPPRESSION)])
    assert node.quotas(SLICE, OFFLINE, OFFLINE_ONE) == [250_000, 250_000, 200_000]
    node.restarted().reconcile(SUPPRESSION, [])
    assert node.quotas(SLICE, OFFLINE, OFFLINE_ONE) == [None, 300_000, 200_000]
    assert not node.writer.held


def test_found_child_rebases_on_the_new_kubelet_value() -> None:
    node = Node(Version.V1)
    node.set(OFFLINE_ONE, 200_000)
    node.writer.apply([bound(SLICE, 50_000, owner=SUPPRESSION)])
    node.set(OFFLINE_ONE, 20_000)
    assert node.writer.reconcile(SUPPRESSION, [bound(SLICE, 50_000)]).written == []
    node.writer.restore()
    assert node.quotas(SLICE, OFFLINE_ONE) == [None, 20_000]


def test_child_never_gets_more_than_an_unnamed_parent() -> None:
    node = Node(Version.V1)
    node.set("/kubepods/burstable", 30_000)
    report = node.writer.apply([bound(ONE, 66_667, 100_000)])
    assert node.quotas(ONE) == [30_000]
    assert (report.failed, report.refused) == ({}, 0)
    entry = tuple(node.log.entries())[-1]
    assert isinstance(entry, Wrote)
    assert entry.reason == Reason.QUOTA_BOUNDED_BY_PARENT
    node.set("/kubepods/burstable", None)
    node.writer.reconcile(NORMALIZATION, [bound(ONE, 66_667, 100_000)])
    assert node.quotas(ONE) == [66_667]


def test_v2_lets_a_child_exceed_its_parent() -> None:
    node = Node(Version.V2)
    node.writer.apply([bound(SLICE, 50_000, owner=SUPPRESSION), bound(OFFLINE_ONE, 80_000, owner=BATCH)])
    assert node.quotas(SLICE, OFFLINE_ONE) == [50_000, 80_000]
    assert node.rules.refused == []


def test_second_round_corrects_a_runtime_writing_in_between() -> None:
    node = Node(Version.V1)
    node.kubelet()
    struck: list[Point] = []

    def runtime(point: Point, _: str) -> None:
        if point is Point.HELD and not struck:
            struck.append(point)
            node.stored.make(f"{POD}/three")
            node.set(f"{POD}/three", 200_000)

    node.before_each = runtime
    report = node.normalize(200)
    assert (report.refused, report.failed) == (1, {})
    assert node.quotas(POD, ONE, TWO, f"{POD}/three") == [100_000, 50_000, 50_000, 100_000]


def test_foreign_period_is_kept_and_quota_keeps_share(node: Node) -> None:
    if node.version is Version.V1:
        node.stored.contents[ONE]["cpu.cfs_period_us"] = "50000"
        node.stored.contents[ONE]["cpu.cfs_quota_us"] = "50000"
    else:
        node.stored.contents[ONE]["cpu.max"] = "50000 50000"
    report = node.normalize(150)
    assert report.foreign_periods == {ONE: 50_000}
    assert read_bandwidth(node.stored, ONE).period == 50_000
    assert node.quotas(ONE, TWO) == [33_333, 66_667]
    exact = [
        *(action for action in actions(150) if action.cgroup != ONE),
        bound(ONE, 33_334, 50_000, period=50_000),
    ]
    report = node.writer.reconcile(NORMALIZATION, exact)
    assert (report.foreign_periods, node.quotas(ONE)) == ({}, [33_334])
    node.writer.restore()
    assert node.quotas(ONE) == [50_000]


def test_burst_goes_with_the_quota_and_comes_back(node: Node) -> None:
    node.rules.write(ONE, node.burst, "80000")
    for ratio, burst in ((200, "40000"), (150, "53333"), (120, "66667"), (500, "16000"), (100, "80000")):
        assert node.normalize(ratio).failed == {}
        assert node.stored.contents[ONE][node.burst] == burst
    node.normalize(300)
    node.restarted().restore()
    assert node.stored.contents[ONE][node.burst] == "80000"
    assert node.rules.refused == []


def test_foreign_burst_stays_until_the_quota_changes(node: Node) -> None:
    node.rules.write(ONE, node.burst, "80000")
    node.normalize(200)
    node.rules.write(ONE, node.burst, "10000")
    for _ in range(3):
        assert node.normalize(200).written == []
    entered = len(tuple(node.log.entries()))
    node.normalize(200)
    assert len(tuple(node.log.entries())) == entered
    node.normalize(100)
    assert node.stored.contents[ONE][node.burst] == "20000"


def test_burst_of_unlimited_cgroup_is_cut_to_bound(node: Node) -> None:
    node.rules.write(SLICE, node.burst, "500000")
    node.writer.apply([bound(SLICE, 140_000, None, owner=SUPPRESSION)])
    assert node.stored.contents[SLICE][node.burst] == "140000"
    node.writer.restore()
    assert node.stored.contents[SLICE][node.burst] == "500000"


def test_a_kernel_without_burst_is_no_trouble(node: Node) -> None:
    for files in node.stored.contents.values():
        del files[node.burst]
    node.rules._allows = lambda *_: True  # type: ignore[method-assign]  # its rules ask for the burst
    assert node.normalize(150).failed == {}
    assert node.quotas(ONE) == [66_667]


@pytest.mark.parametrize(
    ("code", "kind"), [(errno.EBUSY, Busy), (errno.EROFS, ReadOnly), (errno.EIO, Unreadable)]
)
def test_unwritable_cgroup_is_reported_and_rest_continues(
    node: Node, code: int, kind: type[KernelError]
) -> None:
    node.stored.faults[ONE, "write"] = code
    report = node.normalize(150)
    assert list(report.failed) == [ONE]
    assert isinstance(report.failed[ONE], kind)
    assert node.quotas(ONE, TWO, POD) == [100_000, 66_667, 133_334]
    node.stored.faults.clear()
    assert node.normalize(150).failed == {}
    assert node.quotas(ONE) == [66_667]
    assert node.normalize(150).drifted == []


def test_what_fails_again_and_again_is_entered_once(node: Node) -> None:
    node.stored.faults[ONE, "write"] = errno.EROFS
    node.normalize(150)
    entered = len(tuple(node.log.entries()))
    for _ in range(5):
        assert node.normalize(150).failed
    assert len(tuple(node.log.entries())) == entered
    assert sum(isinstance(entry, Failed) for entry in node.log.entries()) == 1
    node.stored.faults.clear()
    node.normalize(150)
    last = tuple(node.log.entries())[-1]
    assert isinstance(last, Wrote)
    assert last.cgroup == ONE


def test_child_that_cannot_shrink_keeps_its_parent_open() -> None:
    node = Node(Version.V1)
    node.kubelet()
    node.stored.faults[ONE, "write"] = errno.EBUSY
    report = node.normalize(300)
    assert isinstance(report.failed[POD], ValueRefused)
    assert node.quotas(POD, ONE, TWO) == [200_000, 100_000, 33_334]
    node.stored.faults.clear()
    node.normalize(300)
    assert node.quotas(POD, ONE, TWO) == [66_667, 33_334, 33_334]


def test_parent_that_cannot_grow_keeps_its_children_small() -> None:
    node = Node(Version.V1)
    node.kubelet()
    node.normalize(500)
    node.stored.faults[POD, "write"] = errno.EBUSY
    report = node.normalize(100)
    assert list(report.failed) == [POD]
    assert node.quotas(POD, ONE, TWO) == [40_000, 40_000, 40_000]
    node.stored.faults.clear()
    node.normalize(100)
    assert node.quotas(POD, ONE, TWO) == [200_000, 100_000, 100_000]


@pytest.mark.parametrize("content", ["", "garbage", "-7"])
def test_cgroup_with_unreadable_content_is_left_alone(node: Node, content: str) -> None:
    node.stored.contents[ONE][quota_file(node.version)] = content
    writer = QuotaWriter(node.stored, node.log, now=lambda: 0.0)
    report = writer.reconcile(NORMALIZATION, actions(150))
    assert isinstance(report.failed[ONE], Malformed)
    assert node.stored.contents[ONE][quota_file(node.version)] == content
    assert node.quotas(TWO, POD) == [66_667, 133_334]


def test_path_leading_elsewhere_is_reported_and_rest_continues(node: Node) -> None:
    node.stored.faults["/../x", "read"] = errno.ELOOP
    node.stored.contents["/../x"] = {}
    report = QuotaWriter(node.stored, node.log, now=lambda: 0.0).reconcile(
        NORMALIZATION, [bound("/../x", 5_000), *actions(150)]
    )
    assert isinstance(report.failed["/../x"], UnsafeName)
    assert node.quotas(ONE) == [66_667]


@pytest.mark.parametrize("point", [Point.READ, Point.HELD, Point.ENTERED])
def test_cgroup_ending_between_read_and_write_is_forgotten(node: Node, point: Point) -> None:
    def end(at: Point, cgroup: str) -> None:
        if at is point and cgroup in {"", ONE}:
            node.stored.remove(ONE)

    node.before_each = end
    report = node.normalize(150)
    assert (report.gone, report.failed) == ([ONE], {})
    assert node.quotas(TWO, POD) == [66_667, 133_334]
    assert ONE not in node.restarted().held


def test_cgroup_not_created_yet_is_no_failure(node: Node) -> None:
    report = node.writer.reconcile(NORMALIZATION, [bound("/kubepods/burstable/podnew", 5_000, 10_000)])
    assert (report.gone, report.failed, report.written) == (["/kubepods/burstable/podnew"], {}, [])
    assert node.log.entries() == ()


def test_totals_add_up_over_all_calls(node: Node) -> None:
    node.normalize(150)
    node.normalize(200)
    node.set(ONE, 1_000)
    node.normalize(200)
    assert node.writer.totals["written"] == 7
    assert node.writer.totals["drifted"] == 1


@pytest.mark.parametrize("room", [0, 1])
@pytest.mark.parametrize("wanted", [[bound(POD, 50_000, 200_000, owner=SUPPRESSION)], []])
def test_call_that_the_journal_fails_is_undone(node: Node, room: int, wanted: list[WriteQuota]) -> None:
    node.log = log = FullLog()
    node.restarted()
    node.kubelet()
    node.writer.reconcile(SUPPRESSION, [bound(POD, 120_000, 200_000, owner=SUPPRESSION)])
    log.room = room
    new = bound(OFFLINE, 10_000, owner=SUPPRESSION)
    for _ in range(2):
        failed: dict[str, KernelError] = {}
        try:
            failed = node.writer.reconcile(SUPPRESSION, [*wanted, new]).failed
        except JournalError as error:
            failed = {"": error}
        assert {type(error) for error in failed.values()} == {JournalError}
        log.room = 0
    log.room = None
    assert not node.writer.mend().written
    for writer in (node.writer, node.restarted()):
        assert {cgroup: set(claim.bounds.values()) for cgroup, claim in writer.held.items()} == {
            POD: {Bandwidth(Microseconds(120_000), Microseconds(100_000))}
        }
    assert node.quotas(POD, OFFLINE) == [120_000, None]


@pytest.mark.parametrize("room", range(4))
def test_failing_journal_leaves_no_cgroup_without_quota(node: Node, room: int) -> None:
    node.log = log = FullLog()
    node.restarted()
    before, after = (
        bound(OFFLINE, quota, period=period, base_period=100_000, owner=BATCH)
        for quota, period in ((50_000, 100_000), (500_000, 1_000_000))
    )
    for wanted in ((before, after), (after, before)):
        node.writer.reconcile(BATCH, wanted[:1])
        log.room = room
        with suppress(JournalError):
            node.writer.reconcile(BATCH, wanted[1:])
        log.room = None
        assert node.quotas(OFFLINE)[0] in {50_000, 500_000}
        assert node.writer.mend().drifted == []
    assert node.restarted().restore().failed == {}
    assert read_bandwidth(node.stored, OFFLINE) == Bandwidth(None, Microseconds(100_000))
