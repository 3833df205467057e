"""Trees of /sys/fs/resctrl as kernels mount it, written below a directory.

Layout, names of files and what they say where there is no value are those of the kernel's
Documentation/filesystems/resctrl.rst ("Info directory", "Resource alloc and monitor groups", "Notes on
Sub-NUMA Cluster mode"); figures are made up.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

FEATURES = ("llc_occupancy", "mbm_total_bytes", "mbm_local_bytes")
_FILES = ("cpus", "cpus_list", "mode", "schemata", "size", "tasks")
Values = Mapping[str, object]


class ResctrlTree:
    """A mounted resctrl with its root group."""

    def __init__(self, root: Path, *, caches: int = 2, features: tuple[str, ...] = FEATURES) -> None:
        self.root = root
        self.mount = root / "sys/fs/resctrl"
        self._caches = caches
        self._features = features
        self.put("info/last_cmd_status", "ok").put("info/L3/cbm_mask", "7ff").put("info/MB/min_bandwidth", 10)
        self.put("info/L3_MON/mon_features", "\n".join(features)).put("info/L3_MON/num_rmids", 176)
        self.group("")

    def put(self, path: str, content: object) -> ResctrlTree:
        file = self.mount / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{content}\n")
        return self

    def group(self, name: str) -> ResctrlTree:
        """Make a control group (the root is ""), which counts nothing yet."""
        for file in _FILES:
            self.put(f"{name}/{file}", "")
        (self.mount / name / "mon_groups").mkdir(exist_ok=True)
        return self._monitored(name)

    def mon_group(self, parent: str, name: str) -> ResctrlTree:
        """Make a monitoring group of a control group; the parent's files hold its part, too."""
        self.put(f"{parent}/mon_groups/{name}/tasks", "")
        return self._monitored(f"{parent}/mon_groups/{name}")

    def count(self, group: str, cache: int, **values: object) -> ResctrlTree:
        """Set what a group's files of a cache say."""
        for event, value in values.items():
            self.put(f"{group}/mon_data/mon_L3_{cache:02}/{event}", value)
        return self

    def sub_numa(self, group: str, cache: int, node: int, **values: object) -> ResctrlTree:
        """Set what a group's files of a sub-NUMA node say."""
        for event, value in values.items():
            self.put(f"{group}/mon_data/mon_L3_{cache:02}/mon_sub_L3_{node:02}/{event}", value)
        return self

    def remove(self, group: str) -> ResctrlTree:
        shutil.rmtree(self.mount / group)
        return self

    def _monitored(self, path: str) -> ResctrlTree:
        for cache in range(self._caches):
            self.count(path, cache, **dict.fromkeys(self._features, 0))
        return self


def two_sockets(root: Path) -> ResctrlTree:
    """Two caches; the groups root, with a monitoring group, and "batch", with one of its own."""
    tree = ResctrlTree(root).group("batch").mon_group("", "pod1").mon_group("batch", "pod2")
    tree.count("", 0, mbm_total_bytes=1000, llc_occupancy=10).count(
        "", 1, mbm_total_bytes=200, llc_occupancy=20
    )
    tree.count("mon_groups/pod1", 0, mbm_total_bytes=900, llc_occupancy=9)
    tree.count("batch", 0, mbm_total_bytes=30, llc_occupancy=3).count("batch", 1, mbm_total_bytes=4)
    return tree.count("batch/mon_groups/pod2", 0, mbm_total_bytes=30, llc_occupancy=3)


def sub_numa_clusters(root: Path) -> ResctrlTree:
    """One socket with two sub-NUMA nodes, whose counts the cache's own files sum up (Linux 6.11)."""
    tree = ResctrlTree(root, caches=1).count("", 0, mbm_total_bytes=700, llc_occupancy=70)
    tree.sub_numa("", 0, 0, mbm_total_bytes=500, llc_occupancy=50)
    return tree.sub_numa("", 0, 1, mbm_total_bytes=200, llc_occupancy=20)


def code_data_prioritization(root: Path) -> ResctrlTree:
    """Mounted with -o cdp: allocation is split in two, monitoring is not."""
    tree = two_sockets(root).remove("info/L3")
    for half in ("L3CODE", "L3DATA"):
        tree.put(f"info/{half}/cbm_mask", "7ff").put(f"info/{half}/num_closids", 8)
    return tree.put("schemata", "L3DATA:0=7ff;1=7ff\nL3CODE:0=7ff;1=7ff")


def pseudo_locked(root: Path) -> ResctrlTree:
    """A cache region that is pseudo-locked is a top-level group that nothing is monitored of."""
    tree = two_sockets(root).put("locked/mode", "pseudo-locked").put("locked/schemata", "L3:1=1")
    return tree.put("locked/size", "L3:1=3407872")
