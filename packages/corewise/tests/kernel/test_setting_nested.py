"""CPUs and memory nodes of cgroups that stand in one another: on v1 each within its parent's, on v2 free.

The names are those of kubelet's cgroups, but nothing depends on them: a pod with two containers in a slice.
"""

from __future__ import annotations

import errno

import pytest

from corewise.actions import Setting, WriteSetting
from corewise.kernel.cgroups.layout import Version
from corewise.kernel.errors import Busy, ValueRefused
from corewise.kernel.writing.entries import Wrote
from corewise.kernel.writing.journaled_writer import WriteReport
from corewise.vocabulary.reasons import Reason
from kernel.cgroup_trees import setting
from kernel.setting_node import ONE, PINNING, POD, SLICE, TWO, Node

CPUS, NODES = Setting.CPUSET, Setting.MEMORY_NODES
LISTS = pytest.mark.parametrize("what", [CPUS, NODES])
FAMILY = (SLICE, POD, ONE, TWO)


@pytest.fixture
def node() -> Node:
    """v1, where it matters."""
    return Node(Version.V1)


def pin(node: Node, what: Setting = CPUS, /, **cpus: str) -> WriteReport:
    """Pin by name: slice, pod, one, two."""
    return node.writer.reconcile(PINNING, pinned(what, **cpus))


def pinned(what: Setting = CPUS, /, **cpus: str) -> list[WriteSetting]:
    cgroups = dict(zip(("slice", "pod", "one", "two"), FAMILY, strict=True))
    return [setting(cgroups[name], what, text, owner=PINNING) for name, text in cpus.items()]


def everywhere(node: Node, what: Setting, text: str) -> None:
    for cgroup in node.stored.contents:
        node.stored.contents[cgroup][node.file(what)] = text


@LISTS
def test_pod_and_containers_move_cpus_without_one_refusal(node: Node, what: Setting) -> None:
    everywhere(node, what, "0-7")
    for first, second in (("0-3", "0-1"), ("4-7", "4"), ("2-5", "3-4"), ("0-7", "0-7"), ("1", "1")):
        report = pin(node, what, pod=first, one=second, two=first)
        assert (report.failed, report.refused) == ({}, 0)
        assert node.shown(what, POD, ONE, TWO) == [first, second, first]
    assert pin(node, what).failed == {}
    assert node.shown(what, *FAMILY) == ["0-7"] * 4
    assert node.rules.refused == []
    assert not node.restarted().held


def test_a_container_alone_is_pinned_by_one_write(node: Node) -> None:
    assert len(pin(node, one="2-3").written) == 1
    assert len(pin(node, one="4-5").written) == 1


def test_a_write_on_the_way_says_where_to(node: Node) -> None:
    pin(node, pod="0-3", one="0-1", two="0-1")
    before = len(tuple(node.log.entries()))
    pin(node, pod="4-7", one="4-5", two="4-5")
    entries = tuple(node.log.entries())[before:]
    wrote = [
        (each.old, each.new, each.why) for each in entries if isinstance(each, Wrote) and each.cgroup == POD
    ]
    assert wrote == [
        ("0-3", "0-1,4-7", "as asked; on the way to 4-7"),
        ("0-1,4-7", "4-7", "as asked"),
    ]


@LISTS
def test_unnamed_cgroup_narrows_and_widens_with_its_parent(node: Node, what: Setting) -> None:
    everywhere(node, what, "0-7")
    node.write(TWO, what, "6-7")
    assert pin(node, what, slice="0-3").failed == {}
    assert node.shown(what, *FAMILY) == ["0-3", "0-3", "0-3", "0-3"]
    assert node.restarted().reconcile(PINNING, pinned(what, slice="0-6")).failed == {}
    assert node.shown(what, *FAMILY) == ["0-6", "0-6", "0-6", "6"]
    assert pin(node, what).failed == {}
    assert node.shown(what, *FAMILY) == ["0-7", "0-7", "0-7", "6-7"]
    assert not node.restarted().held


def test_journal_says_who_narrowed_a_container(node: Node) -> None:
    pin(node, pod="0-3")
    entry = next(each for each in node.log.entries() if isinstance(each, Wrote) and each.cgroup == ONE)
    assert (entry.reason, entry.why) == (
        Reason.SETTING_BOUNDED_BY_PARENT,
        "0-3 is the part of 0-7 that its parent has",
    )


def test_released_container_stays_within_its_pod_until_released(node: Node) -> None:
    pin(node, pod="0-3", one="1")
    assert pin(node, pod="0-3").failed == {}
    assert node.shown(CPUS, POD, ONE) == ["0-3", "0-3"]
    assert node.restarted().restore().failed == {}
    assert node.shown(CPUS, *FAMILY) == ["0-7"] * 4


def test_request_beyond_the_parent_is_reported_not_reduced(node: Node) -> None:
    report = pin(node, pod="0-3", one="3-4", two="1")
    problem = report.failed[f"{ONE}/cpuset.cpus"]
    assert isinstance(problem, ValueRefused)
    assert "3-4 is not within 0-3" in str(problem)
    assert node.shown(CPUS, TWO) == ["1"]
    assert pin(node, pod="0-4", one="3-4", two="1").failed == {}
    assert node.shown(CPUS, POD, ONE, TWO) == ["0-4", "3-4", "1"]


def test_a_container_made_meanwhile_is_taken_along(node: Node) -> None:
    pin(node, pod="0-3")
    new = f"{POD}/new"
    node.stored.make(new)
    node.stored.contents[new]["cpuset.cpus"] = "0-3"
    assert pin(node, pod="0-1").failed == {}
    assert node.shown(CPUS, new) == ["0-1"]
    assert pin(node).failed == {}
    assert node.shown(CPUS, POD, new) == ["0-7", "0-3"]


def test_unwritable_parent_leaves_its_children_in_order(node: Node) -> None:
    pin(node, pod="0-3", one="0-1")
    node.stored.faults[POD, "write"] = errno.EBUSY
    report = pin(node, pod="4-7", one="4-5")
    assert isinstance(report.failed[f"{POD}/cpuset.cpus"], Busy)
    assert node.shown(CPUS, POD, ONE) == ["0-3", "0-1"]
    entered = [each for each in node.log.entries() if isinstance(each, Wrote) and each.cgroup == POD]
    assert {(each.old, each.new) for each in entered} == {("0-7", "0-3"), ("0-3", "0-7")}
    node.stored.faults.clear()
    assert pin(node, pod="4-7", one="4-5").failed == {}
    assert node.shown(CPUS, POD, ONE) == ["4-7", "4-5"]


def test_kubelet_s_later_choice_is_what_comes_back(node: Node) -> None:
    """kubelet moves containers without CPUs of their own to its new pool, once, and does not look again."""
    pin(node, one="2")
    node.write(ONE, CPUS, "4-7")
    assert pin(node, one="2").drifted == [f"{ONE}/cpuset.cpus"]
    assert node.shown(CPUS, ONE) == ["2"]
    node.restarted().restore()
    assert node.shown(CPUS, ONE) == ["4-7"]


def test_v2_child_may_exceed_parent_and_none_inherits() -> None:
    node = Node(Version.V2)
    assert pin(node, pod="0-1", one="2-3").failed == {}
    assert node.shown(CPUS, POD, ONE, TWO) == ["0-1", "2-3", ""]
    assert pin(node, pod="4").failed == {}
    assert node.shown(CPUS, POD, ONE) == ["4", ""]
    assert node.restarted().restore().failed == {}
    assert node.shown(CPUS, *FAMILY) == [""] * 4


def test_v2_writes_the_cpu_giver_before_the_taker() -> None:
    node = Node(Version.V2)
    pin(node, one="0-5", two="6-7")
    for one, two, order in (("0-1", "2-7", [ONE, TWO]), ("0-5", "6-7", [TWO, ONE])):
        report = pin(node, one=one, two=two)
        assert [written.cgroup for written in report.written] == order
    report = pin(node, pod="6-7", two="6-7")
    assert [written.cgroup for written in report.written] == [POD, ONE]
    assert node.shown(CPUS, POD, ONE, TWO) == ["6-7", "", "6-7"]
