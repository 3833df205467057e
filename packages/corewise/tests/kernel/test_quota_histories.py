"""Whatever owners want, others write and faults strike: order holds, the end is right, no write is wasted.

A history is any sequence of: a change of ratio, of suppression, of batch limits and of the period that both
have; a restart; a write by somebody else that the kernel takes; a death of the agent at any point. Afterwards
one undisturbed call must bring about exactly what is wanted, a second one write nothing, and restore must put
back kubelet's values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corewise.actions import QuotaOwner, WriteQuota
from corewise.kernel.cgroups.files import ancestors
from corewise.kernel.cgroups.layout import Version
from corewise.kernel.cgroups.resources import burst_file, period_file, quota_file, quota_text, read_bandwidth
from corewise.kernel.errors import ValueRefused
from corewise.kernel.writing.entries import Opened
from corewise.kernel.writing.journal import MemoryLog
from corewise.kernel.writing.journaled_writer import Point, WriteReport
from corewise.kernel.writing.quota_writer import QuotaWriter
from corewise.quantities import Microseconds
from kernel.cgroup_trees import PERIOD, KernelRules, StoredCgroups, bound, divided, in_order_everywhere
from tally import fault, step

PODS = ("/kubepods/burstable/poda", "/kubepods/podb", "/kubepods/burstable/podc")
SLICE = "/kubepods/besteffort"
OFFLINE = (f"{SLICE}/podd", f"{SLICE}/podd/1")
LIMITS = st.lists(st.integers(1_000, 400_000), min_size=1, max_size=3)
TREES = st.lists(LIMITS, max_size=len(PODS))
ANY = st.integers(0, 20)
LONG = 1_000_000

OPERATIONS = st.one_of(
    st.tuples(st.just("ratio"), st.sampled_from([100, 115, 120, 150, 200, 500])),
    st.tuples(st.just("suppress"), st.one_of(st.none(), st.integers(1_000, 600_000))),
    st.tuples(st.just("limit"), st.one_of(st.none(), st.integers(1_000, 600_000))),
    st.tuples(st.just("idle"), st.booleans()),
    st.tuples(st.just("reset"), st.none()),
    st.tuples(st.just("restart"), st.none()),
    st.tuples(st.just("start"), ANY),
    st.tuples(st.just("end"), ANY),
    st.tuples(st.just("drift"), st.tuples(ANY, st.one_of(st.none(), st.integers(1_000, 600_000)))),
    st.tuples(st.just("die"), st.integers(0, 25)),
)


class Killed(BaseException):
    """The agent is gone from one moment to the next."""


class History:
    """One node through its life. ``online`` has the bases of normalized cgroups, parents first."""

    def __init__(self, version: Version, tree: list[list[int]]) -> None:
        self.version = version
        self.online: dict[str, int] = {}
        for pod, limits in zip(PODS, tree, strict=False):
            self.online[pod] = sum(limits)
            self.online |= {f"{pod}/{number}": limit for number, limit in enumerate(limits)}
        self.stored = StoredCgroups(version, self.bases)
        self.rules = KernelRules(self.stored)
        self.bursts = {}
        for cgroup, quota in self.bases.items():
            self.rules.write(cgroup, quota_file(version), self.text(quota))
            if quota is not None and cgroup.endswith("/0"):
                self.bursts[cgroup] = quota * 3 // 5
                self.rules.write(cgroup, burst_file(version), str(self.bursts[cgroup]))
        self.log = MemoryLog()
        self.ratio = 100
        self.suppressed: int | None = None
        self.limit: int | None = None
        self.period = PERIOD
        self.points_left: int | None = None
        self.writer = self.restart()

    @property
    def bases(self) -> dict[str, int | None]:
        return {**self.online, SLICE: None, **dict.fromkeys(OFFLINE)}

    def text(self, quota: int | None) -> str:
        return quota_text(self.version, None if quota is None else Microseconds(quota))

    def restart(self) -> QuotaWriter:
        self.log.append([Opened(0.0, "boot")])
        self.writer = QuotaWriter(self.rules, self.log, now=lambda: 0.0, at=self.at)
        return self.writer

    def at(self, point: Point, cgroup: str) -> None:
        if self.version is Version.V1:
            assert in_order_everywhere(self.stored, self.bases), (point, cgroup)
        if self.points_left is not None:
            self.points_left -= 1
            if self.points_left < 0:
                fault("death")
                raise Killed

    def wants(self) -> dict[QuotaOwner, list[WriteQuota]]:
        return {
            QuotaOwner.NORMALIZATION: [
                bound(cgroup, divided(base, self.ratio), base) for cgroup, base in self.online.items()
            ],
            QuotaOwner.SUPPRESSION: [self.offline(SLICE, self.suppressed, QuotaOwner.SUPPRESSION)],
            QuotaOwner.BATCH_LIMIT: [
                self.offline(cgroup, self.limit, QuotaOwner.BATCH_LIMIT) for cgroup in OFFLINE
            ],
        }

    def offline(self, cgroup: str, quota: int | None, owner: QuotaOwner) -> WriteQuota:
        quota = None if quota is None else quota * self.period // PERIOD
        return bound(cgroup, quota, owner=owner, period=self.period, base_period=PERIOD)

    def everything(self) -> list[WriteReport]:
        return [self.writer.reconcile(owner, actions) for owner, actions in self.wants().items()]

    def live(self, operation: str, value: object) -> None:
        """Let one thing happen."""
        step({"restart": "restart", "drift": "write by somebody else"}.get(operation))
        match operation, value:
            case "ratio", int(ratio):
                self.ratio = ratio
            case "suppress", (int() | None) as quota:
                self.suppressed = quota
            case "limit", (int() | None) as quota:
                self.limit = quota
            case "idle", bool(idle):
                self.period = LONG if idle else PERIOD
            case (("reset" | "restart"), _):
                (self.reset if operation == "reset" else self.restart)()
            case (("start" | "end"), int(number)):
                self.change_containers(operation, number)
            case "drift", (int(number), (int() | None) as quota):
                self.drift(list(self.bases)[number % len(self.bases)], quota)
            case "die", int(points):
                self.die(points)
            case _:
                pass
        if operation != "die":
            self.everything()

    def change_containers(self, operation: str, number: int) -> None:
        pods = [pod for pod in PODS if pod in self.online]
        if operation == "end":
            self.end(number)
        elif pods:
            self.start(pods[number % len(pods)])

    def start(self, pod: str) -> None:
        """Start a container; on v1 a runtime cannot give it more than its pod has just then."""
        cgroup = f"{pod}/new{sum(each.startswith(pod) for each in self.online)}"
        self.online[cgroup] = self.online[pod]
        self.stored.make(cgroup)
        self.drift(cgroup, self.online[pod])

    def end(self, number: int) -> None:
        containers = [cgroup for cgroup in self.online if cgroup not in PODS]
        if containers:
            ended = containers[number % len(containers)]
            self.stored.remove(ended)
            del self.online[ended]
            self.bursts.pop(ended, None)

    def drift(self, cgroup: str, quota: int | None) -> None:
        try:
            self.rules.write(cgroup, quota_file(self.version), self.text(quota))
        except ValueRefused:
            self.rules.refused.clear()

    def reset(self) -> None:
        """Take away the quota and the period of all offline pods, as systemd does."""
        self.drift(SLICE, None)
        file, text = period_file(self.version), f"max {PERIOD}" if self.version is Version.V2 else f"{PERIOD}"
        self.rules.write(SLICE, file, text)

    def die(self, points: int) -> None:
        self.ratio = 250 - self.ratio % 100
        self.period = PERIOD + LONG - self.period
        self.points_left = points
        with suppress(Killed):
            self.everything()
        self.points_left = None
        self.restart()

    def expected(self) -> dict[str, int | None]:
        """Return the bounds that everybody sets together, by a formula that knows nothing of the writer."""
        asked = {
            **{cgroup: divided(base, self.ratio) for cgroup, base in self.online.items()},
            SLICE: self.suppressed,
            **dict.fromkeys(OFFLINE, self.limit),
        }
        if self.version is Version.V2:
            return asked
        within: dict[str, int | None] = {}
        for cgroup, own in asked.items():
            chain = [quota for up in ancestors(cgroup) if (quota := asked.get(up)) is not None]
            within[cgroup] = None if own is None else min([own, *chain])
        return within

    def expected_periods(self) -> dict[str, int]:
        offline = {SLICE, *OFFLINE}
        return {cgroup: self.period if cgroup in offline else PERIOD for cgroup in self.bases}

    def bursts_now(self) -> dict[str, int]:
        file = burst_file(self.version)
        return {cgroup: int(self.stored.read(cgroup, file)) for cgroup in self.bursts}

    def quotas(self) -> dict[str, int | None]:
        """Return the quotas for the usual period."""
        usual = Microseconds(PERIOD)
        return {cgroup: read_bandwidth(self.stored, cgroup).quota_over(usual) for cgroup in self.bases}

    def periods(self) -> dict[str, int]:
        return {cgroup: read_bandwidth(self.stored, cgroup).period for cgroup in self.bases}


def wasted(report: WriteReport) -> list[object]:
    """Return the writes that changed nothing or were made more than once."""
    # For a new period the quota is taken away on v1 first.
    times = Counter((each.cgroup, each.file) for each in report.written if each.new != "-1")
    unchanged = [each for each in report.written if each.old == each.new]
    return [*unchanged, *(place for place, count in times.items() if count > 1)]


@pytest.mark.parametrize("version", Version)
@given(tree=TREES, operations=st.lists(OPERATIONS, max_size=12))
@settings(deadline=None, max_examples=120)
def test_any_history_ends_in_what_is_wanted(
    version: Version, tree: list[list[int]], operations: list[tuple[str, object]]
) -> None:
    history = History(version, tree)
    for operation, value in operations:
        history.live(operation, value)
    for report in history.everything():
        assert not report.failed
        assert not wasted(report)
    assert history.quotas() == history.expected()
    assert history.periods() == history.expected_periods()
    assert [report.written for report in history.everything()] == [[], [], []]


@pytest.mark.parametrize("version", Version)
@given(
    tree=TREES, operations=st.lists(OPERATIONS, max_size=8), deaths=st.lists(st.integers(0, 20), max_size=3)
)
@settings(deadline=None, max_examples=80)
def test_restore_returns_kubelet_values_after_any_deaths(
    version: Version, tree: list[list[int]], operations: list[tuple[str, object]], deaths: list[int]
) -> None:
    history = History(version, tree)
    for operation, value in [("ratio", 120), *operations]:
        history.live(operation, value)
    history.everything()
    for points in deaths:
        history.restart()
        history.points_left = points
        run_until_killed(history.writer.restore)
        history.points_left = None
    history.restart()
    report = history.writer.restore()
    assert not report.failed
    assert history.quotas() == history.bases
    assert set(history.periods().values()) == {PERIOD}
    assert history.bursts_now() == history.bursts
    assert not history.restart().held


def run_until_killed(work: Callable[[], WriteReport]) -> None:
    with suppress(Killed):
        work()
