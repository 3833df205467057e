"""Settings on the kernel itself, cgroup v1: CPU sets in one another, weights, memory limits.

Needs root, writable v1 controllers and two CPUs; skipped elsewhere. Everything happens below one cgroup of
its own in each hierarchy, which is removed at the end.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from corewise.actions import Setting, SettingOwner, WriteSetting
from corewise.kernel.cgroups.files import CgroupFiles, Files, ancestors
from corewise.kernel.cgroups.layout import CONTROLLERS, Layout, Version
from corewise.kernel.cgroups.resources import read_cpuset, read_memory_usage, read_working_set
from corewise.kernel.errors import Busy, ValueRefused
from corewise.kernel.writing.journal import Journal, MemoryLog
from corewise.kernel.writing.journaled_writer import Hook, Point
from corewise.kernel.writing.setting_claims import setting_file
from corewise.kernel.writing.setting_writer import SettingWriter
from kernel.cgroup_trees import KernelRules, StoredCgroups, dying, killed_child, setting
from kernel.cgroup_writes import layout_here

CPUS = Setting.CPUSET
PINNING = SettingOwner.PINNING
MEBI = 1 << 20


LAYOUT = layout_here(Version.V1, needs=CONTROLLERS)
pytestmark = pytest.mark.skipif(LAYOUT is None, reason="needs root and writable cgroup v1 controllers")


class Tree:
    """A pod with two containers, on the CPUs that there are."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.files = CgroupFiles(layout)
        self.root = f"/corewise-settings-{os.getpid()}"
        self.pod = f"{self.root}/podx"
        self.one, self.two = f"{self.pod}/one", f"{self.pod}/two"
        self.cgroups = (self.root, self.pod, self.one, self.two)
        for cgroup in self.cgroups:
            self.make(cgroup)

    def make(self, cgroup: str) -> None:
        for mount in set(self.layout.mounts.values()):
            (mount / cgroup[1:]).mkdir(exist_ok=True)
        for file in ("cpuset.cpus", "cpuset.mems"):
            self.files.write(cgroup, file, self.files.read(next(ancestors(cgroup)), file))

    def remove(self) -> None:
        self.files.close()
        for mount in set(self.layout.mounts.values()):
            for directory, _, _ in os.walk(mount / self.root[1:], topdown=False):
                Path(directory).rmdir()

    def shown(self) -> list[list[str]]:
        names = [setting_file(Version.V1, each) for each in Setting]
        return [[self.files.read(cgroup, name) for name in names] for cgroup in self.cgroups]

    def cpus(self) -> list[str]:
        return [str(read_cpuset(self.files, cgroup)) for cgroup in (self.pod, self.one, self.two)]

    def writer(self, log: Journal | MemoryLog, at: Hook | None = None) -> SettingWriter:
        return SettingWriter(self.files, log, now=lambda: 0.0, at=at or self.check)

    def check(self, point: Point, cgroup: str) -> None:
        for each in self.cgroups[1:]:
            own, above = (read_cpuset(self.files, place) for place in (each, next(ancestors(each))))
            assert own <= above, (point, cgroup, each)


@pytest.fixture
def tree() -> Iterator[Tree]:
    assert LAYOUT is not None
    made = Tree(LAYOUT)
    try:
        yield made
    finally:
        made.remove()


@pytest.fixture
def two(tree: Tree) -> tuple[str, str]:
    """Two CPUs."""
    cpus = list(read_cpuset(tree.files, tree.root))
    if len(cpus) < 2:
        pytest.skip("needs two CPUs")
    return str(cpus[0]), str(cpus[1])


def pinned(tree: Tree, pod: str, one: str) -> list[WriteSetting]:
    return [setting(tree.pod, CPUS, pod, owner=PINNING), setting(tree.one, CPUS, one, owner=PINNING)]


def test_pod_moves_cpus_and_back_with_unnamed_container(tree: Tree, two: tuple[str, str]) -> None:
    before, (first, second) = tree.shown(), two
    writer = tree.writer(MemoryLog())
    assert writer.reconcile(PINNING, pinned(tree, first, first)).failed == {}
    assert tree.cpus() == [first, first, first]
    assert writer.reconcile(PINNING, pinned(tree, second, second)).failed == {}
    assert tree.cpus() == [second, second, second]
    assert writer.reconcile(PINNING, []).failed == {}
    assert tree.shown() == before
    assert not writer.held


def test_what_is_beyond_the_parent_is_told(tree: Tree, two: tuple[str, str]) -> None:
    first, second = two
    report = tree.writer(MemoryLog()).reconcile(PINNING, pinned(tree, first, second))
    assert isinstance(report.failed[f"{tree.one}/cpuset.cpus"], ValueRefused)


def test_weight_and_memory_limit_are_set_and_restored(tree: Tree) -> None:
    before = tree.shown()
    writer = tree.writer(MemoryLog())
    wanted = [
        setting(tree.one, Setting.CPU_WEIGHT, "1"),
        setting(tree.one, Setting.MEMORY_LIMIT, str(64 * MEBI + 7)),
        setting(tree.pod, Setting.MEMORY_LIMIT, "max"),
    ]
    report = writer.reconcile(SettingOwner.BATCH, wanted)
    assert (report.failed, len(report.written)) == ({}, 2)
    assert tree.files.read(tree.one, "cpu.shares") == "2"
    assert tree.files.read(tree.one, "memory.limit_in_bytes") == str(64 * MEBI)
    assert writer.reconcile(SettingOwner.BATCH, wanted).written == []
    assert writer.restore().failed == {}
    assert tree.shown() == before


def idle_and_weighted(tree: Tree) -> list[WriteSetting]:
    return [setting(tree.one, Setting.CPU_IDLE, "1", "0"), setting(tree.one, Setting.CPU_WEIGHT, "512", "2")]


def idle_and_weight(tree: Tree) -> list[str]:
    return [tree.files.read(tree.one, file) for file in ("cpu.idle", "cpu.shares")]


def test_idle_cgroup_gets_its_weight_back(tree: Tree) -> None:
    writer = tree.writer(MemoryLog())
    assert writer.reconcile(SettingOwner.BATCH, idle_and_weighted(tree)).failed == {}
    assert idle_and_weight(tree)[0] == "1"
    with pytest.raises(ValueRefused):
        tree.files.write(tree.one, "cpu.shares", "512")
    assert writer.reconcile(SettingOwner.BATCH, idle_and_weighted(tree)).written == []
    assert writer.reconcile(SettingOwner.BATCH, idle_and_weighted(tree)[1:]).failed == {}
    assert idle_and_weight(tree) == ["0", "512"]


def test_idle_cgroup_killed_at_every_point_is_restored(tree: Tree, tmp_path: Path) -> None:
    def make_idle(journal: Path, at: Hook | None = None) -> None:
        with Journal.open(journal, boot="b", now=lambda: 0.0) as log:
            assert tree.writer(log, at).reconcile(SettingOwner.BATCH, idle_and_weighted(tree)).failed == {}

    def restore(journal: Path, at: Hook | None = None) -> None:
        with Journal.open(journal, boot="b", now=lambda: 0.0) as log:
            assert tree.writer(log, at).restore().failed == {}

    for deaths in count():
        journal = tmp_path / f"{deaths}"
        killed = killed_child(partial(make_idle, journal, dying(deaths))) == signal.SIGKILL
        make_idle(journal)
        killed |= killed_child(partial(restore, journal, dying(deaths))) == signal.SIGKILL
        restore(journal)
        assert idle_and_weight(tree) == ["0", "2"]
        if not killed:
            break
    assert deaths > 4


@contextmanager
def using(tree: Tree, cgroup: str, amount: int) -> Iterator[None]:
    """Have a process in a cgroup that uses so many bytes."""
    ready, told = os.pipe()
    process = os.fork()
    if not process:
        try:
            (tree.layout.mounts["memory"] / cgroup[1:] / "cgroup.procs").write_text(str(os.getpid()))
            block = bytearray(amount)
            block[::4096] = b"x" * len(block[::4096])
            os.write(told, b"x")
            signal.pause()
        finally:
            os._exit(0)
    os.close(told)
    try:
        assert os.read(ready, 1) == b"x"
        yield
    finally:
        os.close(ready)
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)


def test_memory_limit_below_current_use_is_not_tried(tree: Tree) -> None:
    before = tree.shown()
    wanted = [setting(tree.one, Setting.MEMORY_LIMIT, str(16 * MEBI))]
    writer = tree.writer(MemoryLog())
    with using(tree, tree.one, 32 * MEBI):
        assert read_memory_usage(tree.files, tree.one) >= 32 * MEBI
        assert 0 < read_working_set(tree.files, tree.one) < 64 * MEBI
        report = writer.reconcile(SettingOwner.BATCH, wanted)
        assert "in use" in str(report.failed[f"{tree.one}/memory.limit_in_bytes"])
        assert tree.shown() == before


def test_sets_killed_at_every_point_converge_and_return(
    tree: Tree, two: tuple[str, str], tmp_path: Path
) -> None:
    first, second = two
    before = tree.shown()
    for deaths in count():
        journal = tmp_path / f"{deaths}"
        bring(tree, journal, first)
        killed = bring_dying(tree, journal, second, deaths)
        bring(tree, journal, second)
        assert tree.cpus() == [second, second, second]
        with Journal.open(journal, boot="b", now=lambda: 0.0) as log:
            assert tree.writer(log).restore().failed == {}
        assert tree.shown() == before
        if not killed:
            break
    assert deaths > 6


def bring(tree: Tree, journal: Path, cpus: str, at: Hook | None = None) -> None:
    with Journal.open(journal, boot="b", now=lambda: 0.0) as log:
        assert tree.writer(log, at).reconcile(PINNING, pinned(tree, cpus, cpus)).failed == {}


def bring_dying(tree: Tree, journal: Path, cpus: str, after: int) -> bool:
    return killed_child(lambda: bring(tree, journal, cpus, dying(after))) == signal.SIGKILL


NAMES = ("/t", "/t/a", "/t/b", "/t/a/1")
WRITES = st.tuples(st.sampled_from(NAMES), st.sampled_from(["0", "1", "0-1"]))


@given(st.lists(WRITES, max_size=20))
@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_fake_follows_the_rules_of_the_kernel(tree: Tree, writes: list[tuple[str, str]]) -> None:
    if str(read_cpuset(tree.files, tree.root)) != "0-1":
        pytest.skip("needs the CPUs 0-1 and no others")
    stored = StoredCgroups(Version.V1, NAMES)
    for name in NAMES:
        tree.make(tree.root + name)
    for files in stored.contents.values():
        files["cpuset.cpus"] = "0-1"
    try:
        for name, cpus in writes:
            told = [taken(KernelRules(stored), name, cpus), taken(tree.files, tree.root + name, cpus)]
            assert told[0] == told[1], (name, cpus)
    finally:
        for name in reversed(NAMES):
            for mount in set(tree.layout.mounts.values()):
                (mount / (tree.root + name)[1:]).rmdir()


def taken(files: Files, cgroup: str, cpus: str) -> type[Exception] | None:
    """Return the error that a write raises."""
    try:
        files.write(cgroup, "cpuset.cpus", cpus)
    except (ValueRefused, Busy) as error:
        return type(error)
    return None
