"""Keeps CPUs busy in cgroups, and measures what the kernel lets them have.

A spell is long against a period (100 ms). Emulated CPUs are held up by the CPUs below them; where periods end
before the quota does, the kernel's counters show it, and another spell is measured.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from corewise.actions import QuotaOwner
from corewise.kernel.cgroups.files import CgroupFiles
from corewise.kernel.cgroups.resources import read_usage
from kernel.cgroup_trees import bound
from node.guest.pods import Tree, actions
from node.guest.records import Report, Spell, Usage
from node.guest.writing import writing

MOST = 12
SECONDS = 3
SETTLE = 1
_THREADS = """
import hashlib, threading
def work():
    while True:
        hashlib.sha256(bytes(1 << 22))
threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads:
    thread.start()
print("busy", flush=True)
work()
"""


def measure(report: Report, tree: Tree, files: CgroupFiles) -> None:
    """Report the CPU of busy containers under ratio 1.50, alone, with many threads, in a narrow pod."""
    with writing(tree, files) as writer:
        writer.reconcile(QuotaOwner.NORMALIZATION, actions(tree, 150))
        with busy_loop(tree, "web/one"):
            report.add("usage/one CPU under 1.50", usage(tree, "web/one", files))
        with busy_threads(tree, "web/two"):
            report.add("usage/four threads, two CPUs under 1.50", usage(tree, "web/two", files))
        writer.apply([bound(tree.cgroups["web"], 50_000, 301_000, owner=QuotaOwner.SUPPRESSION)])
        report.add("usage/cpu.max in a narrow pod", tree.texts())
        with busy_loop(tree, "web/one"), busy_loop(tree, "web/two"):
            report.add("usage/narrow pod", usage(tree, "web", files))
        writer.restore()


def usage(tree: Tree, role: str, files: CgroupFiles) -> Usage:
    """Return the CPU time used in some spells, after the start has settled."""
    time.sleep(SETTLE)
    measured = Usage([])
    while len(measured.spells) < MOST and not measured.is_steady:
        measured.spells.append(spell(tree, role, files))
    return measured


def spell(tree: Tree, role: str, files: CgroupFiles) -> Spell:
    """Measure one spell."""
    cgroup = tree.cgroups[role]
    counted, began, before = counters(tree, role), time.monotonic_ns(), read_usage(files, cgroup)
    time.sleep(SECONDS)
    after, ended, last = read_usage(files, cgroup), time.monotonic_ns(), counters(tree, role)
    periods, throttled = (last[key] - counted[key] for key in ("nr_periods", "nr_throttled"))
    return Spell(after - before, ended - began, periods, throttled)


def counters(tree: Tree, role: str) -> dict[str, int]:
    """Return a cgroup's cpu.stat."""
    lines = tree.file(role, "cpu.stat").read_text().splitlines()
    return {key: int(value) for key, value in map(str.split, lines)}


@contextmanager
def busy_loop(tree: Tree, role: str) -> Iterator[None]:
    """A process that never rests, in a cgroup."""
    with subprocess.Popen(["/bin/sh", "-c", "while :; do :; done"]) as process:
        try:
            tree.file(role, "cgroup.procs").write_text(str(process.pid))
            yield
        finally:
            process.kill()


@contextmanager
def busy_threads(tree: Tree, role: str) -> Iterator[None]:
    """A process with four threads that never rest."""
    command = [sys.executable, "-S", "-E", "-c", _THREADS]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            tree.file(role, "cgroup.procs").write_text(str(process.pid))
            yield
        finally:
            process.kill()
