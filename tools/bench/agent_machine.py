"""The cgroups that the agent's benchmark runs on: the kernel's own where that may be, else files.

With root and a writable cgroup v1 they are real, below one cgroup that is removed at the end, and the agent
is in one of its own. A process sleeps in each container, and the rest of the machine is this one. Elsewhere
they are files of a simulated machine (v2).
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import Popen

from corewise.agent.objects import QuotaPod
from corewise.agent.quota_targets import targets_of
from corewise.kernel.cgroups.files import CgroupFiles
from corewise.kernel.cgroups.layout import Layout, PodCgroups, Version, find_layout, find_pod_cgroups
from corewise.kernel.cgroups.resources import read_bandwidth
from corewise.quantities import ONE, Bytes, Microseconds
from corewise_lab.machine_files import MachineFiles
from corewise_lab.machines import CATALOG, Machine
from kernel.cgroup_writes import layout_here, write_quota

PERIOD = Microseconds(100_000)
_SLEEP = 3600
"""Seconds after which processes end by themselves, if they are not ended before."""


@dataclass(slots=True)
class BenchMachine:
    """The agent's machine, and kubelet's part on it."""

    kind: str
    root: Path
    cgroup_root: str
    layout: Layout
    agents: Path | None = None
    """The agent's own cgroup in the memory hierarchy, if these are the kernel's."""
    made: list[str] = field(default_factory=list)
    sleepers: list[Popen[bytes]] = field(default_factory=list)
    """A process for each container, where the cgroups are the kernel's: none runs."""

    @property
    def files(self) -> CgroupFiles:
        return CgroupFiles(self.layout)

    @property
    def names(self) -> PodCgroups:
        with self.files as files:
            return find_pod_cgroups(files, self.cgroup_root)

    def start(self, pods: list[QuotaPod]) -> None:
        """Make the pods' cgroups, with kubelet's quotas, and a process in each container that is real."""
        names = self.names
        with self.files as files:
            for pod in pods:
                for target in targets_of(pod, pod.spec, names):
                    self.make(target.cgroup)
                    write_quota(files, target.cgroup, target.quota(PERIOD, ONE))
                    if target.container and self.layout.version is Version.V1:
                        self._sleep_in(target.cgroup)

    def quotas(self, pods: list[QuotaPod]) -> list[int | None]:
        """Return the quotas of all containers."""
        names = self.names
        with self.files as files:
            return [
                read_bandwidth(files, target.cgroup).quota
                for pod in pods
                for target in targets_of(pod, pod.spec, names)
                if target.container
            ]

    def make(self, cgroup: str) -> None:
        """Make a cgroup in every hierarchy that the agent uses."""
        self.made.append(cgroup)
        for mount in self._mounts:
            directory = mount / cgroup[1:]
            directory.mkdir(exist_ok=True)
            if self.layout.version is Version.V2:
                (directory / "cpu.max").write_text(f"max {PERIOD}\n")
                (directory / "cpu.stat").write_text("usage_usec 0\n")

    def _sleep_in(self, cgroup: str) -> None:
        sleeper = Popen(("sleep", str(_SLEEP)))
        self.sleepers.append(sleeper)
        for mount in self._mounts:
            (mount / cgroup[1:] / "cgroup.procs").write_text(str(sleeper.pid))

    @property
    def _mounts(self) -> set[Path]:
        return {self.layout.mounts["cpu"], self.layout.mounts["cpuacct"]}

    def remove(self) -> None:
        """End the processes, and remove the cgroups, if the kernel holds them."""
        for each in self.sleepers:
            each.kill()
            each.wait()
        if self.layout.version is Version.V1:
            for cgroup in reversed(self.made):
                for mount in self._mounts:
                    (mount / cgroup[1:]).rmdir()


@contextmanager
def bench_machine() -> Iterator[BenchMachine]:
    """A machine with kubelet's upper cgroups."""
    layout = layout_here(Version.V1, needs=("cpu", "cpuacct", "memory"))
    if layout is None:
        with tempfile.TemporaryDirectory() as folder:
            model = CATALOG["Intel(R) Xeon(R) Platinum 8369B CPU @ 2.70GHz"]
            root = MachineFiles(Path(folder) / "m").make(Machine("n1", model, 64, Bytes(256 << 30)))
            yield BenchMachine("files shaped as cgroup v2", root, "/", find_layout(root))
        return
    name = f"/corewise-bench-{os.getpid()}"
    agents = layout.mounts["memory"] / f"{name[1:]}-agent"
    machine = BenchMachine("real cgroups, v1", Path("/"), name, layout, agents)
    agents.mkdir()
    try:
        for cgroup in ("", "/kubepods.slice", "/kubepods.slice/kubepods-burstable.slice"):
            machine.make(machine.cgroup_root + cgroup)
        yield machine
    finally:
        agents.rmdir()
        machine.remove()
