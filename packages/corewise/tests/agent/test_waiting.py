"""The agent's watch over pods that wait: its readings, its pace, its verdicts, and its report."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import replace
from itertools import repeat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from agent.agent_world import NODE, AgentWorld, agent_world, eventually
from agent.fake_node import container, manifest
from agent.offline_node import stat_text
from corewise.agent.cgroups import NodeCgroups, Wrap
from corewise.agent.claims import CPUDivision, Owner
from corewise.agent.interference.neighbors import NeighborSampler, cgroups_of
from corewise.agent.interference.publication import WaitLoop, report_of
from corewise.agent.interference.waiting import ALERT, REST, Verdict, WaitWatch
from corewise.agent.local_node import LocalNode
from corewise.agent.objects import QuotaPod
from corewise.interference.antagonist import LONGEST, OUTSIDE, Interval, Wait
from corewise.kernel.cgroups.files import Files
from corewise.kernel.cgroups.layout import Driver, PodCgroups
from corewise.kernel.cgroups.waits import WaitSource
from corewise.kernel.writing.journal import MemoryLog
from corewise.kube.clock import SystemClock
from corewise.kube.errors import api_error
from corewise.kube.resources import NODE_RESOURCE_TOPOLOGIES
from corewise.prometheus.exposition import Exposition
from corewise.quantities import ONE, Ratio
from corewise.service.program import Heartbeats
from corewise.topology import CPUSet
from corewise.vocabulary import metrics
from corewise.vocabulary.interference_report import MOST_PODS, InterferenceReport, decode
from corewise.vocabulary.names import INTERFERENCE_REPORT
from corewise.vocabulary.reasons import Reason
from kubedouble import LocalAPIServer

WEB, BATCH = "uid-web", "uid-batch"


def pod(
    name: str,
    request: str = "100m",
    limit: str = "",
    *,
    phase: str = "Running",
    qos: str = "Burstable",
    **spec: Any,
) -> QuotaPod:
    status = {"name": "a", "containerID": f"containerd://{name}", "state": {"running": {}}}
    return msgspec.convert(
        {
            "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
            "spec": {
                "containers": [
                    {
                        "name": "a",
                        "resources": {
                            "requests": {"cpu": request},
                            "limits": {"cpu": limit} if limit else {},
                        },
                    }
                ],
                **spec,
            },
            "status": {"phase": phase, "qosClass": qos, "containerStatuses": [status]},
        },
        QuotaPod,
    )


PODS = [pod("web", "500m"), pod("batch", "100m")]


def interval(waited: float, batch: float = 0.6, seconds: float = 1.0) -> Interval:
    used = {WEB: 0.3, BATCH: batch, OUTSIDE: 0.02}
    return Interval(seconds, 1, used, {WEB: Wait(waited), BATCH: Wait(0.0)})


class StatedSampler(NeighborSampler):
    """Returns the intervals it is given."""

    def __init__(self, intervals: Iterable[Interval | None]) -> None:
        super().__init__(Path("/nowhere"), NodeCgroups(Path("/nowhere"), "/", MemoryLog(), now=lambda: 0.0))
        self._intervals = iter(intervals)

    def sample(
        self, now: float, pods: Iterable[QuotaPod], owners: frozenset[str] = frozenset()
    ) -> Interval | None:
        found = next(self._intervals)
        return found and replace(found, owners=owners)


def watched(intervals: Iterable[Interval | None]) -> tuple[WaitWatch, list[float]]:
    """Look once for each interval, each at its time; return the watch and the pauses it asked for."""
    stated = list(intervals)
    watch, now, pauses = WaitWatch(StatedSampler(stated)), 0.0, []
    for each in stated:
        now += each.seconds if each else 1.0
        pauses.append(watch.look(now, 1e9 + now, PODS))
    return watch, pauses


def test_a_quiet_node_is_read_every_five_seconds() -> None:
    watch, pauses = watched([None, *[interval(0.0)] * 5])
    assert pauses == [ALERT, *[REST] * 5]
    assert not watch.verdicts


def test_a_wait_is_followed_every_second() -> None:
    _, pauses = watched([interval(0.3), *[interval(0.0)] * 35])
    assert pauses == [ALERT] * 30 + [REST] * 6


def test_an_antagonist_is_named_within_a_dozen_looks() -> None:
    watch, _ = watched([interval(0.0, seconds=5.0), *[interval(0.3)] * 12])
    assert watch.verdicts[WEB].judgment.antagonist == "default/batch"
    assert watch.verdicts[WEB].since < 1e9 + 5 + 12
    assert set(watch.verdicts) == {WEB}


@pytest.mark.parametrize(
    ("wait", "reason"),
    [
        (Wait(0.0, throttled=0.3), Reason.OWN_QUOTA_THROTTLES),
        (Wait(0.0, among_itself=0.3), Reason.OWN_THREADS_WAIT),
        (Wait(0.0, throttled=0.05), None),
        (Wait(0.0, among_itself=0.05), None),
    ],
)
def test_pod_held_by_itself_is_judged(wait: Wait, reason: Reason | None) -> None:
    """It runs 0.3, and nothing else hurries: it is looked at every five seconds."""
    held = replace(interval(0.0, seconds=5.0), waits={WEB: wait, BATCH: Wait(0.0)})
    watch, pauses = watched([held] * 8)
    assert set(pauses) == {REST}
    assert {uid: each.judgment.reason for uid, each in watch.verdicts.items()} == (
        {WEB: reason} if reason else {}
    )


def test_verdicts_of_many_held_pods_last() -> None:
    """However many there are, and whatever comes of their tiny waits for others."""
    pods = [pod(f"p{number:02}") for number in range(20)]
    uids = [each.metadata.uid for each in pods]
    intervals = [
        Interval(
            5.0, 8, dict.fromkeys(uids, 0.2) | {OUTSIDE: 0.0},
            {uid: Wait(0.001 * ((place * look) % 7), throttled=0.3) for place, uid in enumerate(uids)},
        )
        for look in range(40)
    ]  # fmt: skip
    watch = WaitWatch(StatedSampler(intervals))
    shown = set()
    for look in range(40):
        watch.look(5.0 * look, 1e9 + look, pods)
        if look > 8:
            assert set(watch.verdicts) == set(uids)
            shown.add(tuple(each.pod for each in report_of(watch, {}, 1e9).pods))
    assert shown == {tuple(f"default/p{number:02}" for number in range(MOST_PODS))}


def test_one_judgment_alone_names_nobody() -> None:
    watch, _ = watched([interval(0.3)] * 9)
    assert not watch.verdicts
    watch, _ = watched([interval(0.3)] * 11)
    assert watch.verdicts[WEB].judgment.antagonist == "default/batch"


def test_an_old_suspicion_confirms_nothing() -> None:
    """Two judgments in a row name a neighbor, not two of different times."""
    quiet = [interval(0.0)] * 131
    for waits in range(1, 6):
        long_wait = [interval(20.0)] * waits
        before, _ = watched([*[interval(0.3)] * 9, *quiet, *long_wait])
        never, _ = watched([*[interval(0.0)] * 9, *quiet, *long_wait])
        assert before.verdicts.keys() == never.verdicts.keys(), waits
    assert never.verdicts


def test_a_verdict_goes_a_minute_after_the_wait() -> None:
    named = [interval(0.3)] * 12
    assert watched([*named, *[interval(0.0)] * 60])[0].verdicts
    assert not watched([*named, *[interval(0.0)] * 95])[0].verdicts


def test_an_interval_too_long_yields_no_verdict() -> None:
    waits = [interval(0.3)] * 12
    assert not watched([*waits, interval(40.0, seconds=LONGEST + 10)])[0].verdicts
    assert not watched([interval(40.0, seconds=LONGEST + 10), *waits[:9]])[0].verdicts
    assert watched([interval(40.0, seconds=LONGEST + 10), *waits])[0].verdicts


def test_requests_count_as_the_kernel_counts_cpus() -> None:
    watch = WaitWatch(StatedSampler([interval(0.3, batch=0.6)] * 12))
    for now in range(12):
        watch.look(float(now), 0.0, [pod("web", "500m"), pod("batch", "1")], lambda _: Ratio.parse("2.00"))
    suspect = watch.verdicts[WEB].judgment.suspects[0]
    assert (suspect.request, watch.verdicts[WEB].judgment.reason) == (0.5, Reason.ANTAGONIST_NAMED)


def test_an_owner_of_cpus_is_not_accused() -> None:
    """It uses no more than it owns, and never where the others run."""
    watch = WaitWatch(StatedSampler([interval(0.3, batch=4.0)] * 12))
    for now in range(12):
        pods = [pod("web", "500m"), pod("batch", "4")]
        owned = {"uid-batch": CPUSet.parse("4-7")}
        watch.look(float(now), 0.0, pods, lambda _: Ratio.parse("2.00"), owned)
    judgment = watch.verdicts[WEB].judgment
    assert [each.name for each in judgment.suspects] == [OUTSIDE]


def test_owners_run_on_their_own_cpus_alone(tmp_path: Path) -> None:
    """A pod that kubelet gives a CPU shares others if it requests more than that."""
    state = tmp_path / "var/lib/kubelet/cpu_manager_state"
    state.parent.mkdir(parents=True)
    entries = {"uid-whole": {"a": "2-3"}, "uid-part": {"a": "4"}}
    state.write_bytes(
        msgspec.json.encode({"policyName": "static", "defaultCpuSet": "0-1", "entries": entries})
    )
    local = LocalNode("n1", tmp_path, NodeCgroups(tmp_path, "/", MemoryLog(), now=lambda: 0.0))
    claiming, cpus = pod("claiming", "2"), CPUSet.parse("6-7")
    local.pins.division = CPUDivision({claiming.uid: Owner(claiming, cpus, cpus)})
    owned = local.owned_by([pod("whole", "2"), pod("part", "1500m"), claiming, pod("web")])
    assert owned == {"uid-whole": CPUSet.parse("2-3"), "uid-claiming": cpus}


def test_the_report_keeps_those_that_wait_most() -> None:
    watch, _ = watched([interval(0.3)] * 12)
    verdict = watch.verdicts[WEB]
    judgment = verdict.judgment
    watch.verdicts = {
        f"default/p{index}": Verdict(
            replace(judgment, pod=f"default/p{index}", wait=Wait(index / 100)), verdict.since, 0.0
        )
        for index in range(30)
    }
    report = report_of(watch, {}, 1e9)
    assert [each.pod for each in report.pods] == [f"default/p{index}" for index in range(29, 21, -1)]
    assert (len(report.pods), report.left_out) == (MOST_PODS, 22)
    assert len(report.encode()) < 8192
    assert decode(report.encode()) == report


class Machine:
    """Files of a node with cgroup v2 and cgroupfs."""

    def __init__(self, root: Path, cpus: int = 1) -> None:
        self.root = root
        self.cpus = cpus
        self.kubepods = root / "sys/fs/cgroup/kubepods"
        self.names = PodCgroups(Driver.CGROUPFS, "/kubepods")
        (root / "proc").mkdir()
        self.kubepods.mkdir(parents=True)
        (root / "sys/fs/cgroup/cgroup.controllers").write_text("cpu memory")
        self.busy(0)

    def busy(self, ticks: int) -> None:
        (self.root / "proc/stat").write_text(stat_text(self.cpus, ticks))

    def pressure(self, waited: int) -> None:
        """Write the microseconds in which something on the node waited for a CPU."""
        directory = self.root / "proc/pressure"
        directory.mkdir(exist_ok=True)
        (directory / "cpu").write_text(f"some avg10=0.00 avg60=0.00 avg300=0.00 total={waited}\n")

    def counts(
        self, name: str, used: int, waited: int, throttled: int = 0, among: int = 0,
        *, kind: str = "burstable", of_container: int | None = None,
    ) -> None:  # fmt: skip
        """Write microseconds of CPU time used, waited for others, throttled, and waited among itself.

        ``of_container``: what its container was throttled, if that is not the mean of its CPUs.
        """
        counted = throttled if of_container is None else of_container
        directory = self.kubepods / f"{kind}/poduid-{name}"
        (directory / name).mkdir(parents=True, exist_ok=True)
        total = waited + throttled
        (directory / "cpu.stat").write_text(f"usage_usec {used}\nthrottled_usec 0\n")
        (directory / name / "cpu.stat").write_text(f"usage_usec {used}\nthrottled_usec {counted}\n")
        (directory / "cpu.pressure").write_text(
            f"some avg10=0.00 avg60=0.00 avg300=0.00 total={total + among}\n"
            f"full avg10=0.00 avg60=0.00 avg300=0.00 total={total}\n"
        )

    def tasks(self, name: str, tasks: Mapping[int, tuple[float, float]], kind: str = "burstable") -> None:
        """Write the seconds that each task of a pod ran and waited."""
        (self.kubepods / f"{kind}/poduid-{name}/cgroup.threads").write_text("\n".join(map(str, tasks)))
        for task, seconds in tasks.items():
            ran, waited = (round(each * 1_000_000_000) for each in seconds)
            (self.root / f"proc/{task}").mkdir(exist_ok=True)
            (self.root / f"proc/{task}/schedstat").write_text(f"{ran} {waited} 1\n")

    def sampler(self, only: WaitSource | None = None, wrap: Wrap = lambda files: files) -> NeighborSampler:
        cgroups = NodeCgroups(self.root, "/", MemoryLog(), now=lambda: 0.0, wrap=wrap)
        return NeighborSampler(self.root, cgroups, only=only)


class CountedFiles:
    """Files that note what was read of them."""

    files: Files

    def __init__(self) -> None:
        self.done: list[str] = []

    def over(self, files: Files) -> CountedFiles:
        self.files = files
        return self

    def read(self, cgroup: str, file: str) -> str:
        self.done.append(f"{cgroup.rpartition('/')[2]} {file}")
        return self.files.read(cgroup, file)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.files, name)

    def taken(self) -> list[str]:
        """Take what was read."""
        done, self.done = self.done, []
        return sorted(done)


def test_a_sample_divides_the_node_among_pods(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    pods = [pod("web", limit="1"), pod("batch"), pod("gone"), pod("new", phase="Pending")]
    machine.counts("web", 1000, 2000, 500)
    machine.counts("batch", 0, 0)
    sampler = machine.sampler()
    assert sampler.sample(10.0, pods) is None
    machine.counts("web", 601_000, 402_000, 200_500, among=50_000)
    machine.counts("batch", 1_000_000, 0)
    machine.busy(180)
    found = sampler.sample(12.0, pods)
    assert found is not None
    assert found.used == pytest.approx({WEB: 0.3, BATCH: 0.5, OUTSIDE: 0.1})
    web = found.waits[WEB]
    assert (web.for_others, web.among_itself, web.throttled) == pytest.approx((0.2, 0.025, 0.1))
    assert sampler.sources == {WEB: WaitSource.PRESSURE, BATCH: WaitSource.PRESSURE}
    assert not sampler.unknown


@pytest.mark.parametrize(
    ("used", "full", "waited"),
    [
        (4.0, 0.5, 4.0),  # on 8 CPUs, each of them half of the time
        (0.5, 0.5, 0.5),  # on one
        (0.1, 0.05, 0.05),  # on one, and mostly asleep
        (0.8, 0.9, 7.2),  # hardly ran, on all of them
        (0.01, 0.99, 0.99),  # hardly ran, on one
        (0.0, 1.0, 1.0),
    ],
)
def test_pressure_is_the_mean_of_several_cpus(
    tmp_path: Path, used: float, full: float, waited: float
) -> None:
    machine = Machine(tmp_path, cpus=8)
    machine.counts("web", 0, 0)
    sampler = machine.sampler()
    sampler.sample(0.0, PODS[:1])
    machine.counts("web", round(used * 1e6), round(full * 1e6), among=10_000)
    found = sampler.sample(1.0, PODS[:1])
    assert found is not None
    assert found.waits[WEB].for_others == pytest.approx(waited)
    assert found.waits[WEB].among_itself == pytest.approx(0.01 * waited / full)


def test_init_container_is_no_process_outside_pods(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    pods = [pod("web"), pod("migrate", phase="Pending"), pod("waits", phase="Pending")]
    sampler = machine.sampler()
    for second in (0, 1):
        machine.counts("web", second * 300_000, second * 300_000)
        machine.counts("migrate", second * 650_000, 0)
        machine.busy(second * 97)
        found = sampler.sample(float(second), pods)
    assert found is not None
    assert found.used == pytest.approx({WEB: 0.3, "uid-migrate": 0.65, OUTSIDE: 0.02})


def test_container_that_has_ended_hides_no_pod(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    sampler = machine.sampler()
    for second in (0, 1):
        machine.counts("web", second * 300_000, 0)
        shutil.rmtree(machine.kubepods / "burstable/poduid-web/web")
        machine.busy(second * 32)
        found = sampler.sample(float(second), [pod("web", limit="1")])
    assert found is not None
    assert found.used == pytest.approx({WEB: 0.3, OUTSIDE: 0.02})


def test_throttled_time_is_that_of_own_cpus(tmp_path: Path) -> None:
    """Quotas count it as a sum over CPUs; the class of all offline pods, as that of all of them."""
    machine = Machine(tmp_path, cpus=4)
    machine.counts("web", 0, 0)
    machine.counts("offline", 0, 0, kind="besteffort")
    (machine.kubepods / "besteffort/cpu.stat").write_text("throttled_usec 0\n")
    for only in (WaitSource.PRESSURE, WaitSource.TASKS):
        for name, kind in (("web", "burstable"), ("offline", "besteffort")):
            machine.counts(name, 0, 0, kind=kind)
            machine.tasks(name, dict.fromkeys(range(11, 15), (0, 0)), kind=kind)
        sampler = machine.sampler(only)
        pods = [pod("web", limit="2"), pod("offline", qos="BestEffort")]
        sampler.sample(0.0, pods)
        # four threads on four CPUs: each runs 0.6, is throttled 0.1 and waits 0.3
        machine.counts("web", 2_400_000, 300_000, throttled=100_000, of_container=400_000)
        machine.counts("offline", 2_400_000, 300_000, throttled=100_000, kind="besteffort", of_container=0)
        (machine.kubepods / "besteffort/cpu.stat").write_text("throttled_usec 400000\n")
        for name, kind in (("web", "burstable"), ("offline", "besteffort")):
            machine.tasks(name, dict.fromkeys(range(11, 15), (0.6, 0.4)), kind=kind)
        found = sampler.sample(1.0, pods)
        assert found is not None
        for wait in found.waits.values():
            assert wait.for_others + wait.among_itself == pytest.approx(1.2)
            assert wait.throttled == pytest.approx(0.4)
        (machine.kubepods / "besteffort/cpu.stat").write_text("throttled_usec 0\n")


def test_class_is_throttled_where_it_wants_cpus(tmp_path: Path) -> None:
    """Their class has a quota of 2 of 64 CPUs: four threads run half of the time."""
    machine = Machine(tmp_path, cpus=64)
    sampler, stat = machine.sampler(), machine.kubepods / "besteffort/cpu.stat"
    for second in (0, 1):
        machine.counts("offline", second * 2_000_000, second * 500_000, kind="besteffort")
        stat.write_text(f"throttled_usec {second * 2_000_000}\n")
        found = sampler.sample(float(second), [pod("offline", qos="BestEffort")])
    assert found is not None
    wait = found.waits["uid-offline"]
    assert (wait.for_others, wait.throttled) == pytest.approx((0.0, 2.0))


def test_sleeping_threads_hide_no_throttling(tmp_path: Path) -> None:
    machine = Machine(tmp_path, cpus=64)
    sampler = machine.sampler(WaitSource.TASKS)
    for second in (0, 1):
        machine.counts("web", second * 450_000, 0, of_container=second * 500_000)
        busy, asleep = (second * 0.45, second * 0.52), (second * 0.0001, 0.0)
        machine.tasks("web", {11: busy} | dict.fromkeys(range(12, 111), asleep))
        found = sampler.sample(float(second), [pod("web", limit="500m")])
    assert found is not None
    wait = found.waits[WEB]
    assert wait.for_others + wait.among_itself == pytest.approx(0.02, abs=0.02)
    assert wait.throttled == pytest.approx(0.5)


def test_what_cannot_have_changed_is_not_read(tmp_path: Path) -> None:
    machine, counted = Machine(tmp_path), CountedFiles()
    sampler = machine.sampler(wrap=counted.over)
    pods = [pod("web", limit="1")]
    own, all_files = ["poduid-web cpu.stat"], ["poduid-web cpu.stat", "web cpu.stat"]
    expected = [
        ((1000, 0, 0), all_files, None),
        ((1000, 0, 0), own, (0.0, 0.0)),
        ((301_000, 0, 0), all_files, (0.0, 0.0)),
        ((301_000, 200_000, 100_000), all_files, (0.2, 0.1)),  # it waits, and no task of it ran
        ((301_000, 200_000, 100_000), own, (0.0, 0.0)),
    ]
    for second, (counts, read, waited) in enumerate(expected):
        machine.counts("web", *counts)
        found = sampler.sample(float(second), pods)
        assert counted.taken() == read
        if waited is not None:
            assert found is not None
            assert (found.waits[WEB].for_others, found.waits[WEB].throttled) == pytest.approx(waited)


def test_tasks_of_a_resting_pod_are_not_read(tmp_path: Path) -> None:
    machine, counted = Machine(tmp_path), CountedFiles()
    sampler = machine.sampler(WaitSource.TASKS, wrap=counted.over)
    for second, used in enumerate((0, 0, 300_000)):
        machine.counts("web", used, 0)
        machine.tasks("web", {11: (used / 1e6, used / 2e6)})
        found = sampler.sample(float(second), PODS[:1])
        assert ("poduid-web cgroup.threads" in counted.taken()) == (second != 1)
    assert found is not None
    assert found.waits[WEB].for_others + found.waits[WEB].among_itself == pytest.approx(0.15)


def test_cgroup_of_a_class_is_read_once(tmp_path: Path) -> None:
    machine, counted = Machine(tmp_path), CountedFiles()
    sampler = machine.sampler(wrap=counted.over)
    pods = [pod(name, qos="BestEffort") for name in ("a", "b", "c")]
    for below in ("", *(f"/pod{each.uid}" for each in pods)):
        directory = machine.kubepods / f"besteffort{below}"
        directory.mkdir()
        (directory / "cpu.stat").write_text("usage_usec 0\nthrottled_usec 0\n")
        (directory / "cpu.pressure").write_text("some total=0\nfull total=0\n")
    sampler.sample(0.0, pods)
    assert set(sampler.sources) == {each.uid for each in pods}
    assert counted.taken().count("besteffort cpu.stat") == 1


def test_idle_pod_is_not_throttled_by_others(tmp_path: Path) -> None:
    """The class is held back while a pod of it is idle; then the pod runs, and waits."""
    machine = Machine(tmp_path)
    sampler, pods = machine.sampler(), [pod("web", qos="BestEffort")]
    shared = machine.kubepods / "besteffort"
    own = shared / "poduid-web"
    own.mkdir(parents=True)
    counts = [(0, 0, 0), (0, 0, 0), (0, 0, 30_000_000), (500_000, 400_000, 30_000_000)]
    for second, (used, waited, held) in enumerate(counts):
        (own / "cpu.stat").write_text(f"usage_usec {used}\nthrottled_usec 0\n")
        (own / "cpu.pressure").write_text(f"some total={waited}\nfull total={waited}\n")
        (shared / "cpu.stat").write_text(f"usage_usec 0\nthrottled_usec {held}\n")
        found = sampler.sample(float(second), pods)
    assert found is not None
    assert (found.waits[WEB].for_others, found.waits[WEB].throttled) == pytest.approx((0.4, 0.0))


def test_source_that_appears_is_found_for_idle_pods(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.counts("web", 1000, 0)
    sampler = machine.sampler(WaitSource.TASKS)
    (machine.kubepods / "burstable/poduid-web/cgroup.threads").write_text("0\n")  # of another PID namespace
    sampler.sample(0.0, PODS[:1])
    assert set(sampler.unknown) == {WEB}
    machine.tasks("web", {11: (1.0, 1.0)})
    sampler.sample(1.0, PODS[:1])
    assert not sampler.unknown


def test_owned_cpus_make_no_other_pod_wait(tmp_path: Path) -> None:
    """Two threads of a pod share one CPU, and another pod keeps two CPUs of its own busy."""
    machine = Machine(tmp_path)
    sampler = machine.sampler(WaitSource.TASKS)
    for second in range(2):
        machine.counts("web", 1_000_000 * second, 0)
        machine.counts("batch", 2_000_000 * second, 0)
        machine.tasks("web", {11: (second / 2, second / 2), 12: (second / 2, second / 2)})
        machine.tasks("batch", {21: (second, second / 2), 22: (second, second / 2)})
        machine.busy(310 * second)
        found = sampler.sample(float(second), PODS, frozenset({BATCH}))
    assert found is not None
    assert found.used == pytest.approx({WEB: 1.0, BATCH: 2.0, OUTSIDE: 0.1})
    for uid in (WEB, BATCH):
        wait = found.waits[uid]
        assert wait.for_others + wait.among_itself == pytest.approx(1.0)
        assert wait.for_others < 0.2, uid


def test_pods_are_not_read_while_nothing_waits(tmp_path: Path) -> None:
    """Once that has lasted for half a minute. A pod that starts is read, and all are if something waits."""
    machine = Machine(tmp_path)
    starting = msgspec.structs.replace(
        PODS[1], status=msgspec.structs.replace(PODS[1].status, phase="Pending")
    )
    watch = WaitWatch(machine.sampler())
    read: list[int] = []
    sample = watch.sampler.sample

    def counted(*given: Any) -> Interval | None:
        read.append(round(given[0]))
        return sample(*given)

    watch.sampler.sample = counted  # type: ignore[assignment,method-assign]
    waited, now, pods = 0, 0.0, [PODS[0], starting]
    for _ in range(25):
        machine.counts("web", round(now * 300_000), waited)
        if pods is PODS:
            machine.counts("batch", round(now * 600_000), 0)
        machine.busy(round(92 * now))
        machine.pressure(waited)
        now += watch.look(now, 1e9 + now, pods)
        pods = PODS if now > 50 else pods
        waited += 300_000 if now > 100 else 0
    assert read == [0, 1, 6, 11, 16, 21, 26, 51, 52, 57, 62, 67, 72, 77, 102, 103, 104]
    assert watch.watched == 2


def test_a_recreated_pod_inherits_no_verdict(tmp_path: Path) -> None:
    """A StatefulSet gives the next pod the name of the one before."""
    machine = Machine(tmp_path)
    watch = WaitWatch(machine.sampler())
    for second in range(14):
        machine.counts("web", 300_000 * second, 300_000 * second)
        machine.counts("batch", 600_000 * second, 0)
        machine.busy(92 * second)
        watch.look(float(second), 1e9 + second, PODS)
    uids = {"uid-web": "uid-web", "uid-again": "uid-again"}
    (waiting,) = report_of(watch, uids, 1e9 + 14).pods
    assert (waiting.pod, waiting.uid, waiting.suspects[0].name) == ("default/web", "uid-web", "default/batch")
    metadata = msgspec.structs.replace(PODS[0].metadata, uid="uid-again")
    again = msgspec.structs.replace(PODS[0], metadata=metadata)
    machine.counts("again", 0, 0)
    watch.look(14.0, 1e9 + 14, [again, PODS[1]])
    assert report_of(watch, uids, 1e9 + 14).pods == []


def test_a_neighbor_that_is_gone_keeps_its_name() -> None:
    watch = WaitWatch(StatedSampler([interval(0.3)] * 12))
    for now in range(12):
        watch.look(float(now), 0.0, PODS if now < 10 else PODS[:1])
    assert watch.verdicts[WEB].judgment.antagonist == "default/batch"


def test_counters_that_run_backwards_are_no_negative_use(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.counts("web", 500_000, 500_000)
    sampler = machine.sampler()
    sampler.sample(10.0, PODS)
    machine.counts("web", 0, 0)
    found = sampler.sample(11.0, PODS)
    assert found is not None
    assert (found.used[WEB], found.waits[WEB].for_others) == (0.0, 0.0)
    assert sampler.sample(11.0, PODS) is None


def test_a_pod_without_limit_has_no_quota(tmp_path: Path) -> None:
    names = Machine(tmp_path).names
    own = "/kubepods/burstable/poduid-web"
    found = cgroups_of(pod("web"), names)
    assert found is not None
    assert (found.pod, found.throttling) == (own, ())
    for by in ({"limit": "1"}, {"resources": {"limits": {"cpu": "1"}}}):
        limited = cgroups_of(pod("web", **by), names)
        assert limited is not None
        assert limited.throttling == (own, f"{own}/web")
    assert cgroups_of(pod("web", phase="Pending"), names) == found  # its init containers may run
    assert cgroups_of(pod("web", phase="Succeeded"), names) is None


class Seconds(SystemClock):
    """A clock on which a wait takes no time."""

    def __init__(self) -> None:
        self.time = 0.0

    def monotonic(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.time += seconds
        for _ in range(10):
            await asyncio.sleep(0)
        if self.time > 100:
            raise TimeoutError


@pytest.mark.parametrize("code", [404, 403])
async def test_refused_report_is_repeated_every_ten_seconds(code: int) -> None:
    """While a pod waits, so that looks come every second."""
    clock, tried = Seconds(), []

    class Refusing:
        async def annotate(self, *_: object) -> None:
            tried.append(clock.time)
            raise api_error(code, b"", request="PATCH")

    class Watching(SimpleNamespace):
        async def synced(self) -> None: ...

    local: Any = SimpleNamespace(
        certain_pods=lambda pods: SimpleNamespace(pods=pods),
        owned_by=lambda _: {},
        ratio_of=lambda _: ONE,
        problem_log=SimpleNamespace(update=lambda *_: None),
    )
    watched: Any = Watching(node=SimpleNamespace(metadata=SimpleNamespace(name="n")), pods=PODS)
    refusing: Any = Refusing()
    sampler = StatedSampler(repeat(interval(0.3)))
    loop = WaitLoop(
        local, watched, refusing, sampler, metrics=Exposition(metrics.exported_by(metrics.AGENT)), clock=clock
    )
    heartbeats = Heartbeats(clock)
    with pytest.raises(TimeoutError):
        await asyncio.gather(loop.run(heartbeats), loop.report(heartbeats))
    assert loop.watch.verdicts
    assert 5 < len(tried) <= 11


@pytest.fixture
async def world(api_server: LocalAPIServer, tmp_path: Path) -> AsyncIterator[AgentWorld]:
    async with agent_world(api_server, tmp_path) as world:
        yield world


async def shown(world: AgentWorld) -> InterferenceReport | None:
    topology = await world.client.get(NODE_RESOURCE_TOPOLOGIES, NODE)
    return decode(topology.metadata.annotations.get(INTERFERENCE_REPORT, ""))


async def test_the_agent_shows_what_it_watches(world: AgentWorld) -> None:
    await world.start(manifest("web", container("a", "1")))
    async with world.agent() as agent:
        await eventually(lambda: shown(world))
        report = await shown(world)
        assert report is not None
        assert (report.watched, report.pods) == (0, [])
        watch, _ = watched([interval(0.3)] * 12)
        agent.waits.watch.verdicts = watch.verdicts
        agent.program.metrics_text()
        assert agent.metrics.value(metrics.WAITING_PODS, "AntagonistNamed") == 1
