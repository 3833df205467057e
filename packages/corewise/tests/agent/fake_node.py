"""A node as a tree of plain files, with cgroups and quotas as kubelet makes them; and pods of the API."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from corewise.agent.objects import QuotaPod
from corewise.agent.quota_targets import targets_of
from corewise.kernel.cgroups.files import CgroupFiles
from corewise.kernel.cgroups.layout import QOSClass, Version, find_layout, find_pod_cgroups
from corewise.kernel.cgroups.resources import quota_file, quota_text, read_bandwidth
from corewise.quantities import ONE, Microseconds
from kernel.cgroup_trees import plain_tree
from kernel.cgroup_writes import write_quota

PERIOD = Microseconds(100_000)


def container(name: str, limit: str = "", request: str = "", **more: Any) -> dict[str, Any]:
    resources: dict[str, Any] = {}
    if limit:
        resources["limits"] = {"cpu": limit}
    if request or limit:
        resources["requests"] = {"cpu": request or limit}
    return {"name": name, "image": "i", "resources": resources, **more}


def container_id(pod: str, name: str) -> str:
    return f"containerd://{pod}{name}".replace("-", "").lower()


def manifest(
    name: str,
    *containers: Mapping[str, Any],
    init: Iterable[Mapping[str, Any]] = (),
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    qos: str = "Burstable",
    status: Mapping[str, Any] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """A running pod as JSON, all of its containers running."""
    running = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
    init = list(init)

    def statuses(of: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        return [
            {
                "name": each["name"],
                "containerID": container_id(name, each["name"]),
                "state": running,
                "image": "i",
                "imageID": "i",
                "ready": True,
                "restartCount": 0,
            }
            for each in of
        ]

    return {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "labels": dict(labels or {}),
            "annotations": dict(annotations or {}),
        },
        "spec": {"nodeName": "n1", "containers": list(containers), "initContainers": init, **spec},
        "status": {
            "phase": "Running",
            "qosClass": qos,
            "containerStatuses": statuses(containers),
            "initContainerStatuses": statuses(init),
            **(status or {}),
        },
    }


def pod(name: str, *containers: Mapping[str, Any], **more: Any) -> QuotaPod:
    """A running pod as the agent reads it."""
    return msgspec.convert(manifest(name, *containers, **more), QuotaPod)


class FakeNode:
    """The tree, and what kubelet and others do to it."""

    def __init__(self, root: Path, version: Version = Version.V2) -> None:
        self.root = root
        self.version = version
        plain_tree(root, version, ["/kubepods.slice/kubepods-burstable.slice"])
        self.files = CgroupFiles(find_layout(root))
        self.names = find_pod_cgroups(self.files)

    def start(self, *pods: QuotaPod) -> None:
        """Make the pods' cgroups, with kubelet's quotas."""
        for each in pods:
            targets = list(targets_of(each, each.spec, self.names))
            plain_tree(self.root, self.version, [target.cgroup for target in targets])
            for target in targets:
                write_quota(self.files, target.cgroup, target.quota(PERIOD, ONE))

    def cgroup(self, pod: QuotaPod, container: str = "") -> str:
        qos = QOSClass(pod.status.qos_class)
        if not container:
            return self.names.pod(pod.uid, qos)
        return self.names.container(pod.uid, qos, container_id(pod.metadata.name, container))

    def quota(self, pod: QuotaPod, container: str = "") -> int | None:
        return read_bandwidth(self.files, self.cgroup(pod, container)).quota

    def write(self, pod: QuotaPod, container: str, quota: int | None) -> None:
        """Change a quota as somebody else would."""
        wanted = None if quota is None else Microseconds(quota)
        write_quota(self.files, self.cgroup(pod, container), wanted)

    def path(self, pod: QuotaPod, container: str = "") -> Path:
        """The file of a quota."""
        mount = find_layout(self.root).cpu
        return mount / self.cgroup(pod, container)[1:] / quota_file(self.version)

    def set_period(self, pod: QuotaPod, container: str, period: int) -> None:
        path = self.path(pod, container)
        if self.version is Version.V1:
            path.with_name("cpu.cfs_period_us").write_text(f"{period}\n")
        else:
            quota = read_bandwidth(self.files, self.cgroup(pod, container)).quota
            path.write_text(f"{quota_text(self.version, quota)} {period}\n")
