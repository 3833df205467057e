"""A node of eight CPUs whose pods own CPUs: plain files with the kernel's rules, and the agent on them."""

from __future__ import annotations

import errno
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

import msgspec

from agent.fake_node import FakeNode, container, container_id, manifest
from corewise.agent.cgroups import Cycle, NodeCgroups
from corewise.agent.kubelet import CONFIG_FILE, STATE_FILE
from corewise.agent.local_node import LocalNode
from corewise.agent.objects import QuotaPod
from corewise.kernel.cgroups.files import Files, ancestors
from corewise.kernel.cgroups.layout import Version
from corewise.kernel.errors import writing_error
from corewise.kernel.writing.entries import Opened
from corewise.kernel.writing.journal import MemoryLog
from corewise.quantities import Ratio
from corewise.vocabulary.cpu_annotations import stated_cpus
from corewise.vocabulary.names import NORMALIZATION_RATIO, QOS_CLASS, RESOURCE_STATUS
from kernel.cgroup_trees import KernelRules, plain_tree
from tally import fault

ALL = "0-7"
ONLINE = "sys/devices/system/cpu/online"


class Killed(BaseException):
    """The agent is gone from one moment to the next."""


class Mortal:
    """Files whose user may die before or after a write. ``points_left`` None: it lives.

    The cgroup ``read_only`` takes no writes.
    """

    def __init__(self, files: Files) -> None:
        self._files = files
        self.version = files.version
        self.points_left: int | None = None
        self.read_only = ""

    def read(self, cgroup: str, file: str) -> str:
        return self._files.read(cgroup, file)

    def exists(self, cgroup: str) -> bool:
        return self._files.exists(cgroup)

    def children(self, cgroup: str) -> tuple[str, ...]:
        return self._files.children(cgroup)

    def write(self, cgroup: str, file: str, text: str) -> None:
        self._pass_point()
        if cgroup == self.read_only:
            raise writing_error(f"{cgroup}/{file}", OSError(errno.EROFS, ""), value=text)
        self._files.write(cgroup, file, text)
        self._pass_point()

    def _pass_point(self) -> None:
        if self.points_left is not None:
            self.points_left -= 1
            if self.points_left < 0:
                fault("death")
                raise Killed


def claim(cpus: str) -> str:
    """The annotation as the scheduler writes it."""
    return f'{{"cpuset":"{cpus}"}}'


def pin_pod(
    name: str, status: str | None = None, *, bound: str = "", created: str = "", qos: str = "Burstable"
) -> QuotaPod:
    """A running pod of one container, with this resource-status."""
    annotations = {} if status is None else {RESOURCE_STATUS: status}
    count = len(stated_cpus(status))
    labels = {QOS_CLASS: "LSR"} if count else {}
    body: dict[str, Any] = manifest(
        name, container("a", "1", str(count or 1)), qos=qos, labels=labels, annotations=annotations
    )
    if created:
        body["metadata"]["creationTimestamp"] = f"2026-01-01T00:00:{created}Z"
    if bound:
        since = f"2026-01-01T00:00:{bound}Z"
        conditions = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": since}]
        body["status"]["conditions"] = conditions
    return msgspec.convert(body, QuotaPod)


class PinNode:
    """The machine, its agent, and what kubelet and others do."""

    def __init__(self, root: Path, version: Version) -> None:
        self.root = root
        self.version = version
        self.machine = FakeNode(root, version)
        self.files = self.machine.files
        self.put(ONLINE, ALL)
        self.put("sys/devices/system/cpu/present", ALL)
        self.log = MemoryLog()
        self.restart()

    def restart(self) -> None:
        """Have a new agent follow the last one, on the same journal."""
        self.log.append([Opened(0.0, "boot")])
        self.mortal = Mortal(KernelRules(self.files))
        cgroups = NodeCgroups(self.root, "/", self.log, now=lambda: 0.0, wrap=lambda _files: self.mortal)
        self.local = LocalNode("n1", self.root, cgroups)
        self.local.see({})

    def put(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        following = file.with_name("next")
        following.write_text(text)
        following.replace(file)

    def kubelet(self, policy: str, **exclusive: str) -> None:
        """Have kubelet's CPU manager run a policy, with CPUs that pods (by UID) own by it."""
        entries = {uid: {"a": cpus} for uid, cpus in exclusive.items()}
        state = {"policyName": policy, "defaultCpuSet": ALL, "entries": entries}
        self.put(STATE_FILE, msgspec.json.encode(state).decode())

    def kubelet_config(self, text: str) -> None:
        self.put(CONFIG_FILE, text)

    def ratio(self, hundredths: int) -> None:
        self.local.see({NORMALIZATION_RATIO: str(Ratio(hundredths))})

    def start(self, *pods: QuotaPod) -> None:
        """Make the cgroups of pods as kubelet does, with the sandbox that the API does not tell of."""
        for pod in pods:
            self.machine.start(pod)
            self._inherit(self.cgroup(pod), self.cgroup(pod, "a"))
            self.make(f"{self.cgroup(pod)}/cri-containerd-sandbox.scope")

    def make(self, cgroup: str) -> None:
        """Make a cgroup as a runtime does."""
        plain_tree(self.root, self.version, [cgroup])
        self._inherit(cgroup)

    def remove(self, cgroup: str) -> None:
        """Remove a cgroup and those below it."""
        for child in self.files.children(cgroup):
            self.remove(child)
        self.files.close()
        base = self.root / "sys/fs/cgroup"
        mounts = [base] if self.version is Version.V2 else sorted(base.iterdir())
        for mount in mounts:
            directory = mount / cgroup[1:]
            if not directory.is_dir():
                continue
            for file in directory.iterdir():
                file.unlink()
            directory.rmdir()

    def cgroup(self, pod: QuotaPod, container: str = "") -> str:
        return self.machine.cgroup(pod, container)

    def cycle(self, *pods: QuotaPod) -> Cycle:
        return self.local.cycle(pods)

    def cpus(self, cgroup: str) -> str:
        return self.files.read(cgroup, "cpuset.cpus")

    def sets_of(self, pod: QuotaPod) -> set[str]:
        """The CPU sets of a pod's cgroup and of those below it: one, if all is well."""
        cgroup = self.cgroup(pod)
        return {self.cpus(each) for each in (cgroup, *self.files.children(cgroup))}

    def everything(self, pods: Iterable[QuotaPod]) -> dict[str, str]:
        return {str(pod.name): ",".join(sorted(self.sets_of(pod))) for pod in pods}

    @property
    def kubelets(self) -> str:
        """The CPU set that kubelet's cgroups have without corewise."""
        return ALL if self.version is Version.V1 else ""

    def _inherit(self, *cgroups: str) -> None:
        if self.version is Version.V1:
            for cgroup in cgroups:
                self.files.write(cgroup, "cpuset.cpus", self.cpus(next(ancestors(cgroup))))


def problems_of(cycle: Cycle, *names: str) -> Collection[str]:
    """The problems that are about these pods."""
    return [cycle.problems[f"default/{name}"] for name in names]


__all__ = ["ALL", "ONLINE", "Killed", "PinNode", "claim", "container_id", "pin_pod", "problems_of"]
