"""Whatever owners want, others write and deaths strike: the end is right, no write is wasted, all comes back.

A history is any sequence of: pins and weights that change, writes by somebody else that the kernel takes, a
restart, a journal that restarts, a cgroup that ends, a death of the agent at any point. A writer of quotas
lives on the same journal. Afterwards one undisturbed call brings about exactly what is wanted, a second one
writes nothing, and restore puts back what anybody but us wrote last.

Ours never have CPU 7 nor a weight above 99, others' always: so the model can tell whose a value is.
"""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corewise.actions import QuotaOwner, Setting, SettingOwner, WriteSetting
from corewise.kernel.cgroups.files import ancestors
from corewise.kernel.cgroups.layout import Version
from corewise.kernel.cgroups.resources import read_bandwidth, read_cpuset
from corewise.kernel.errors import Busy, ValueRefused
from corewise.kernel.writing.entries import Opened
from corewise.kernel.writing.journal import MemoryLog
from corewise.kernel.writing.journaled_writer import Point
from corewise.kernel.writing.quota_writer import QuotaWriter
from corewise.kernel.writing.setting_claims import setting_file
from corewise.kernel.writing.setting_writer import SettingWriter
from corewise.topology import CPUSet
from kernel.cgroup_trees import FRESH, KernelRules, StoredCgroups, bound, setting
from tally import fault, step

SLICE = "/kubepods/besteffort"
PODS = (f"{SLICE}/poda", f"{SLICE}/podb")
CONTAINERS = tuple(f"{pod}/{name}" for pod in PODS for name in "xy")
ALL = (SLICE, *PODS, *CONTAINERS)

WEIGHTS = st.dictionaries(st.sampled_from(ALL), st.integers(10, 99), max_size=4)
PINS = st.dictionaries(
    st.sampled_from(PODS),
    st.tuples(st.sampled_from(["0-2", "3-5", "1-4", "0-6"]), st.booleans(), st.booleans()),
)
OPERATIONS = st.one_of(
    st.tuples(st.just("weights"), WEIGHTS),
    st.tuples(st.just("pins"), PINS),
    st.tuples(st.just("quota"), st.one_of(st.none(), st.integers(1_000, 200_000))),
    st.tuples(st.just("foreign weight"), st.tuples(st.sampled_from(ALL), st.integers(100, 200))),
    st.tuples(
        st.just("foreign cpus"),
        st.one_of(
            st.tuples(st.sampled_from(PODS), st.sampled_from(["0-7", "0-5,7"])),
            st.tuples(st.sampled_from(CONTAINERS), st.sampled_from(["0-7", "0-4,7", "2,7"])),
        ),
    ),
    st.tuples(st.just("end"), st.sampled_from(CONTAINERS)),
    st.tuples(st.sampled_from(["restart", "anew"]), st.none()),
    st.tuples(st.just("die"), st.integers(0, 25)),
)


class Killed(BaseException):
    """The agent is gone from one moment to the next."""


class History:
    """One node through its life. ``theirs`` is what anybody but us wrote last, by cgroup and file."""

    def __init__(self, version: Version) -> None:
        self.version = version
        self.stored = StoredCgroups(version, CONTAINERS)
        self.rules = KernelRules(self.stored)
        self.log = MemoryLog()
        self.weight_file = setting_file(version, Setting.CPU_WEIGHT)
        files = (self.weight_file, "cpuset.cpus")
        self.theirs = {(cgroup, file): FRESH[version][file] for cgroup in ALL for file in files}
        self.weights: dict[str, int] = {}
        self.pins: dict[str, tuple[str, bool, bool]] = {}
        self.quota: int | None = None
        self.points_left: int | None = None
        self.restart()

    def restart(self) -> None:
        self.log.append([Opened(0.0, "boot")])
        self.writer = SettingWriter(self.rules, self.log, now=lambda: 0.0, at=self.at)
        self.quotas = QuotaWriter(self.rules, self.log, now=lambda: 0.0, at=self.at)

    def at(self, point: Point, cgroup: str) -> None:
        for each in self.alive if self.version is Version.V1 else ():
            assert self.cpus(each) <= self.cpus(next(ancestors(each))), (point, cgroup, each)
        if self.points_left is not None:
            self.points_left -= 1
            if self.points_left < 0:
                fault("death")
                raise Killed

    def cpus(self, cgroup: str) -> CPUSet:
        return read_cpuset(self.stored, cgroup)

    @property
    def alive(self) -> list[str]:
        return [cgroup for cgroup in ALL if self.stored.exists(cgroup)]

    def pinned(self) -> dict[str, str]:
        """The CPU sets that are wanted: a pod's, and those of some of its containers, one CPU less each."""
        wanted: dict[str, str] = {}
        for pod, (cpus, *ours) in self.pins.items():
            wanted[pod] = cpus
            fewer = str(CPUSet.of(list(CPUSet.parse(cpus))[1:]))
            wanted |= {f"{pod}/{name}": fewer for name, own in zip("xy", ours, strict=True) if own}
        return wanted

    def batch(self) -> list[WriteSetting]:
        return [setting(cgroup, Setting.CPU_WEIGHT, str(weight)) for cgroup, weight in self.weights.items()]

    def pinning(self) -> list[WriteSetting]:
        pinned = self.pinned().items()
        return [setting(cgroup, Setting.CPUSET, cpus, owner=SettingOwner.PINNING) for cgroup, cpus in pinned]

    def everything(self) -> int:
        """Bring about all; return how many writes it took."""
        reports = [
            self.writer.reconcile(SettingOwner.BATCH, self.batch()),
            self.writer.reconcile(SettingOwner.PINNING, self.pinning()),
            self.quotas.reconcile(QuotaOwner.SUPPRESSION, [bound(SLICE, self.quota)]),
        ]
        assert [report.failed for report in reports] == [{}, {}, {}]
        return sum(len(report.written) for report in reports)

    def live(self, operation: str, value: object) -> None:
        """Let one thing happen."""
        is_foreign = operation.startswith("foreign")
        step("write by somebody else" if is_foreign else {"restart": "restart"}.get(operation))
        match operation, value:
            case "weights", dict(weights):
                self.weights = weights
            case "pins", dict(pins):
                self.pins = pins
            case "quota", (int() | None) as quota:
                self.quota = quota
            case "foreign weight", (str(cgroup), int(weight)):
                self.foreign(cgroup, self.weight_file, str(weight))
            case "foreign cpus", (str(cgroup), str(cpus)):
                self.foreign(cgroup, "cpuset.cpus", cpus)
            case "end", str(cgroup):
                self.stored.remove(cgroup)
            case "anew", _:
                self.log.begin_anew()
            case "die", int(points):
                self.die(points)
            case _:
                self.restart()
        if operation != "die":
            self.everything()

    def foreign(self, cgroup: str, file: str, text: str) -> None:
        if self.stored.exists(cgroup):
            with suppress(ValueRefused, Busy):
                self.rules.write(cgroup, file, text)
                self.theirs[cgroup, file] = text

    def die(self, points: int) -> None:
        self.weights = {cgroup: 109 - weight for cgroup, weight in self.weights.items()}
        self.pins = {} if self.pins else {PODS[0]: ("1-4", True, False)}
        self.points_left = points
        with suppress(Killed):
            self.everything()
        self.points_left = None
        self.restart()

    def expected(self, weights: dict[str, int], pins: dict[str, str]) -> dict[str, tuple[str, str]]:
        """Return the weight and CPUs of everything, by a formula that knows nothing of the writer."""
        cpus: dict[str, CPUSet] = {}
        for cgroup in self.alive:
            own = CPUSet.parse(pins.get(cgroup, self.theirs[cgroup, "cpuset.cpus"]))
            above = cpus.get(next(ancestors(cgroup)), CPUSet.parse("0-7"))
            cpus[cgroup] = own if self.version is Version.V2 else own & above or above
        return {
            cgroup: (str(weights.get(cgroup, self.theirs[cgroup, self.weight_file])), str(cpus[cgroup]))
            for cgroup in self.alive
        }

    def state(self) -> dict[str, tuple[str, str]]:
        return {
            cgroup: (self.stored.read(cgroup, self.weight_file), str(self.cpus(cgroup)))
            for cgroup in self.alive
        }


@pytest.mark.parametrize("version", Version)
@given(operations=st.lists(OPERATIONS, max_size=12))
@settings(deadline=None, max_examples=60)
def test_any_history_ends_in_what_is_wanted(version: Version, operations: list[tuple[str, object]]) -> None:
    history = History(version)
    for operation, value in operations:
        history.live(operation, value)
    history.everything()
    assert history.state() == history.expected(history.weights, history.pinned())
    assert history.everything() == 0
    assert read_bandwidth(history.stored, SLICE).quota == history.quota


@pytest.mark.parametrize("version", Version)
@given(
    operations=st.lists(OPERATIONS, max_size=10),
    deaths=st.lists(st.integers(0, 20), max_size=3),
)
@settings(deadline=None, max_examples=50)
def test_restore_puts_everything_back_however_often_it_dies(
    version: Version, operations: list[tuple[str, object]], deaths: list[int]
) -> None:
    history = History(version)
    for operation, value in operations:
        history.live(operation, value)
    for points in deaths:
        history.restart()
        history.points_left = points
        with suppress(Killed):
            history.writer.restore()
        history.points_left = None
    history.restart()
    assert not history.writer.restore().failed
    assert history.state() == history.expected({}, {})
    held = {place for place, hold in history.writer.held.items() if hold.owner}
    assert not held
    assert not history.quotas.restore().failed
    assert read_bandwidth(history.stored, SLICE).quota is None
