"""The controller of offline pods in stated time: its offers, its suppression, what bad input does to it."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from agent.fake_node import container, pod
from agent.offline_node import GIB, OfflineNode, batch_container, milli, offline_pod
from corewise.agent.cgroups import NodeCgroups
from corewise.agent.eviction import EvictionResult
from corewise.agent.kubelet import STATE_FILE
from corewise.agent.local_node import LocalNode
from corewise.agent.objects import QuotaPod
from corewise.agent.offline_controller import OfflineController
from corewise.agent.offline_limits import AGAIN_AFTER
from corewise.agent.publication import Tick
from corewise.config.colocation import (
    Isolation,
    OversubscriptionSettings,
    SuppressionMode,
    SuppressionSettings,
)
from corewise.config.eviction import NO_EVICTION, EvictionSettings
from corewise.kernel.cgroups.layout import Version
from corewise.kernel.cgroups.resources import Bandwidth, read_bandwidth, read_weight
from corewise.kernel.writing.journal import Journal, Log, MemoryLog
from corewise.quantities import Microseconds, Seconds, Share
from corewise.suppression.eviction import Shortage
from corewise.suppression.offer import OfflineAmounts
from corewise.vocabulary.names import (
    NORMALIZATION_RATIO,
    OVERSUBSCRIPTION,
    PRIORITY_CLASS,
    QOS_CLASS,
    QOS_LEVEL,
    RESOURCE_STATUS,
)
from corewise.vocabulary.offline_report import IsolationReport, OfferState
from corewise.vocabulary.reasons import Reason

CPUS = 16
ALLOCATABLE = OfflineAmounts(CPUS * 1000, 60 * GIB)
STEPPED = SuppressionSettings()
PER_POD = SuppressionSettings(mode=SuppressionMode.PER_POD_QUOTA)
OFF = SuppressionSettings(enabled=False)
LEAST_V1 = {"cpu.shares": "2", "memory.limit_in_bytes": "-1"}
"""A file that stands for the kernel's shows what was written: -1, not the number just below 2^63."""
JOB = offline_pod("job", batch_container("a", limit=4000), batch_container("b", limit=2000))


PERIODS = [(Isolation.IDLE, 1_000_000), (Isolation.WEIGHTS, 100_000)]
"""The periods of offline cgroups, by isolation."""
KUBELETS = Bandwidth(None, Microseconds(100_000))
SIX_CPUS = Bandwidth(Microseconds(6_000_000), Microseconds(1_000_000))
SIX_CPUS_OVER_100_MS = Bandwidth(Microseconds(600_000), Microseconds(100_000))


class Kept:
    """A node with its controller, which has had its first look."""

    def __init__(self, node: OfflineNode, log: Log | None = None) -> None:
        self.node = node
        self.pods: list[QuotaPod] = []
        self.log = log or MemoryLog()
        self.suppression: SuppressionSettings | None = STEPPED
        self.interval: Seconds | None = Seconds(10)
        """None: the settings of oversubscription are unknown."""
        self.eviction = NO_EVICTION
        self.labels: Mapping[str, str] = {OVERSUBSCRIPTION: "true"}
        self.annotations: Mapping[str, str] = {}
        self.restart()

    def restart(self) -> None:
        self.local = LocalNode(
            "n1", self.node.root, NodeCgroups(self.node.root, "/", self.log, now=lambda: 1.0)
        )
        self.controller = OfflineController(self.local, self.node.root)
        self.tick(0)

    def start(self, *pods: QuotaPod) -> None:
        self.node.start(*pods)
        self.pods += pods

    def state(self) -> None:
        self.local.see(self.annotations)
        oversubscription = OversubscriptionSettings(interval=self.interval) if self.interval else None
        self.controller.configure(oversubscription, self.suppression, eviction=self.eviction)
        self.controller.observe(self.labels, ALLOCATABLE, self.local.ratio)

    def tick(self, seconds: float = 10, **load: int) -> Tick:
        self.state()
        now = self.node.pass_time(seconds, **load)
        return self.controller.tick(now, now, self.pods)

    def settle(self) -> Tick:
        self.state()
        return self.controller.settle(0.0, self.pods)

    def bandwidth_of(self, of: QuotaPod, name: str = "") -> Bandwidth:
        return read_bandwidth(self.node.machine.files, self.node.machine.cgroup(of, name))

    def milli_of(self, of: QuotaPod, name: str = "") -> int | None:
        return milli(self.bandwidth_of(of, name))


@pytest.fixture(params=Version)
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Kept:
    return Kept(OfflineNode(tmp_path, request.param))


def test_before_the_first_sample_nothing_is_begun(tmp_path: Path) -> None:
    kept = Kept(OfflineNode(tmp_path))
    assert kept.controller.last.report is None
    assert kept.node.milli() is None


def test_offer_does_not_shrink_because_it_is_used(kept: Kept) -> None:
    for offline in (0, 4000, 7200, 7200):
        tick = kept.tick(online=4000, offline=offline, memory=10 * GIB, offline_memory=offline << 20)
        assert tick.report is not None
        assert (tick.report.raw_offer_milli, tick.report.online_milli) == (7200, 4000)
        assert tick.report.memory.offered == Share(6000).of(50 * GIB)


def test_quota_that_changes_often_keeps_the_usual_period(kept: Kept) -> None:
    """Each change starts a new period, with all of the quota."""
    for interval, period in ((10, 1_000_000), (9, 100_000), (10, 1_000_000)):
        kept.interval = Seconds(interval)
        kept.tick(interval, online=4000)
        assert kept.node.quota().period == period


def test_quota_steps_to_the_offer_and_stays_there(kept: Kept) -> None:
    quotas = []
    for _ in range(8):
        kept.tick(online=9334)
        quotas.append(kept.node.milli())
    assert quotas == [14_400, 12_800, 11_200, 9600, 8000, 6400, 4800, 3999]
    assert not kept.tick(online=9334).written
    report = kept.controller.last.report
    assert report is not None
    assert report.suppression is not None
    assert (report.suppression.reason, report.suppression.quota_milli) == (Reason.SUPPRESSION_AT_TARGET, 3999)


def test_busy_node_keeps_the_floor_and_never_max(kept: Kept) -> None:
    kept.suppression = replace(STEPPED, adjust_step=Share(10_000))
    kept.tick(online=16_000)
    assert kept.node.milli() == 10
    assert kept.controller.suppressor.at_floor


@pytest.mark.parametrize("written", [None, 50_000, 16_000_000])
def test_foreign_write_is_repaired_at_the_next_tick(kept: Kept, written: int | None) -> None:
    for _ in range(3):
        kept.tick(online=9334)
    kept.node.write(written)
    tick = kept.tick(online=9334)
    assert kept.node.milli() == 9600
    assert tick.report is not None
    assert tick.report.suppression is not None
    assert tick.report.suppression.repaired == 1


def test_a_repair_by_another_loop_is_counted_too(kept: Kept) -> None:
    kept.start(pod("web", container("a", "1")))
    kept.annotations = {NORMALIZATION_RATIO: "1.50"}
    kept.tick(online=9334)
    kept.local.cycle(kept.pods)
    kept.node.write(None)
    kept.controller.record_repairs(kept.local.cycle(kept.pods))
    assert kept.node.milli() == 14_400
    assert kept.controller.suppressor.repaired == 1
    kept.tick(online=9334)
    assert kept.controller.suppressor.repaired == 1


def test_a_foreign_period_is_kept_and_computed_with(kept: Kept) -> None:
    kept.suppression = replace(STEPPED, adjust_step=Share(10_000))
    kept.tick(online=6000)
    ours = kept.node.quota()
    assert ours == SIX_CPUS
    kept.node.set_bandwidth(6_000_000, 50_000)
    kept.tick(online=6000)
    assert kept.node.quota() == Bandwidth(Microseconds(300_000), Microseconds(50_000))
    assert not kept.tick(online=6000).written
    kept.node.set_bandwidth(300_000, 100_000)
    kept.tick(online=6000)
    assert kept.node.quota() == ours
    kept.suppression = OFF
    kept.settle()
    assert kept.node.quota() == KUBELETS


@pytest.mark.parametrize("loop", ["own", "quotas"])
def test_reset_by_systemd_is_repaired_and_counted_once(kept: Kept, loop: str) -> None:
    kept.suppression = replace(STEPPED, adjust_step=Share(10_000))
    for _ in range(2):
        kept.tick(online=6000)
    kept.node.set_bandwidth(None, 100_000)
    if loop == "quotas":
        kept.start(pod("web", container("a", "1")))
        kept.annotations = {NORMALIZATION_RATIO: "1.50"}
        kept.state()
        kept.controller.record_repairs(kept.local.cycle(kept.pods))
        assert kept.node.quota() == SIX_CPUS
    for _ in range(2):
        kept.tick(online=6000)
        assert kept.node.quota() == SIX_CPUS
        assert kept.controller.suppressor.repaired == 1


def test_a_restarted_agent_goes_on_from_the_file(tmp_path: Path) -> None:
    node = OfflineNode(tmp_path)
    with Journal.open(tmp_path / "journal", boot="b", now=lambda: 1.0) as log:
        kept = Kept(node, log)
        for _ in range(3):
            kept.tick(online=9334)
    with Journal.open(tmp_path / "journal", boot="b", now=lambda: 1.0) as log:
        kept = Kept(node, log)
        assert node.milli() == 11_200
        kept.tick(online=9334)
        assert node.milli() == 9600
        kept.suppression = OFF
        kept.settle()
        assert node.milli() is None


@pytest.mark.parametrize("what", ["label", "disabled"])
def test_switching_off_gives_everything_back_at_once(kept: Kept, what: str) -> None:
    kept.start(JOB)
    before = kept.node.bandwidths([JOB])
    assert set(before.values()) == {KUBELETS}
    for suppression in (STEPPED, PER_POD):
        kept.suppression = suppression
        kept.labels = {OVERSUBSCRIPTION: "true"}
        for _ in range(3):
            kept.tick(online=15_000)
        if what == "label" and suppression is STEPPED:
            kept.labels = {}
        else:
            kept.suppression = OFF
        kept.settle()
        assert kept.node.milli() is None
        assert [kept.milli_of(JOB, name) for name in ("", "a", "b")] == [6000, 4000, 2000]
    kept.pods.clear()
    kept.settle()
    assert kept.node.bandwidths([JOB]) == before


def test_mode_change_restores_what_the_other_mode_bounded(kept: Kept) -> None:
    kept.start(JOB)
    for _ in range(12):
        kept.tick(online=15_000)
    assert (kept.node.milli() or 0) < 1000
    kept.suppression = PER_POD
    kept.tick(online=15_000)
    assert kept.node.milli() is None
    assert kept.milli_of(JOB) == 5400
    kept.suppression = STEPPED
    kept.tick(online=15_000)
    assert kept.node.milli() == 14_400
    assert kept.milli_of(JOB) == 6000


def test_per_pod_quotas_move_only_outside_both_thresholds(kept: Kept) -> None:
    kept.start(JOB, offline_pod("free", batch_container("a", request=500)))
    kept.suppression = PER_POD
    seen = []
    for online in (13_000, 11_000, 9_000, 7_000, 6_000, 9_000, 9_800):
        kept.tick(online=online)
        seen.append((str(kept.controller.suppressor.task), kept.milli_of(JOB)))
    assert seen == [
        ("suppressing", 5400),
        ("suppressing", 4800),
        ("", 4800),
        ("", 4800),
        ("recovering", 5400),
        ("recovering", 6000),
        ("", 6000),
    ]


@pytest.mark.parametrize("suppression", [STEPPED, PER_POD])
def test_stolen_time_holds_offline_pods_back(kept: Kept, suppression: SuppressionSettings) -> None:
    kept.start(JOB)
    kept.suppression = suppression
    quotas = []
    for _ in range(3):
        tick = kept.tick(online=2400, offline=2400, stolen=11_200)
        assert tick.report is not None
        assert (tick.report.online_milli, tick.report.raw_offer_milli) == (13_600, 1440)
        quotas.append(kept.node.milli() if suppression is STEPPED else kept.milli_of(JOB))
    assert quotas == ([14_400, 12_800, 11_200] if suppression is STEPPED else [5400, 4800, 4200])


def test_idle_owned_cpus_hide_no_busy_ones(kept: Kept) -> None:
    owner = pod("owner", container("a", "12"), qos="Guaranteed", labels={QOS_CLASS: "LSR"}, priority=5500)
    kept.start(JOB, owner)
    kept.suppression = PER_POD
    kept.tick(online=3000, offline=1000)
    assert (str(kept.controller.suppressor.task), kept.milli_of(JOB)) == ("suppressing", 5400)


def test_cpus_that_went_offline_are_not_offered(kept: Kept) -> None:
    """16 CPUs are allocatable."""
    kept.node.cpus = 8
    kept.tick(online=7000)
    tick = kept.tick(online=7000)
    assert tick.report is not None
    assert (tick.report.allocatable_milli, tick.report.raw_offer_milli) == (8000, 600)
    assert kept.node.milli() == 6400
    kept.node.cpus = 32
    tick = kept.tick(online=7000)
    assert tick.report is not None
    assert (tick.report.allocatable_milli, tick.report.raw_offer_milli) == (16_000, 5400)


NATIVE = pod("native", container("a", "3", "1"), container("b", "1"), annotations={QOS_LEVEL: "-1"})
"""An offline pod to Volcano, with limits that kubelet enforces."""

ONLINE = pod("online", container("a", "4", "1"))
OWNER = pod(
    "owner",
    container("a", "2"),
    qos="Guaranteed",
    labels={QOS_CLASS: "LSR"},
    annotations={RESOURCE_STATUS: '{"cpuset": "0-1"}'},
    priority=5500,
)
UNLIMITED = pod("unlimited", container("a", "2"), container("b"), labels={QOS_CLASS: "BE"})
HIGH, LOW = 14_720, 3_000
"""Milli-CPU of 16: 92 % and 19 %."""


def limits(kept: Kept, of: QuotaPod) -> tuple[int | None, ...]:
    return tuple(kept.milli_of(of, name) for name in ("", *(each.name for each in of.spec.containers)))


def test_kubelet_limited_offline_pods_are_suppressed_without_oversubscription(kept: Kept) -> None:
    kept.labels = {}
    kept.suppression = PER_POD
    pods = (NATIVE, ONLINE, OWNER, UNLIMITED, JOB)
    kept.start(*pods)
    kept.tick(online=LOW)
    before = {each.name: limits(kept, each) for each in pods}
    assert before["default/native"] == (4000, 3000, 1000)
    for _ in range(2):
        tick = kept.tick(online=HIGH)
        assert (tick.on, tick.report, tick.problems) == (False, None, {})
    is_v1 = kept.node.machine.version is Version.V1
    lowered = (4000, 2400, 800) if is_v1 else (3200, 3000, 1000)
    assert limits(kept, NATIVE) == lowered
    assert limits(kept, UNLIMITED) == (None, 1600, None)
    assert kept.milli_of(JOB) == 4800
    assert [limits(kept, each) for each in (ONLINE, OWNER)] == [before[each.name] for each in (ONLINE, OWNER)]
    assert kept.controller.suppressor.suppressed_pods == 3
    kept.restart()
    kept.tick(online=HIGH)
    assert limits(kept, UNLIMITED) == (None, 1400, None)
    for _ in range(20):
        kept.tick(online=HIGH)
    assert limits(kept, UNLIMITED) == (None, 200, None)
    for _ in range(11):
        kept.tick(online=LOW)
    assert {each.name: limits(kept, each) for each in pods} == before
    kept.tick(online=HIGH)
    kept.suppression = OFF
    kept.settle()
    assert {each.name: limits(kept, each) for each in pods} == before


@pytest.mark.parametrize("first", ["normalization", "suppression"])
@pytest.mark.parametrize("last", ["normalization", "suppression"])
def test_normalization_and_suppression_of_one_quota_interleave_freely(
    kept: Kept, first: str, last: str
) -> None:
    kept.labels = {}
    kept.suppression = OFF
    kept.start(NATIVE)
    before = limits(kept, NATIVE)

    def have(what: str, *, on: bool) -> None:
        if what == "suppression":
            kept.suppression = PER_POD if on else OFF
        else:
            kept.annotations = {NORMALIZATION_RATIO: "1.25"} if on else {}
        for _ in range(2):
            kept.state()
            kept.local.cycle(kept.pods)
            kept.tick(online=HIGH)

    have(first, on=True)
    have("suppression" if first == "normalization" else "normalization", on=True)
    container_a = kept.milli_of(NATIVE, "a")
    assert container_a is not None
    steps = 1 if first == "normalization" else 2
    if kept.node.machine.version is Version.V1:
        assert container_a == 2400 * (10 - steps) // 10
    else:
        assert limits(kept, NATIVE) == (3200 * (10 - steps) // 10, 2400, 800)
    have(last, on=False)
    if last == "suppression":
        assert kept.milli_of(NATIVE, "a") == 2400
    have("suppression" if last == "normalization" else "normalization", on=False)
    assert limits(kept, NATIVE) == before


def test_per_pod_quotas_survive_agent_and_journal_loss(kept: Kept) -> None:
    kept.start(JOB)
    kept.suppression = PER_POD
    for _ in range(3):
        kept.tick(online=15_000)
    assert kept.milli_of(JOB) == 4200
    kept.restart()
    kept.tick(online=15_000)
    assert kept.milli_of(JOB) == 3600
    kept.log = MemoryLog()
    kept.restart()
    kept.tick(online=15_000)
    assert kept.milli_of(JOB) == 3000


def test_offline_pods_get_limits_and_weights_unlabeled_too(kept: Kept) -> None:
    kept.labels = {}
    kept.annotations = {NORMALIZATION_RATIO: "1.50"}
    kept.start(JOB)
    assert not kept.settle().problems
    assert [kept.milli_of(JOB, name) for name in ("", "a", "b")] == [4000, 2666, 1333]
    files, machine = kept.node.machine.files, kept.node.machine
    weights = [read_weight(files, machine.cgroup(JOB, name)) for name in ("", "a", "b")]
    assert weights == ([235, 157, 79] if machine.version is Version.V2 else [6144, 4096, 2048])
    assert not kept.settle().written


def test_kubelet_settings_of_offline_pods_return_without_journal(kept: Kept) -> None:
    bound = offline_pod("bound", batch_container("a", limit=1000, memory=GIB))
    kept.start(bound)
    cgroups = [kept.node.machine.cgroup(bound, name) for name in ("", "a")]
    assert not kept.settle().problems
    kept.log = MemoryLog()
    kept.restart()
    assert not kept.settle().problems
    found = kept.local.cgroups.find()
    assert not found.settings.restore().failed
    v2 = found.files.version is Version.V2
    least = {"cpu.weight": "1", "memory.max": "max"} if v2 else LEAST_V1
    for cgroup in cgroups:
        assert {file: found.files.read(cgroup, file) for file in least} == least


def idle(kept: Kept, of: QuotaPod) -> list[str]:
    """Whether a pod and its containers are idle."""
    files, machine = kept.node.machine.files, kept.node.machine
    return [files.read(machine.cgroup(of, name), "cpu.idle") for name in ("", "a", "b")]


@pytest.mark.parametrize("labels", [{}, {OVERSUBSCRIPTION: "true"}], ids=["not offering", "offering"])
def test_pods_cgroup_is_idle_where_suppression_is_on(kept: Kept, labels: Mapping[str, str]) -> None:
    kept.labels = labels
    kept.start(JOB)
    assert not kept.settle().problems
    assert idle(kept, JOB) == ["1", "0", "0"]
    assert kept.controller.isolation == IsolationReport(
        reason=Reason.OFFLINE_POD_IDLE, why="pods with cpu.idle: 1", pods=1
    )
    kept.suppression = None
    kept.restart()
    assert not kept.settle().problems
    assert idle(kept, JOB) == ["1", "0", "0"]


@pytest.mark.parametrize("interval", [10, 60])
def test_idleness_somebody_ended_returns_within_a_minute(kept: Kept, interval: int) -> None:
    kept.interval = Seconds(interval)
    kept.start(JOB)
    kept.tick(interval)
    kept.node.path("cpu", kept.node.machine.cgroup(JOB), "cpu.idle").write_text("0\n")
    for _ in range(AGAIN_AFTER // interval):
        kept.tick(interval)
    assert idle(kept, JOB) == ["1", "0", "0"]


@pytest.mark.parametrize(
    "mark",
    [
        {"annotations": {QOS_LEVEL: "-1"}},
        {"labels": {QOS_CLASS: "BE"}},
        {"labels": {PRIORITY_CLASS: "koord-batch"}},
        {"priority": 5999},
    ],
)
def test_marked_pod_that_requests_nothing_is_offline(kept: Kept, mark: dict[str, Any]) -> None:
    marked = pod("marked", container("a"), container("b"), qos="BestEffort", **mark)
    native = pod("native", container("a"), container("b"), qos="BestEffort")
    kept.start(marked, native)
    before = kept.node.bandwidths([marked, native])
    kept.tick(online=4000)
    tick = kept.tick(online=4000)
    assert (idle(kept, marked), idle(kept, native)) == (["1", "0", "0"], ["0", "0", "0"])
    assert kept.controller.cache.pods.cgroups == {kept.node.machine.cgroup(marked): 2}
    assert tick.report is not None
    assert (tick.report.offline_pods, tick.report.native_best_effort) == (1, 1)
    kept.pods = [pod("marked", container("a"), container("b"), qos="BestEffort"), native]
    assert not kept.settle().problems
    assert idle(kept, marked) == ["0", "0", "0"]
    kept.suppression = OFF
    kept.settle()
    assert kept.node.bandwidths([marked, native]) == before


@pytest.mark.parametrize("settings", [OFF, replace(STEPPED, isolation=Isolation.WEIGHTS)])
def test_pods_are_idle_no_more_once_isolation_ends(kept: Kept, settings: SuppressionSettings) -> None:
    kept.start(JOB)
    kept.settle()
    kept.suppression = settings
    assert not kept.settle().problems
    assert idle(kept, JOB) == ["0", "0", "0"]
    assert kept.controller.isolation is None
    v2 = kept.node.machine.version is Version.V2
    assert read_weight(kept.node.machine.files, kept.node.machine.cgroup(JOB)) == (235 if v2 else 6144)


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("mode", SuppressionMode)
def test_period_follows_isolation_and_nothing_rewrites_it(
    kept: Kept, mode: SuppressionMode, restarts: bool
) -> None:
    kept.start(JOB)
    online, left = (6000, 6000) if mode is SuppressionMode.BESTEFFORT_QUOTA else (15_000, 600)
    cgroups = {kept.node.machine.cgroup(JOB), kept.node.machine.cgroup(JOB, "a")}
    if mode is SuppressionMode.BESTEFFORT_QUOTA:
        cgroups.add(kept.node.slice)
    for isolation, period in PERIODS * 2:
        kept.suppression = replace(
            STEPPED, mode=mode, isolation=isolation, quota_step=Share(10_000), adjust_step=Share(10_000)
        )
        if restarts:
            kept.restart()
        for _ in range(2):
            kept.tick(online=online)
        found = {cgroup: read_bandwidth(kept.node.machine.files, cgroup) for cgroup in cgroups}
        assert {each.period for each in found.values()} == {period}
        assert not kept.tick(online=online).written
        assert kept.milli_of(JOB) == left


@pytest.mark.parametrize("mode", SuppressionMode)
def test_foreign_period_of_a_pod_is_never_overwritten(kept: Kept, mode: SuppressionMode) -> None:
    kept.start(JOB)
    kept.suppression = replace(STEPPED, mode=mode)
    high, low = (2000, 2000) if mode is SuppressionMode.BESTEFFORT_QUOTA else (15_000, 9000)
    for _ in range(3):
        kept.tick(online=high)
    cgroup, before = kept.node.machine.cgroup(JOB), kept.milli_of(JOB)
    kept.node.set_bandwidth(300_000, 50_000, cgroup)
    for _ in range(2 * AGAIN_AFTER // 10):
        written = kept.tick(online=low).written
        assert not [each for each in written if each.cgroup == cgroup and each.new.endswith("1000000")]
    assert (kept.milli_of(JOB), kept.bandwidth_of(JOB).period) == (before, 50_000)


@pytest.mark.parametrize("isolation", Isolation)
def test_usual_period_returns_without_journal(kept: Kept, isolation: Isolation) -> None:
    kept.start(JOB)
    before = kept.node.bandwidths([JOB])
    kept.tick(online=15_000)
    kept.log = MemoryLog()
    kept.suppression = replace(STEPPED, isolation=isolation)
    kept.restart()
    for _ in range(2):
        kept.tick(online=15_000)
    assert {each.period for each in kept.node.bandwidths([JOB]).values()} == {dict(PERIODS)[isolation]}
    kept.pods.clear()
    kept.suppression = OFF
    kept.settle()
    assert kept.node.bandwidths([JOB]) == before


def test_kernel_without_idle_cgroups_is_told(kept: Kept) -> None:
    kept.start(JOB)
    kept.node.path("cpu", kept.node.slice, "cpu.idle").unlink()
    kept.suppression = replace(STEPPED, adjust_step=Share(10_000))
    assert not kept.tick(online=6000).problems
    assert idle(kept, JOB) == ["0", "0", "0"]
    assert kept.bandwidth_of(JOB) == kept.node.quota() == SIX_CPUS_OVER_100_MS
    report = kept.controller.isolation
    assert report is not None
    assert report.reason == Reason.ISOLATION_UNSUPPORTED


def test_pod_counts_as_idle_once_written(kept: Kept) -> None:
    kept.pods.append(JOB)
    kept.tick(online=4000)
    before = kept.controller.isolation
    kept.node.start(JOB)
    kept.tick(online=4000)
    after = kept.controller.isolation
    assert (before, after and after.pods) == (None, 1)


def test_memory_limit_below_use_is_refused_and_retried(kept: Kept) -> None:
    fat = offline_pod("fat", batch_container("a", limit=1000, memory=GIB))
    kept.start(fat)
    v2 = kept.node.machine.version is Version.V2
    usage = "memory.current" if v2 else "memory.usage_in_bytes"
    for name in ("", "a"):
        kept.node.path("memory", kept.node.machine.cgroup(fat, name), usage).write_text(f"{2 * GIB}\n")
    tick = kept.settle()
    assert len(tick.problems) == 2
    for name in ("", "a"):
        kept.node.path("memory", kept.node.machine.cgroup(fat, name), usage).write_text("1000\n")
    assert not kept.settle().problems
    limit = kept.node.path(
        "memory", kept.node.machine.cgroup(fat, "a"), "memory.max" if v2 else "memory.limit_in_bytes"
    )
    assert limit.read_text() == f"{GIB}\n"


def test_cpus_where_thousandths_were_meant_are_warned_about(
    kept: Kept, caplog: pytest.LogCaptureFixture
) -> None:
    kept.start(offline_pod("slip", batch_container("a", limit=8)))
    with caplog.at_level(logging.WARNING):
        kept.settle()
        kept.settle()
    (line,) = [record.getMessage() for record in caplog.records]
    assert "pod default/slip: container a asks for kubernetes.io/batch-cpu: 8" in line
    assert "0.008 of a CPU, and 8 CPUs are 8000" in line


def test_batch_cpu_pod_that_kubelet_limits_stays_untouched(kept: Kept) -> None:
    mixed = pod("mixed", {**batch_container("a", limit=1000)}, container("b", "1"))
    kept.start(mixed)
    assert "not BestEffort" in kept.settle().problems["default/mixed"]
    assert kept.milli_of(mixed, "b") == 1000
    assert kept.milli_of(mixed, "a") is None


def test_cpus_that_pods_own_are_not_lent(kept: Kept) -> None:
    kept.tick()
    kept.start(
        pod("owner", container("a", "2"), labels={QOS_CLASS: "LSR"}, qos="Guaranteed"),
        pod(
            "bound",
            container("a", "4"),
            labels={QOS_CLASS: "LSR"},
            annotations={RESOURCE_STATUS: '{"cpuset":"0-3"}'},
        ),
        pod("forged", container("a", "1"), annotations={RESOURCE_STATUS: '{"cpuset":"4-7"}'}),
        pod("static", container("a", "1"), qos="Guaranteed"),
    )
    state = kept.node.root / STATE_FILE
    state.parent.mkdir(parents=True)
    state.write_text(
        json.dumps({"policyName": "static", "entries": {"uid-static": {"a": "7"}}, "defaultCpuSet": "0-6"})
    )
    tick = kept.tick()
    assert tick.report is not None
    assert (tick.report.pinned_milli, tick.report.raw_offer_milli) == (7000, 5400)
    assert tick.report.limited_by == Reason.OFFER_LESS_PINNED


def without_slice(folder: Path) -> Kept:
    node = OfflineNode(folder)
    directory = node.path("cpu", node.slice, "")
    for path in directory.iterdir():
        path.unlink()
    directory.rmdir()
    return Kept(node)


def test_failed_squeeze_is_retried_once_with_newest_state(tmp_path: Path) -> None:
    kept = without_slice(tmp_path)
    kept.suppression = replace(STEPPED, adjust_step=Share(10_000))
    for _ in range(2):
        assert kept.tick(online=4000).problems["suppression"]
    kept.node.make_slice()
    assert not kept.tick(online=4000).problems
    newest = kept.controller.last.offer
    assert newest is not None
    assert kept.node.milli() == newest.cpu_milli
    assert not kept.tick(online=4000).written


def test_a_bug_in_suppression_is_no_failure(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    def bug(**_state: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("corewise.agent.suppressor.adjust", bug)
    with pytest.raises(ZeroDivisionError):
        kept.tick(online=4000)


def test_missing_slice_is_bounded_once_it_appears(tmp_path: Path) -> None:
    kept = without_slice(tmp_path)
    tick = kept.tick(online=4000)
    assert "cpu.max" in tick.problems["suppression"]
    assert kept.controller.suppressor.slice_missing
    assert tick.report is not None
    assert tick.report.suppression is not None
    assert tick.report.suppression.reason == Reason.SLICE_MISSING
    kept.node.make_slice()
    assert not kept.tick(online=4000).problems
    assert kept.node.milli() == 14_400


def test_a_missing_slice_says_nothing_about_the_kernel(tmp_path: Path) -> None:
    kept = without_slice(tmp_path)
    kept.tick(online=4000)
    assert kept.controller.isolation is None
    kept.node.make_slice()
    kept.start(JOB)
    kept.tick(online=4000)
    assert idle(kept, JOB) == ["1", "0", "0"]


def test_offline_pods_without_a_slice_are_reported(tmp_path: Path) -> None:
    kept = without_slice(tmp_path)
    kept.suppression = PER_POD
    kept.pods += (JOB,)
    kept.tick(online=4000)
    assert kept.controller.isolation is not None
    assert kept.controller.isolation.reason == Reason.SLICE_MISSING
    assert "no cgroup" in kept.controller.isolation.why
    kept.node.make_slice()
    kept.node.start(JOB)
    kept.tick(online=4000)
    assert kept.controller.isolation.reason == Reason.OFFLINE_POD_IDLE


@pytest.mark.parametrize("content", ["", "nonsense\n", "max\n", "-5 100000\n", "1000 0\n"])
def test_unreadable_quota_is_reported_and_left_alone(tmp_path: Path, content: str) -> None:
    kept = Kept(OfflineNode(tmp_path))
    path = kept.node.path("cpu", kept.node.slice, "cpu.max")
    path.write_text(content)
    tick = kept.tick(online=4000)
    assert "unexpected content" in tick.problems["suppression"]
    assert path.read_text() == content
    path.write_text("max 100000\n")
    assert not kept.tick(online=4000).problems


def test_missing_samples_freeze_then_withdraw_the_offer(tmp_path: Path) -> None:
    kept = Kept(OfflineNode(tmp_path))
    kept.suppression = replace(STEPPED, adjust_step=Share(10_000))
    kept.tick(online=6000)
    stat = kept.node.root / "proc/stat"
    states = []
    for _ in range(91):
        kept.node.pass_time(10)
        stat.unlink()
        kept.state()
        tick = kept.controller.tick(kept.node.now, kept.node.now, ())
        assert tick.report is not None
        states.append(tick.report.state)
        assert kept.node.milli() == (10 if tick.report.state is OfferState.WITHDRAWN else 6000)
    assert states[:4] == [OfferState.FRESH, OfferState.FRESH, OfferState.FROZEN, OfferState.FROZEN]
    assert states[88:] == [OfferState.FROZEN, OfferState.WITHDRAWN, OfferState.WITHDRAWN]


@pytest.mark.parametrize("text", ["yes", "True", "1", ""])
def test_unclear_label_changes_nothing_and_is_reported(
    kept: Kept, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    kept.tick(online=4000)
    kept.labels = {OVERSUBSCRIPTION: text}
    with caplog.at_level(logging.WARNING):
        assert kept.tick(online=4000).on
    assert "neither true nor false; on stays" in caplog.text
    kept.restart()
    assert kept.controller.node.on is False


def test_unknown_settings_begin_nothing_and_give_nothing_back(kept: Kept) -> None:
    kept.tick(online=4000)
    before = kept.node.quota()
    kept.suppression = None
    for _ in range(3):
        kept.tick(online=16_000)
        kept.settle()
    assert kept.node.quota() == before


def test_suppressed_pods_stay_so_under_unknown_settings(kept: Kept) -> None:
    kept.labels, kept.suppression = {}, PER_POD
    kept.start(JOB, NATIVE)
    for _ in range(4):
        kept.tick(online=15_000)
    before = limits(kept, JOB), limits(kept, NATIVE)
    assert kept.milli_of(JOB) == 3600
    kept.suppression = None
    kept.restart()
    for _ in range(2 * AGAIN_AFTER // 10):
        kept.tick(online=15_000)
        kept.settle()
    assert (limits(kept, JOB), limits(kept, NATIVE)) == before
    kept.suppression = PER_POD
    kept.tick(online=15_000)
    kept.tick(online=15_000)
    assert kept.milli_of(JOB) == 3000
    kept.suppression = OFF
    kept.settle()
    assert (kept.milli_of(JOB), kept.milli_of(NATIVE)) == (6000, 4000)


def test_slice_quota_ends_without_label_or_settings(kept: Kept) -> None:
    kept.tick(online=4000)
    assert kept.node.milli() == 14_400
    kept.labels, kept.suppression = {}, None
    kept.restart()
    assert kept.node.milli() is None


@pytest.mark.parametrize("restores", [False, True])
def test_stopping_agent_holds_or_restores_as_configured(kept: Kept, restores: bool) -> None:
    kept.start(JOB)
    kept.suppression = replace(STEPPED, restore_on_stop=restores, adjust_step=Share(10_000))
    kept.tick(online=6000)
    kept.controller.stop()
    assert kept.node.quota() == (KUBELETS if restores else SIX_CPUS)
    assert kept.bandwidth_of(JOB) == (SIX_CPUS_OVER_100_MS if restores else SIX_CPUS)
    assert idle(kept, JOB)[0] == ("0" if restores else "1")


def test_pod_that_ends_mid_cycle_is_no_problem(kept: Kept) -> None:
    kept.start(JOB)
    kept.suppression = PER_POD
    kept.tick(online=15_000)
    for name in ("a", "b", ""):
        kept.node.machine.path(JOB, name).unlink()
    assert not kept.tick(online=15_000).problems
    assert read_bandwidth(kept.node.machine.files, kept.node.slice).quota is None


def test_kubelets_cgroups_may_come_later(tmp_path: Path) -> None:
    local = LocalNode("n1", tmp_path, NodeCgroups(tmp_path, "/", MemoryLog(), now=lambda: 1.0))
    controller = OfflineController(local, tmp_path)
    controller.configure(OversubscriptionSettings(), STEPPED)
    local.see({})
    controller.observe({OVERSUBSCRIPTION: "true"}, ALLOCATABLE, local.ratio)
    assert controller.tick(1.0, 1.0, ()).problems
    node = OfflineNode(tmp_path)
    assert "no cgroup" not in str(controller.tick(node.now, node.now, ()).problems)
    assert not controller.tick(node.pass_time(10), node.now, ()).problems
    assert node.quota().quota is not None


EVICTING = EvictionSettings(
    memory_threshold_percent=80,
    cpu_satisfaction_lower_percent=30,
    cpu_satisfaction_upper_percent=35,
    cpu_window_seconds=20,
    cooldown_seconds=30,
)


@pytest.mark.parametrize(
    ("mode", "ratio", "used", "short"),
    [
        (SuppressionMode.BESTEFFORT_QUOTA, "1.00", 1200, True),  # 1200m of 6000m
        (SuppressionMode.BESTEFFORT_QUOTA, "2.00", 1200, False),  # of 3000m: batch-cpu is normalized
        (SuppressionMode.BESTEFFORT_QUOTA, "1.00", 1000, False),  # they do not use it up
        (SuppressionMode.PER_POD_QUOTA, "1.00", 1200, False),  # there is no quota of all
    ],
)
def test_cpu_shortage_follows_past_quota_and_requested_amounts(
    tmp_path: Path, mode: SuppressionMode, ratio: str, used: int, short: bool
) -> None:
    kept = Kept(OfflineNode(tmp_path))
    kept.suppression, kept.eviction = replace(STEPPED, adjust_step=Share(10_000), mode=mode), EVICTING
    kept.annotations = {NORMALIZATION_RATIO: ratio}
    kept.start(JOB)
    for _ in range(3):
        kept.tick(online=14_000, offline=used)
        assert kept.controller.evictor.shortage is Shortage.NONE
    tick = kept.tick(online=14_000, offline=used)
    assert (kept.controller.evictor.shortage is Shortage.CPU) is short
    assert tick.report is not None
    assert tick.report.eviction is not None
    assert (tick.report.eviction.reason == Reason.EVICTED_FOR_CPU_TIME) is short
    assert tick.report.eviction.next == "default/job"
    kept.labels = {}
    kept.tick(online=14_000, offline=used)
    assert kept.controller.evictor.report is None


def test_pod_now_online_since_the_sample_is_kept(tmp_path: Path) -> None:
    kept = Kept(OfflineNode(tmp_path))
    kept.eviction = EVICTING
    kept.start(pod("job", container("a"), labels={QOS_CLASS: "BE"}, qos="BestEffort"))
    verdict = None
    while verdict is None:
        kept.tick(15, memory=60 * GIB)
        verdict = kept.controller.eviction_due(kept.node.now)
    kept.pods = [pod("job", container("a"), qos="BestEffort")]
    kept.controller.settle(0.0, kept.pods)
    assert kept.controller.eviction_due(kept.node.now) is None


def test_only_marked_pods_are_evicted_one_per_cooldown(tmp_path: Path) -> None:
    kept = Kept(OfflineNode(tmp_path))
    kept.eviction = EVICTING
    kept.start(
        JOB,
        pod("marked", container("a"), labels={QOS_CLASS: "BE"}, qos="BestEffort"),
        pod("owner", container("a", "2"), labels={QOS_CLASS: "LSR"}, annotations={QOS_LEVEL: "-1"}),
        pod("native", container("a"), qos="BestEffort"),
        pod("online", container("a", "1")),
    )
    evictor, going = kept.controller.evictor, {}
    for _ in range(10):
        kept.tick(15, memory=60 * GIB)
        verdict = kept.controller.eviction_due(kept.node.now)
        if verdict is not None and verdict.pod is not None:
            name, now = verdict.pod.name, kept.node.now
            evictor.record(verdict, EvictionResult.EVICTED, "", now, now)
            assert kept.controller.eviction_due(now) is None
            going[name] = now
            kept.pods = [each for each in kept.pods if each.metadata.name != name]
    assert list(going) == ["job", "marked", "owner"]
    assert [after - before for before, after in pairwise(going.values())] == [30, 30]
