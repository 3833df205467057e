"""Memory controllers: events as the kernel describes them, and traffic as they count it."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewise.kernel.host_files import HostFiles
from corewise.kernel.memory_controllers import (
    ControllerTraffic,
    Field,
    MemoryControllers,
    event_of,
    has_controllers,
)
from corewise.kernel.perf import PerfEvent
from corewise.vocabulary.findings import Finding
from corewise.vocabulary.reasons import Reason
from kernel.controller_trees import (
    GRANITE_RAPIDS,
    READ_1,
    SAPPHIRE_RAPIDS,
    SKYLAKE,
    UNITS,
    WRITE_1,
    controllers,
    unit,
)
from kernel.fake_perf import FakePerf
from machine_trees import Tree

FIELDS = {
    "event": Field.parse("config:0-7"),
    "umask": Field.parse("config:8-15"),
    "edge": Field.parse("config:18"),
    "split": Field.parse("config1:0-3,60-63"),
}


@pytest.mark.parametrize(
    ("text", "event"),
    [
        ("event=0x04,umask=0x03", PerfEvent(20, 0x0304)),
        ("event=0x05,umask=0xcf,edge", PerfEvent(20, 0x4CF05)),
        ("umask=12,event=4", PerfEvent(20, 0x0C04)),
        ("split=0xa5", PerfEvent(20, 0, 0xA000000000000005)),
        ("config=0x1234,config2=7", PerfEvent(20, 0x1234, 0, 7)),
    ],
)
def test_events_are_encoded_by_the_formats_beside_them(text: str, event: PerfEvent) -> None:
    assert event_of(20, text, FIELDS) == event


@pytest.mark.parametrize(
    "text", ["", "event=0x100", "event=4;umask=3", "event=four", "thresh=1", "event=-1", "event=4,,umask=3"]
)
def test_an_event_that_cannot_be_understood_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"term|fit|format"):
        event_of(20, text, FIELDS)


@pytest.mark.parametrize(
    "text", ["", "0-7", "config3:0-7", "config:7-0", "config:0-64", "config:", "config:a"]
)
def test_a_format_that_cannot_be_understood_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="bits"):
        Field.parse(text)


@given(bits=st.sets(st.integers(0, 63), min_size=1), value=st.integers(0, 2**64 - 1))
def test_value_fills_its_bits_from_the_lowest_up(bits: set[int], value: int) -> None:
    ordered = sorted(bits)
    field = Field.parse("config:" + ",".join(map(str, ordered)))
    value %= 1 << len(ordered)
    word = field.place(value)
    assert sum((word >> bit & 1) << index for index, bit in enumerate(ordered)) == value
    assert not word & ~sum(1 << bit for bit in ordered)


def opened(root: Path, perf: FakePerf) -> MemoryControllers:
    counting = MemoryControllers(perf, HostFiles(root))
    first = counting.read()
    assert isinstance(first, ControllerTraffic)
    assert first.moved == 0
    return counting


@pytest.mark.parametrize(
    ("events", "words"),
    [
        (SKYLAKE, {READ_1, WRITE_1}),
        (SAPPHIRE_RAPIDS, {0xCF05, 0xF005}),
        (GRANITE_RAPIDS, {0xCF05, 0xF005, 0xCF06, 0xF006}),
    ],
)
def test_channel_accesses_are_counted_once_per_socket(
    tmp_path: Path, events: dict[str, str], words: set[int]
) -> None:
    perf = FakePerf()
    controllers(tmp_path, events)
    opened(tmp_path, perf)
    asked = {(each.event.type, each.cpu, each.event.config) for each in perf.open_counters.values()}
    assert asked == {(number, cpu, word) for number in (20, 21) for cpu in (0, 4) for word in words}
    assert len(perf.open_counters) == len(asked)


def test_access_is_64_bytes_scaled_by_counted_time(tmp_path: Path) -> None:
    perf = FakePerf()
    controllers(tmp_path, SKYLAKE)
    counting = opened(tmp_path, perf)
    perf.run(0, 100, 10, unit=20)
    perf.run(0, 1, 2, unit=21)
    perf.run(4, 30, 20, unit=20, enabled=2000, running=1000)
    perf.run(4, 0, 0, unit=21)
    assert counting.read() == ControllerTraffic((110 + 3 + 2 * 50) * 64, ())


def test_uncounted_channel_is_named_and_caught_up_later(tmp_path: Path) -> None:
    perf = FakePerf()
    controllers(tmp_path, SKYLAKE, channels=1)
    counting = opened(tmp_path, perf)
    perf.run(0, 5, 5)
    perf.run(4, 3, 4, enabled=1000, running=0)
    assert counting.read() == ControllerTraffic(10 * 64, (("uncore_imc_0", 4),))
    perf.run(0, 0, 0)
    perf.run(4, 0, 0, enabled=1000, running=2000)
    assert counting.read() == ControllerTraffic(7 * 64, ())


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("events/cas_count_read", "event=0x04,chmask=1"),
        ("format/event", "nonsense"),
        ("events/cas_count_write", ""),
    ],
)
def test_unintelligible_description_is_reported_with_its_unit(
    tmp_path: Path, path: str, content: str
) -> None:
    controllers(tmp_path, SKYLAKE).put(f"{UNITS}/uncore_imc_1/{path}", content)
    absent = MemoryControllers(FakePerf(), HostFiles(tmp_path)).read()
    assert isinstance(absent, Finding)
    assert absent.reason is Reason.PERF_EVENT_MISSING
    assert "uncore_imc_1" in absent.message


def test_half_of_the_channels_is_no_answer(tmp_path: Path) -> None:
    perf = FakePerf()
    controllers(tmp_path, SKYLAKE)
    perf.refuse[4] = errno.ENODEV
    assert isinstance(MemoryControllers(perf, HostFiles(tmp_path)).read(), Finding)
    assert not perf.open_counters


def test_units_without_column_accesses_are_no_memory_controllers(tmp_path: Path) -> None:
    unit(Tree(tmp_path), "uncore_imc", 9, {"data_reads": "event=0x01"})
    absent = MemoryControllers(FakePerf(), HostFiles(tmp_path)).read()
    assert isinstance(absent, Finding)
    assert absent.reason is Reason.PERF_EVENT_MISSING


def test_a_virtual_machine_has_none(tmp_path: Path) -> None:
    Tree(tmp_path).put(f"{UNITS}/software/type", 1)
    assert not has_controllers(HostFiles(tmp_path))
