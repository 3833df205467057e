"""CPU time and memory that a machine and its cgroups use, as the kernel counts them."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewise.kernel.cgroups.files import CgroupFiles
from corewise.kernel.cgroups.layout import Version, find_layout
from corewise.kernel.cgroups.resources import read_memory_usage, read_working_set
from corewise.kernel.errors import Malformed, Missing
from corewise.kernel.host_files import HostFiles
from corewise.kernel.usage import (
    BusyTime,
    MemoryInUse,
    busy_time,
    node_memory,
    read_busy_time,
    read_node_memory,
)
from corewise.quantities import Bytes
from kernel.cgroup_trees import plain_tree

MEBI = 1 << 20
POD = "/kubepods/besteffort/podx"
STAT = "cpu  1000 200 300 9000 400 50 60 7000 800 90\ncpu0 1 1 1 1 1 1 1 1\ncpu3 1 1 1 1 1 1 1 1\nintr 5\n"
MEMINFO = "MemTotal: 4096 kB\nMemFree: 1024 kB\nInactive: 900 kB\nInactive(file): 512 kB\n"


def machine(root: Path, file: str, text: str) -> HostFiles:
    (root / "proc").mkdir()
    (root / "proc" / file).write_text(text)
    return HostFiles(root)


def test_busy_time_excludes_steal_and_counts_guests_once(tmp_path: Path) -> None:
    busy, stolen = (ticks * 10_000_000 for ticks in (1000 + 200 + 300 + 50 + 60, 7000))
    assert read_busy_time(machine(tmp_path, "stat", STAT)) == BusyTime(busy, cpus=2, stolen=stolen)


@pytest.mark.parametrize(
    "stat",
    [
        "",
        "cpu  1 2 3 4\ncpu0 1 2 3 4\n",
        "cpu  1 1 1 1 1 1 1 1\n",
        "cpu0 1 1 1 1 1 1 1 1\n",
        "cpu  -1 1 1 1 1 1 1 1\ncpu0 1 1 1 1 1 1 1 1\n",
    ],
)
def test_incomplete_cpu_time_account_is_a_problem(tmp_path: Path, stat: str) -> None:
    files = machine(tmp_path, "stat", stat)
    assert read_busy_time(files) is None
    assert [type(problem) for problem in files.problems] == [Malformed]


def test_node_usage_excludes_free_and_inactive_file_pages(tmp_path: Path) -> None:
    assert read_node_memory(machine(tmp_path, "meminfo", MEMINFO)) == MemoryInUse(
        Bytes((4096 - 1024 - 512) * 1024), Bytes(4096 * 1024)
    )


def test_memory_usage_excludes_hugepages_as_allocatable_memory_does(tmp_path: Path) -> None:
    files = machine(tmp_path, "meminfo", f"{MEMINFO}HugePages_Total: 1\nHugetlb: 2048 kB\n")
    assert read_node_memory(files) == MemoryInUse(
        Bytes((4096 - 1024 - 512 - 2048) * 1024), Bytes((4096 - 2048) * 1024)
    )


@pytest.mark.parametrize("line", MEMINFO.splitlines(keepends=True))
def test_memory_account_missing_required_line_is_a_problem(tmp_path: Path, line: str) -> None:
    files = machine(tmp_path, "meminfo", MEMINFO.replace(line, ""))
    needed = not line.startswith("Inactive:")
    assert (read_node_memory(files) is None, len(files.problems)) == (needed, needed)


@given(st.text(max_size=200))
def test_usage_is_never_negative_whatever_the_files_hold(text: str) -> None:
    with suppress(ValueError):
        assert busy_time(text).busy >= 0
    with suppress(ValueError):
        assert node_memory(text).used >= 0


@pytest.fixture(params=Version, ids=lambda version: version.value)
def cgroups(request: pytest.FixtureRequest, tmp_path: Path) -> CgroupFiles:
    plain_tree(tmp_path, request.param, [POD])
    return CgroupFiles(find_layout(tmp_path))


def state(files: CgroupFiles, usage: int, inactive: int) -> None:
    v2 = files.version is Version.V2
    files.write(POD, "memory.current" if v2 else "memory.usage_in_bytes", str(usage))
    own = "" if v2 else "inactive_file 1\ntotal_"
    files.write(POD, "memory.stat", f"anon 5\n{own}inactive_file {inactive}\nunevictable 0")


def test_cgroup_working_set_excludes_inactive_file_pages(
    cgroups: CgroupFiles,
) -> None:
    state(cgroups, 300 * MEBI, 100 * MEBI)
    assert read_memory_usage(cgroups, POD) == 300 * MEBI
    assert read_working_set(cgroups, POD) == 200 * MEBI
    state(cgroups, 100 * MEBI, 101 * MEBI)
    assert read_working_set(cgroups, POD) == 0


def test_unreadable_cgroup_memory_is_an_error_with_path(cgroups: CgroupFiles) -> None:
    cgroups.write(POD, "memory.stat", "anon 5")
    with pytest.raises(Malformed, match=r"podx/memory\.stat"):
        read_working_set(cgroups, POD)
    with pytest.raises(Missing, match="podnew"):
        read_working_set(cgroups, "/kubepods/besteffort/podnew")
