"""A node with offline pods, as plain files: counters that a test moves on, cgroups as kubelet makes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from agent.fake_node import FakeNode, manifest
from corewise.agent.objects import QuotaPod
from corewise.kernel.cgroups.layout import QOSClass, Version
from corewise.kernel.cgroups.resources import (
    Bandwidth,
    period_file,
    quota_file,
    quota_text,
    read_bandwidth,
)
from corewise.quantities import Microseconds
from corewise.vocabulary.names import BATCH_CPU, BATCH_MEMORY
from kernel.cgroup_trees import plain_tree
from kernel.cgroup_writes import write_quota

GIB = 1 << 30
_TICKS_A_SECOND = 100
_MICRO = 1_000_000
_NANO = 1_000_000_000


def stat_text(cpus: int, ticks: int, stolen: int = 0) -> str:
    """Return a /proc/stat in which all CPUs together were busy, and stolen, for so many ticks of 10 ms."""
    lines = [f"cpu  {ticks} 0 0 1000000 0 0 0 {stolen} 0 0"]
    lines += [f"cpu{cpu} {ticks // cpus} 0 0 1000000 0 0 0 0 0 0" for cpu in range(cpus)]
    return "\n".join([*lines, "intr 1 2 3", "ctxt 5"]) + "\n"


def meminfo_text(total: int, used: int) -> str:
    """Return a /proc/meminfo with so many bytes in total and in the working set."""
    amounts = {"MemTotal": total, "MemFree": total - used, "MemAvailable": total - used}
    lines = [f"{name}: {amount // 1024} kB" for name, amount in {**amounts, "Inactive(file)": 0}.items()]
    return "\n".join(lines) + "\n"


def batch_container(
    name: str, request: int = 0, limit: int = 0, memory: int = 0, **more: Any
) -> Mapping[str, Any]:
    """A container that asks for batch-cpu (milli-CPU) and batch-memory (bytes)."""
    requests = {BATCH_CPU: str(request or limit)}
    limits = {BATCH_CPU: str(limit)} if limit else {}
    if memory:
        limits[BATCH_MEMORY] = str(memory)
    return {"name": name, "image": "i", "resources": {"requests": requests, "limits": limits}, **more}


def offline_manifest(name: str, *containers: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """A running offline pod as JSON."""
    return manifest(name, *containers, qos="BestEffort", **more)


def offline_pod(name: str, *containers: Mapping[str, Any], **more: Any) -> QuotaPod:
    """A running offline pod as the agent reads it."""
    return msgspec.convert(offline_manifest(name, *containers, **more), QuotaPod)


def milli(bandwidth: Bandwidth) -> int | None:
    """Return a quota in milli-CPU, rounded down."""
    return bandwidth.quota_over(Microseconds(1000))


class OfflineNode:
    """The machine's files. ``pass_time`` moves its counters on as a load would."""

    def __init__(
        self, root: Path, version: Version = Version.V2, *, cpus: int = 16, memory: int = 64 * GIB
    ) -> None:
        self.root = root
        self.cpus = cpus
        self.memory = memory
        self.now = 1000.0
        self._node_us = self._offline_us = self._stolen_us = 0
        self.machine = FakeNode(root, version)
        self.slice = self.machine.names.qos(QOSClass.BEST_EFFORT)
        self.make_slice()
        self.pass_time(0)

    def make_slice(self) -> None:
        plain_tree(self.root, self.machine.version, [self.slice])

    def pass_time(
        self,
        seconds: float,
        *,
        online: int = 0,
        offline: int = 0,
        stolen: int = 0,
        memory: int = 0,
        offline_memory: int = 0,
    ) -> float:
        """Let time pass under a load in milli-CPU and bytes; return the time it is then."""
        self.now += seconds
        self._node_us += int((online + offline) * seconds * 1000)
        self._offline_us += int(offline * seconds * 1000)
        self._stolen_us += int(stolen * seconds * 1000)
        busy_ticks, stolen_ticks = (us * _TICKS_A_SECOND // _MICRO for us in (self._node_us, self._stolen_us))
        self._put("proc/stat", stat_text(self.cpus, busy_ticks, stolen_ticks))
        self._put("proc/meminfo", meminfo_text(self.memory, memory + offline_memory))
        self._account(offline_memory)
        return self.now

    def quota(self) -> Bandwidth:
        """The bandwidth of the BestEffort cgroup."""
        return read_bandwidth(self.machine.files, self.slice)

    def milli(self) -> int | None:
        """The quota of the BestEffort cgroup in milli-CPU, rounded down."""
        return milli(self.quota())

    def set_bandwidth(self, quota: int | None, period: int, cgroup: str = "") -> None:
        """Change a quota and its period as somebody else would."""
        files, own = self.machine.files, cgroup or self.slice
        text = quota_text(files.version, None if quota is None else Microseconds(quota))
        if files.version is Version.V1:
            files.write(own, period_file(files.version), str(period))
            files.write(own, quota_file(files.version), text)
        else:
            files.write(own, quota_file(files.version), f"{text} {period}")

    def write(self, quota: int | None, cgroup: str = "") -> None:
        """Change a quota as somebody else would."""
        wanted = None if quota is None else Microseconds(quota)
        write_quota(self.machine.files, cgroup or self.slice, wanted)

    def start(self, *pods: QuotaPod) -> None:
        """Make the cgroups of offline pods: kubelet gives them no quota."""
        self.machine.start(*pods)

    def bandwidths(self, pods: Iterable[QuotaPod]) -> dict[str, Bandwidth]:
        """The quotas and periods of everything that suppression may touch, by cgroup."""
        cgroups = [self.slice]
        for pod in pods:
            names = ["", *(status.name for status in pod.status.all_containers)]
            cgroups += [self.machine.cgroup(pod, name) for name in names]
        return {cgroup: read_bandwidth(self.machine.files, cgroup) for cgroup in cgroups}

    def path(self, controller: str, cgroup: str, file: str) -> Path:
        base = self.root / "sys/fs/cgroup"
        mount = base if self.machine.version is Version.V2 else base / controller
        return mount / cgroup.lstrip("/") / file

    def _account(self, memory: int) -> None:
        if not self.machine.files.exists(self.slice):
            return
        if self.machine.version is Version.V2:
            self._file("cpu", "cpu.stat", f"usage_usec {self._offline_us}\nuser_usec 0")
            self._file("memory", "memory.current", memory)
            self._file("memory", "memory.stat", "anon 0\ninactive_file 0")
        else:
            self._file("cpuacct", "cpuacct.usage", self._offline_us * (_NANO // _MICRO))
            self._file("memory", "memory.usage_in_bytes", memory)
            self._file("memory", "memory.stat", "cache 0\ntotal_inactive_file 0")

    def _file(self, controller: str, file: str, content: object) -> None:
        path = self.path(controller, self.slice, file)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{content}\n")

    def _put(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
