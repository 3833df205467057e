"""Mounts v1 controllers beside the unified hierarchy (systemd's hybrid mode), and divides quotas there."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from corewise.actions import QuotaOwner
from corewise.kernel.cgroups.files import CgroupFiles
from corewise.kernel.cgroups.layout import Layout, find_layout
from corewise.kernel.writing.journal import MemoryLog
from corewise.kernel.writing.quota_writer import QuotaWriter
from kernel.cgroup_trees import bound, divided
from node.guest.records import Hybrid, Mounted, Report

V1 = Path("/run/cgroup-v1")
CONTROLLERS = Path("/sys/fs/cgroup/cgroup.controllers")
PATIENCE = 180
HIERARCHIES = ("cpu,cpuacct", "cpuset")
POD = "/kubepods/burstable/pod8c2f5b9e-0d4b-4f5e-9d0a-6c1a4f3b2e11"
KUBELETS = {POD: 200_000, f"{POD}/one": 100_000, f"{POD}/two": 100_000}
RATIOS = (100, 200, 120, 100)


def observe(report: Report) -> None:
    """Tell the layouts of a machine, and what changes of ratio make of a pod in the hybrid one."""
    report.add("layout/unified", mounted(find_layout()))
    with v1_controllers():
        layout = find_layout()
        report.add("layout/hybrid", mounted(layout))
        with CgroupFiles(layout) as files, pod(layout):
            report.add("hybrid", changed(layout, files))
    report.add("layout/unified again", mounted(find_layout()))


def mounted(layout: Layout) -> Mounted:
    """Return a layout as a record."""
    mounts = {controller: str(mount) for controller, mount in layout.mounts.items()}
    return Mounted(layout.version.value, layout.hybrid, mounts)


@contextmanager
def v1_controllers() -> Iterator[None]:
    """Take the controllers of the CPU from the unified hierarchy, and give them back."""
    for controllers in HIERARCHIES:
        directory = V1 / controllers
        directory.mkdir(parents=True)
        subprocess.run(["mount", "-t", "cgroup", "-o", controllers, "cgroup", directory], check=True)
    try:
        yield
    finally:
        for controllers in HIERARCHIES:
            subprocess.run(["umount", V1 / controllers], check=True)
        _await_controllers()


def _await_controllers() -> None:
    """Wait for what the kernel does later, in its own time: it gives back the controllers."""
    deadline = time.monotonic() + PATIENCE
    while not {"cpu", "cpuset"} <= set(CONTROLLERS.read_text().split()):
        assert time.monotonic() < deadline, "the unified hierarchy does not get its controllers back"
        time.sleep(0.1)


@contextmanager
def pod(layout: Layout) -> Iterator[None]:
    """A pod with two containers and kubelet's quotas."""
    for cgroup, quota in KUBELETS.items():
        directory = layout.cpu / cgroup[1:]
        directory.mkdir(parents=True)
        (directory / "cpu.cfs_quota_us").write_text(str(quota))
    try:
        yield
    finally:
        for cgroup in (*reversed(KUBELETS), "/kubepods/burstable", "/kubepods"):
            (layout.cpu / cgroup[1:]).rmdir()


def changed(layout: Layout, files: CgroupFiles) -> Hybrid:
    """Return the quotas of pod and containers after each ratio."""
    writer = QuotaWriter(files, MemoryLog(), now=time.time)
    quotas = []
    for ratio in RATIOS:
        wanted = [bound(cgroup, divided(quota, ratio), quota) for cgroup, quota in KUBELETS.items()]
        writer.reconcile(QuotaOwner.NORMALIZATION, wanted)
        texts = ((layout.cpu / cgroup[1:] / "cpu.cfs_quota_us").read_text() for cgroup in KUBELETS)
        quotas.append([int(text) for text in texts])
    return Hybrid(quotas, dict(writer.totals))
