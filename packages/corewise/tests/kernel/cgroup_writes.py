"""Writes to cgroups as kubelet, a runtime or an administrator makes them: past the journal."""

from __future__ import annotations

import os
from collections.abc import Iterable

from corewise.kernel.cgroups.files import Files
from corewise.kernel.cgroups.layout import Layout, Version, find_layout
from corewise.kernel.cgroups.resources import burst_file, quota_file, quota_text, weight_file
from corewise.kernel.errors import LayoutUnknown
from corewise.quantities import Microseconds
from corewise.topology import CPUSet


def layout_here(*versions: Version, needs: Iterable[str] = ("cpu", "cpuacct", "memory")) -> Layout | None:
    """Return the layout of this machine, if it has one of these versions and these may be written."""
    try:
        layout = find_layout()
    except LayoutUnknown:
        return None
    mounts = [layout.mounts.get(controller) for controller in needs]
    usable = layout.version in versions and os.geteuid() == 0
    return layout if usable and all(each and os.access(each, os.W_OK) for each in mounts) else None


def write_quota(files: Files, cgroup: str, quota: Microseconds | None) -> None:
    """Write a quota, and leave the period."""
    files.write(cgroup, quota_file(files.version), quota_text(files.version, quota))


def write_burst(files: Files, cgroup: str, burst: Microseconds) -> None:
    files.write(cgroup, burst_file(files.version), str(burst))


def write_weight(files: Files, cgroup: str, weight: int) -> None:
    files.write(cgroup, weight_file(files.version), str(weight))


def write_cpuset(files: Files, cgroup: str, cpus: CPUSet) -> None:
    files.write(cgroup, "cpuset.cpus", str(cpus))
