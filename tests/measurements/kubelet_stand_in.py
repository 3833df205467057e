"""A kubelet to test the test of kubelets with: it runs pods in cgroups, and may rewrite files of them.

The cgroups are files below a directory, as v1 or v2 shows them, or those of this machine. Its time is that of
:class:`TickingClock`: whoever sleeps lets the kubelet do what is due.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from corewise.kernel.cgroups.files import CgroupFiles
from corewise.kernel.cgroups.layout import (
    Layout,
    PodCgroups,
    QOSClass,
    Version,
    find_layout,
    find_pod_cgroups,
)
from corewise.kernel.cgroups.resources import quota_file, weight_file
from corewise.kube.client import Client
from corewise.kube.resources import PODS
from experiments.kubelet_rewrites.pods import PLAIN_PODS, container_id

NODE = "n1"
NAMESPACE = "default"
BOOT = "5a1d2c3b-0000-4000-8000-000000000001"
CPUS = "0-3"
_WEIGHTS = {Version.V1: "102", Version.V2: "10"}
_PERIOD = 100_000

Document = dict[str, Any]


class TickingClock:
    """Time that passes only in sleeps; each lets the kubelet act."""

    def __init__(self) -> None:
        self.time = 1000.0
        self.tick: Callable[[float], Awaitable[None]] | None = None

    def monotonic(self) -> float:
        return self.time

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.time, UTC)

    async def sleep(self, seconds: float) -> None:
        self.time += seconds
        if self.tick is not None:
            await self.tick(self.time)


def machine_tree(root: Path, version: Version) -> Layout:
    """Make a machine without cgroups of kubelet's below a directory."""
    texts = {
        "proc/sys/kernel/random/boot_id": BOOT,
        "sys/devices/system/cpu/online": CPUS,
    }
    if version is Version.V2:
        texts["sys/fs/cgroup/cgroup.controllers"] = "cpuset cpu memory"
    for path, text in texts.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(f"{text}\n")
    if version is Version.V1:
        for controller in ("cpu", "cpuset"):
            (root / "sys/fs/cgroup" / controller).mkdir(parents=True)
    return find_layout(root)


@dataclass
class StandInKubelet:
    """Runs the pods of one node. ``weights_every``: seconds after which it writes the weights of its classes.

    ``syncs``: it writes the quotas of a pod whose annotations change. ``starts``: its containers start.
    """

    client: Client
    layout: Layout
    cgroup_root: str
    is_tree: bool
    weights_every: float = 0.0
    syncs: bool = False
    starts: bool = True
    weights_at: float = 0.0
    pods: dict[str, Document] = field(default_factory=dict)
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    names: PodCgroups = field(init=False)
    files: CgroupFiles = field(init=False)
    _serial: int = 0

    def __post_init__(self) -> None:
        self.files = CgroupFiles(self.layout)
        parts = [part for part in self.cgroup_root.split("/") if part]
        for depth in range(1, len(parts) + 1):
            self._make("".join(f"/{part}" for part in parts[:depth]))
        above = "".join(f"/{part}" for part in parts)
        self._make(f"{above}/kubepods")
        self.names = find_pod_cgroups(self.files, self.cgroup_root)
        for qos in (QOSClass.BURSTABLE, QOSClass.BEST_EFFORT):
            self._make(self.names.qos(qos))
        self._write_weights()

    async def tick(self, now: float) -> None:
        """Do what is due."""
        listed = await self.client.list(
            PLAIN_PODS, namespace=NAMESPACE, field_selector=f"spec.nodeName={NODE}"
        )
        for pod in listed:
            uid = pod["metadata"]["uid"]
            if pod["metadata"].get("deletionTimestamp"):
                await self._end(pod)
            elif self.starts and (uid not in self.pods or self.processes[uid].poll() is not None):
                await self._start(pod)
            elif uid in self.pods and self.pods[uid] != (pod["metadata"].get("annotations") or {}):
                self.pods[uid] = pod["metadata"].get("annotations") or {}
                if self.syncs:
                    self._write_quota(self._pod_cgroup(pod), -1)
        if self.weights_every and now >= self.weights_at + self.weights_every:
            self.weights_at = now
            self._write_weights()

    def close(self) -> None:
        """End all processes, and remove all cgroups."""
        for process in self.processes.values():
            process.kill()
            process.wait()
        self.files.close()
        if not self.is_tree:
            for mount in {self.layout.mounts["cpu"], self.layout.mounts["cpuset"]}:
                top = mount / self.cgroup_root.strip("/")
                for directory, _, _ in os.walk(top, topdown=False):
                    os.rmdir(directory)  # noqa: PTH106 - a cgroup has files that go with it

    def everything(self) -> dict[str, str]:
        """Return all files that a test of kubelets changes, of kubepods and the classes."""
        cgroups = [
            self.names.kubepods,
            self.names.qos(QOSClass.BURSTABLE),
            self.names.qos(QOSClass.BEST_EFFORT),
        ]
        names = (quota_file(self.layout.version), weight_file(self.layout.version))
        return {f"{cgroup} {name}": self.files.read(cgroup, name) for cgroup in cgroups for name in names}

    async def _start(self, pod: Document) -> None:
        uid, cgroup = pod["metadata"]["uid"], self._pod_cgroup(pod)
        if uid in self.processes:
            self._remove(self.names.container(uid, QOSClass(pod["status"]["qosClass"]), container_id(pod)))
        else:
            self._make(cgroup)
        self._serial += 1
        made = f"containerd://{self._serial:064x}"
        inner = self.names.container(uid, QOSClass(pod["status"]["qosClass"]), made)
        self._make(inner)
        self.processes[uid] = _idle_process(self.layout.cpu / inner[1:])
        self.pods[uid] = pod["metadata"].get("annotations") or {}
        status = {
            "name": pod["spec"]["containers"][0]["name"],
            "containerID": made,
            "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
            "image": "i",
            "imageID": "i",
            "ready": True,
            "restartCount": 0,
        }
        body = {"status": {"phase": "Running", "containerStatuses": [status]}}
        await self.client.patch(
            PLAIN_PODS, pod["metadata"]["name"], body, namespace=NAMESPACE, subresource="status"
        )

    async def _end(self, pod: Document) -> None:
        uid = pod["metadata"]["uid"]
        process = self.processes.pop(uid, None)
        if process is not None:
            process.kill()
            process.wait()
            self._remove(self.names.container(uid, QOSClass(pod["status"]["qosClass"]), container_id(pod)))
            self._remove(self._pod_cgroup(pod))
        self.pods.pop(uid, None)
        await self.client.delete(PODS, pod["metadata"]["name"], NAMESPACE, uid=uid, grace_period=0)

    def _pod_cgroup(self, pod: Document) -> str:
        return self.names.pod(pod["metadata"]["uid"], QOSClass(pod["status"]["qosClass"]))

    def _write_weights(self) -> None:
        self.files.write(
            self.names.qos(QOSClass.BURSTABLE),
            weight_file(self.layout.version),
            _WEIGHTS[self.layout.version],
        )

    def _write_quota(self, cgroup: str, quota: int) -> None:
        text = "max" if self.layout.version is Version.V2 else str(quota)
        self.files.write(cgroup, quota_file(self.layout.version), text)

    def _make(self, cgroup: str) -> None:
        for mount in {self.layout.mounts["cpu"], self.layout.mounts["cpuset"]}:
            directory = mount / cgroup[1:]
            directory.mkdir()
            if self.is_tree:
                self._fill(directory)
            elif mount == self.layout.mounts["cpuset"]:
                for name in ("cpuset.cpus", "cpuset.mems"):
                    (directory / name).write_text((directory.parent / name).read_text())

    def _fill(self, directory: Path) -> None:
        texts = {"cgroup.procs": "", "cpu.idle": "0", "cpuset.cpus": CPUS}
        if self.layout.version is Version.V2:
            texts |= {"cpu.max": f"max {_PERIOD}", "cpu.weight": "100", "cpuset.cpus": ""}
        else:
            texts |= {"cpu.cfs_quota_us": "-1", "cpu.cfs_period_us": str(_PERIOD), "cpu.shares": "1024"}
        for name, text in texts.items():
            (directory / name).write_text(f"{text}\n")

    def _remove(self, cgroup: str) -> None:
        for mount in {self.layout.mounts["cpu"], self.layout.mounts["cpuset"]}:
            directory = mount / cgroup[1:]
            with suppress(FileNotFoundError):
                if self.is_tree:
                    shutil.rmtree(directory)
                else:
                    directory.rmdir()


def _idle_process(cgroup: Path) -> subprocess.Popen[bytes]:
    """Start a process that does nothing, in a cgroup."""
    process = subprocess.Popen(["sleep", "1000000"])
    (cgroup / "cgroup.procs").write_text(f"{process.pid}\n")
    return process
