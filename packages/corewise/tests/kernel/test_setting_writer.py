"""Weights, CPU sets and memory limits become what their owners want, and again what they were.

Every test runs on a tree that refuses what the kernel refuses, in v1 and in v2.
"""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from corewise.actions import QuotaOwner, Setting, WriteSetting
from corewise.kernel.cgroups.layout import Version
from corewise.kernel.errors import Busy, Malformed, Missing, ValueRefused
from corewise.kernel.writing.entries import Damaged, Failed, Held, HeldSetting, Released, Wrote
from corewise.kernel.writing.journaled_writer import Point, no_fault
from corewise.kernel.writing.quota_writer import QuotaWriter
from corewise.kernel.writing.setting_claims import SettingFile
from corewise.vocabulary.reasons import Reason
from kernel.cgroup_trees import bound, setting
from kernel.setting_node import BATCH, ONE, PINNING, POD, TWO, Node

WEIGHT, IDLE, CPUS, NODES, MEMORY = Setting
MEBI = 1 << 20


@pytest.fixture(params=Version, ids=lambda version: version.value)
def node(request: pytest.FixtureRequest) -> Node:
    return Node(request.param)


def everything(node: Node) -> list[WriteSetting]:
    return [
        setting(ONE, WEIGHT, "50"),
        setting(POD, WEIGHT, "70"),
        setting(ONE, CPUS, "1,2,3"),
        setting(ONE, NODES, "0"),
        setting(ONE, MEMORY, str(64 * MEBI)),
    ]


def state(node: Node) -> dict[str, dict[str, str]]:
    return {cgroup: dict(files) for cgroup, files in node.stored.contents.items()}


def test_wanted_values_are_written_and_earlier_ones_restored(node: Node) -> None:
    before = state(node)
    report = node.batch(*everything(node))
    assert (report.failed, report.refused, len(report.written)) == ({}, 0, 5)
    assert node.shown(WEIGHT, ONE, POD) == ["50", "70"]
    assert node.shown(CPUS, ONE) == ["1-3"]
    assert node.shown(NODES, ONE) == ["0"]
    assert node.shown(MEMORY, ONE) == [str(64 * MEBI)]
    assert node.writer.restore().failed == {}
    assert state(node) == before
    assert not node.writer.held
    assert node.writer.restore().written == []


def test_value_already_present_is_neither_written_nor_journaled(node: Node) -> None:
    node.batch(*everything(node))
    writes, entries = len(node.stored.writes), len(tuple(node.log.entries()))
    assert node.batch(*everything(node)).written == []
    assert node.restarted().reconcile(BATCH, everything(node)).written == []
    assert (len(node.stored.writes), len(tuple(node.log.entries()))) == (writes, entries)
    present = node.shown(WEIGHT, TWO)[0]
    assert node.batch(*everything(node), setting(TWO, WEIGHT, present)).written == []
    assert len(tuple(node.log.entries())) == entries


def test_restored_value_and_write_are_journaled_before_writing(node: Node) -> None:
    seen: list[object] = []

    def look(point: Point, cgroup: str) -> None:
        if point is Point.ENTERED:
            seen.extend([tuple(node.log.entries()), node.shown(WEIGHT, ONE)])

    node.before_each = look
    base, file = node.shown(WEIGHT, ONE)[0], node.file(WEIGHT)
    node.batch(setting(ONE, WEIGHT, "50", why="batch-cpu 500"))
    held = HeldSetting(12.0, ONE, file, base, "50", "batch", reason="BatchLimitApplied")
    assert seen == [
        (held, Wrote(12.0, ONE, file, base, "50", "BatchLimitApplied", "batch-cpu 500")),
        [base],
    ]
    node.before_each = no_fault
    node.batch()
    assert tuple(node.log.entries())[-1] == Released(12.0, ONE, file)


def test_dropped_settings_are_restored_and_other_owners_unaffected(node: Node) -> None:
    node.batch(*everything(node))
    node.writer.reconcile(PINNING, [setting(TWO, CPUS, "5", owner=PINNING)])
    before = node.shown(WEIGHT, "/")[0]
    report = node.batch(setting(ONE, WEIGHT, "50"))
    assert report.failed == {}
    assert node.shown(WEIGHT, ONE, POD) == ["50", before]
    assert node.shown(CPUS, TWO) == ["5"]


def idle_and_weighted(weight: str) -> list[WriteSetting]:
    return [setting(ONE, IDLE, "1", "0"), setting(ONE, WEIGHT, weight, "2")]


def test_cgroup_gets_its_weight_after_being_idle(node: Node) -> None:
    node.batch(setting(ONE, WEIGHT, "50", "2"))
    assert node.batch(*idle_and_weighted("50")).failed == {}
    assert node.shown(IDLE, ONE) == ["1"]
    again = node.restarted().reconcile(BATCH, idle_and_weighted("60"))
    assert (again.written, again.drifted, again.failed) == ([], [], {})
    assert node.batch(setting(ONE, WEIGHT, "60", "2")).failed == {}
    assert node.shown(IDLE, ONE) + node.shown(WEIGHT, ONE) == ["0", "60"]


@pytest.mark.parametrize("weight", ["50", "2"])
def test_idle_cgroup_is_restored_with_its_weight(node: Node, weight: str) -> None:
    node.write(ONE, WEIGHT, "2")
    assert node.batch(*idle_and_weighted(weight)).failed == {}
    assert node.restarted().restore().failed == {}
    assert node.shown(IDLE, ONE) + node.shown(WEIGHT, ONE) == ["0", "2"]
    assert not node.writer.held
    assert not node.rules.refused


def test_cgroup_somebody_woke_becomes_idle_again(node: Node) -> None:
    node.batch(*idle_and_weighted("50"))
    node.write(ONE, IDLE, "0")
    report = node.batch(*idle_and_weighted("50"))
    assert (f"{ONE}/cpu.idle" in report.drifted, report.failed) == (True, {})
    assert node.shown(IDLE, ONE) == ["1"]


def test_value_of_idle_is_zero_or_one(node: Node) -> None:
    report = node.batch(setting(ONE, IDLE, "2", "0"))
    assert "neither 0 nor 1" in str(report.failed[f"{ONE}/cpu.idle"])


def test_kernel_without_idle_cgroups_is_a_failure(node: Node) -> None:
    del node.stored.contents[ONE]["cpu.idle"]
    assert list(node.batch(*idle_and_weighted("50")).failed) == [f"{ONE}/cpu.idle"]


def test_a_setting_has_one_owner_at_a_time(node: Node) -> None:
    node.writer.reconcile(PINNING, [setting(ONE, CPUS, "5", owner=PINNING)])
    report = node.batch(setting(ONE, CPUS, "6"), setting(TWO, CPUS, "6"))
    assert list(report.failed) == [f"{ONE}/cpuset.cpus"]
    assert "pinning sets this" in str(report.failed[f"{ONE}/cpuset.cpus"])
    assert node.shown(CPUS, ONE, TWO) == ["5", "6"]
    node.writer.reconcile(PINNING, [])
    assert node.batch(setting(ONE, CPUS, "6")).failed == {}


def test_stated_base_is_restored_instead_of_found_value(node: Node) -> None:
    base = "2" if node.version is Version.V1 else "1"
    node.batch(setting(ONE, WEIGHT, "50", base))
    node.write(ONE, WEIGHT, "77")
    node.batch(setting(ONE, WEIGHT, "50", base))
    node.batch()
    assert node.shown(WEIGHT, ONE) == [base]


def test_value_preset_by_runtime_returns_to_stated_base(node: Node) -> None:
    node.write(ONE, WEIGHT, "50")
    assert node.batch(setting(ONE, WEIGHT, "50", "9")).written == []
    assert node.restarted().restore().failed == {}
    assert node.shown(WEIGHT, ONE) == ["9"]


def test_drift_is_repaired_and_counted_and_later_restored(node: Node) -> None:
    node.batch(setting(ONE, WEIGHT, "50"))
    node.write(ONE, WEIGHT, "30")
    report = node.batch(setting(ONE, WEIGHT, "50"))
    assert report.drifted == [f"{ONE}/{node.file(WEIGHT)}"]
    assert node.shown(WEIGHT, ONE) == ["50"]
    wrote = [entry for entry in node.log.entries() if isinstance(entry, Wrote)][-1]
    assert (wrote.old, wrote.reason) == ("30", Reason.SETTING_DRIFT_REPAIRED)
    assert node.batch(setting(ONE, WEIGHT, "50")).drifted == []
    assert node.restarted().restore().failed == {}
    assert node.shown(WEIGHT, ONE) == ["30"]
    assert node.writer.totals["drifted"] == 0


def test_earlier_value_rewritten_by_others_counts_as_drift(node: Node) -> None:
    base = node.shown(WEIGHT, ONE)[0]
    node.batch(setting(ONE, WEIGHT, "50"))
    node.write(ONE, WEIGHT, base)
    assert node.batch(setting(ONE, WEIGHT, "50")).drifted == [f"{ONE}/{node.file(WEIGHT)}"]
    assert node.writer.totals["drifted"] == 1
    assert node.batch().failed == {}
    assert node.shown(WEIGHT, ONE) == [base]


def test_a_change_of_mind_is_no_drift(node: Node) -> None:
    node.batch(setting(ONE, WEIGHT, "50"))
    assert node.batch(setting(ONE, WEIGHT, "60")).drifted == []
    assert node.restarted().reconcile(BATCH, [setting(ONE, WEIGHT, "70")]).drifted == []
    assert node.writer.applied(ONE, WEIGHT) == "70"


def test_restarted_writer_repairs_wanted_settings_before_being_told(node: Node) -> None:
    node.batch(setting(ONE, WEIGHT, "50"), setting(TWO, WEIGHT, "60"))
    node.write(ONE, WEIGHT, "30")
    writer = node.restarted()
    assert (writer.applied(ONE, WEIGHT), writer.applied(ONE, CPUS)) == ("50", None)
    writer.reconcile(PINNING, [])
    assert node.shown(WEIGHT, ONE, TWO) == ["50", "60"]


def test_values_that_mean_the_same_are_the_same(node: Node) -> None:
    node.write(ONE, CPUS, "0-3")
    report = node.batch(setting(ONE, CPUS, "3,2,1,0"), setting(ONE, MEMORY, "max"))
    assert (report.written, report.failed) == ([], {})
    node.batch(setting(ONE, MEMORY, str(64 * MEBI + 5)))
    assert node.batch(setting(ONE, MEMORY, str(64 * MEBI + 5))).written == []
    assert node.batch(setting(ONE, MEMORY, "-1")).failed == {}
    assert node.shown(MEMORY, ONE) == node.shown(MEMORY, TWO)


@pytest.mark.parametrize(
    ("what", "value"), [(WEIGHT, ""), (WEIGHT, "-5"), (CPUS, "x"), (CPUS, "3-1"), (MEMORY, "64Mi")]
)
def test_missing_value_is_reported_and_the_rest_proceeds(node: Node, what: Setting, value: str) -> None:
    report = node.batch(setting(ONE, what, value), setting(TWO, WEIGHT, "50"))
    assert isinstance(report.failed[f"{ONE}/{node.file(what)}"], Malformed)
    assert len(report.written) == 1


def test_kernel_refused_value_is_reported_and_leaves_nothing(node: Node) -> None:
    base = node.shown(WEIGHT, ONE)
    report = node.batch(setting(ONE, WEIGHT, "0"))
    if node.version is Version.V1:
        assert node.shown(WEIGHT, ONE) == ["2"]
        return
    assert isinstance(report.failed[f"{ONE}/cpu.weight"], ValueRefused)
    assert node.batch().failed == {}
    assert (node.shown(WEIGHT, ONE), dict(node.writer.held)) == (base, {})


def test_memory_limit_below_usage_waits_until_usage_falls(node: Node) -> None:
    usage = "memory.current" if node.version is Version.V2 else "memory.usage_in_bytes"
    node.stored.contents[ONE][usage] = str(65 * MEBI)
    before = node.shown(MEMORY, ONE)
    report = node.batch(setting(ONE, MEMORY, str(64 * MEBI)), setting(ONE, WEIGHT, "50"))
    problem = report.failed[f"{ONE}/{node.file(MEMORY)}"]
    assert isinstance(problem, ValueRefused)
    assert f"{64 * MEBI} bytes is below the {65 * MEBI} in use" in str(problem)
    assert (node.shown(MEMORY, ONE), node.shown(WEIGHT, ONE)) == (before, ["50"])
    assert node.rules.refused == []
    node.stored.contents[ONE][usage] = str(64 * MEBI)
    assert node.batch(setting(ONE, MEMORY, str(64 * MEBI)), setting(ONE, WEIGHT, "50")).failed == {}
    assert node.shown(MEMORY, ONE) == [str(64 * MEBI)]


def test_a_cgroup_that_is_gone_is_forgotten(node: Node) -> None:
    node.batch(*everything(node))
    node.stored.remove(ONE)
    report = node.batch(*everything(node))
    assert (report.gone, report.failed) == ([ONE], {})
    assert {place.cgroup for place in node.writer.held} == {POD}
    assert {place.cgroup for place in node.restarted().held} == {POD}


def test_cgroup_not_yet_created_is_not_a_failure(node: Node) -> None:
    report = node.batch(setting(f"{POD}/new", WEIGHT, "50"))
    assert (report.gone, report.failed, report.written) == ([f"{POD}/new"], {}, [])
    assert node.log.entries() == ()
    node.stored.make(f"{POD}/new")
    assert len(node.batch(setting(f"{POD}/new", WEIGHT, "50")).written) == 1


@pytest.mark.parametrize("point", [Point.READ, Point.HELD, Point.ENTERED])
def test_cgroup_ending_between_read_and_write_is_forgotten(node: Node, point: Point) -> None:
    def end(at: Point, cgroup: str) -> None:
        if at is point and cgroup in {"", ONE}:
            node.stored.remove(ONE)

    node.before_each = end
    report = node.batch(*everything(node))
    assert (report.gone, report.failed) == ([ONE], {})
    assert node.shown(WEIGHT, POD) == ["70"]
    assert {place.cgroup for place in node.restarted().held} == {POD}


def test_file_missing_from_cgroup_fails_until_it_appears(node: Node) -> None:
    content = node.stored.contents[ONE].pop(node.file(CPUS))
    report = node.batch(*everything(node))
    assert isinstance(report.failed[f"{ONE}/cpuset.cpus"], Missing)
    assert (report.gone, len(report.written)) == ([], 4)
    node.stored.contents[ONE][node.file(CPUS)] = content
    assert len(node.batch(*everything(node)).written) == 1


def test_an_unreadable_content_is_left_alone(node: Node) -> None:
    node.stored.contents[ONE][node.file(WEIGHT)] = "garbage"
    report = node.batch(*everything(node))
    assert isinstance(report.failed[f"{ONE}/{node.file(WEIGHT)}"], Malformed)
    assert node.shown(WEIGHT, ONE, POD) == ["garbage", "70"]
    assert node.restarted().restore().failed == {}
    assert node.shown(WEIGHT, ONE) == ["garbage"]


def test_failing_write_is_journaled_once_but_keeps_retrying(node: Node) -> None:
    node.stored.faults[ONE, "write"] = errno.EBUSY
    for _ in range(3):
        report = node.batch(setting(ONE, WEIGHT, "50"))
        assert isinstance(report.failed[f"{ONE}/{node.file(WEIGHT)}"], Busy)
    kinds = [type(entry) for entry in node.log.entries()]
    assert (kinds.count(Wrote), kinds.count(Failed)) == (1, 1)
    node.stored.faults.clear()
    assert len(node.batch(setting(ONE, WEIGHT, "50")).written) == 1


def test_quotas_and_settings_share_one_journal_without_interference(node: Node) -> None:
    before = state(node)
    quotas = QuotaWriter(node.rules, node.log, now=lambda: 1.0)
    quotas.apply([bound(ONE, 50_000), bound(POD, 80_000)])
    node.batch(*everything(node))
    node.log.begin_anew()
    quotas = QuotaWriter(node.rules, node.log, now=lambda: 1.0)
    assert set(quotas.held) == {ONE, POD}
    assert set(node.restarted().held) == {
        *(SettingFile(ONE, node.file(what)) for what in Setting if what is not IDLE),
        SettingFile(POD, node.file(WEIGHT)),
    }
    assert (quotas.reconcile(QuotaOwner.SUPPRESSION, []).drifted, node.batch(*everything(node)).drifted) == (
        [],
        [],
    )
    assert quotas.restore().failed == {}
    assert set(node.restarted().held) != set()
    assert node.writer.restore().failed == {}
    assert state(node) == before


def test_undo_with_any_damaged_line_restores_only_originals(node: Node) -> None:
    """Where the line said what comes back, and no later one does, nothing is written at all."""
    for what, text in ((WEIGHT, "33"), (CPUS, "0-5")):
        node.write(ONE, what, text)
    before = state(node)
    for weight, cpus in (("50", "1-3"), ("70", "1-2")):
        node.batch(setting(ONE, WEIGHT, weight), setting(ONE, CPUS, cpus))
        QuotaWriter(node.rules, node.log, now=lambda: 0.0).apply([bound(ONE, int(weight) * 1000, 100_000)])
    left, entries = state(node), list(node.log.entries())
    for number, entry in enumerate(entries):
        node.stored.contents = {cgroup: dict(files) for cgroup, files in left.items()}
        node.log._entries = [*entries]
        node.log._entries[number] = Damaged(Path("journal"), number, "not UTF-8")  # type: ignore[call-overload]
        node.restarted().restore()
        QuotaWriter(node.rules, node.log, now=lambda: 0.0).restore()
        now = state(node)[ONE]
        for file, text in now.items():
            bases = {before[ONE][file], "100000", "100000 100000"}
            assert text in {*bases, left[ONE][file]}, (number, file)
        if not isinstance(entry, Held | HeldSetting):
            assert now[node.file(WEIGHT)] == "33", entry
            assert now[node.file(CPUS)] == "0-5", entry
