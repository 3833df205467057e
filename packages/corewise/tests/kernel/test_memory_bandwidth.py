"""The theoretical bandwidth of a machine's memory, from its firmware's table and its EDAC driver."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewise.kernel.host_files import HostFiles
from corewise.kernel.memory_bandwidth import (
    CONTROLLERS,
    TABLE,
    MemoryModule,
    memory_modules,
    read_peak_bandwidth,
)
from corewise.vocabulary.findings import Finding
from corewise.vocabulary.reasons import Reason
from machine_trees import Tree

GIBI = 1024


def memory_device(
    *,
    size: int = 32 * GIBI,
    width: int = 64,
    speed: int = 3200,
    configured: int | None = 2933,
    extended: int = 0,
) -> bytes:
    """A structure of type 17 as DSP0134 7.18 has it, with two strings; ``configured`` None: SMBIOS 2.6."""
    body = bytearray(0x5C)
    struct.pack_into("<HHH", body, 0x08, 72, width, size)
    struct.pack_into("<H", body, 0x15, speed)
    struct.pack_into("<H", body, 0x20, configured or 0)
    struct.pack_into("<I", body, 0x58, extended)
    if configured is None:
        body = body[:0x1C]
    struct.pack_into("<BBH", body, 0, 17, len(body), 0x1100)
    return bytes(body) + b"CPU1_DIMM_A1\0NODE 0\0\0"


OTHER = struct.pack("<BBHBB", 1, 6, 0x100, 1, 2) + b"Vendor\0\0"
WITHOUT_STRINGS = struct.pack("<BBHI", 32, 8, 0x200, 0) + b"\0\0"
END = struct.pack("<BBH", 127, 4, 0xFEFF) + b"\0\0"


def table(*devices: bytes) -> bytes:
    return OTHER + WITHOUT_STRINGS + b"".join(devices) + END


def test_plugged_modules_are_listed_with_their_running_speed() -> None:
    empty = memory_device(size=0)
    old, unknown = memory_device(configured=None), memory_device(speed=0, configured=0, width=0xFFFF)
    fast = memory_device(configured=0xFFFF, extended=70_000)
    assert memory_modules(table(memory_device(), empty, old, unknown, fast)) == (
        MemoryModule(2_933_000_000, 8),
        MemoryModule(3_200_000_000, 8),
        MemoryModule(None, None),
        MemoryModule(70_000_000_000, 8),
    )


@given(st.binary(max_size=300))
def test_whatever_the_table_holds_reading_it_ends(content: bytes) -> None:
    assert all(each.width_bytes != 0 for each in memory_modules(content))


@given(st.integers(0, 400))
def test_truncated_table_has_modules_before_the_cut(length: int) -> None:
    whole = table(memory_device(), memory_device())
    found = memory_modules(whole[:length])
    assert found == memory_modules(whole)[: len(found)]


def machine(root: Path, locations: Iterable[str], content: bytes, *, kind: str = "dimm") -> HostFiles:
    tree = Tree(root)
    for number, location in enumerate(locations):
        where = f"{CONTROLLERS}/mc{number % 2}/{kind}{number // 2}"
        tree.put(f"{where}/dimm_location", location).put(f"{where}/size", 32768)
    file = root / TABLE
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    return HostFiles(root)


TWO_A_CHANNEL = [
    f"channel {channel} slot {slot} " for channel in (0, 1) for slot in (0, 1) for _controller in (0, 1)
]


def test_peak_is_channels_by_transfers_by_width(
    tmp_path: Path,
) -> None:
    files = machine(tmp_path, TWO_A_CHANNEL, table(*[memory_device()] * 8))
    assert read_peak_bandwidth(files) == 4 * 2_933_000_000 * 8


def test_the_slowest_module_counts_for_all(tmp_path: Path) -> None:
    files = machine(tmp_path, TWO_A_CHANNEL, table(memory_device(), memory_device(configured=2400)))
    assert read_peak_bandwidth(files) == 4 * 2_400_000_000 * 8


def test_ranks_and_branches_count_empty_slots_do_not(tmp_path: Path) -> None:
    files = machine(
        tmp_path / "a", ["csrow 0 channel 0 ", "csrow 0 channel 1 "], table(memory_device()), kind="rank"
    )
    (tmp_path / "a" / CONTROLLERS / "mc0/rank1").mkdir()
    Tree(tmp_path / "a").put(f"{CONTROLLERS}/mc0/rank1/dimm_location", "csrow 0 channel 7").put(
        f"{CONTROLLERS}/mc0/rank1/size", 0
    )
    assert read_peak_bandwidth(files) == 2 * 2_933_000_000 * 8
    branches = ["branch 0 channel 0 slot 0", "branch 0 channel 0 slot 0", "branch 1 channel 0 slot 0"]
    assert (
        read_peak_bandwidth(machine(tmp_path / "b", branches, table(memory_device())))
        == 3 * 2_933_000_000 * 8
    )


@pytest.mark.parametrize("location", ["memory 3 ", "", "csrow 1 "])
def test_a_driver_that_knows_no_channels_tells_nothing(tmp_path: Path, location: str) -> None:
    absent = read_peak_bandwidth(machine(tmp_path, [location], table(memory_device())))
    assert isinstance(absent, Finding)
    assert absent.reason is Reason.MEMORY_CHANNELS_UNKNOWN


@pytest.mark.parametrize("content", [b"", END, table(memory_device(), memory_device(speed=0, configured=0))])
def test_no_peak_unless_every_module_speed_is_known(tmp_path: Path, content: bytes) -> None:
    absent = read_peak_bandwidth(machine(tmp_path, TWO_A_CHANNEL, content))
    assert isinstance(absent, Finding)
    assert absent.reason is Reason.MEMORY_SPEED_UNKNOWN
