"""Pods come to the CPUs that they own or share, stay there, and go back, whatever happens around them."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from agent.pinning_node import ALL, ONLINE, PinNode, claim, pin_pod, problems_of
from corewise.agent.cgroups import NodeCgroups
from corewise.agent.kubelet import NO_POLICY
from corewise.agent.metrics import publish_pinning
from corewise.agent.objects import QuotaPod
from corewise.agent.offline_pods import PodTable
from corewise.agent.pinning import CPUSetReconciler
from corewise.kernel.cgroups.layout import QOSClass, Version
from corewise.kernel.cgroups.resources import burst_file
from corewise.kernel.writing.journal import MemoryLog
from corewise.kernel.writing.setting_writer import SettingWriter
from corewise.prometheus.exposition import Exposition
from corewise.vocabulary import metrics
from corewise.vocabulary.metrics import AGENT, exported_by
from corewise.vocabulary.names import QOS_CLASS
from corewise.vocabulary.reasons import Reason

OWNER = pin_pod("owner", claim("0-3"), bound="01", qos="Guaranteed")
SECOND = pin_pod("second", claim("4-5"), bound="02", qos="Guaranteed")
WEB = pin_pod("web")
OFFLINE = pin_pod("offline", qos="BestEffort")
EVERYBODY = (OWNER, SECOND, WEB, OFFLINE)


@pytest.fixture(params=Version)
def node(request: pytest.FixtureRequest, tmp_path: Path) -> PinNode:
    node = PinNode(tmp_path, request.param)
    node.start(*EVERYBODY)
    return node


def relabelled(pod: QuotaPod, labels: dict[str, str]) -> QuotaPod:
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, labels=labels))


def named(pods: tuple[QuotaPod, ...], *sets: str) -> dict[str, str]:
    return {pod.name: cpus for pod, cpus in zip(pods, sets, strict=True)}


def test_owners_run_on_own_cpus_apart_from_others(node: PinNode) -> None:
    assert node.cycle(*EVERYBODY).problems == {}
    assert node.everything(EVERYBODY) == named(EVERYBODY, "0-3", "4-5", "6-7", "6-7")


def test_the_cgroups_above_pods_are_kubelets(node: PinNode) -> None:
    node.cycle(*EVERYBODY)
    above = {node.cpus(node.machine.names.qos(qos)) for qos in QOSClass}
    assert above == {node.kubelets}


def test_node_without_owners_is_not_even_read(node: PinNode) -> None:
    (node.root / ONLINE).unlink()
    cycle = node.cycle(WEB, OFFLINE, pin_pod("plain", "{}"))
    assert (cycle.written, cycle.problems) == ([], {})


def test_nothing_is_written_where_nothing_has_changed(node: PinNode) -> None:
    assert node.cycle(*EVERYBODY).written
    node.restart()
    for _ in range(3):
        assert not node.cycle(*EVERYBODY).written


def test_shared_pool_grows_until_the_last_owner_leaves(node: PinNode) -> None:
    node.cycle(*EVERYBODY)
    node.cycle(SECOND, WEB, OFFLINE)
    assert node.everything(EVERYBODY) == named(EVERYBODY, node.kubelets, "4-5", "0-3,6-7", "0-3,6-7")
    node.cycle(WEB, OFFLINE)
    assert set(node.everything(EVERYBODY).values()) == {node.kubelets}
    assert not node.local.cgroups.find().settings.held


def test_an_annotation_that_goes_gives_the_cpus_back(node: PinNode) -> None:
    node.cycle(*EVERYBODY)
    node.cycle(pin_pod("owner", qos="Guaranteed"), SECOND, WEB, OFFLINE)
    assert node.everything(EVERYBODY) == named(EVERYBODY, "0-3,6-7", "4-5", "0-3,6-7", "0-3,6-7")


def test_a_cgroup_that_is_gone_is_forgotten(node: PinNode) -> None:
    node.cycle(*EVERYBODY)
    node.remove(node.cgroup(OWNER))
    cycle = node.cycle(SECOND, WEB, OFFLINE)
    assert cycle.problems == {}
    assert node.everything([SECOND, WEB]) == named((SECOND, WEB), "4-5", "0-3,6-7")


@pytest.mark.parametrize("of", [OWNER, WEB], ids=["owner", "sharing pod"])
def test_restarted_container_follows_its_pods_cpu_set(node: PinNode, of: QuotaPod) -> None:
    node.cycle(*EVERYBODY)
    anew = f"{node.cgroup(of)}/cri-containerd-anew.scope"
    node.remove(node.cgroup(of, "a"))
    node.make(anew)
    node.cycle(*EVERYBODY)
    assert node.cpus(anew) == ("0-3" if of is OWNER else "6-7")
    node.restart()
    node.cycle(*EVERYBODY)
    node.cycle(WEB, OFFLINE)
    assert node.cpus(anew) == node.kubelets


def test_foreign_write_is_repaired_and_counted(node: PinNode) -> None:
    node.cycle(*EVERYBODY)
    node.files.write(node.cgroup(OWNER, "a"), "cpuset.cpus", "0-1")
    assert node.cycle(*EVERYBODY).drifted == [f"{node.cgroup(OWNER, 'a')}/cpuset.cpus"]
    assert node.sets_of(OWNER) == {"0-3"}


DEEP = '{"x":' + "[" * 100_000 + "]" * 100_000 + "}"


@pytest.mark.parametrize("bad", ["{", claim("3-4"), claim("9"), claim("zero"), pytest.param(DEEP, id="deep")])
def test_bad_claim_leaves_its_pod_on_shared_cpus(node: PinNode, bad: str) -> None:
    worse = pin_pod("worse", bad, bound="09", qos="Guaranteed")
    node.start(worse)
    pods = (*EVERYBODY, worse)
    cycle = node.cycle(*pods)
    assert list(cycle.problems) == [worse.name]
    assert "shares CPUs" in cycle.problems[worse.name]
    assert node.everything(pods) == named(pods, "0-3", "4-5", "6-7", "6-7", "6-7")
    assert node.local.problem_log.count("CPU sets") == 1
    node.cycle(*EVERYBODY)
    assert node.local.problem_log.count("CPU sets") == 0


def test_refused_claim_is_fulfilled_when_earlier_one_goes(node: PinNode) -> None:
    rival = pin_pod("rival", claim("2-3"), bound="08")
    node.start(rival)
    cycle = node.cycle(*EVERYBODY, rival)
    assert all(Reason.CPUS_TAKEN in each for each in problems_of(cycle, "rival"))
    assert node.sets_of(rival) == {"6-7"}
    assert not node.cycle(SECOND, WEB, OFFLINE, rival).problems
    assert (node.sets_of(rival), node.sets_of(WEB)) == ({"2-3"}, {"0-1,6-7"})


def test_the_quotas_of_owners_alone_are_lifted(node: PinNode) -> None:
    """The label LSR exempts no pod: the claim does, from the first look on and while it counts."""
    rival = pin_pod("rival", claim("3-5"), bound="03", qos="Guaranteed")
    idle = relabelled(pin_pod("idle", bound="04", qos="Guaranteed"), {QOS_CLASS: "LSR"})
    node.start(rival, idle)
    node.ratio(150)
    node.put(ONLINE, "CPUs")
    node.cycle(OWNER, rival, idle, WEB)
    assert [node.machine.quota(pod, "a") for pod in (OWNER, rival, idle)] == [100_000, 100_000, 66_667]
    node.put(ONLINE, ALL)
    for _ in range(2):
        node.cycle(OWNER, rival, idle, WEB)
        assert [node.machine.quota(pod, "a") for pod in (OWNER, rival, idle)] == [None, 66_667, 66_667]
        node.restart()
        node.ratio(150)
    node.cycle(rival, idle, WEB)
    assert [node.machine.quota(pod, "a") for pod in (rival, idle, WEB)] == [None, 66_667, 66_667]
    node.kubelet("static")
    node.cycle(rival, idle, WEB)
    assert [node.machine.quota(pod, "a") for pod in (rival, idle, WEB)] == [66_667, 66_667, 66_667]
    node.kubelet("static", **{rival.uid: "3-5"})
    node.cycle(rival, idle, WEB)
    assert [node.machine.quota(pod, "a") for pod in (rival, idle, WEB)] == [100_000, 66_667, 66_667]


def quota_file(node: PinNode) -> str:
    return "cpu.max" if node.version is Version.V2 else "cpu.cfs_quota_us"


def quotas_of(node: PinNode, pod: QuotaPod) -> list[int | None]:
    return [node.machine.quota(pod), node.machine.quota(pod, "a")]


def test_pod_has_no_quota_while_owning_cpus(node: PinNode) -> None:
    kubelets = quotas_of(node, OWNER)
    assert None not in kubelets
    node.cycle(*EVERYBODY)
    assert quotas_of(node, OWNER) == [None, None]
    assert not node.cycle(*EVERYBODY).written
    node.machine.write(OWNER, "a", 50_000)
    node.cycle(*EVERYBODY)
    assert quotas_of(node, OWNER) == [None, None]
    node.restart()
    unclaimed = msgspec.structs.replace(
        OWNER, metadata=msgspec.structs.replace(OWNER.metadata, annotations={})
    )
    node.cycle(unclaimed, SECOND, WEB, OFFLINE)
    assert quotas_of(node, OWNER) == kubelets


WAITING: dict[str, tuple[int, list[dict[str, str]]]] = {
    "deferred": (2, [{"type": "PodResizePending", "status": "True", "reason": "Deferred"}]),
    "infeasible": (2, [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]),
    "not seen": (1, []),
    "applied": (2, []),
}


@pytest.mark.parametrize("waits", WAITING)
def test_resize_takes_no_owned_cpus_until_kubelet_applies(node: PinNode, waits: str) -> None:
    node.cycle(*EVERYBODY)
    observed, conditions = WAITING[waits]
    body = msgspec.to_builtins(OWNER)
    body["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "6"}, "limits": {"cpu": "6"}}
    body["metadata"]["generation"] = 2
    body["status"] |= {"observedGeneration": observed, "conditions": conditions}
    resized = msgspec.convert(body, QuotaPod)
    for _ in range(2):
        cycle = node.cycle(resized, *EVERYBODY[1:])
        if waits == "applied":
            assert Reason.CLAIM_NOT_REQUESTED in cycle.problems[OWNER.name]
            assert node.sets_of(OWNER) == {"0-3,6-7"}
        else:
            assert node.sets_of(OWNER) == {"0-3"}
            assert quotas_of(node, OWNER) == [None, None]
        node.restart()


def test_burst_survives_a_lifted_and_restored_quota(node: PinNode) -> None:
    file = burst_file(node.version)
    cgroup = node.cgroup(OWNER, "a")
    place = node.machine.path(OWNER, "a").with_name(file)
    place.write_text("20000\n")
    for pods in (EVERYBODY, EVERYBODY, EVERYBODY[1:]):
        node.cycle(*pods)
        assert node.files.read(cgroup, file).strip() == "20000"
        assert node.machine.quota(OWNER, "a") == (None if OWNER in pods else 100_000)


def test_pod_with_unwritable_cpu_set_keeps_its_quota(node: PinNode) -> None:
    """Without a quota, and on the CPUs of all, nothing would bound it."""
    kubelets = quotas_of(node, OWNER)
    node.mortal.read_only = node.cgroup(OWNER)
    assert node.cycle(*EVERYBODY).problems
    node.mortal.read_only = ""
    assert quotas_of(node, OWNER) == kubelets
    node.cycle(*EVERYBODY)
    assert quotas_of(node, OWNER) == [None, None]


def test_last_shared_cpus_are_never_given_away(node: PinNode) -> None:
    node.cycle(*EVERYBODY)
    rest = pin_pod("rest", claim("6-7"), bound="03")
    node.start(rest)
    cycle = node.cycle(*EVERYBODY, rest)
    assert Reason.SHARED_POOL_EMPTY in cycle.problems["default/rest"]
    assert node.everything(EVERYBODY) == named(EVERYBODY, "0-3", "4-5", "6-7", "6-7")


def test_kubelet_placement_applies_while_shared_cpus_are_offline(node: PinNode) -> None:
    node.cycle(*EVERYBODY)
    node.put(ONLINE, "0-5")
    cycle = node.cycle(*EVERYBODY)
    assert Reason.SHARED_POOL_EMPTY in cycle.problems["shared pool"]
    assert node.everything(EVERYBODY) == named(EVERYBODY, "0-3", "4-5", node.kubelets, node.kubelets)


@pytest.mark.parametrize("restarts", [False, True])
def test_edited_claim_takes_no_cpus_another_pod_owns(node: PinNode, restarts: bool) -> None:
    older = pin_pod("older", claim("6"), bound="00", qos="Guaranteed")
    node.start(older)
    node.cycle(*EVERYBODY, older)
    if restarts:
        node.restart()
    edited = pin_pod("older", claim("4-5"), bound="00", qos="Guaranteed")
    for _ in range(2):
        cycle = node.cycle(*EVERYBODY, edited)
        assert Reason.CPUS_TAKEN in cycle.problems["default/older"]
        assert node.everything((*EVERYBODY, edited)) == named(
            (*EVERYBODY, edited), "0-3", "4-5", "6-7", "6-7", "6-7"
        )


def test_sharing_the_very_cpus_claimed_is_not_owning(node: PinNode) -> None:
    node.put(ONLINE, "0-5,7")
    node.cycle(*EVERYBODY)
    assert node.sets_of(WEB) == {"7"}
    node.restart()
    greedy = pin_pod("web", claim("7"), bound="00")
    assert Reason.SHARED_POOL_EMPTY in node.cycle(OWNER, SECOND, greedy, OFFLINE).problems["default/web"]
    assert (node.sets_of(OWNER), node.sets_of(SECOND)) == ({"0-3"}, {"4-5"})


def test_cpus_that_go_offline_are_left_and_restored(node: PinNode) -> None:
    node.cycle(*EVERYBODY)
    node.put(ONLINE, "0-2,4-6")
    node.cycle(*EVERYBODY)
    assert node.everything(EVERYBODY) == named(EVERYBODY, "0-2", "4-5", "6", "6")
    node.put(ONLINE, "0-7")
    node.cycle(*EVERYBODY)
    assert node.everything(EVERYBODY) == named(EVERYBODY, "0-3", "4-5", "6-7", "6-7")


@pytest.mark.parametrize("text", ["nonsense", ""])
def test_node_that_hides_its_cpus_is_left_unchanged(node: PinNode, text: str) -> None:
    node.cycle(*EVERYBODY)
    node.put(ONLINE, text)
    cycle = node.cycle(SECOND, WEB, OFFLINE)
    assert cycle.problems
    assert {write.file for write in cycle.written} == {quota_file(node)}, "of the owner that is gone"
    assert node.sets_of(WEB) == {"6-7"}


def test_cpu_sets_kubelet_keeps_are_reported_not_written(
    node: PinNode,
) -> None:
    node.kubelet("static", **{"uid-web": "0-1"})
    cycle = node.cycle(*EVERYBODY)
    assert not cycle.written
    refused = problems_of(cycle, "owner", "second")
    assert all(Reason.CPUS_MANAGED_BY_KUBELET in each for each in refused)
    assert len(cycle.problems) == len(refused)


def test_cpu_sets_are_restored_when_kubelet_takes_over(node: PinNode) -> None:
    node.cycle(*EVERYBODY)
    node.kubelet("static")
    node.cycle(*EVERYBODY)
    assert set(node.everything(EVERYBODY).values()) == {node.kubelets}
    assert not node.cycle(*EVERYBODY).written
    node.kubelet("none")
    node.cycle(*EVERYBODY)
    assert node.sets_of(OWNER) == {"0-3"}


def test_unknown_keeper_of_cpu_sets_leaves_everything_unchanged(node: PinNode) -> None:
    node.cycle(*EVERYBODY)
    node.put("var/lib/kubelet/cpu_manager_state", "nonsense")
    node.restart()
    cycle = node.cycle(SECOND, WEB, OFFLINE)
    assert list(cycle.problems) == ["kubelet's CPU manager"]
    assert {write.file for write in cycle.written} == {quota_file(node)}, "of the owner that is gone"
    assert node.everything(EVERYBODY) == named(EVERYBODY, "0-3", "4-5", "6-7", "6-7")


def test_cpus_that_kubelet_reserves_are_nobodys(node: PinNode) -> None:
    node.kubelet_config("kind: KubeletConfiguration\nreservedSystemCPUs: 0,5\n")
    cycle = node.cycle(*EVERYBODY)
    assert all(Reason.CPUS_RESERVED in each for each in problems_of(cycle, "owner", "second"))
    assert set(node.everything(EVERYBODY).values()) == {node.kubelets}


@pytest.mark.parametrize("text", ["[", "- 1", "reservedSystemCPUs: x"])
def test_a_configuration_that_cannot_be_read_changes_nothing(node: PinNode, text: str) -> None:
    node.kubelet_config("reservedSystemCPUs: 0\n")
    node.cycle(*EVERYBODY)
    node.kubelet_config(text)
    cycle = node.cycle(*EVERYBODY)
    assert any("config.yaml" in each for each in cycle.problems)
    assert (node.sets_of(OWNER), node.sets_of(SECOND)) == ({"0-3,6-7"}, {"4-5"})


def test_pods_are_placed_within_what_kubelets_cgroup_has(node: PinNode) -> None:
    file = "cpuset.cpus" if node.version is Version.V1 else "cpuset.cpus.effective"
    base = node.root / "sys/fs/cgroup"
    kubepods = (base / "cpuset" if node.version is Version.V1 else base) / node.machine.names.kubepods[1:]
    for cgroup in sorted((path for path in kubepods.rglob("*") if path.is_dir()), reverse=True):
        (cgroup / file).write_text("0-6\n")
    (kubepods / file).write_text("0-6\n")
    beyond = pin_pod("beyond", claim("6-7"), bound="09")
    cycle = node.cycle(*EVERYBODY, beyond)
    assert Reason.CPUS_UNKNOWN in cycle.problems[beyond.name]
    assert node.everything(EVERYBODY) == named(EVERYBODY, "0-3", "4-5", "6", "6")


def test_the_journal_alone_puts_everything_back(node: PinNode) -> None:
    node.cycle(*EVERYBODY)
    report = SettingWriter(node.files, node.log, now=lambda: 0.0).restore()
    assert not report.failed
    assert set(node.everything(EVERYBODY).values()) == {node.kubelets}


def test_metrics_report_owners_and_the_shared_cpus(node: PinNode) -> None:
    node.cycle(*EVERYBODY, pin_pod("bad", "{"))
    exposition = Exposition(exported_by(AGENT))
    publish_pinning(node.local, exposition)
    text = exposition.text().decode()
    for metric, value in {
        metrics.PINNING_PODS: 2,
        metrics.PINNING_OWNED: 6,
        metrics.PINNING_SHARED: 2,
        metrics.PINNING_FAILING: 1,
        metrics.SETTING_WRITES: 12,
        metrics.SETTING_DRIFTS: 0,
        metrics.SETTING_ERRORS: 0,
    }.items():
        assert f"\n{metric.name} {value}.0\n" in text


def test_missing_kubelet_cgroups_are_a_problem_for_claims(node: PinNode, tmp_path: Path) -> None:
    empty = CPUSetReconciler(NodeCgroups(tmp_path / "empty", "/", MemoryLog(), now=lambda: 0.0), node.root)
    assert empty.cycle([WEB], NO_POLICY).problems == {}
    assert len(empty.cycle([OWNER], NO_POLICY).problems) == 1


def test_unwritable_file_is_reported_and_the_others_continue(node: PinNode) -> None:
    cgroup = node.mortal.read_only = node.cgroup(WEB, "a")
    cycle = node.cycle(*EVERYBODY)
    assert f"{cgroup}/cpuset.cpus" in cycle.problems
    assert all(file.startswith(node.cgroup(WEB)) for file in cycle.problems)
    assert (node.sets_of(OWNER), node.sets_of(OFFLINE)) == ({"0-3"}, {"6-7"})
    node.mortal.read_only = ""
    assert node.cycle(*EVERYBODY).problems == {}
    assert node.sets_of(WEB) == {"6-7"}


def test_unreadably_deep_annotation_owns_nothing_for_oversubscription(node: PinNode) -> None:
    sorted_out = PodTable().sort([pin_pod("deep", DEEP)], node.machine.names, NO_POLICY)
    assert sorted_out.pinned == []
