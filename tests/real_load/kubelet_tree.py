"""kubelet's hand on the kernel: real cgroups (v1 or v2) of pods, below one parent that is removed at the end.

Classes and pods have kubelet's weights: online pods by what they request, best-effort ones the smallest there
is. The parent may be made heavy, so that whatever else runs on the machine takes little from
what is measured below it.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Self

import msgspec

from corewise.agent.objects import QuotaPod
from corewise.agent.quota_targets import targets_of
from corewise.kernel.cgroups.files import CgroupFiles
from corewise.kernel.cgroups.layout import Layout, QOSClass, Version, find_pod_cgroups
from corewise.kernel.cgroups.resources import read_bandwidth, read_usage
from corewise.quantities import ONE, Microseconds, Quantity
from corewise.vocabulary.names import BATCH_CPU, BATCH_MEMORY, QOS_LEVEL
from kernel.cgroup_writes import write_quota, write_weight

PERIOD = Microseconds(100_000)
_CONTROLLERS = ("cpu", "cpuacct", "memory")
_REMOVAL = 500
_NUMBERS = itertools.count()
_HEAVY = 32_768
_LIGHTEST = 2
_SHARES_OF_A_CPU = 1024
_RUNNING = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}


def online_pod(name: str, cpus: int) -> QuotaPod:
    """Return a running burstable pod of one container that requests so many CPUs, without a limit."""
    return _pod(name, QOSClass.BURSTABLE, {"requests": {"cpu": str(cpus)}})


def small_pod(name: str, request: str) -> QuotaPod:
    """Return a running burstable pod of one container that requests a part of a CPU, without a limit."""
    return _pod(name, QOSClass.BURSTABLE, {"requests": {"cpu": request}})


def offline_pod(name: str, milli: int) -> QuotaPod:
    """Return a running offline pod of one container: so many milli-CPU are its request and its limit."""
    amounts = {BATCH_CPU: str(milli), BATCH_MEMORY: "1Gi"}
    return _pod(name, QOSClass.BEST_EFFORT, {"requests": amounts, "limits": amounts})


def marked_pod(name: str, cpus: int) -> QuotaPod:
    """Return a running burstable pod that Volcano's annotation marks as offline, limited to so many CPUs."""
    resources = {"requests": {"cpu": "1"}, "limits": {"cpu": str(cpus)}}
    return _pod(name, QOSClass.BURSTABLE, resources, {QOS_LEVEL: "-1"})


def _pod(
    name: str,
    qos: QOSClass,
    resources: dict[str, Any],
    annotations: Mapping[str, str] = MappingProxyType({}),
) -> QuotaPod:
    status = {"name": "main", "containerID": f"containerd://{name}".replace("-", ""), "state": _RUNNING}
    return msgspec.convert(
        {
            "metadata": {
                "name": name,
                "namespace": "default",
                "uid": f"uid-{name}",
                "annotations": dict(annotations),
            },
            "spec": {"nodeName": "n1", "containers": [{"name": "main", "resources": resources}]},
            "status": {"phase": "Running", "qosClass": qos.value, "containerStatuses": [status]},
        },
        QuotaPod,
    )


class KubeletTree:
    """The tree of one node; leaving it removes it. ``heavy``: other work counts for little beside it."""

    def __init__(self, layout: Layout, *, heavy: bool = False) -> None:
        self.layout = layout
        self.root = f"/corewise-load-{os.getpid()}-{next(_NUMBERS)}"
        self.files = CgroupFiles(layout)
        self._mounts = sorted({layout.mounts[controller] for controller in _CONTROLLERS})
        self._made: list[str] = []
        self._inside = ""
        self._requested = 0
        kubepods = f"{self.root}/kubepods.slice"
        self.best_effort = f"{kubepods}/kubepods-besteffort.slice"
        for cgroup in (self.root, kubepods, f"{kubepods}/kubepods-burstable.slice", self.best_effort):
            self._make(cgroup)
        self.names = find_pod_cgroups(self.files, self.root)
        self._weigh(self.best_effort, _LIGHTEST)
        if heavy:
            self._weigh(self.root, _HEAVY)

    def start(self, pod: QuotaPod) -> None:
        """Make a pod's cgroups with kubelet's quotas and weights, the pod's first."""
        requests = (each.resources.requests.get("cpu", "0") for each in pod.spec.containers)
        shares = sum(Quantity.parse(text).milli for text in requests) * _SHARES_OF_A_CPU // 1000
        for target in targets_of(pod, pod.spec, self.names):
            self._make(target.cgroup)
            write_quota(self.files, target.cgroup, target.quota(PERIOD, ONE))
            self._weigh(target.cgroup, max(_LIGHTEST, shares))
        self._requested += shares
        if self._requested:
            self._weigh(self.names.qos(QOSClass.BURSTABLE), self._requested)

    def container(self, pod: QuotaPod) -> str:
        """Return the cgroup of a pod's one container."""
        return next(target.cgroup for target in targets_of(pod, pod.spec, self.names) if target.container)

    def pod(self, pod: QuotaPod) -> str:
        """Return the cgroup of a pod."""
        return self.names.pod(pod.uid, QOSClass(pod.status.qos_class))

    def process_directories(self, cgroup: str) -> list[Path]:
        """Return the directories of a cgroup that its processes are entered in; memory is not divided."""
        mounts = {self.layout.mounts["cpu"], self.layout.mounts["cpuacct"]}
        return [mount / cgroup[1:] for mount in sorted(mounts)]

    def file(self, cgroup: str, name: str) -> Path:
        """Return a file of the cpu controller, as somebody else would write it."""
        return self.layout.cpu / cgroup[1:] / name

    def quota(self, cgroup: str) -> int | None:
        """Return a quota per period in microseconds."""
        return read_bandwidth(self.files, cgroup).quota

    def milli(self, cgroup: str) -> int | None:
        """Return a quota in milli-CPU, whatever its period."""
        bandwidth = read_bandwidth(self.files, cgroup)
        return None if bandwidth.quota is None else bandwidth.quota * 1000 // bandwidth.period

    def usage(self, cgroup: str) -> int:
        """Return CPU time in nanoseconds."""
        return read_usage(self.files, cgroup)

    def enter(self, process: int | None = None) -> None:
        """Take a process into the tree, where the agent is: this one, which leaves at the end, or another."""
        if not self._inside:
            self._inside = self.beside("agent")
            self._weigh(self._inside, _HEAVY)
        self._move(self._inside, process or os.getpid())

    def beside(self, name: str) -> str:
        """Make a cgroup beside the pods' and return it."""
        cgroup = f"{self.root}/{name}"
        self._make(cgroup)
        return cgroup

    def at_root(self, name: str) -> str:
        """Make a cgroup outside the tree, with the weight of the BestEffort one, and return it."""
        cgroup = f"{self.root}-{name}"
        self._make(cgroup)
        self._weigh(cgroup, _LIGHTEST)
        return cgroup

    def _move(self, cgroup: str, process: int) -> None:
        for directory in self.process_directories(cgroup):
            (directory / "cgroup.procs").write_text(str(process))

    def end(self) -> None:
        """Remove all that was made; processes must have ended."""
        self.files.close()
        if self._inside:
            self._move("/", os.getpid())
        for cgroup, mount in itertools.product(reversed(self._made), self._mounts):
            for _ in range(_REMOVAL):
                try:
                    (mount / cgroup[1:]).rmdir()
                except FileNotFoundError:
                    break
                except OSError:
                    time.sleep(0.02)
                else:
                    break

    def _weigh(self, cgroup: str, shares: int) -> None:
        """Write a weight, on v2 as kubelet converts it."""
        v2 = self.layout.version is Version.V2
        write_weight(self.files, cgroup, 1 + (shares - 2) * 9999 // 262_142 if v2 else shares)

    def _make(self, cgroup: str) -> None:
        self._made.append(cgroup)
        for mount in self._mounts:
            directory = mount / cgroup[1:]
            if self.layout.version is Version.V2:
                (directory.parent / "cgroup.subtree_control").write_text("+cpu +memory")
            directory.mkdir()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()
