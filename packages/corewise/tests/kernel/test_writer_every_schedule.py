"""Every place of up to two faults in what the agent writes to cgroups: the end is right, nothing is lost.

The agent brings quotas, or settings, to what is wanted, then to something else, and then restores them. A
fault strikes between any two of its steps: the agent dies, and the next begins; or somebody else writes a
quota, as systemd or an administrator does. Each file is written, and each entry of the journal, in a step of
its own; what the agent has read is then older than what somebody else has written.

Whatever strikes: a cgroup that is not as kubelet made it is in the journal at every moment, one undisturbed
pass brings about what is wanted, and restore puts everything back.

``make test`` tries one fault, ``make explore EXHAUSTIVE=1`` two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Final

import pytest

from corewise.actions import QuotaOwner, Setting, SettingOwner
from corewise.kernel.cgroups.files import Files
from corewise.kernel.cgroups.layout import Version
from corewise.kernel.cgroups.resources import quota_file, quota_text, read_bandwidth
from corewise.kernel.errors import ValueRefused
from corewise.kernel.writing.entries import Entry, Opened
from corewise.kernel.writing.journal import MemoryLog
from corewise.kernel.writing.journaled_writer import JournaledWriter, WriteReport
from corewise.kernel.writing.quota_claims import QuotaClaims
from corewise.kernel.writing.quota_writer import QuotaWriter
from corewise.kernel.writing.setting_claims import setting_file
from corewise.kernel.writing.setting_writer import SettingWriter
from corewise.quantities import Microseconds
from every_case import WHOLE, Stopwatch
from kernel.cgroup_trees import KernelRules, StoredCgroups, bound, divided
from kernel.test_setting_deaths import ONE, TWO, intended, wanted
from kernel.test_setting_deaths import POD as OFFLINE_POD
from mutants import Mutant
from schedules import Explored, Schedule, explore

FAULTS: Final = 2 if WHOLE else 1
POD: Final = "/kubepods/burstable/podx"
BASES: Final = {POD: 300_000, f"{POD}/one": 100_000, f"{POD}/two": 200_000}
VERSIONS: Final = pytest.mark.parametrize("version", Version, ids=lambda version: version.value)
GOES_ON, DIES = "goes on", "dies"


class Killed(BaseException):
    """The agent is gone from one moment to the next."""


class StruckFiles:
    """Files before and after each write to which something may strike."""

    def __init__(self, files: Files, strike: Callable[[str], None]) -> None:
        self._files, self._strike = files, strike
        self.version = files.version
        self.read, self.exists, self.children = files.read, files.exists, files.children

    def write(self, cgroup: str, file: str, text: str) -> None:
        self._strike(f"before {text} to {cgroup}")
        self._files.write(cgroup, file, text)
        self._strike(f"after {text} to {cgroup}")


class StruckLog(MemoryLog):
    """A journal after each entry of which something may strike."""

    def __init__(self, strike: Callable[[str], None]) -> None:
        super().__init__()
        self._strike = strike

    def append(self, entries: Iterable[Entry]) -> None:
        super().append(entries)
        self._strike("after an entry")


class Quotas:
    """A pod with two containers, whose quotas are divided by one ratio, then by another."""

    def __init__(self, version: Version) -> None:
        self.version = version
        self.stored = StoredCgroups(version, BASES)
        self.rules = KernelRules(self.stored)
        self.by_others: dict[str, int | None] = {}
        for cgroup, base in BASES.items():
            self.rules.write(cgroup, quota_file(version), quota_text(version, Microseconds(base)))
        self.steps = (self.divide(120), self.divide(200), self.restore)

    def divide(self, ratio: int) -> Callable[[Files, MemoryLog], WriteReport]:
        actions = [bound(cgroup, divided(base, ratio), base) for cgroup, base in BASES.items()]
        return lambda files, log: QuotaWriter(files, log, now=lambda: 0.0).reconcile(
            QuotaOwner.NORMALIZATION, actions
        )

    @staticmethod
    def restore(files: Files, log: MemoryLog) -> WriteReport:
        return QuotaWriter(files, log, now=lambda: 0.0).restore()

    def quotas(self) -> dict[str, int | None]:
        return {cgroup: read_bandwidth(self.stored, cgroup).quota for cgroup in BASES}

    def foreign(self) -> dict[str, Callable[[], None]]:
        def writes(cgroup: str, quota: int | None) -> None:
            text = quota_text(self.version, None if quota is None else Microseconds(quota))
            try:
                self.rules.write(cgroup, quota_file(self.version), text)
            except ValueRefused:
                return
            self.by_others[cgroup] = quota

        return {
            f"somebody writes {quota} to {cgroup}": partial(writes, cgroup, quota)
            for cgroup, quota in ((POD, None), (f"{POD}/one", 20_000))
        }

    def check(self, log: MemoryLog) -> None:
        held = QuotaClaims.of(log.entries())
        for cgroup, quota in self.quotas().items():
            if quota not in {BASES[cgroup], self.by_others.get(cgroup, BASES[cgroup])}:
                assert cgroup in held, f"{cgroup} has {quota}, and is not in the journal"

    def check_end(self, step: int) -> None:
        ratio = (120, 200, 100)[step]
        for cgroup, quota in self.quotas().items():
            # What was restored already is not corewise's, and others may write it.
            allowed = {divided(BASES[cgroup], ratio), self.by_others.get(cgroup, 0) if ratio == 100 else 0}
            assert quota in allowed, f"{cgroup} has {quota}"
        self.by_others.clear()


class Settings:
    """An offline pod whose CPU sets and weight go from one plan to another."""

    def __init__(self, version: Version) -> None:
        self.version = version
        self.stored = StoredCgroups(version, [ONE, TWO])
        self.rules = KernelRules(self.stored)
        self.fresh = self.state()
        self.steps = (self.bring("narrow"), self.bring("elsewhere"), self.restore)

    def state(self) -> dict[str, dict[str, str]]:
        return {cgroup: dict(self.stored.contents[cgroup]) for cgroup in (OFFLINE_POD, ONE, TWO)}

    @staticmethod
    def bring(plan: str) -> Callable[[Files, MemoryLog], WriteReport]:
        return lambda files, log: SettingWriter(files, log, now=lambda: 0.0).reconcile(
            SettingOwner.BATCH, wanted(plan)
        )

    @staticmethod
    def restore(files: Files, log: MemoryLog) -> WriteReport:
        return SettingWriter(files, log, now=lambda: 0.0).restore()

    @staticmethod
    def foreign() -> dict[str, Callable[[], None]]:
        return {}

    def check(self, log: MemoryLog) -> None:
        held = {getattr(each, "cgroup", "") for each in log.entries()}
        for cgroup, files in self.state().items():
            assert files == self.fresh[cgroup] or cgroup in held, f"{cgroup} is not in the journal"

    def check_end(self, step: int) -> None:
        if step == len(self.steps) - 1:
            fresh = {**self.fresh[ONE], setting_file(self.version, Setting.CPU_WEIGHT): "2"}
            assert self.state() == {**self.fresh, ONE: fresh}
        else:
            sets = [self.stored.contents[cgroup]["cpuset.cpus"] for cgroup in (OFFLINE_POD, ONE, TWO)]
            assert sets == intended(self.version, ("narrow", "elsewhere")[step])[: len(sets)]


def play(node: Quotas | Settings, schedule: Schedule, faults: int) -> None:
    """Play one schedule: each step of the agent until it ends undisturbed."""
    left = [faults]

    def strike(where: str) -> None:
        node.check(log)
        if not left[0]:
            return
        foreign = node.foreign()
        names = [GOES_ON, f"{where}: the agent dies", *(f"{where}: {each}" for each in foreign)]
        choice = schedule.choose(names, lambda: tuple(schedule.taken))
        left[0] -= choice > 0
        if choice == 1:
            raise Killed
        if choice > 1:
            [*foreign.values()][choice - 2]()

    log = StruckLog(strike)
    files = StruckFiles(node.rules, strike)
    for number, step in enumerate(node.steps):
        struck = True
        while struck:
            before = left[0]
            with suppress(Killed):
                log.append([Opened(0.0, "boot")])
                step(files, log)
            struck = left[0] != before
        node.check_end(number)


NODES: Final[dict[str, type[Quotas | Settings]]] = {"quotas": Quotas, "settings": Settings}


def explored(kind: str, version: Version, faults: int) -> Explored:
    return explore(lambda schedule: play(NODES[kind](version), schedule, faults))


@VERSIONS
@pytest.mark.parametrize("kind", NODES)
def test_no_fault_loses_what_comes_back(kind: str, version: Version) -> None:
    watch = Stopwatch(f"agent's {kind} on cgroup {version.value}, {FAULTS} faults")
    found = explored(kind, version, FAULTS)
    assert found.failure is None, found.failure
    watch.report(states=found.states, schedules=found.schedules)


MUTANTS: Final[dict[str, tuple[Mutant, str]]] = {
    "what comes back is not entered": (
        Mutant(
            JournaledWriter,
            "enter",
            "self._log.append([claim.entry(key, time) for key, claim in claims.items()])",
            "pass",
        ),
        "quotas",
    ),
    "a write is not entered": (
        Mutant(JournaledWriter, "write", "    self._log.append([entry])\n        self._at", "    self._at"),
        "settings",
    ),
    "restore leaves a cgroup as it is": (
        Mutant(QuotaWriter, "restore", "claim.release_all()", "pass"),
        "quotas",
    ),
    "what was entered is not read again": (
        Mutant(QuotaWriter, "__init__", "QuotaClaims.of(log.entries())", "QuotaClaims.of(())"),
        "quotas",
    ),
    "a cgroup is released before it is restored": (
        Mutant(QuotaWriter, "_release", " and self._claims[cgroup].at_rest(aim)", ""),
        "quotas",
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_every_error_in_the_writer_is_found(name: str) -> None:
    mutant, kind = MUTANTS[name]
    watch = Stopwatch(f"mutant of the agent's writer: {name}")
    with mutant.at_work():
        found = explored(kind, Version.V2, 1)
    assert found.failure is not None, "no schedule shows the error"
    history, _ = found.failure
    watch.report([each for each in history if each != GOES_ON], schedules=found.schedules)
