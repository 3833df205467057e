"""What a whole machine moves and caches, from trees of /sys/fs/resctrl.

| the tree has | what counts |
|---|---|
| groups with monitoring groups | each top-level group once: its files hold its monitoring groups |
| sub-NUMA nodes | the cache's own files, which sum them up |
| code/data prioritization | the same files as without |
| a pseudo-locked region | nothing: it has no monitoring data |
| Unavailable, Error, Unassigned anywhere | no sum at all |
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from corewise.kernel.errors import KernelError
from corewise.kernel.host_files import HostFiles
from corewise.kernel.resctrl import AllocationInfo, MonitoringEvent, read_allocation, read_counts
from corewise.kernel.writing.resctrl_writer import DIRECTORY, GROUP, MADE, NONE, ResctrlFiles
from corewise.vocabulary.findings import Finding
from corewise.vocabulary.reasons import Reason
from kernel.resctrl_trees import (
    ResctrlTree,
    code_data_prioritization,
    pseudo_locked,
    sub_numa_clusters,
    two_sockets,
)

TRAFFIC, OCCUPANCY = MonitoringEvent.TRAFFIC, MonitoringEvent.OCCUPANCY


def total(root: Path, event: MonitoringEvent) -> int:
    counts = read_counts(HostFiles(root), event)
    assert not isinstance(counts, Finding), counts
    return sum(counts.values())


def reason(root: Path, event: MonitoringEvent = TRAFFIC) -> Reason:
    counts = read_counts(HostFiles(root), event)
    assert isinstance(counts, Finding)
    return counts.reason


@pytest.mark.parametrize("make", [two_sockets, code_data_prioritization, pseudo_locked])
def test_top_level_groups_count_once_on_every_cache(
    tmp_path: Path, make: Callable[[Path], ResctrlTree]
) -> None:
    make(tmp_path)
    assert read_counts(HostFiles(tmp_path), TRAFFIC) == {
        ("", "mon_L3_00"): 1000,
        ("", "mon_L3_01"): 200,
        ("batch", "mon_L3_00"): 30,
        ("batch", "mon_L3_01"): 4,
    }
    assert total(tmp_path, OCCUPANCY) == 33


def test_cache_sum_already_includes_sub_numa_nodes(tmp_path: Path) -> None:
    sub_numa_clusters(tmp_path)
    assert total(tmp_path, TRAFFIC) == 700
    assert total(tmp_path, OCCUPANCY) == 70


def test_domain_of_another_resource_is_not_a_cache(tmp_path: Path) -> None:
    tree = two_sockets(tmp_path)
    tree.put("mon_data/mon_PERF_PKG_00/mbm_total_bytes", 5).put("mon_data/mon_L3CODE_00/mbm_total_bytes", 5)
    assert total(tmp_path, TRAFFIC) == 1234


@pytest.mark.parametrize("said", ["Unavailable", "Error", "Unassigned", "", "-1", "0x10", "1 2"])
@pytest.mark.parametrize("group", ["", "batch"])
def test_group_without_value_makes_sum_unknown_not_zero(tmp_path: Path, group: str, said: str) -> None:
    two_sockets(tmp_path).count(group, 1, mbm_total_bytes=said)
    assert reason(tmp_path) is Reason.RESCTRL_NO_VALUE
    assert total(tmp_path, OCCUPANCY) == 33


def test_missing_sum_names_the_file_and_its_content(tmp_path: Path) -> None:
    two_sockets(tmp_path).count("batch", 1, mbm_total_bytes="Unavailable")
    counts = read_counts(HostFiles(tmp_path), TRAFFIC)
    assert isinstance(counts, Finding)
    assert counts.message == "sys/fs/resctrl/batch/mon_data/mon_L3_01/mbm_total_bytes says 'Unavailable'"


def test_a_monitoring_group_without_a_value_concerns_nobody(tmp_path: Path) -> None:
    two_sockets(tmp_path).count("batch/mon_groups/pod2", 0, mbm_total_bytes="Unassigned")
    assert total(tmp_path, TRAFFIC) == 1234


def test_counts_use_all_of_64_bits(tmp_path: Path) -> None:
    two_sockets(tmp_path).count("", 0, mbm_total_bytes=2**64 - 1)
    assert total(tmp_path, TRAFFIC) == 2**64 - 1 + 234


def test_absent_unmounted_and_eventless_resctrl_are_distinguished(
    tmp_path: Path,
) -> None:
    assert reason(tmp_path) is Reason.RESCTRL_UNSUPPORTED
    (tmp_path / "sys/fs/resctrl").mkdir(parents=True)
    assert reason(tmp_path) is Reason.RESCTRL_NOT_MOUNTED
    ResctrlTree(tmp_path, features=("llc_occupancy",))
    assert reason(tmp_path) is Reason.RESCTRL_EVENT_MISSING
    assert total(tmp_path, OCCUPANCY) == 0


def test_machine_allocating_caches_without_monitoring_has_no_counts(tmp_path: Path) -> None:
    allocating = tmp_path / "sys/fs/resctrl"
    (allocating / "info/L3").mkdir(parents=True)
    (allocating / "schemata").write_text("L3:0=7ff\n")
    assert reason(tmp_path) is Reason.RESCTRL_EVENT_MISSING


def test_nothing_is_made_in_resctrl(tmp_path: Path) -> None:
    tree = two_sockets(tmp_path)
    before = sorted(tree.mount.rglob("*"))
    read_counts(HostFiles(tmp_path), TRAFFIC)
    assert sorted(tree.mount.rglob("*")) == before


def test_what_can_be_limited_is_read_from_info(tmp_path: Path) -> None:
    two_sockets(tmp_path).put("info/L3/min_cbm_bits", 2).put("info/MB/bandwidth_gran", 10)
    assert read_allocation(HostFiles(tmp_path)) == AllocationInfo({"L3": (0x7FF, 2)}, (10, 10))
    code_data_prioritization(tmp_path / "cdp").put("info/L3CODE/min_cbm_bits", 1)
    split = read_allocation(HostFiles(tmp_path / "cdp"))
    assert isinstance(split, AllocationInfo)
    assert dict(split.caches) == {"L3CODE": (0x7FF, 1), "L3DATA": (0x7FF, 1)}
    assert read_allocation(HostFiles(tmp_path / "none")) == Finding(
        Reason.RESCTRL_UNSUPPORTED, "there is no sys/fs/resctrl"
    )


def test_group_is_made_written_removed_and_refusals_quoted(tmp_path: Path) -> None:
    """On plain files: the calls are the ones that the kernel takes, and errors carry its last status."""
    tree, files = two_sockets(tmp_path), ResctrlFiles(tmp_path)
    assert files.groups() == {"batch"}
    files.write(GROUP, DIRECTORY, MADE)
    assert files.groups() == {"batch", GROUP}
    tree.put(f"{GROUP}/tasks", "").put("info/last_cmd_status", "Out of CLOSIDs")
    files.write("batch", "schemata", "L3:0=f")
    assert files.read("batch", "schemata") == "L3:0=f\n"
    assert files.move("batch", [4, 7]) == 2
    assert files.read("batch", "tasks") == "4\n7\n"
    with pytest.raises(KernelError, match='the kernel says "Out of CLOSIDs"') as refused:
        files.write(GROUP, DIRECTORY, MADE)
    assert refused.value.code == errno.EEXIST
    tree.put("info/last_cmd_status", "ok").remove(GROUP)
    (tree.mount / GROUP).mkdir()
    files.write(GROUP, DIRECTORY, NONE)
    assert files.groups() == {"batch"}
