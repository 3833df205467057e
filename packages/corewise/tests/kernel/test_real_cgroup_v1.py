"""The same promises on the kernel itself, cgroup v1: cgroups shaped like kubelet's, real busy loops.

Needs root and a writable v1 cpu controller; skipped elsewhere. Everything happens below one cgroup of its
own, which is removed at the end, as are the processes in it.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from corewise.actions import QuotaOwner, WriteQuota
from corewise.kernel.cgroups.files import CgroupFiles, Files
from corewise.kernel.cgroups.layout import Driver, Layout, QOSClass, Version, find_pod_cgroups
from corewise.kernel.cgroups.resources import read_bandwidth, read_burst, read_usage
from corewise.kernel.errors import ValueRefused, Vanished
from corewise.kernel.writing.journal import Journal, MemoryLog
from corewise.kernel.writing.journaled_writer import Hook, Point, no_fault
from corewise.kernel.writing.quota_writer import QuotaWriter
from corewise.quantities import Microseconds
from kernel.burst_orders import SharedPod, check, orders
from kernel.cgroup_trees import (
    KernelRules,
    StoredCgroups,
    bound,
    divided,
    dying,
    in_order_everywhere,
    killed_child,
)
from kernel.cgroup_writes import layout_here, write_burst, write_quota, write_weight

UID = "5b9eb9ae-7e5d-4e1c-a7d5-22ff2d4c9f6a"
HEAVIEST = 262_144
NORMALIZATION = QuotaOwner.NORMALIZATION


LAYOUT = layout_here(Version.V1, needs=("cpu", "cpuacct"))
pytestmark = pytest.mark.skipif(LAYOUT is None, reason="needs root and a writable cgroup v1 cpu controller")


class Tree:
    """The cgroups of one burstable pod with two containers, as kubelet makes them."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.root = f"/corewise-test-{os.getpid()}"
        self.files = CgroupFiles(layout)
        self.make(f"{self.root}/kubepods.slice/kubepods-burstable.slice")
        self.pods = find_pod_cgroups(self.files, self.root)
        self.pod = self.pods.pod(UID, QOSClass.BURSTABLE)
        self.one, self.two = (
            self.pods.container(UID, QOSClass.BURSTABLE, f"containerd://{name}") for name in ("one", "two")
        )
        self.bases = {self.pod: 200_000, self.one: 100_000, self.two: 100_000}
        for cgroup in self.bases:
            self.make(cgroup)
        self.as_kubelet_made_it()

    def make(self, cgroup: str) -> None:
        for mount in {self.layout.mounts["cpu"], self.layout.mounts["cpuacct"]}:
            (mount / cgroup[1:]).mkdir(parents=True, exist_ok=True)

    def as_kubelet_made_it(self) -> None:
        for cgroup in reversed(self.bases):
            write_quota(self.files, cgroup, None)
        for cgroup, base in self.bases.items():
            write_quota(self.files, cgroup, Microseconds(base))

    def wanted(self, ratio: int) -> list[WriteQuota]:
        return [bound(cgroup, divided(base, ratio), base) for cgroup, base in self.bases.items()]

    def quotas(self) -> dict[str, int | None]:
        return {cgroup: read_bandwidth(self.files, cgroup).quota for cgroup in self.bases}

    def bandwidths(self) -> dict[str, str]:
        return {cgroup: str(read_bandwidth(self.files, cgroup)) for cgroup in self.bases}

    def enter(self, cgroup: str, process: int) -> None:
        for mount in {self.layout.mounts["cpu"], self.layout.mounts["cpuacct"]}:
            (mount / cgroup[1:] / "cgroup.procs").write_text(str(process))

    def remove(self) -> None:
        self.files.close()
        for mount in {self.layout.mounts["cpu"], self.layout.mounts["cpuacct"]}:
            for directory, _, _ in os.walk(mount / self.root[1:], topdown=False):
                Path(directory).rmdir()


@pytest.fixture
def tree() -> Iterator[Tree]:
    assert LAYOUT is not None
    made = Tree(LAYOUT)
    try:
        yield made
    finally:
        made.remove()


def writer_of(tree: Tree, log: Journal | MemoryLog) -> QuotaWriter:
    def at(point: Point, cgroup: str) -> None:
        assert in_order_everywhere(tree.files, tree.bases), (point, cgroup)

    return QuotaWriter(tree.files, log, now=time.time, at=at)


def test_pod_cgroups_are_named_as_kubelet_names_them(tree: Tree) -> None:
    assert tree.pods.driver is Driver.SYSTEMD
    assert tree.files.exists(tree.one)
    assert tree.files.children(tree.pod) == (tree.one, tree.two)


def test_ratio_changes_reach_quotas_and_removal_restores_kubelet(tree: Tree) -> None:
    writer = writer_of(tree, MemoryLog())
    for ratio in (100, 200, 120, 500, 115):
        report = writer.reconcile(NORMALIZATION, tree.wanted(ratio))
        assert (report.failed, report.refused) == ({}, 0)
        assert tree.quotas() == {cgroup: divided(base, ratio) for cgroup, base in tree.bases.items()}
    report = writer.reconcile(NORMALIZATION, [])
    assert (report.failed, report.refused) == ({}, 0)
    assert tree.quotas() == tree.bases
    assert writer.totals["refused"] == 0


def test_unnamed_container_narrows_and_widens_with_its_pod(tree: Tree) -> None:
    writer = writer_of(tree, MemoryLog())
    report = writer.apply([bound(tree.pod, 50_000, 200_000)])
    assert report.failed == {}
    assert set(tree.quotas().values()) == {50_000}
    writer.restore()
    assert tree.quotas() == tree.bases


def test_burst_is_scaled_before_the_kernel_would_refuse(tree: Tree) -> None:
    if read_burst(tree.files, tree.one) is None:
        pytest.skip("this kernel has no burst")
    write_burst(tree.files, tree.one, Microseconds(80_000))
    writer = writer_of(tree, MemoryLog())
    for ratio, burst in ((200, 40_000), (120, 66_667), (500, 16_000), (100, 80_000)):
        assert writer.reconcile(NORMALIZATION, tree.wanted(ratio)).refused == 0
        assert read_burst(tree.files, tree.one) == burst


def test_a_foreign_period_is_kept(tree: Tree) -> None:
    (tree.layout.cpu / tree.one[1:] / "cpu.cfs_period_us").write_text("200000")
    report = writer_of(tree, MemoryLog()).reconcile(NORMALIZATION, tree.wanted(200))
    assert report.foreign_periods == {tree.one: 200_000}
    assert report.failed == {}
    assert str(read_bandwidth(tree.files, tree.one)) == "100000 200000"


def test_container_ending_between_read_and_write_is_gone(tree: Tree) -> None:
    def at(point: Point, cgroup: str) -> None:
        if point is Point.ENTERED and cgroup == tree.one:
            (tree.layout.cpu / tree.one[1:]).rmdir()

    writer = QuotaWriter(tree.files, MemoryLog(), now=time.time, at=at)
    report = writer.reconcile(NORMALIZATION, tree.wanted(150))
    assert (report.gone, report.failed) == ([tree.one], {})
    assert read_bandwidth(tree.files, tree.pod).quota == 133_334
    (tree.layout.cpu / tree.two[1:]).rmdir()
    with pytest.raises(Vanished):
        read_bandwidth(tree.files, tree.two)


def test_killed_at_every_point_the_hierarchy_converges(tree: Tree, tmp_path: Path) -> None:
    for deaths in count():
        journal = tmp_path / f"{deaths}"
        tree.as_kubelet_made_it()
        update(tree, journal, 200)
        killed = update_dying(tree, journal, 120, deaths)
        update(tree, journal, 120)
        assert tree.quotas() == {cgroup: divided(base, 120) for cgroup, base in tree.bases.items()}
        with Journal.open(journal, boot="b", now=time.time) as log:
            assert writer_of(tree, log).restore().failed == {}
        assert tree.quotas() == tree.bases
        if not killed:
            break
    assert deaths > len(tree.bases) * 2


def test_long_period_comes_back_after_any_kill(tree: Tree, tmp_path: Path) -> None:
    for deaths in count():
        journal = tmp_path / f"{deaths}"
        tree.as_kubelet_made_it()
        stretch(tree, journal, 150)
        killed = killed_child(partial(stretch, tree, journal, 120, dying(deaths))) == signal.SIGKILL
        stretch(tree, journal, 200)
        assert tree.bandwidths() == {
            cgroup: f"{divided(base * 10, 200)} 1000000" for cgroup, base in tree.bases.items()
        }
        restoring = killed_child(partial(restore, tree, journal, dying(deaths))) == signal.SIGKILL
        restore(tree, journal)
        assert tree.bandwidths() == {cgroup: f"{base} 100000" for cgroup, base in tree.bases.items()}
        if not (killed or restoring):
            break
    assert deaths > len(tree.bases) * 3


def stretch(tree: Tree, journal: Path, ratio: int, at: Hook = no_fault) -> None:
    """Bound all cgroups over a long period."""
    with Journal.open(journal, boot="b", now=time.time) as log:
        writer = QuotaWriter(tree.files, log, now=time.time, at=at)
        wanted = [
            bound(cgroup, divided(base * 10, ratio), base * 10, period=1_000_000, base_period=100_000)
            for cgroup, base in tree.bases.items()
        ]
        assert writer.reconcile(NORMALIZATION, wanted).failed == {}


def restore(tree: Tree, journal: Path, at: Hook = no_fault) -> None:
    with Journal.open(journal, boot="b", now=time.time) as log:
        assert QuotaWriter(tree.files, log, now=time.time, at=at).restore().failed == {}


def update(tree: Tree, journal: Path, ratio: int, at: Hook | None = None) -> None:
    with Journal.open(journal, boot="b", now=time.time) as log:
        writer = QuotaWriter(tree.files, log, now=time.time, at=at) if at else writer_of(tree, log)
        assert writer.reconcile(NORMALIZATION, tree.wanted(ratio)).failed == {}


def update_dying(tree: Tree, journal: Path, ratio: int, after: int) -> bool:
    """Whether an update that is killed at its point number ``after`` has so many."""
    return killed_child(lambda: update(tree, journal, ratio, dying(after))) == signal.SIGKILL


NAMES = ("/t", "/t/a", "/t/b", "/t/a/1", "/t/a/2")
QUOTAS = st.one_of(st.just(-1), st.integers(900, 1_100), st.integers(1_000, 300_000))
WRITES = st.tuples(
    st.sampled_from(NAMES), st.sampled_from(["cpu.cfs_quota_us"] * 4 + ["cpu.cfs_burst_us"]), QUOTAS
)


@given(st.lists(WRITES, max_size=25))
@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_fake_follows_the_rules_of_the_kernel(tree: Tree, writes: list[tuple[str, str, int]]) -> None:
    fake = KernelRules(StoredCgroups(Version.V1, NAMES))
    for name in NAMES:
        tree.make(tree.root + name)
    if read_burst(tree.files, tree.root + "/t") is None:
        pytest.skip("this kernel has no burst")
    try:
        for name, file, value in writes:
            if file == "cpu.cfs_burst_us" and value < 0:
                continue
            told = [taken(fake, name, file, value), taken(tree.files, tree.root + name, file, value)]
            assert told[0] == told[1], (name, file, value)
    finally:
        for name in reversed(NAMES):
            (tree.layout.cpu / (tree.root + name)[1:]).rmdir()


def taken(files: Files, cgroup: str, file: str, value: int) -> bool:
    try:
        files.write(cgroup, file, str(value))
    except ValueRefused:
        return False
    return True


READ_ONLY = """
import sys
from pathlib import Path
from corewise.kernel.cgroups.resources import quota_file, read_bandwidth
from corewise.kernel.cgroups.files import CgroupFiles
from corewise.kernel.cgroups.layout import find_layout
from corewise.kernel.errors import ReadOnly
files = CgroupFiles(find_layout())
print(read_bandwidth(files, sys.argv[1]))
try:
    files.write(sys.argv[1], quota_file(files.version), "5000")
except ReadOnly as error:
    print(error)
"""


def test_readonly_mount_reads_and_refuses_writes_with_erofs(tree: Tree) -> None:
    if shutil.which("unshare") is None:
        pytest.skip("needs unshare(1)")
    mount = tree.layout.cpu
    script = f'mount --bind {mount} {mount} && mount -o remount,ro,bind {mount} && exec "$@"'
    command = ["unshare", "-m", "sh", "-c", script, "sh", sys.executable, "-c", READ_ONLY, tree.one]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=180)
    if "permission denied" in result.stderr.lower():
        pytest.skip("mounting is not allowed here")
    assert result.stdout.splitlines()[0] == "100000 100000"
    assert "EROFS" in result.stdout
    assert tree.one in result.stdout


SECONDS = 4
WINDOWS = 8
QUOTA, PERIOD = 66_667, 100_000
EXPECTED = QUOTA / PERIOD
TOLERANCE = 0.02


@dataclass(frozen=True)
class Window:
    """The CPU that a container used in a while, and how many periods of it used their quota up."""

    share: float
    seconds: float
    periods: int
    throttled: int

    @property
    def is_full(self) -> bool:
        """Whether the machine gave the quota all the time, and did not stand still itself."""
        unthrottled = self.periods - self.throttled
        return unthrottled <= 1 and abs(self.periods * PERIOD / 1e6 / self.seconds - 1) < TOLERANCE


def test_ratio_1_50_gives_busy_container_two_thirds(tree: Tree) -> None:
    """The window is a whole number of periods, so it counts whole quotas wherever it begins.

    Weight keeps others of this machine from taking what the quota grants. Where they take it all the same,
    periods end before the quota does, and the window shows only that no more was given than the quota.
    """
    write_weight(tree.files, tree.root, HEAVIEST)
    writer_of(tree, MemoryLog()).reconcile(NORMALIZATION, tree.wanted(150))
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    windows: list[Window] = []
    try:
        tree.enter(tree.one, busy.pid)
        time.sleep(0.3)
        while len(windows) < WINDOWS and not any(window.is_full for window in windows):
            windows.append(window_of(tree, SECONDS))
    finally:
        busy.kill()
        busy.wait()
    assert max(window.share for window in windows) < EXPECTED * (1 + TOLERANCE), windows
    if not windows[-1].is_full:
        pytest.skip(f"this machine is too busy to give a container its quota: {windows}")
    assert windows[-1].share == pytest.approx(EXPECTED, rel=TOLERANCE), windows


def window_of(tree: Tree, seconds: float) -> Window:
    before, began, used = throttling(tree), time.monotonic_ns(), read_usage(tree.files, tree.one)
    time.sleep(seconds)
    now_used, now, after = read_usage(tree.files, tree.one), time.monotonic_ns(), throttling(tree)
    periods, throttled = (after[key] - before[key] for key in ("nr_periods", "nr_throttled"))
    return Window((now_used - used) / (now - began), (now - began) / 1e9, periods, throttled)


def throttling(tree: Tree) -> dict[str, int]:
    text = (tree.layout.cpu / tree.one[1:] / "cpu.stat").read_text()
    return {key: int(value) for key, value in (line.split() for line in text.splitlines())}


def test_every_order_of_quota_and_burst_holds(tree: Tree) -> None:
    if read_burst(tree.files, tree.one) is None:
        pytest.skip("this kernel has no burst")
    write_quota(tree.files, tree.two, None)  # the kernel counts a cgroup for a while after it was removed
    (tree.layout.cpu / tree.two[1:]).rmdir()
    for order in orders(3):
        check(SharedPod(tree.files, tree.pod, tree.one), order)
