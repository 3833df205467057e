"""Drives the writer of quotas through changes of ratio, faults and deaths, on a tree of real cgroups."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from corewise.actions import QuotaOwner
from corewise.kernel.cgroups.files import CgroupFiles
from corewise.kernel.cgroups.layout import CONTROLLERS, Layout, Version
from corewise.kernel.writing.journal import Journal, MemoryLog
from corewise.kernel.writing.journaled_writer import Point, no_fault
from corewise.kernel.writing.journaled_writer import WriteReport as Written
from corewise.kernel.writing.quota_writer import QuotaWriter
from kernel.cgroup_trees import killed_child
from node.guest.pods import MOUNT, Tree, actions, make
from node.guest.records import Deaths, Quotas, Report

RATIOS = (100, 200, 120)
STATE = Path("/run/corewise-test")
BOOT = Path("/proc/sys/kernel/random/boot_id")


def change_ratios(report: Report, tree: Tree, files: CgroupFiles) -> None:
    """Report the effect of each ratio, and of none, on a tree, of a second look, and of restore."""
    with writing(tree, files) as writer:
        for ratio in RATIOS:
            done = writer.reconcile(QuotaOwner.NORMALIZATION, actions(tree, ratio))
            report.add(f"quotas/{tree.name}/{ratio}", state(tree, done))
            done = writer.reconcile(QuotaOwner.NORMALIZATION, actions(tree, ratio))
            report.add(f"quotas/{tree.name}/{ratio} again", state(tree, done))
        done = writer.reconcile(QuotaOwner.NORMALIZATION, [])
        report.add(f"quotas/{tree.name}/removed", state(tree, done))
        writer.reconcile(QuotaOwner.NORMALIZATION, actions(tree, 200))
    with writing(tree, files) as writer:
        report.add(f"quotas/{tree.name}/restored", state(tree, writer.restore()))
        report.add(f"quotas/{tree.name}/restored again", state(tree, writer.restore()))


def die(report: Report, tree: Tree, files: CgroupFiles) -> None:
    """Kill a writer at each of its steps from base to 2.00; tell what the next one, at 1.20, makes of it."""
    points: list[str] = []
    outcomes = []
    reached = STATE / "reached"
    while True:
        reached.unlink(missing_ok=True)
        if not killed_child(lambda: _halve(tree, files, dying_at(len(points), reached))):
            break
        points.append(reached.read_text())
        with writing(tree, files) as writer:
            writer.reconcile(QuotaOwner.NORMALIZATION, actions(tree, 120))
            outcomes.append(tree.texts())
            writer.restore()
    with writing(tree, files) as writer:
        writer.restore()
    report.add("deaths", Deaths(points, outcomes))


def dying_at(step: int, reached: Path) -> Callable[[Point, str], None]:
    """Return a hook that ends its process at a step, counted from 0."""
    left = iter(range(step))

    def at(point: Point, _cgroup: str) -> None:
        if next(left, None) is None:
            reached.write_text(point)
            os.kill(os.getpid(), signal.SIGKILL)

    return at


def _halve(tree: Tree, files: CgroupFiles, at: Callable[[Point, str], None]) -> None:
    with writing(tree, files, at) as writer:
        writer.reconcile(QuotaOwner.NORMALIZATION, actions(tree, 200))


def meet_faults(report: Report, tree: Tree, files: CgroupFiles) -> None:
    """Report the effect of a cgroup that vanishes, and of a hierarchy that cannot be written, on the rest."""
    with writing(tree, files) as writer:
        writer.reconcile(QuotaOwner.NORMALIZATION, actions(tree, 120))
        tiny = tree.file("web/tiny", ".")
        tiny.rmdir()
        done = writer.reconcile(QuotaOwner.NORMALIZATION, actions(tree, 200))
        tiny.mkdir()
        report.add("faults/vanished", state(tree, done))
        writer.restore()
    make(tree)
    with read_only() as mount:
        there = CgroupFiles(Layout(Version.V2, dict.fromkeys(CONTROLLERS, mount)))
        writer = QuotaWriter(there, MemoryLog(), now=time.time)
        done = writer.reconcile(QuotaOwner.NORMALIZATION, actions(tree, 200))
        there.close()
        report.add("faults/read-only", state(tree, done))


@contextmanager
def read_only() -> Iterator[Path]:
    """Mount the hierarchy once more, read-only, as a container without privileges sees it."""
    mount = STATE / "read-only"
    mount.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "--bind", MOUNT, mount], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", mount], check=True)
        yield mount
    finally:
        subprocess.run(["umount", mount], check=True)


def ask_kernel(report: Report, tree: Tree) -> None:
    """Tell the kernel's own answers to what its rules are about; "" is a yes."""
    one, two = tree.file("web/one", "cpu.max"), tree.file("web/two", "cpu.max")
    burst = tree.file("web/two", "cpu.max.burst")
    answers = {
        "a quota of 999 us": answer(one, "999"),
        "a quota of 1000 us": answer(one, "1000"),
        "a quota alone, beside the period of another": answer(tree.file("db/only", "cpu.max"), "60000"),
        "a child above its parent": answer(one, "900000"),
        "a parent below its child": answer(tree.file("web", "cpu.max"), "50000"),
        "a quota below the burst": answer(two, "19999"),
        "a burst above the quota": answer(burst, "200001"),
        "a burst of the quota": answer(burst, "200000"),
    }
    report.add("rules/answers", answers)
    report.add("rules/cpu.max", tree.texts())


def answer(file: Path, text: str) -> str:
    """Write to a cgroup's file; return the name of the error, if it is one."""
    try:
        file.write_text(text)
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    return ""


@contextmanager
def writing(
    tree: Tree, files: CgroupFiles, at: Callable[[Point, str], None] = no_fault
) -> Iterator[QuotaWriter]:
    """A writer with the journal of its tree, as a process of its own would have it."""
    directory = STATE / tree.name.replace(" ", "-")
    with Journal.open(directory, boot=BOOT.read_text().strip(), now=time.time) as journal:
        yield QuotaWriter(files, journal, now=time.time, at=at)


def state(tree: Tree, done: Written) -> Quotas:
    """Return a tree and what the writer said about it."""
    roles = {cgroup: role for role, cgroup in tree.cgroups.items()}
    return Quotas(
        cpu_max=tree.texts(),
        burst=tree.bursts(),
        written=len(done.written),
        refused=done.refused,
        failed={roles[cgroup]: type(error).__name__ for cgroup, error in done.failed.items()},
        gone=[roles[cgroup] for cgroup in done.gone],
    )
