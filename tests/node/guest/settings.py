"""Drives the writer of settings on real cgroups v2: weights, CPU sets, memory limits, foreign writes."""

from __future__ import annotations

import time

from corewise.actions import Setting, SettingOwner, WriteSetting
from corewise.kernel.cgroups.files import CgroupFiles
from corewise.kernel.cgroups.layout import Version
from corewise.kernel.writing.journal import Journal
from corewise.kernel.writing.journaled_writer import WriteReport as Written
from corewise.kernel.writing.setting_claims import setting_file
from corewise.kernel.writing.setting_writer import SettingWriter
from kernel.cgroup_trees import setting
from node.guest.pods import Tree
from node.guest.records import Report, Settings
from node.guest.writing import BOOT, STATE, answer

ROLES = ("web", "web/one", "web/two")
MEBI = 1 << 20
STEPS = (("0-1", "0"), ("2-3", "3"), ("1-2", "1-2"))


def observe(report: Report, tree: Tree, files: CgroupFiles) -> None:
    """Report a tree's settings after each step, after a foreign write and after restore."""
    report.add("settings/before", state(tree, Written()))
    with Journal.open(STATE / "settings", boot=BOOT.read_text().strip(), now=time.time) as journal:
        writer = SettingWriter(files, journal, now=time.time)
        for pod, one in STEPS:
            done = writer.reconcile(SettingOwner.BATCH, wanted(tree, pod, one))
            report.add(f"settings/{pod}", state(tree, done))
        done = writer.reconcile(SettingOwner.BATCH, wanted(tree, pod, one))
        report.add("settings/again", state(tree, done))
        tree.file("web/one", "cpu.weight").write_text("77")
        done = writer.reconcile(SettingOwner.BATCH, wanted(tree, pod, one))
        report.add("settings/drifted", state(tree, done))
        idle = setting(tree.cgroups["web/one"], Setting.CPU_IDLE, "1", "0")
        for step in ("idle", "idle again", "idle no more", "idle at the end"):
            more = [] if step == "idle no more" else [idle]
            done = writer.reconcile(SettingOwner.BATCH, [*wanted(tree, pod, one), *more])
            report.add(f"settings/{step}", state(tree, done))
    with Journal.open(STATE / "settings", boot=BOOT.read_text().strip(), now=time.time) as journal:
        report.add("settings/restored", state(tree, SettingWriter(files, journal, now=time.time).restore()))
    ask_kernel(report, tree)


def wanted(tree: Tree, pod: str, one: str) -> list[WriteSetting]:
    """Return the settings to write; the weight's base is stated, all others are found."""
    return [
        setting(tree.cgroups["web"], Setting.CPUSET, pod),
        setting(tree.cgroups["web/one"], Setting.CPUSET, one),
        setting(tree.cgroups["web/one"], Setting.CPU_WEIGHT, "20", "100"),
        setting(tree.cgroups["web/two"], Setting.MEMORY_LIMIT, str(64 * MEBI + 1)),
        setting(tree.cgroups["web/two"], Setting.MEMORY_NODES, "0"),
    ]


def ask_kernel(report: Report, tree: Tree) -> None:
    """Tell the kernel's own answers to what its rules are about; "" is a yes."""
    pod, one = tree.file("web", "cpuset.cpus"), tree.file("web/one", "cpuset.cpus")
    answers = {
        "a pod's CPUs": answer(pod, "0-1"),
        "a child beyond its parent": answer(one, "0-2"),
        "a parent below its child": answer(pod, "0"),
        "no CPUs of its own": answer(one, "\n"),
        "a CPU that there is not": answer(one, "9999999"),
        "a weight of 0": answer(tree.file("web/one", "cpu.weight"), "0"),
        "a weight of 10001": answer(tree.file("web/one", "cpu.weight"), "10001"),
        "a limit": answer(tree.file("web/one", "memory.max"), "12345678"),
        "idle": answer(tree.file("web/one", "cpu.idle"), "1"),
        "a weight of an idle cgroup": answer(tree.file("web/one", "cpu.weight"), "20"),
        "idle no more": answer(tree.file("web/one", "cpu.idle"), "0"),
    }
    report.add("settings/answers", answers)
    report.add("settings/limit", tree.file("web/one", "memory.max").read_text().strip())
    pod.write_text("\n")


def state(tree: Tree, done: Written) -> Settings:
    """Return a tree's settings, read by nothing of corewise, and what the writer said."""
    files = [setting_file(Version.V2, each) for each in Setting]
    shown = {f"{role}/{file}": tree.file(role, file).read_text().strip() for role in ROLES for file in files}
    problems = list(map(str, done.failed.values()))
    return Settings(shown, len(done.written), done.refused, len(done.drifted), problems)
