"""Whatever happened before: switched off, offline pods have what they ask for; restored, kubelet's own
values.

A history is any sequence of ticks under any load, changes of mode, isolation, label and ratio, pods that come
and go, writes of others to what is bounded, the kernel's own values among them, a best-effort cgroup that is
removed and recreated, restarts, and deaths of the agent between any two writes, to a cgroup or the journal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.fake_node import FakeNode
from agent.mortal import Fate, Killed, MortalFiles, MortalLog
from agent.offline_node import GIB, batch_container, milli, offline_pod
from corewise.actions import QuotaOwner
from corewise.agent.cgroups import NodeCgroups
from corewise.agent.local_node import LocalNode
from corewise.agent.objects import QuotaPod
from corewise.agent.offline_controller import OfflineController
from corewise.agent.publication import Tick
from corewise.agent.sampler import Miss, Missed, PinnedPod
from corewise.config.colocation import (
    Isolation,
    OversubscriptionSettings,
    SuppressionMode,
    SuppressionSettings,
)
from corewise.kernel.cgroups.layout import QOSClass, Version
from corewise.kernel.cgroups.resources import Bandwidth, period_file, quota_file, quota_text, read_bandwidth
from corewise.kernel.errors import KernelError
from corewise.quantities import Microseconds, Ratio, Share
from corewise.suppression.batch_limits import quota
from corewise.suppression.offer import OfflineAmounts, Usage
from corewise.vocabulary.names import OVERSUBSCRIPTION
from kernel.cgroup_trees import FRESH, PERIOD, KernelRules, StoredCgroups
from tally import fault, step

CPUS = 16_000
PODS = (
    offline_pod("one", batch_container("a", limit=4000, memory=GIB), batch_container("b", limit=2000)),
    offline_pod("two", batch_container("a", limit=1000)),
    offline_pod("free", batch_container("a", request=500)),
    offline_pod("late", batch_container("a", limit=12_000)),
)
LIMITS = {"one": (6000, 4000, 2000), "two": (1000, 1000), "free": (0, 0), "late": (12_000, 12_000)}
BEST_EFFORT = {Version.V1: {"cpu.shares": "2"}, Version.V2: {"cpu.weight": "1"}}
"""What kubelet gives the cgroups of pods that request nothing."""
OFF = SuppressionSettings(enabled=False)
PER_POD = SuppressionSettings(mode=SuppressionMode.PER_POD_QUOTA)
MODES = (
    OFF,
    SuppressionSettings(),
    SuppressionSettings(adjust_step=Share(10_000)),
    PER_POD,
    SuppressionSettings(isolation=Isolation.WEIGHTS),
    SuppressionSettings(mode=SuppressionMode.PER_POD_QUOTA, isolation=Isolation.WEIGHTS),
    SuppressionSettings(mode=SuppressionMode.PER_POD_QUOTA, quota_step=Share(5000), pods_a_cycle=1),
    None,
)
MILLI = st.integers(0, CPUS)
TOO_MUCH = 20_000_000
"""A quota above all that the node has."""
QUOTA = st.one_of(st.none(), st.just(TOO_MUCH), st.integers(1_000, TOO_MUCH))
FAULTS = {
    "miss": "missed sample",
    "foreign": "write by somebody else",
    "reset": "write by somebody else",
    "slice": "cgroup removed",
    "restart": "restart",
}
OPERATIONS = st.one_of(
    *[st.tuples(st.just("tick"), st.tuples(MILLI, MILLI))] * 4,
    st.tuples(st.just("miss"), st.none()),
    st.tuples(st.just("settle"), st.none()),
    st.tuples(st.just("quotas"), st.none()),
    st.tuples(st.just("suppression"), st.sampled_from(MODES)),
    st.tuples(st.just("label"), st.sampled_from(["true", "true", "true", "false", None, "yes"])),
    st.tuples(st.just("ratio"), st.sampled_from([100, 120, 200])),
    st.tuples(st.just("pod"), st.integers(0, len(PODS) - 1)),
    st.tuples(st.just("foreign"), st.tuples(st.just(0) | st.integers(0, 9), QUOTA)),
    st.tuples(st.just("reset"), st.integers(0, 9)),
    st.tuples(st.just("slice"), st.none()),
    st.tuples(st.just("restart"), st.none()),
    st.tuples(st.just("die"), st.integers(0, 30)),
)


class StatedSampler:
    """A sampler that has measured what a history says."""

    def __init__(self) -> None:
        self.cpus = CPUS // 1000
        self.next: Usage | Missed = Missed(Miss.FIRST, "")

    def sample(self, now: float, pinned: Iterable[PinnedPod] = ()) -> Usage | Missed:
        return self.next

    def forget(self) -> None:
        """Forget nothing: a history says all."""


class History:
    """One node through its life."""

    def __init__(self, version: Version, root: Path) -> None:
        self.root = root
        self.names = FakeNode(root, version).names
        self.slice = self.names.qos(QOSClass.BEST_EFFORT)
        self.stored = StoredCgroups(version, [self.slice])
        self.fate = Fate()
        self.log = MortalLog(self.fate)
        self.pods: dict[str, QuotaPod] = {}
        self.suppression: SuppressionSettings | None = SuppressionSettings()
        self.labels = {OVERSUBSCRIPTION: "true"}
        self.ratio = Ratio(100)
        self.now = 0.0
        self.restart()
        self.run("pod", 0)

    def restart(self, _value: object = None) -> None:
        files = MortalFiles(KernelRules(self.stored), self.fate)
        cgroups = NodeCgroups(self.root, "/", self.log, now=lambda: 1.0, wrap=lambda _files: files)
        self.sampler = StatedSampler()
        self.local = LocalNode("n1", self.root, cgroups)
        self.controller = OfflineController(self.local, self.root, samples=self.sampler)

    def cgroups(self, pod: QuotaPod) -> list[str]:
        statuses = pod.status.all_containers
        uid, qos = pod.uid, QOSClass.BEST_EFFORT
        return [self.names.pod(uid, qos), *(self.names.container(uid, qos, s.container_id) for s in statuses)]

    def run(self, operation: str, value: Any) -> None:
        step(FAULTS.get(operation))
        try:
            getattr(self, f"on_{operation}")(value)
        except Killed:
            fault("death")
            self.fate.left = None
            self.stored.make(self.slice)
            self.restart()

    def on_restart(self, _value: None) -> None:
        self.restart()

    def on_die(self, points: int) -> None:
        self.fate.left = points

    def on_tick(self, load: tuple[int, int]) -> None:
        online, offline = load
        self.sampler.next = Usage(min(CPUS, online + offline), offline, (), 0, 0)
        self._tick()

    def on_miss(self, _value: None) -> None:
        self.sampler.next = Missed(Miss.ABSURD, "too much")
        self._tick()

    def on_settle(self, _value: None) -> None:
        self._prepare()
        self._check_problems(self.controller.settle(0.0, self.pods.values()))

    def on_quotas(self, _value: None) -> None:
        """The other loop of the agent: normalization, which mends every owner's bounds."""
        self.controller.record_repairs(self.local.cycle(list(self.pods.values())))

    def on_suppression(self, suppression: SuppressionSettings | None) -> None:
        self.suppression = suppression

    def on_label(self, text: str | None) -> None:
        self.labels = {} if text is None else {OVERSUBSCRIPTION: text}

    def on_ratio(self, hundredths: int) -> None:
        self.ratio = Ratio(hundredths)

    def on_pod(self, number: int) -> None:
        """A pod comes with its cgroups, or goes: first they, then what the API says of it."""
        pod = PODS[number]
        if pod.name in self.pods:
            self.stored.remove(self.cgroups(pod)[0])
            if len(self.pods) % 2:
                self._tick()
            del self.pods[pod.name]
            return
        for cgroup in self.cgroups(pod):
            self.stored.make(cgroup)
            self.stored.contents[cgroup] |= BEST_EFFORT[self.stored.version]
        self.pods[pod.name] = pod

    def on_slice(self, _value: None) -> None:
        """kubelet restarts: no pods, and a cgroup without a quota."""
        self.stored.remove(self.slice)
        self.pods.clear()
        self._tick()
        self.stored.make(self.slice)

    def on_foreign(self, value: tuple[int, int | None]) -> None:
        """Somebody else changes what is bounded within what the kernel allows."""
        number, wanted = value
        text = quota_text(self.stored.version, None if wanted is None else Microseconds(wanted))
        self._write_as_other(number, {quota_file(self.stored.version): text})

    def on_reset(self, number: int) -> None:
        """Somebody else writes the kernel's own quota and period, as systemd does."""
        version = self.stored.version
        files = (quota_file(version), period_file(version))
        self._write_as_other(number, {file: FRESH[version][file] for file in files})

    def _write_as_other(self, number: int, texts: Mapping[str, str]) -> None:
        found = self.local.cgroups.found
        held = (
            sorted(cgroup for cgroup in found.writer.held if cgroup in self.stored.contents) if found else []
        )
        with suppress(KernelError):
            for file, text in texts.items() if held else ():
                KernelRules(self.stored).write(held[number % len(held)], file, text)

    def _prepare(self) -> None:
        self.controller.configure(OversubscriptionSettings(), self.suppression)
        self.controller.observe(self.labels, OfflineAmounts(CPUS, 0), self.ratio)

    def _tick(self) -> None:
        self.now += 10
        self._prepare()
        self._check_problems(self.controller.tick(self.now, self.now, list(self.pods.values())))
        if self.suppression is not None and self.slice in self.stored.contents:
            quota = milli(self.bandwidth(self.slice))
            assert quota is None or 10 <= quota <= CPUS, "no one else's quota outlives a tick"

    def _check_problems(self, tick: Tick) -> None:
        missing = self.slice not in self.stored.contents
        assert missing or not tick.problems or set(tick.problems) == {"sample"}

    def bandwidth(self, cgroup: str) -> Bandwidth:
        return read_bandwidth(self.stored, cgroup)

    def bandwidths(self) -> dict[str, Bandwidth]:
        return {each: self.bandwidth(each) for each in self.stored.contents if each.startswith(self.slice)}

    def asked_for(self) -> dict[str, Bandwidth]:
        """Return the quotas of cgroups if only the pods' own limits count, and none is idle."""
        expected: dict[str, int | None] = {self.slice: None}
        for pod in self.pods.values():
            for cgroup, limit in zip(self.cgroups(pod), LIMITS[pod.metadata.name], strict=True):
                expected[cgroup] = quota(limit, period=PERIOD, normalization=self.ratio)
        return {
            cgroup: Bandwidth(None if each is None else Microseconds(each), Microseconds(PERIOD))
            for cgroup, each in expected.items()
            if cgroup in self.stored.contents
        }


@pytest.mark.parametrize("version", Version)
@given(operations=st.lists(OPERATIONS, max_size=30))
@settings(deadline=None, max_examples=60)
def test_disabled_or_restored_settings_leave_nothing_behind(
    tmp_path_factory: pytest.TempPathFactory, version: Version, operations: list[tuple[str, Any]]
) -> None:
    history = History(version, tmp_path_factory.mktemp("node"))
    for operation, value in operations:
        history.run(operation, value)
    history.fate.left = None
    history.run("suppression", OFF)
    history.run("settle", None)
    history.run("quotas", None)
    assert history.bandwidths() == history.asked_for()
    found = history.local.cgroups.find()
    assert not found.bounded_by(QuotaOwner.SUPPRESSION)
    found.writer.restore()
    found.settings.restore()
    pods = {cgroup for pod in history.pods.values() for cgroup in history.cgroups(pod)}
    for cgroup, files in history.stored.contents.items():
        assert files == FRESH[version] | (BEST_EFFORT[version] if cgroup in pods else {})
    assert not found.writer.held
    assert not found.settings.held


@pytest.mark.parametrize("version", Version)
@pytest.mark.parametrize(
    "before_the_miss", [("suppression", PER_POD), ("restart", None)], ids=["other option", "restart"]
)
def test_foreign_slice_quota_is_reverted_without_a_sample(
    tmp_path: Path, version: Version, before_the_miss: tuple[str, Any]
) -> None:
    history = History(version, tmp_path)
    history.run("tick", (1000, 0))
    history.run("pod", 0)
    applied = milli(history.bandwidth(history.slice))
    history.run("foreign", (0, TOO_MUCH))
    history.run(*before_the_miss)
    history.run("miss", None)
    assert milli(history.bandwidth(history.slice)) == applied == CPUS * 8 // 10
    assert history.controller.suppressor.repaired == 1
    history.run("miss", None)
    assert history.controller.suppressor.repaired == 1


@pytest.mark.parametrize("version", Version)
@pytest.mark.parametrize(
    ("after", "idle"),
    [
        (OFF, "0"),
        (SuppressionSettings(isolation=Isolation.WEIGHTS), "0"),
        (SuppressionSettings(), "1"),
        (None, "1"),
    ],
)
def test_idle_pods_follow_isolation_without_their_journal(
    tmp_path: Path, version: Version, after: SuppressionSettings | None, idle: str
) -> None:
    history = History(version, tmp_path)
    history.run("settle", None)
    cgroup = history.cgroups(PODS[0])[0]
    assert history.stored.contents[cgroup]["cpu.idle"] == "1"
    history.log = MortalLog(history.fate)
    history.suppression = after
    history.restart()
    for _ in range(2):
        history.run("settle", None)
    assert history.stored.contents[cgroup]["cpu.idle"] == idle
    found = history.local.cgroups.find()
    found.writer.restore()
    assert not found.settings.restore().failed
    assert history.stored.contents[cgroup] == FRESH[version] | BEST_EFFORT[version]
