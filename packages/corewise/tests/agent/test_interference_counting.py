"""Memory traffic and cache misses since the agent began to count, and which source tells them.

| resctrl | memory controllers | the total is from |
|---|---|---|
| monitors bandwidth | | resctrl |
| monitors, no value just now | | no one, and the next value has it all |
| not mounted, or no event | counted | memory controllers |
| not mounted, or no event | not permitted | no one: PerfNotPermitted |
| not mounted, or no event | none | no one: what resctrl said |
"""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

import machine_trees
from corewise.agent.interference.collector import MemoryTraffic
from corewise.kernel.host_files import HostFiles
from corewise.kernel.perf import (
    INSTRUCTIONS,
    LAST_LEVEL_READ_MISSES,
    CounterGroup,
    MissCounters,
    MissTotals,
    WantedEvents,
)
from corewise.vocabulary.findings import Finding
from corewise.vocabulary.reasons import Reason
from kernel.controller_trees import SKYLAKE, controllers
from kernel.fake_perf import FakePerf
from kernel.resctrl_trees import ResctrlTree, two_sockets


def reason(answer: object) -> Reason:
    assert isinstance(answer, Finding)
    return answer.reason


def test_resctrl_traffic_is_counted_from_the_first_look(tmp_path: Path) -> None:
    tree = two_sockets(tmp_path)
    traffic = MemoryTraffic(HostFiles(tmp_path), None)
    assert traffic.read() == 0
    tree.count("", 0, mbm_total_bytes=1500).count("batch", 1, mbm_total_bytes=10)
    assert traffic.read() == 506


def test_value_missing_once_is_caught_up(tmp_path: Path) -> None:
    tree = two_sockets(tmp_path)
    traffic = MemoryTraffic(HostFiles(tmp_path), None)
    traffic.read()
    tree.count("", 0, mbm_total_bytes="Unavailable").count("", 1, mbm_total_bytes=300)
    assert reason(traffic.read()) is Reason.RESCTRL_NO_VALUE
    tree.count("", 0, mbm_total_bytes=2000)
    assert traffic.read() == 1100


def test_monitoring_groups_that_change_add_no_traffic(tmp_path: Path) -> None:
    tree = two_sockets(tmp_path)
    traffic = MemoryTraffic(HostFiles(tmp_path), None)
    traffic.read()
    tree.group("new").count("new", 0, mbm_total_bytes=10**15)
    assert traffic.read() == 0
    tree.remove("new").remove("batch").group("batch").count("batch", 0, mbm_total_bytes=1)
    assert traffic.read() == 0
    tree.count("batch", 0, mbm_total_bytes=12)
    assert traffic.read() == 11


def test_memory_controllers_are_counted_where_resctrl_cannot_monitor(tmp_path: Path) -> None:
    perf = FakePerf()
    controllers(tmp_path, SKYLAKE, channels=1)
    traffic = MemoryTraffic(HostFiles(tmp_path), perf)
    traffic.read()
    for cpu in (0, 4):
        perf.run(cpu, 10, 5)
    assert traffic.read() == 2 * 15 * 64
    perf.run(0, 10, 5)
    assert reason(traffic.read()) is Reason.UNCORE_NO_VALUE
    perf.run(0, 0, 0)
    perf.run(4, 1, 0)
    assert traffic.read() == (2 * 15 + 15 + 1) * 64


def test_one_source_counts_at_once_and_totals_continue(tmp_path: Path) -> None:
    perf = FakePerf()
    controllers(tmp_path, SKYLAKE, channels=1)
    traffic = MemoryTraffic(HostFiles(tmp_path), perf)
    traffic.read()
    perf.run(0, 10, 0)
    perf.run(4, 0, 0)
    assert traffic.read() == 640
    tree = ResctrlTree(tmp_path).count("", 0, mbm_total_bytes=10**9)
    assert traffic.read() == 640
    assert not perf.open_counters
    tree.count("", 0, mbm_total_bytes=10**9 + 7)
    assert traffic.read() == 647
    shutil.rmtree(tree.mount)
    assert isinstance(traffic.read(), Finding)
    for cpu in (0, 4):
        perf.run(cpu, 1, 0)
    assert traffic.read() == 647 + 128


def test_missing_traffic_is_explained_by_a_fixable_cause(tmp_path: Path) -> None:
    perf = FakePerf()
    assert reason(MemoryTraffic(HostFiles(tmp_path), perf).read()) is Reason.RESCTRL_UNSUPPORTED
    controllers(tmp_path, SKYLAKE)
    perf.refuse[None] = errno.EACCES
    absent = MemoryTraffic(HostFiles(tmp_path), perf).read()
    assert reason(absent) is Reason.PERF_NOT_PERMITTED
    assert "there is no sys/fs/resctrl" in str(absent)
    assert reason(MemoryTraffic(HostFiles(tmp_path), None).read()) is Reason.RESCTRL_UNSUPPORTED


def test_missing_value_loses_no_misses_or_instructions(tmp_path: Path) -> None:
    machine_trees.intel(tmp_path)
    perf = FakePerf()
    misses = MissCounters(perf, HostFiles(tmp_path))
    assert reason(misses.read()) is Reason.PERF_NO_VALUE
    perf.run(3, 1000, 7)
    assert misses.read() == MissTotals(1000, 7, "LL")
    perf.run(3, 1000, 7, running=0)
    assert reason(misses.read()) is Reason.PERF_NO_VALUE
    perf.run(3, 0, 0, enabled=0, running=1000)
    assert misses.read() == MissTotals(2000, 14, "LL")
    misses.close()
    assert not perf.open_counters


@given(
    instructions=st.integers(1, 2**48),
    missed=st.integers(0, 2**48),
    running=st.integers(1, 10**12),
    more=st.integers(0, 10**12),
)
def test_mpki_of_multiplexed_group_covers_its_running_time(
    instructions: int, missed: int, running: int, more: int
) -> None:
    """Both values are scaled alike, so their ratio is off by what rounding takes, and by nothing else."""
    perf = FakePerf()
    group = CounterGroup(perf, WantedEvents(0, (INSTRUCTIONS, LAST_LEVEL_READ_MISSES)))
    perf.run(0, instructions, missed, enabled=running + more, running=running)
    grown = group.grown()
    assert grown is not None
    assert abs(grown[1] * instructions - grown[0] * missed) <= max(instructions, missed)


def test_a_machine_whose_cpus_are_unknown_counts_nothing(tmp_path: Path) -> None:
    assert reason(MissCounters(FakePerf(), HostFiles(tmp_path)).read()) is Reason.PERF_EVENT_MISSING
