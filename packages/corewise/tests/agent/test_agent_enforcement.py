"""A node's cgroups come to their quotas and stay there, whatever happens to pods, ratio and files."""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.fake_node import FakeNode, container, pod
from corewise.agent.cgroups import Cycle, NodeCgroups
from corewise.agent.kubelet import NO_POLICY, UNKNOWN_POLICY, CPUManager
from corewise.agent.objects import QuotaPod
from corewise.agent.quotas import QuotaReconciler
from corewise.kernel.cgroups.layout import Version
from corewise.kernel.cgroups.resources import read_bandwidth
from corewise.kernel.writing.journal import Journal, Log, MemoryLog
from corewise.quantities import Ratio
from corewise.vocabulary.names import QOS_CLASS, RESOURCE_STATUS
from corewise.vocabulary.reasons import Reason

WEB = pod("web", container("a", "1"), container("b", "500m"))
OWNER = pod("owner", container("a", "2"), labels={QOS_CLASS: "LSR"}, qos="Guaranteed")
FREE = pod("free", container("a", request="1"))


class Kept:
    """A node with a reconciler of its quotas."""

    def __init__(self, node: FakeNode, log: Log | None = None) -> None:
        self.node = node
        clock = itertools.count(1)
        cgroups = NodeCgroups(node.root, "/", log or MemoryLog(), now=lambda: float(next(clock)))
        self.reconciler = QuotaReconciler(cgroups)

        self.owners: dict[str, bool | None] = {OWNER.uid: True}
        """Who owns CPUs by a claim; None: not decided yet."""

    def cycle(self, pods: Iterable[QuotaPod], ratio: int = 150, manager: CPUManager = NO_POLICY) -> Cycle:
        return self.reconciler.cycle(
            pods, lambda _pod: Ratio(ratio), manager, owns=lambda pod: self.owners.get(pod.uid, False)
        )

    def quotas(self, of: QuotaPod) -> dict[str, int | None]:
        names = ["", *(status.name for status in of.status.all_containers)]
        return {name: self.node.quota(of, name) for name in names}


@pytest.fixture(params=Version)
def node(request: pytest.FixtureRequest, tmp_path: Path) -> FakeNode:
    return FakeNode(tmp_path, request.param)


@pytest.fixture
def kept(node: FakeNode) -> Kept:
    node.start(WEB, OWNER, FREE)
    return Kept(node)


def expected(node: FakeNode, ratio: int) -> dict[str, int | None]:
    """Of the pod web; on v1 the pod has room for its largest container."""
    divided = {n: -(-base * 100 // ratio) for n, base in {"": 150_000, "a": 100_000, "b": 50_000}.items()}
    if node.version is Version.V1:
        divided[""] = max(divided[""], 100_000)
    return dict(divided)


def test_ratio_is_followed_when_added_changed_and_removed(kept: Kept) -> None:
    before = kept.quotas(WEB)
    for ratio in (100, 200, 120, 500, 101, 100):
        cycle = kept.cycle([WEB, OWNER, FREE], ratio)
        assert not cycle.problems
        assert kept.quotas(WEB) == expected(kept.node, ratio)
        assert kept.quotas(OWNER) == {"": 200_000, "a": 200_000}
        assert kept.quotas(FREE) == {"": None, "a": None}
    assert kept.quotas(WEB) == before


def test_nothing_is_written_where_nothing_has_changed(kept: Kept) -> None:
    assert kept.cycle([WEB, OWNER, FREE]).written
    for _ in range(3):
        assert not kept.cycle([WEB, OWNER, FREE]).written


def test_a_drift_is_repaired_and_counted(kept: Kept) -> None:
    kept.cycle([WEB])
    kept.node.write(WEB, "b", 40_000)
    cycle = kept.cycle([WEB])
    assert cycle.drifted == [kept.node.cgroup(WEB, "b")]
    assert kept.quotas(WEB) == expected(kept.node, 150)


def test_recorded_quota_is_repaired_after_normalization(node: FakeNode) -> None:
    """The runtime writes the divided quota that it has on record when it updates another resource."""
    node.start(WEB)
    log = MemoryLog()
    for ratio in (150, 100, 100):
        kept = Kept(node, log)
        kept.cycle([WEB], ratio)
        assert kept.quotas(WEB) == expected(node, ratio)
        node.write(WEB, "a", 66_667)
    assert kept.cycle([WEB], 100).drifted == [node.cgroup(WEB, "a")]
    assert kept.quotas(WEB) == expected(node, 100)
    assert not kept.cycle([WEB], 100).written
    never = Kept(node)
    node.write(WEB, "a", 66_667)
    assert not never.cycle([WEB], 100).written


def test_a_restarted_agent_divides_nothing_twice(node: FakeNode) -> None:
    node.start(WEB)
    journal = node.root / "journal"
    for ratio in (150, 150, 200):
        with Journal.open(journal, boot="b", now=lambda: 1.0) as log:
            kept = Kept(node, log)
            kept.cycle([WEB], ratio)
            assert kept.quotas(WEB) == expected(node, ratio)


def test_ratio_removed_while_agent_was_down_is_reverted(node: FakeNode) -> None:
    node.start(WEB)
    for ratio in (150, 100):
        with Journal.open(node.root / "journal", boot="b", now=lambda: 1.0) as log:
            Kept(node, log).cycle([WEB], ratio)
    assert Kept(node).quotas(WEB) == expected(node, 100)


def test_restored_limit_is_the_current_not_the_first(kept: Kept) -> None:
    kept.cycle([WEB])
    larger = pod("web", container("a", "3"), container("b", "500m"))
    kept.cycle([larger], 100)
    assert kept.quotas(larger) == {"": 350_000, "a": 300_000, "b": 50_000}


def test_pod_that_gains_cpus_regains_its_quota(kept: Kept) -> None:
    kept.cycle([WEB])
    owned = pod(
        "web",
        container("a", "1"),
        container("b", "500m"),
        labels={QOS_CLASS: "LSR"},
    )
    kept.owners[WEB.uid] = True
    kept.cycle([owned])
    assert kept.quotas(WEB) == expected(kept.node, 100)
    kept.owners[WEB.uid] = None
    assert not kept.cycle([owned]).written
    del kept.owners[WEB.uid]
    kept.cycle([owned])
    assert kept.quotas(WEB) == expected(kept.node, 150)
    kept.owners[WEB.uid] = None
    assert not kept.cycle([owned]).written


@pytest.mark.parametrize(
    ("labels", "annotations"),
    [
        ({QOS_CLASS: "SYSTEM"}, {}),
        ({QOS_CLASS: "LSE"}, {}),
        ({QOS_CLASS: "LSR"}, {}),
        ({}, {RESOURCE_STATUS: '{"cpuset":"0-1"}'}),
    ],
    ids=["SYSTEM", "LSE", "LSR without CPUs", "a claim"],
)
def test_nobody_escapes_division_by_what_anybody_can_write(
    kept: Kept, labels: dict[str, str], annotations: dict[str, str]
) -> None:
    containers = container("a", "1"), container("b", "500m")
    kept.cycle([pod("web", *containers, labels=labels, annotations=annotations)])
    assert kept.quotas(WEB) == expected(kept.node, 150)


def test_resize_is_followed_and_pending_one_changes_nothing(kept: Kept) -> None:
    kept.cycle([WEB])
    resized = pod("web", container("a", "2"), container("b", "500m"))
    status = msgspec.structs.replace(resized.status, resize="Deferred")
    waiting = msgspec.structs.replace(resized, status=status)
    assert not kept.cycle([waiting]).written
    assert kept.quotas(WEB) == expected(kept.node, 150)
    kept.cycle([resized], 200)
    assert kept.node.quota(WEB, "a") == 100_000


def test_new_agent_leaves_a_pending_resize_alone(node: FakeNode) -> None:
    node.start(WEB)
    status = msgspec.structs.replace(WEB.status, resize="Infeasible")
    waiting = msgspec.structs.replace(pod("web", container("a", "9"), container("b", "9")), status=status)
    for of in (WEB, waiting):
        with Journal.open(node.root / "journal", boot="b", now=lambda: 1.0) as log:
            Kept(node, log).cycle([of])
    assert Kept(node).quotas(WEB) == expected(node, 150)
    assert not Kept(node).cycle([waiting]).written


def test_unreadable_kubelet_state_leaves_guaranteed_pods_unchanged(kept: Kept) -> None:
    whole = pod("whole", container("a", "2"), qos="Guaranteed")
    kept.node.start(whole)
    kept.cycle([whole, WEB], 150, UNKNOWN_POLICY)
    assert kept.node.quota(whole, "a") == 200_000
    assert kept.quotas(WEB) == expected(kept.node, 150)
    kept.cycle([whole, WEB], 150, NO_POLICY)
    assert kept.node.quota(whole, "a") == 133_334
    kept.cycle([whole, WEB], 120, UNKNOWN_POLICY)
    assert kept.node.quota(whole, "a") == 133_334


def test_limits_that_kubelet_does_not_enforce_stay_unset(kept: Kept) -> None:
    unenforced = pod("free2", container("a", "1"))
    kept.node.start(unenforced)
    for name in ("", "a"):
        kept.node.write(unenforced, name, None)
    assert not kept.cycle([unenforced]).written


def test_another_period_is_computed_with_not_repaired(kept: Kept) -> None:
    kept.cycle([WEB])
    kept.node.set_period(WEB, "a", 50_000)
    kept.cycle([WEB])
    assert kept.node.quota(WEB, "a") == 33_334
    assert not kept.cycle([WEB]).written


CLAIMS: dict[str, dict[str, Any]] = {
    "direct": {"direct": [{"name": "cpu", "quantity": "4"}]},
    "overhead": {"direct": None, "overhead": [{"name": "cpu", "perPodReference": "100m"}]},
}


@pytest.mark.parametrize("claim", CLAIMS)
def test_quotas_with_cpu_of_claims_stay_kubelets(kept: Kept, claim: str) -> None:
    claims = [{"resourceClaimName": "memory", "direct": [{"name": "memory"}]}, CLAIMS[claim]]
    status = {"nodeAllocatableResourceClaimStatuses": claims}
    claiming = pod("claiming", container("a", "1"), status=status)
    kept.node.start(claiming)
    kubelets = {"": 500_000, "a": 500_000}
    for at in ("start", "kubelet restarts it"):
        for name, quota in kubelets.items():
            kept.node.write(claiming, name, quota)
        cycle = kept.cycle([claiming, WEB], 200)
        assert Reason.QUOTA_NOT_OF_LIMIT in cycle.problems[claiming.name], at
        assert kept.quotas(claiming) == kubelets
    assert kept.quotas(WEB) == expected(kept.node, 200)
    assert not kept.cycle([claiming, WEB], 100).drifted
    assert kept.quotas(claiming) == kubelets


def test_claims_without_cpu_change_nothing(kept: Kept) -> None:
    claims = [{"resourceClaimName": "memory", "direct": [{"name": "memory"}]}]
    containers = container("a", "1"), container("b", "500m")
    web = pod("web", *containers, status={"nodeAllocatableResourceClaimStatuses": claims})
    assert not kept.cycle([web]).problems
    assert kept.quotas(web) == expected(kept.node, 150)


def test_claim_that_appears_later_gives_the_quota_back(kept: Kept) -> None:
    kept.cycle([WEB])
    claims = {"nodeAllocatableResourceClaimStatuses": [CLAIMS["direct"]]}
    claiming = pod("web", container("a", "1"), container("b", "500m"), status=claims)
    kept.cycle([claiming])
    assert kept.quotas(WEB) == expected(kept.node, 100)


def test_more_than_the_limit_is_left_alone(kept: Kept) -> None:
    """Kubelet computed it in a way that the agent does not know, or somebody raised it."""
    for name, quota in {"": 400_000, "a": 300_000}.items():
        kept.node.write(WEB, name, quota)
    problems = kept.cycle([WEB]).problems
    assert set(problems) == {kept.node.cgroup(WEB), kept.node.cgroup(WEB, "a")}
    assert all(Reason.QUOTA_NOT_OF_LIMIT in each for each in problems.values())
    assert kept.quotas(WEB) == {"": 400_000, "a": 300_000, "b": 33_334}
    kept.node.write(WEB, "a", 100_000)
    kept.node.write(WEB, "", 150_000)
    assert not kept.cycle([WEB]).problems
    assert kept.quotas(WEB) == expected(kept.node, 150)


def test_a_quota_that_systemd_rounds_is_divided(kept: Kept) -> None:
    limited = pod("limited", container("a", "125m"))
    kept.node.start(limited)
    for name in ("", "a"):
        kept.node.write(limited, name, 13_000)
    assert kept.cycle([limited], 200).problems == {}
    assert kept.quotas(limited)["a"] == 6_250


def test_mixed_pod_is_divided_where_kubelet_limits(kept: Kept) -> None:
    """Kubelet gives a container without a limit the pod's, and another none where the pod has none."""
    level = {"limits": {"cpu": "3"}, "requests": {"cpu": "3"}}
    limited = pod("limited", container("a", "1"), container("b"), resources=level)
    unlimited = pod("unlimited", container("a", "1"), container("b"))
    kept.node.start(limited, unlimited)
    assert kept.quotas(limited) == {"": 300_000, "a": 100_000, "b": 300_000}
    kept.cycle([limited, unlimited], 200)
    above = 300_000 if kept.node.version is Version.V1 else 150_000
    assert kept.quotas(limited) == {"": above, "a": 50_000, "b": 150_000}
    assert kept.quotas(unlimited) == {"": None, "a": 50_000, "b": None}
    kept.cycle([limited, unlimited], 100)
    assert kept.quotas(limited) == {"": 300_000, "a": 100_000, "b": 300_000}
    assert kept.quotas(unlimited) == {"": None, "a": 100_000, "b": None}


def test_container_not_begun_or_ended_is_no_problem(kept: Kept) -> None:
    unseen = pod("unseen", container("a", "1"))
    assert kept.cycle([unseen, WEB]).problems == {}
    os.unlink(kept.node.path(WEB, "a"))  # noqa: PTH108 - as the kernel takes it away
    assert kept.cycle([unseen, WEB]).problems == {}


def test_a_pod_that_is_gone_is_forgotten(kept: Kept) -> None:
    assert kept.cycle([WEB]).bound
    assert kept.cycle([]).bound == 0
    assert kept.quotas(WEB) == expected(kept.node, 100)


def test_one_bad_pod_or_file_spares_the_others(kept: Kept) -> None:
    status = {"name": "a", "containerID": "containerd://../../evil", "state": {"running": {}}}
    evil = pod("evil", container("a", "1"), status={"containerStatuses": [status]})
    broken = pod("broken", container("a", "1"))
    kept.node.start(broken)
    kept.node.path(broken, "a").write_text("nonsense\n")
    cycle = kept.cycle([evil, broken, WEB])
    assert kept.quotas(WEB) == expected(kept.node, 150)
    assert "not plain" in cycle.problems["default/evil"]
    assert "unexpected content" in cycle.problems[kept.node.cgroup(broken, "a")]


def test_kubelets_cgroups_may_come_later(tmp_path: Path) -> None:
    reconciler = QuotaReconciler(NodeCgroups(tmp_path, "/", MemoryLog(), now=lambda: 1.0))
    assert reconciler.cycle([WEB], lambda _pod: Ratio(150), NO_POLICY, lambda _pod: False).problems
    node = FakeNode(tmp_path)
    node.start(WEB)
    assert not reconciler.cycle([WEB], lambda _pod: Ratio(150), NO_POLICY, lambda _pod: False).problems
    assert node.quota(WEB, "a") == 66_667


def test_quota_already_divided_by_the_runtime_is_restored(node: FakeNode) -> None:
    node.start(WEB)
    for name in ("a", "b"):
        node.write(WEB, name, expected(node, 150)[name])
    if node.version is Version.V2:
        node.write(WEB, "", expected(node, 150)[""])
    for ratio in (150, 100):
        with Journal.open(node.root / "journal", boot="b", now=lambda: 1.0) as log:
            Kept(node, log).cycle([WEB], ratio)
    assert Kept(node).quotas(WEB) == expected(node, 100)


@given(st.sampled_from(["9300000000000000", "1e64", "9" * 200]) | st.integers(10**7, 10**60).map(str))
def test_impossible_limit_skips_its_pod_and_no_other(
    tmp_path_factory: pytest.TempPathFactory, limit: str
) -> None:
    node = FakeNode(tmp_path_factory.mktemp("node"))
    node.start(WEB)
    kept = Kept(node)
    cycle = kept.cycle([pod("greedy", container("a", limit)), WEB])
    assert list(cycle.problems) == ["default/greedy"]
    assert "is left alone" in cycle.problems["default/greedy"]
    assert "(AmountTooLarge)" in cycle.problems["default/greedy"]
    assert kept.quotas(WEB) == expected(node, 150)


def test_deleted_pod_that_was_read_leaks_no_descriptor(node: FakeNode) -> None:
    sampled = pod("sampled", container("a", "1"))
    node.start(sampled)
    if node.version is Version.V1:
        beside = node.root / "sys/fs/cgroup/unified"
        places = [beside / node.cgroup(sampled, name).lstrip("/") for name in ("", "a")]
        places[1].mkdir(parents=True)
        for place in (beside, *places):
            (place / "cgroup.controllers").write_text("memory\n")
    cgroups = NodeCgroups(node.root, "/", MemoryLog(), now=lambda: 0.0)
    reconciler = QuotaReconciler(cgroups)
    reconciler.cycle([], lambda _pod: Ratio(150), NO_POLICY, lambda _pod: False)
    before = len(list(Path("/proc/self/fd").iterdir()))
    assert cgroups.unified is not None
    for name in ("", "a"):
        read_bandwidth(cgroups.find().files, node.cgroup(sampled, name))
        if node.version is Version.V1:
            cgroups.unified.read(node.cgroup(sampled, name), "cgroup.controllers")
    hierarchies = 2 if node.version is Version.V1 else 1
    assert len(list(Path("/proc/self/fd").iterdir())) == before + 2 * hierarchies
    shutil.rmtree(node.path(sampled).parent)
    if node.version is Version.V1:
        shutil.rmtree(places[0])
    for _ in range(2):  # in the first cycle they still count as just used
        reconciler.cycle([], lambda _pod: Ratio(150), NO_POLICY, lambda _pod: False)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    cgroups.close()
