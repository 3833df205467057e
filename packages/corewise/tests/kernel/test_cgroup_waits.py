"""The wait of a cgroup: by cpu.pressure, wait_sum or its tasks' schedstat, whichever this kernel has.

=================================  ============  ====================================================
hierarchy                          source        what the tree has
=================================  ============  ====================================================
v2                                 cpu.pressure  ``full`` in cpu.pressure
v1, hybrid, processes in both      cpu.pressure  cgroup.events of the unified hierarchy: populated 1
v1, hybrid, processes in v1 alone  wait_sum      populated 0, wait_sum in cpu.stat
v1, or v2 with psi=0               schedstat     tasks of the cgroup and those below it
any, from another PID namespace    none          tasks are 0
=================================  ============  ====================================================
"""

from __future__ import annotations

from pathlib import Path

import pytest

from corewise.kernel.cgroups.files import CgroupFiles
from corewise.kernel.cgroups.layout import Layout, Version
from corewise.kernel.cgroups.waits import (
    MOST_TASKS,
    WaitCounters,
    WaitReader,
    WaitSource,
    read_throttled,
)
from corewise.kernel.errors import KernelError
from corewise.kernel.host_files import HostFiles
from corewise.vocabulary.findings import Finding
from corewise.vocabulary.reasons import Reason

POD = "/kubepods/podx"
PRESSURE = (
    "some avg10=0.00 avg60=0.00 avg300=0.00 total=700\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=500\n"
)
STAT = "nr_periods 0\nnr_throttled 0\nthrottled_time 9000\n"


class Tree:
    """A pod with one container, in one hierarchy or in two."""

    def __init__(self, root: Path, version: Version, *, hybrid: bool = False) -> None:
        self.root = root
        self.mount = root / "cg"
        self.files = CgroupFiles(Layout(version, {"cpu": self.mount}))
        self.beside = root / "unified" if hybrid else self.mount
        unified = CgroupFiles(Layout(Version.V2, {"cpu": self.beside})) if hybrid else None
        self.tasks_file = "tasks" if version is Version.V1 else "cgroup.threads"
        for mount in {self.mount, self.beside}:
            (mount / POD[1:] / "c").mkdir(parents=True)
        self.write(self.mount, "cpu.stat", STAT)
        self.tasks()
        self.reader = WaitReader(
            self.files, self.files if version is Version.V2 else unified, HostFiles(root)
        )

    def write(self, mount: Path, name: str, text: str, container: str = "") -> None:
        (mount / POD[1:] / container / name).write_text(text)

    def tasks(self, *tasks: int) -> None:
        self.write(self.mount, self.tasks_file, "")
        self.write(self.mount, self.tasks_file, "".join(f"{each}\n" for each in tasks), "c")

    def schedstat(self, task: int, text: str) -> None:
        (self.root / "proc" / str(task)).mkdir(parents=True, exist_ok=True)
        (self.root / "proc" / str(task) / "schedstat").write_text(text)


def test_pressure_of_v2_is_full_and_some(tmp_path: Path) -> None:
    tree = Tree(tmp_path, Version.V2)
    tree.write(tree.mount, "cpu.pressure", PRESSURE)
    assert tree.reader.read(POD) == WaitCounters(WaitSource.PRESSURE, 500_000, 700_000)


@pytest.mark.parametrize("text", ["", PRESSURE.splitlines()[0], "some garbage\nfull garbage"])
def test_pressure_without_full_is_no_source(tmp_path: Path, text: str) -> None:
    tree = Tree(tmp_path, Version.V2)
    tree.write(tree.mount, "cpu.pressure", text)
    tree.tasks(7)
    tree.schedstat(7, "100 20 3\n")
    assert tree.reader.read(POD) == WaitCounters(WaitSource.TASKS, tasks={7: (100, 20)})


@pytest.mark.parametrize(("populated", "source"), [(1, WaitSource.PRESSURE), (0, WaitSource.GROUP)])
def test_hybrid_has_pressure_where_processes_are(tmp_path: Path, populated: int, source: WaitSource) -> None:
    tree = Tree(tmp_path, Version.V1, hybrid=True)
    tree.write(tree.beside, "cgroup.events", f"populated {populated}\nfrozen 0\n")
    tree.write(tree.beside, "cpu.pressure", PRESSURE)
    tree.write(tree.mount, "cpu.stat", f"{STAT}wait_sum 1234\n")
    found = tree.reader.read(POD)
    assert isinstance(found, WaitCounters)
    assert (found.source, found.waited) == (source, 500_000 if populated else 1234)


def test_tasks_of_containers_are_read_one_by_one(tmp_path: Path) -> None:
    tree = Tree(tmp_path, Version.V1)
    tree.tasks(7, 8, 9)
    tree.schedstat(7, "100 20 3\n")
    tree.schedstat(8, "5 0 1\n")
    tree.schedstat(9, "not what the kernel writes")
    assert tree.reader.read(POD) == WaitCounters(WaitSource.TASKS, tasks={7: (100, 20), 8: (5, 0)})


@pytest.mark.parametrize("tasks", [(), (0,), range(1, MOST_TASKS + 2), (7,)])
def test_a_wait_that_nothing_tells_has_a_reason(tmp_path: Path, tasks: tuple[int, ...]) -> None:
    tree = Tree(tmp_path, Version.V1)
    tree.tasks(*tasks)
    found = tree.reader.read(POD)
    assert isinstance(found, Finding)
    assert (found.reason, found.about) == (Reason.CPU_WAIT_UNKNOWN, POD)


def test_a_source_that_ends_is_replaced(tmp_path: Path) -> None:
    tree = Tree(tmp_path, Version.V1)
    tree.write(tree.mount, "cpu.stat", f"{STAT}wait_sum 1234\n")
    assert tree.reader.read(POD) == WaitCounters(WaitSource.GROUP, 1234, 1234)
    tree.write(tree.mount, "cpu.stat", STAT)
    tree.tasks(7)
    tree.schedstat(7, "100 20 3\n")
    assert tree.reader.read(POD) == WaitCounters(WaitSource.TASKS, tasks={7: (100, 20)})
    tree.reader.keep(frozenset())


def test_a_cgroup_that_is_gone_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(KernelError):
        Tree(tmp_path, Version.V1).reader.read("/kubepods/podgone")


def test_throttled_time_is_in_nanoseconds(tmp_path: Path) -> None:
    for version, text in ((Version.V1, STAT), (Version.V2, "usage_usec 5\nthrottled_usec 9\n")):
        tree = Tree(tmp_path / version.value, version)
        tree.write(tree.mount, "cpu.stat", text)
        assert read_throttled(tree.files, POD) == 9000
        tree.write(tree.mount, "cpu.stat", "usage_usec 5\n")
        assert read_throttled(tree.files, POD) == 0
