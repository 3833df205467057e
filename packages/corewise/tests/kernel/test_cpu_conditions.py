"""What a machine's files tell of the conditions of a measurement, and a process of its own cgroup."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import machine_trees
from corewise.kernel.cgroups.idle import NAME, IdleCgroup
from corewise.kernel.cgroups.layout import Version, find_layout
from corewise.kernel.cgroups.own import OwnCgroup
from corewise.kernel.cpu_conditions import CPUIdentity, read_conditions, read_identity
from corewise.kernel.errors import KernelError
from corewise.kernel.host_files import HostFiles
from kernel.cgroup_trees import plain_tree

STAT = "cpu  40 0 0 160 0 0 0 4 0 0\ncpu0 20 0 0 80 0 0 0 4 0 0\ncpu1 20 0 0 80 0 0 0 0 0 0"
PRESSURE = "some avg10=0.00 avg60=0.00 avg300=0.00 total=1234\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0"


def test_conditions_are_read_together(tmp_path: Path) -> None:
    tree = machine_trees.intel(tmp_path).put("proc/stat", STAT).put("proc/pressure/cpu", PRESSURE)
    for cpu, heated in ((0, 3), (1, 4)):
        tree.put(f"sys/devices/system/cpu/cpu{cpu}/thermal_throttle/core_throttle_count", heated)
        tree.put(f"sys/devices/system/cpu/cpu{cpu}/thermal_throttle/package_throttle_count", 10)
    found = read_conditions(HostFiles(tmp_path))
    assert found is not None
    assert (found.times[0].busy, found.times[0].stolen) == (24, 4)
    assert (found.pressure, found.heated) == (1234, 27)


def test_missing_files_are_unknown_not_errors(tmp_path: Path) -> None:
    assert read_conditions(HostFiles(tmp_path)) is None
    machine_trees.big_little(tmp_path).put("proc/stat", STAT)
    files = HostFiles(tmp_path)
    found = read_conditions(files)
    assert found is not None
    assert (found.pressure, found.heated, files.problems) == (None, 0, [])
    assert read_identity(files, 0) == CPUIdentity(0, "", "")


def test_the_identity_has_what_scores_depend_on(tmp_path: Path) -> None:
    tree = machine_trees.Tree(tmp_path).put("proc/sys/kernel/osrelease", "6.1.0-18-amd64")
    tree.put("proc/cpuinfo", "processor\t: 0\nmodel name\t: X\nmicrocode\t: 0x5003604\n")
    tree.put("sys/devices/system/cpu/cpu3/cpufreq/cpuinfo_max_freq", 3_700_000)
    found = read_identity(HostFiles(tmp_path), 3)
    assert found == CPUIdentity(3_700_000, "6.1.0-18-amd64", "0x5003604")


@pytest.mark.parametrize("version", Version)
def test_a_process_finds_its_own_cgroup(tmp_path: Path, version: Version) -> None:
    plain_tree(tmp_path, version, ["/kubepods.slice/x.scope"])
    line = "0::/kubepods.slice/x.scope" if version is Version.V2 else "4:cpu,memory:/kubepods.slice/x.scope"
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text(f"{line}\n")
    layout = find_layout(tmp_path)
    limit, used = ("memory.max", "memory.current")
    if version is Version.V1:
        limit, used = ("memory.limit_in_bytes", "memory.usage_in_bytes")
    throttled = "throttled_usec 7" if version is Version.V2 else "throttled_time 7000"
    for mount, file, text in (
        ("memory", limit, "1000"),
        ("memory", used, "300"),
        ("memory", "memory.stat", "inactive_file 100\ntotal_inactive_file 100"),
        ("cpu", "cpu.stat", f"nr_periods 2\n{throttled}"),
    ):
        (layout.mounts[mount] / "kubepods.slice/x.scope" / file).write_text(f"{text}\n")
    own = OwnCgroup(tmp_path)
    assert (own.throttled(), own.memory_left()) == (7000, 800)
    own.close()


def test_without_cgroups_nothing_is_known(tmp_path: Path) -> None:
    own = OwnCgroup(tmp_path)
    assert (own.throttled(), own.memory_left()) == (None, None)


def test_a_refused_cgroup_leaves_the_process_alone(tmp_path: Path) -> None:
    plain_tree(tmp_path, Version.V2, ["/kubepods.slice"])
    cgroup = IdleCgroup(find_layout(tmp_path))
    (tmp_path / "sys/fs/cgroup" / NAME).write_text("no directory")
    with pytest.raises(KernelError, match=NAME):
        cgroup.take(os.getpid())
    cgroup.remove()
