"""Hardware counters: how the kernel is asked, how its readings are scaled, and what is made of them."""

from __future__ import annotations

import errno
import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import machine_trees
from corewise.kernel.host_files import HostFiles
from corewise.kernel.perf import (
    INSTRUCTIONS,
    LAST_LEVEL_READ_MISSES,
    CounterGroup,
    GroupReading,
    Groups,
    KernelPerf,
    MissCounters,
    MissTotals,
    PerfEvent,
    WantedEvents,
    growth,
    open_groups,
    reading_size,
)
from corewise.vocabulary.findings import Finding
from corewise.vocabulary.reasons import Reason
from kernel.fake_perf import FakePerf

COUNT = st.integers(0, 2**64 - 1)
SETPRIV = shutil.which("setpriv")
SOFTWARE, CPU_CLOCK, CONTEXT_SWITCHES = 1, 0, 3


def test_the_attributes_are_those_of_the_kernels_struct() -> None:
    attributes = PerfEvent(7, 0x1234, 0x56, 0x78).attributes()
    assert len(attributes) == 72
    assert struct.unpack_from("=IIQ", attributes) == (7, 72, 0x1234)
    assert struct.unpack_from("=Q", attributes, 32) == (1 | 2 | 8,)
    assert struct.unpack_from("=QQ", attributes, 56) == (0x56, 0x78)
    assert PerfEvent(3, 0x10002) == LAST_LEVEL_READ_MISSES


@given(st.lists(COUNT, max_size=4), COUNT, COUNT)
def test_group_reading_is_read_as_kernel_writes_it(values: list[int], enabled: int, running: int) -> None:
    content = struct.pack(f"={3 + len(values)}Q", len(values), enabled, running, *values)
    assert len(content) == reading_size(len(values))
    assert GroupReading.parse(content) == GroupReading(enabled, running, tuple(values))


@given(st.binary(max_size=64))
def test_a_reading_that_is_cut_short_is_refused(content: bytes) -> None:
    whole = len(content) >= 24 and len(content) == 24 + 8 * struct.unpack_from("=Q", content)[0]
    if not whole:
        with pytest.raises(ValueError, match=r"reading|values"):
            GroupReading.parse(content)


@given(
    start=st.lists(st.integers(0, 2**48), min_size=2, max_size=2),
    counted=st.lists(st.integers(0, 2**48), min_size=2, max_size=2),
    running=st.integers(1, 10**12),
    waiting=st.integers(0, 10**12),
)
def test_counts_are_scaled_from_running_to_enabled_time(
    start: list[int], counted: list[int], running: int, waiting: int
) -> None:
    before = GroupReading(50, 40, tuple(start))
    values = tuple(a + b for a, b in zip(start, counted, strict=True))
    after = GroupReading(50 + running + waiting, 40 + running, values)
    assert not after.is_reset_of(before)
    grown = growth(before, after)
    assert grown is not None
    for each, exact in zip(grown, counted, strict=True):
        assert each >= exact
        assert 0 <= exact * (running + waiting) - each * running < running
    if not waiting:
        assert grown == tuple(counted)


@given(before=st.tuples(COUNT, COUNT, COUNT), after=st.tuples(COUNT, COUNT, COUNT))
def test_wrapped_counter_is_a_reset_without_negative_growth(
    before: tuple[int, int, int], after: tuple[int, int, int]
) -> None:
    old, new = GroupReading(*before[:2], before[2:]), GroupReading(*after[:2], after[2:])
    assert new.is_reset_of(old) == any(b < a for a, b in zip(before, after, strict=True))
    grown = None if new.is_reset_of(old) else growth(old, new)
    assert grown is None or grown[0] >= 0


def group(perf: FakePerf) -> CounterGroup:
    return CounterGroup(perf, WantedEvents(0, (INSTRUCTIONS, LAST_LEVEL_READ_MISSES)))


def test_idle_group_reports_nothing_then_everything_next_time() -> None:
    perf = FakePerf()
    counting = group(perf)
    perf.run(0, 0, 0, running=0)
    assert counting.grown() is None
    perf.run(0, 400, 6, enabled=1000, running=500)
    assert counting.grown() == (1600, 24)


def test_a_group_that_went_back_begins_anew() -> None:
    perf = FakePerf()
    counting = group(perf)
    perf.run(0, 400, 6)
    assert counting.grown() == (400, 6)
    perf.run(0, -100, 0)
    assert counting.grown() is None
    perf.run(0, 10, 1)
    assert counting.grown() == (10, 1)


def test_group_that_cannot_open_whole_leaves_nothing_open() -> None:
    perf = FakePerf()
    perf.refuse[LAST_LEVEL_READ_MISSES] = errno.ENOENT
    with pytest.raises(OSError, match="No such file"):
        group(perf)
    assert not perf.open_counters


WANTED = {cpu: WantedEvents(cpu, (INSTRUCTIONS, LAST_LEVEL_READ_MISSES)) for cpu in range(4)}


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (errno.EACCES, Reason.PERF_NOT_PERMITTED),
        (errno.EPERM, Reason.PERF_NOT_PERMITTED),
        (errno.ENOENT, Reason.PERF_EVENT_MISSING),
        (errno.EOPNOTSUPP, Reason.PERF_EVENT_MISSING),
        (errno.ENOSYS, Reason.PERF_EVENT_MISSING),
        (errno.EMFILE, Reason.PERF_FAILED),
    ],
)
def test_kernel_answer_tells_why_nothing_is_counted(code: int, reason: Reason) -> None:
    perf = FakePerf()
    perf.refuse[None] = code
    absent = open_groups(perf, WANTED, "cycles")
    assert isinstance(absent, Finding)
    assert absent.reason is reason
    assert errno.errorcode[code] in absent.message


def test_cpu_without_the_events_is_skipped_others_fail() -> None:
    perf = FakePerf()
    perf.refuse[3] = errno.ENOENT
    opened = open_groups(perf, WANTED, "cycles")
    assert isinstance(opened, Groups)
    assert list(opened) == [0, 1, 2]
    opened.close()
    perf.refuse[3] = errno.EMFILE
    assert isinstance(open_groups(perf, WANTED, "cycles"), Finding)
    assert not perf.open_counters


@pytest.fixture
def perf() -> FakePerf:
    return FakePerf()


def counters(perf: FakePerf, root: Path) -> MissCounters:
    counting = MissCounters(perf, HostFiles(root))
    assert counting.read() == Finding(
        Reason.PERF_NO_VALUE, "the counters ran on no CPU since the last reading"
    )
    return counting


def test_instructions_and_misses_sum_over_counting_cpus(perf: FakePerf, tmp_path: Path) -> None:
    machine_trees.intel(tmp_path)
    counting = counters(perf, tmp_path)
    for cpu in range(15):
        perf.run(cpu, 1000, 10, enabled=300, running=100)
    assert counting.read() == MissTotals(45_000, 450, "LL")
    assert isinstance(counting.read(), Finding)


def test_zen_reports_second_level_misses_as_such(perf: FakePerf, tmp_path: Path) -> None:
    machine_trees.epyc(tmp_path)
    perf.refuse[LAST_LEVEL_READ_MISSES] = errno.ENOENT
    counting = counters(perf, tmp_path)
    perf.run(5, 1000, 10)
    assert counting.read() == MissTotals(1000, 10, "L2")


def test_unknown_general_event_is_not_last_level(perf: FakePerf, tmp_path: Path) -> None:
    machine_trees.neoverse(tmp_path)
    perf.refuse[LAST_LEVEL_READ_MISSES] = errno.ENOENT
    absent = MissCounters(perf, HostFiles(tmp_path)).read()
    assert isinstance(absent, Finding)
    assert absent.reason is Reason.PERF_EVENT_MISSING


def test_cpus_that_come_and_go_are_followed(perf: FakePerf, tmp_path: Path) -> None:
    machine_trees.intel(tmp_path)
    counting = counters(perf, tmp_path)
    (tmp_path / "sys/devices/system/cpu/online").write_text("0-7\n")
    assert isinstance(counting.read(), Finding)
    assert {counter.cpu for counter in perf.open_counters.values()} == set(range(8))
    perf.run(7, 5, 1)
    assert counting.read() == MissTotals(5, 1, "LL")
    counting.close()
    assert not perf.open_counters


def test_cpu_gone_offline_reports_nothing(perf: FakePerf, tmp_path: Path) -> None:
    machine_trees.intel(tmp_path)
    counting = counters(perf, tmp_path)
    perf.run(0, 5, 1)
    perf.run(1, 7, 1)
    perf.dead.add(1)
    assert counting.read() == MissTotals(5, 1, "LL")


def test_real_kernel_counts_a_group_of_software_events() -> None:
    kernel = KernelPerf()
    events = (PerfEvent(SOFTWARE, CPU_CLOCK), PerfEvent(SOFTWARE, CONTEXT_SWITCHES))
    try:
        counting = CounterGroup(kernel, WantedEvents(0, events))
    except OSError as error:
        pytest.skip(f"this kernel does not let software events be counted: {error}")
    try:
        grown = counting.grown()
        while grown is None:
            grown = counting.grown()
        nanoseconds, switches = grown
        assert nanoseconds > 0
        assert switches >= 0
    finally:
        counting.close()


def test_real_cache_miss_answer_is_figure_or_reason() -> None:
    counting = MissCounters(KernelPerf(), HostFiles())
    counting.read()
    answer = counting.read()
    counting.close()
    if isinstance(answer, Finding):
        assert answer.reason in {Reason.PERF_EVENT_MISSING, Reason.PERF_NOT_PERMITTED, Reason.PERF_NO_VALUE}
    else:
        assert answer.instructions > 0


ASKING = """
from corewise.kernel.perf import KernelPerf, PerfEvent, WantedEvents, open_groups
from corewise.vocabulary.findings import Finding
opened = open_groups(KernelPerf(), {0: WantedEvents(0, (PerfEvent(1, 0),))}, "CPU time")
print(opened.reason if isinstance(opened, Finding) else "counts")
"""


@pytest.mark.skipif(SETPRIV is None or os.geteuid() != 0, reason="needs root and setpriv")
def test_counting_needs_only_perfmon_of_root_capabilities() -> None:
    if not 0 < int(Path("/proc/sys/kernel/perf_event_paranoid").read_text(encoding="ascii")) < 4:
        pytest.skip("this kernel lets everybody count, or no one")

    def answer(capabilities: str) -> str:
        command = [
            str(SETPRIV),
            f"--bounding-set={capabilities}",
            "--inh-caps=-all",
            sys.executable,
            "-c",
            ASKING,
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.stderr.startswith("setpriv:"):
            pytest.skip(f"capabilities cannot be dropped here: {done.stderr}")
        assert not done.returncode, done.stderr
        return done.stdout.strip()

    assert answer("-all,+perfmon") == "counts"
    assert answer("-all") == Reason.PERF_NOT_PERMITTED
