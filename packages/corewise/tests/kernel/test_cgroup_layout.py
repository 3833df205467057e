"""The version that serves the CPU, and its mounts, are found on every kind of machine.

=======================================  =======  ======  =====================================
machine                                  version  hybrid  cpu below root
=======================================  =======  ======  =====================================
unified with cpu                         v2       no      sys/fs/cgroup
v1, a directory for each controller      v1       no      sys/fs/cgroup/cpu
v1, cpu and cpuacct mounted together     v1       no      sys/fs/cgroup/cpu,cpuacct (by link)
v1 and unified without cpu               v1       yes     sys/fs/cgroup/cpu
v1 and unified with cpu                  v2       no      sys/fs/cgroup/unified
mounted elsewhere, says mountinfo        either           there
=======================================  =======  ======  =====================================
"""

from __future__ import annotations

from pathlib import Path

import pytest

from corewise.kernel.cgroups.layout import Version, find_layout
from corewise.kernel.errors import LayoutUnknown

BASE = "sys/fs/cgroup"


def make(root: Path, *directories: str, controllers: str = "", unified: str = BASE) -> Path:
    for directory in directories:
        (root / directory).mkdir(parents=True, exist_ok=True)
    if controllers:
        (root / unified).mkdir(parents=True, exist_ok=True)
        (root / unified / "cgroup.controllers").write_text(controllers + "\n")
    return root


def mounts(root: Path, *lines: str, process: str = "self") -> None:
    path = root / "proc" / process / "mountinfo"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines))


def test_unified_hierarchy_with_cpu_controller_is_v2(tmp_path: Path) -> None:
    layout = find_layout(make(tmp_path, controllers="cpuset cpu io memory"))
    assert (layout.version, layout.cpu, layout.hybrid) == (Version.V2, tmp_path / BASE, False)
    assert set(layout.mounts.values()) == {tmp_path / BASE}


def test_a_directory_for_each_controller_is_v1(tmp_path: Path) -> None:
    layout = find_layout(make(tmp_path, *(f"{BASE}/{name}" for name in ("cpu", "cpuacct", "cpuset"))))
    assert layout.version is Version.V1
    assert {name: path.name for name, path in layout.mounts.items()} == {
        "cpu": "cpu",
        "cpuacct": "cpuacct",
        "cpuset": "cpuset",
    }


def test_controllers_mounted_together_are_found_by_every_name(tmp_path: Path) -> None:
    make(tmp_path, f"{BASE}/cpu,cpuacct", f"{BASE}/cpuset")
    (tmp_path / BASE / "cpu").symlink_to("cpu,cpuacct")
    layout = find_layout(tmp_path)
    assert layout.cpu.resolve() == layout.mounts["cpuacct"].resolve() == tmp_path / BASE / "cpu,cpuacct"


def test_unified_hierarchy_without_cpu_leaves_cpu_to_v1(tmp_path: Path) -> None:
    make(tmp_path, f"{BASE}/cpu", controllers="memory pids", unified=f"{BASE}/unified")
    layout = find_layout(tmp_path)
    assert (layout.version, layout.hybrid, layout.cpu) == (Version.V1, True, tmp_path / BASE / "cpu")


def test_unified_hierarchy_with_cpu_serves_it_beside_v1(tmp_path: Path) -> None:
    make(tmp_path, f"{BASE}/memory", controllers="cpu", unified=f"{BASE}/unified")
    layout = find_layout(tmp_path)
    assert (layout.version, layout.cpu) == (Version.V2, tmp_path / BASE / "unified")


def test_mount_list_finds_hierarchies_in_other_places(tmp_path: Path) -> None:
    make(tmp_path, "cg roups/cpu,cpuacct", "cg roups/cpuset")
    mounts(
        tmp_path,
        r"30 24 0:26 / /cg\040roups/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct",
        r"31 24 0:27 / /cg\040roups/cpuset rw - cgroup cgroup rw,cpuset",
        "32 24 0:28 / /proc rw - proc proc rw",
        "garbage",
    )
    layout = find_layout(tmp_path)
    assert layout.cpu == tmp_path / "cg roups/cpu,cpuacct"
    assert layout.mounts["cpuset"] == tmp_path / "cg roups/cpuset"


def test_mount_that_shows_the_root_wins_over_others(tmp_path: Path) -> None:
    make(tmp_path, "a", "b/c/d")
    mounts(
        tmp_path,
        "30 24 0:26 /docker/x /a rw - cgroup cgroup rw,cpu",
        "31 24 0:26 / /b/c/d rw - cgroup cgroup rw,cpu",
    )
    assert find_layout(tmp_path).cpu == tmp_path / "b/c/d"


def test_host_mount_list_counts_when_seen_from_container(tmp_path: Path) -> None:
    make(tmp_path, controllers="cpu", unified="cgroups/of/host")
    mounts(tmp_path, "30 24 0:26 / /host/sys/fs/cgroup rw - cgroup2 cgroup2 rw")
    mounts(tmp_path, "30 24 0:26 / /cgroups/of/host rw - cgroup2 cgroup2 rw", process="1")
    assert find_layout(tmp_path).cpu == tmp_path / "cgroups/of/host"


def test_list_of_absent_mounts_yields_to_usual_layout(tmp_path: Path) -> None:
    make(tmp_path, controllers="cpu")
    mounts(tmp_path, "30 24 0:26 / /elsewhere rw - cgroup2 cgroup2 rw")
    assert find_layout(tmp_path).cpu == tmp_path / BASE


def test_mount_leading_out_of_the_root_is_refused(tmp_path: Path) -> None:
    outside = make(tmp_path / "outside", controllers="cpu", unified="tree") / "tree"
    root = make(tmp_path / "root", "sys/fs")
    (root / BASE).symlink_to(outside)
    with pytest.raises(LayoutUnknown, match="no cgroup hierarchy with the cpu controller"):
        find_layout(root)


def test_machine_without_cgroups_is_reported_with_searched_path(tmp_path: Path) -> None:
    with pytest.raises(LayoutUnknown) as caught:
        find_layout(tmp_path)
    assert caught.value.path == str(tmp_path / BASE)
    assert caught.value.hint
