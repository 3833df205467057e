"""Keeps CPUs busy in cgroups, and measures what the kernel lets them have.

A spell is long against a period (100 ms), and there are several: emulated CPUs are held up by the CPUs below
them now and then, and the middle one tells what the quota does. As long as they differ, there are more.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from corewise.actions import QuotaOwner
from corewise.kernel.cgroups.cpu import read_usage
from corewise.kernel.cgroups.files import CgroupFiles
from kernel.cgroup_trees import bound
from node.guest.pods import Tree, actions
from node.guest.records import Report, Usage
from node.guest.writing import writing

FEWEST, MOST = 3, 15
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
    """Tell what busy containers get under ratio 1.50, alone and with many threads, and in a narrow pod."""
    with writing(tree, files) as writer:
        writer.reconcile(QuotaOwner.NORMALIZATION, actions(tree, 150))
        with busy_loop(tree, "web/one"):
            report.add("usage/one CPU under 1.50", usage(files, tree.cgroups["web/one"]))
        with busy_threads(tree, "web/two"):
            report.add("usage/four threads, two CPUs under 1.50", usage(files, tree.cgroups["web/two"]))
        writer.apply([bound(tree.cgroups["web"], 50_000, 301_000, owner=QuotaOwner.SUPPRESSION)])
        report.add("usage/cpu.max in a narrow pod", tree.texts())
        with busy_loop(tree, "web/one"), busy_loop(tree, "web/two"):
            report.add("usage/narrow pod", usage(files, tree.cgroups["web"]))
        writer.restore()


def usage(files: CgroupFiles, cgroup: str) -> Usage:
    """Return the CPU time used in some spells, after the start has settled."""
    time.sleep(SETTLE)
    used: list[int] = []
    lasted: list[int] = []
    while len(used) < FEWEST or (len(used) < MOST and not Usage(used, lasted).is_steady):
        before, began = read_usage(files, cgroup), time.monotonic_ns()
        time.sleep(SECONDS)
        after, ended = read_usage(files, cgroup), time.monotonic_ns()
        used.append(after - before)
        lasted.append(ended - began)
    return Usage(used, lasted)


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
