"""Drives the agent's CPU sets on real cgroups v2: a pod that owns CPUs, those that share, and the way back.

Each pod has a process, whose CPUs the kernel itself tells. ``db`` owns, ``web`` and ``free`` share.
"""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from corewise.agent.cgroups import Cycle, NodeCgroups, restore
from corewise.agent.kubelet import NO_POLICY
from corewise.agent.objects import PodMeta, QuotaPod, QuotaPodStatus
from corewise.agent.pinning import CPUSetReconciler
from corewise.kernel.host_files import read_boot_id
from corewise.kernel.writing.journal import Journal
from corewise.vocabulary.names import QOS_CLASS, RESOURCE_STATUS
from node.guest.pods import MOUNT, QOS, UIDS, Tree
from node.guest.records import Pins, Report
from node.guest.writing import STATE

ROOT = Path("/")
PROCESSES = {"web": "web/one", "db": "db/only", "free": "free/any"}
ANEW = "cri-containerd-anew.scope"
_ALLOWED = re.compile(r"^Cpus_allowed_list:\s*(\S+)$", re.MULTILINE)


def observe(report: Report, tree: Tree) -> None:
    """Tell where processes may run and what files say: as owners come, change, go, and after restore."""
    with ExitStack() as stack:
        running = {name: stack.enter_context(process(tree, role)) for name, role in PROCESSES.items()}
        report.add("pinning/before", seen(tree, running, Cycle()))
        with reconciler(tree) as keep:
            report.add("pinning/owned", seen(tree, running, keep.cycle(pods("1"), NO_POLICY)))
            anew = MOUNT / tree.cgroups["web"][1:] / ANEW
            anew.mkdir()
            running["anew"] = stack.enter_context(process_in(anew))
            report.add("pinning/a container begins", seen(tree, running, Cycle()))
            report.add("pinning/moved", seen(tree, running, keep.cycle(pods("2"), NO_POLICY)))
        with reconciler(tree) as keep:
            report.add("pinning/after a restart", seen(tree, running, keep.cycle(pods("2"), NO_POLICY)))
            report.add("pinning/gone", seen(tree, running, keep.cycle(pods(""), NO_POLICY)))
            keep.cycle(pods("1"), NO_POLICY)
        restore(ROOT, STATE / "pinning")
        report.add("pinning/restored", seen(tree, running, Cycle()))
    anew.rmdir()


def pods(claimed: str) -> list[QuotaPod]:
    """Return the tree's pods; ``db`` claims CPUs."""
    status = {RESOURCE_STATUS: json.dumps({"cpuset": claimed})}
    return [
        QuotaPod(
            PodMeta(
                name=name, uid=uid, labels={QOS_CLASS: "LSR"}, annotations=status if name == "db" else {}
            ),
            status=QuotaPodStatus(phase="Running", qos_class=QOS[name]),
        )
        for name, uid in UIDS.items()
    ]


@contextmanager
def reconciler(tree: Tree) -> Iterator[CPUSetReconciler]:
    """An agent's reconciler on its journal; leaving it is as good as killing it."""
    with Journal.open(STATE / "pinning", boot=read_boot_id(ROOT), now=time.time) as journal:
        cgroups = NodeCgroups(ROOT, tree.cgroup_root, journal, now=time.time)
        yield CPUSetReconciler(cgroups, ROOT)
        cgroups.close()


@contextmanager
def process(tree: Tree, role: str) -> Iterator[int]:
    """A process in a role's cgroup."""
    with process_in(MOUNT / tree.cgroups[role][1:]) as number:
        yield number


@contextmanager
def process_in(cgroup: Path) -> Iterator[int]:
    with subprocess.Popen(["sleep", "3600"]) as sleeping:
        try:
            (cgroup / "cgroup.procs").write_text(str(sleeping.pid))
            yield sleeping.pid
        finally:
            sleeping.kill()


def seen(tree: Tree, running: Mapping[str, int], cycle: Cycle) -> Pins:
    """Return the CPU sets there are, read by nothing of corewise, and the cycle's result."""
    found = {name: _ALLOWED.search(Path(f"/proc/{pid}/status").read_text()) for name, pid in running.items()}
    allowed = {name: match[1] for name, match in found.items() if match}
    shown = {role: tree.file(role, "cpuset.cpus").read_text().strip() for role in tree.cgroups}
    return Pins(allowed, shown, len(cycle.written), sorted(cycle.problems.values()))
