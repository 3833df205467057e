"""Owned CPUs on real cgroups (v1): processes that run are moved, the kernel refuses nothing, all comes back.

Needs root, writable v1 controllers and two CPUs; skipped elsewhere. Everything happens below a cgroup of its
own, which is removed at the end, as are the processes in it.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent.fake_node import container_id
from agent.pinning_node import claim, pin_pod
from corewise.agent.cgroups import NodeCgroups, restore
from corewise.agent.local_node import LocalNode
from corewise.agent.objects import QuotaPod
from corewise.kernel.cgroups.files import CgroupFiles, ancestors
from corewise.kernel.cgroups.layout import (
    Layout,
    PodCgroups,
    QOSClass,
    Version,
    find_pod_cgroups,
)
from corewise.kernel.host_files import read_boot_id
from corewise.kernel.writing.journal import Journal
from corewise.topology import CPUSet
from kernel.cgroup_writes import layout_here

NEEDED = ("cpu", "cpuset")
SLEEP = ("sleep", "3600")
_ALLOWED = re.compile(r"^Cpus_allowed_list:\s*(\S+)$", re.MULTILINE)


LAYOUT = layout_here(Version.V1, needs=NEEDED)
pytestmark = pytest.mark.skipif(LAYOUT is None, reason="needs root and writable cgroup v1 controllers")


class RealNode:
    """kubelet's hand on the kernel: pods' cgroups below one of our own, and processes in them."""

    def __init__(self, layout: Layout) -> None:
        self.root = f"/corewise-pinning-{os.getpid()}"
        self.mounts = sorted({layout.mounts[controller] for controller in NEEDED})
        self.cpuset = layout.mounts["cpuset"]
        self.files = CgroupFiles(layout)
        self._made: list[str] = []
        self._processes: list[subprocess.Popen[bytes]] = []
        for cgroup in ("", "/kubepods", "/kubepods/burstable", "/kubepods/besteffort"):
            self.make(self.root + cgroup)
        self.names: PodCgroups = find_pod_cgroups(self.files, self.root)
        self.all = self.cpus(self.root)

    def make(self, cgroup: str) -> None:
        """Make a cgroup as runc does: its CPUs and memory nodes are those of its parent."""
        for mount in self.mounts:
            (mount / cgroup[1:]).mkdir()
        self._made.append(cgroup)
        for file in ("cpuset.cpus", "cpuset.mems"):
            self.files.write(cgroup, file, self.files.read(next(ancestors(cgroup)), file))

    def start(self, *pods: QuotaPod) -> None:
        for pod in pods:
            self.make(self.pod(pod))
            self.make(self.container(pod))

    def pod(self, pod: QuotaPod) -> str:
        return self.names.pod(pod.uid, QOSClass(pod.status.qos_class))

    def container(self, pod: QuotaPod) -> str:
        qos = QOSClass(pod.status.qos_class)
        return self.names.container(pod.uid, qos, container_id(pod.metadata.name, "a"))

    def run(self, pod: QuotaPod) -> int:
        """Have a process run in a pod's container; return its number."""
        process = subprocess.Popen(SLEEP)
        self._processes.append(process)
        (self.cpuset / self.container(pod)[1:] / "cgroup.procs").write_text(str(process.pid))
        return process.pid

    def cpus(self, cgroup: str) -> str:
        return str(CPUSet.parse(self.files.read(cgroup, "cpuset.cpus")))

    def sets(self) -> list[str]:
        """The CPU sets of everything that was made."""
        return [self.cpus(cgroup) for cgroup in self._made]

    def end(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()
        self.files.close()
        for cgroup in reversed(self._made):
            for mount in self.mounts:
                _remove(mount / cgroup[1:])


def _remove(directory: Path) -> None:
    """Remove a cgroup; those who have just left it may be in it for a moment."""
    for _ in range(100):
        try:
            directory.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(0.02)


@pytest.fixture
def node() -> Iterator[RealNode]:
    assert LAYOUT is not None
    made = RealNode(LAYOUT)
    try:
        yield made
    finally:
        made.end()


@pytest.fixture
def two(node: RealNode) -> tuple[str, str]:
    """Two CPUs, the first of which stays shared: the rest of the machine's are kept with it."""
    cpus = list(CPUSet.parse(node.all))
    if len(cpus) < 2:
        pytest.skip("needs two CPUs")
    return str(cpus[-1]), str(CPUSet.of(cpus[:-1]))


@contextmanager
def agent(node: RealNode, state: Path) -> Iterator[LocalNode]:
    """An agent on the journal in ``state``; leaving it is as good as killing it."""
    root = Path("/")
    with Journal.open(state, boot=read_boot_id(root), now=time.time) as journal:
        cgroups = NodeCgroups(root, node.root, journal, now=time.time)
        local = LocalNode("n1", root, cgroups)
        local.see({})
        yield local
        cgroups.close()


def allowed(process: int) -> str:
    """The CPUs that the kernel lets a process run on."""
    found = _ALLOWED.search(Path(f"/proc/{process}/status").read_text())
    assert found
    return found[1]


OFFLINE, WEB = pin_pod("offline", qos="BestEffort"), pin_pod("web")


def test_running_processes_are_moved_apart_and_together_again(
    node: RealNode, two: tuple[str, str], tmp_path: Path
) -> None:
    own, rest = two
    pods = owner, *others = (pin_pod("owner", claim(own), qos="Guaranteed"), WEB, OFFLINE)
    node.start(*pods)
    kubelets = node.sets()
    processes = [node.run(pod) for pod in pods]
    with agent(node, tmp_path) as local:
        assert local.cycle(pods).problems == {}
        assert [allowed(each) for each in processes] == [own, rest, rest]
        assert node.cpus(node.pod(owner)) == own
        unpinned = pin_pod("owner", qos="Guaranteed")
        assert local.cycle([unpinned, *others]).problems == {}
        assert [allowed(each) for each in processes] == [node.all] * 3
        assert node.sets() == kubelets
        assert local.cgroups.find().settings.totals["refused"] == 0


def test_quotas_lifted_on_owned_cpus_return_from_journal(
    node: RealNode, two: tuple[str, str], tmp_path: Path
) -> None:
    owner = pin_pod("owner", claim(two[0]), qos="Guaranteed")
    node.start(owner, WEB)
    cgroups = [node.pod(owner), node.container(owner)]
    for cgroup in cgroups:
        node.files.write(cgroup, "cpu.cfs_quota_us", "100000")

    def quotas() -> list[str]:
        return [node.files.read(cgroup, "cpu.cfs_quota_us").strip() for cgroup in cgroups]

    with agent(node, tmp_path) as local:
        assert local.cycle([owner, WEB]).problems == {}
        assert quotas() == ["-1", "-1"]
        assert local.cycle([pin_pod("owner", qos="Guaranteed"), WEB]).problems == {}
        assert quotas() == ["100000", "100000"]
        local.cycle([owner, WEB])
        assert quotas() == ["-1", "-1"]
    assert restore(Path("/"), tmp_path).failed == {}
    assert quotas() == ["100000", "100000"]


def test_owners_change_places_without_a_refusal(node: RealNode, two: tuple[str, str], tmp_path: Path) -> None:
    own, rest = two
    first, second = (pin_pod("owner", claim(cpus), bound="01", qos="Guaranteed") for cpus in (own, rest))
    node.start(first, WEB)
    processes = [node.run(first), node.run(WEB)]
    with agent(node, tmp_path) as local:
        local.cycle([first, WEB])
        assert local.cycle([second, WEB]).problems == {}
        assert [allowed(each) for each in processes] == [rest, own]
        assert local.cgroups.find().settings.totals["refused"] == 0


def test_container_started_in_narrowed_pod_is_restored_too(
    node: RealNode, two: tuple[str, str], tmp_path: Path
) -> None:
    own, rest = two
    owner = pin_pod("owner", claim(own), qos="Guaranteed")
    node.start(owner, WEB)
    with agent(node, tmp_path) as local:
        local.cycle([owner, WEB])
        anew = f"{node.pod(WEB)}/anew"
        node.make(anew)
        assert node.cpus(anew) == rest
        local.cycle([owner, WEB])
    with agent(node, tmp_path) as follower:
        follower.cycle([WEB])
        assert set(node.sets()) == {node.all}


def test_claims_that_the_machine_cannot_fulfil_move_nobody(node: RealNode, tmp_path: Path) -> None:
    bad = [pin_pod("beyond", claim("60000")), pin_pod("garbage", "{")]
    node.start(*bad, WEB)
    process = node.run(bad[0])
    with agent(node, tmp_path) as local:
        cycle = local.cycle([*bad, WEB])
        assert set(cycle.problems) == {pod.name for pod in bad}
        assert not cycle.written
        assert allowed(process) == node.all


def test_journal_alone_restores_everything_after_a_kill(
    node: RealNode, two: tuple[str, str], tmp_path: Path
) -> None:
    owner = pin_pod("owner", claim(two[0]), qos="Guaranteed")
    node.start(owner, WEB, OFFLINE)
    process = node.run(WEB)
    with agent(node, tmp_path) as local:
        local.cycle([owner, WEB, OFFLINE])
    assert allowed(process) == two[1]
    assert restore(Path("/"), tmp_path).failed == {}
    assert allowed(process) == node.all
    assert set(node.sets()) == {node.all}
