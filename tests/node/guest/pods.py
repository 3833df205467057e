"""Cgroups as kubelet and the runtimes make them, in the three namings there are, with kubelet's own quotas.

Three pods: ``web`` is burstable, and its container ``two`` may burst; ``db`` is guaranteed, and somebody has
given its container another period; ``free`` has no limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from corewise.actions import QuotaOwner, WriteQuota
from corewise.kernel.cgroups.files import CgroupFiles
from corewise.kernel.cgroups.layout import QOSClass, find_pod_cgroups
from corewise.normalization.quota import ContainerLimit, PodLimits, container_quota, pod_quota
from corewise.quantities import AmplifiedMilli, Microseconds, Ratio
from corewise.vocabulary.reasons import Reason
from node.guest.records import Names, Report

MOUNT = Path("/sys/fs/cgroup")
UIDS = {
    "web": "8c2f5b9e-0d4b-4f5e-9d0a-6c1a4f3b2e11",
    "db": "0b9d9b52-93a5-4d3c-8c60-1f9d0b7f6a22",
    "free": "e7a1c0de-5f3b-4b0e-a7de-2c4d6e8f0a33",
}
QOS = {"web": QOSClass.BURSTABLE, "db": QOSClass.GUARANTEED, "free": QOSClass.BURSTABLE}
CONTAINERS = {
    role: f"{number:064x}"
    for number, role in enumerate(("web/one", "web/two", "web/tiny", "db/only", "free/any"), start=0xC0FFEE)
}
LIMITS = {"web/one": 1000, "web/two": 2000, "web/tiny": 10, "db/only": 2300, "free/any": 0}
KUBELETS = {
    "web": "301000 100000",
    "web/one": "100000 100000",
    "web/two": "200000 100000",
    "web/tiny": "1000 100000",
    "db": "230000 100000",
    "db/only": "115000 50000",
    "free": "max 100000",
    "free/any": "max 100000",
}
BURSTS = {"web/two": 20_000}


@dataclass(frozen=True, slots=True)
class Tree:
    """A tree of pods: what kubelet was told as its cgroup root, and the cgroup of each role."""

    name: str
    cgroup_root: str
    runtime: str
    cgroups: Mapping[str, str]

    def file(self, role: str, file: str) -> Path:
        return MOUNT / self.cgroups[role].lstrip("/") / file

    def texts(self) -> dict[str, str]:
        """Return cpu.max of every role, read by nothing of corewise."""
        return {role: self.file(role, "cpu.max").read_text().strip() for role in self.cgroups}

    def bursts(self) -> dict[str, int]:
        return {role: int(self.file(role, "cpu.max.burst").read_text()) for role in self.cgroups}


def _underlined(pod: str) -> str:
    return UIDS[pod].replace("-", "_")


def systemd_tree(name: str, cgroup_root: str, above: str, stem: str, runtime: str, scope: str) -> Tree:
    """Return the tree that the systemd driver makes."""
    kubepods = f"{above}/{stem}.slice"
    pods = {
        "web": f"{kubepods}/{stem}-burstable.slice/{stem}-burstable-pod{_underlined('web')}.slice",
        "db": f"{kubepods}/{stem}-pod{_underlined('db')}.slice",
        "free": f"{kubepods}/{stem}-burstable.slice/{stem}-burstable-pod{_underlined('free')}.slice",
    }
    containers = {
        role: f"{pods[role.partition('/')[0]]}/{scope}-{number}.scope" for role, number in CONTAINERS.items()
    }
    return Tree(name, cgroup_root, runtime, {**pods, **containers})


def cgroupfs_tree(name: str, cgroup_root: str) -> Tree:
    """Return the tree that the cgroupfs driver makes."""
    kubepods = f"{cgroup_root.rstrip('/')}/kubepods"
    pods = {
        "web": f"{kubepods}/burstable/pod{UIDS['web']}",
        "db": f"{kubepods}/pod{UIDS['db']}",
        "free": f"{kubepods}/burstable/pod{UIDS['free']}",
    }
    containers = {role: f"{pods[role.partition('/')[0]]}/{number}" for role, number in CONTAINERS.items()}
    return Tree(name, cgroup_root, "containerd", {**pods, **containers})


TREES = (
    systemd_tree("systemd", "/", "", "kubepods", "containerd", "cri-containerd"),
    cgroupfs_tree("cgroupfs below a root", "/kubelet"),
    systemd_tree("systemd below a root", "/kind", "/kind.slice", "kind-kubepods", "cri-o", "crio"),
)


def make(tree: Tree) -> None:
    """Make the cgroups of a tree and write what kubelet writes."""
    for path in tree.cgroups.values():
        make_cgroup(path)
    for role, text in KUBELETS.items():
        tree.file(role, "cpu.max").write_text(text)
    for role, burst in BURSTS.items():
        tree.file(role, "cpu.max.burst").write_text(str(burst))


def make_cgroup(path: str) -> None:
    """Make a cgroup and those above it, which hand the controllers of the CPU down."""
    directory = MOUNT
    for part in path.strip("/").split("/"):
        (directory / "cgroup.subtree_control").write_text("+cpu +cpuset +memory")
        directory /= part
        directory.mkdir(exist_ok=True)


def tell_names(report: Report, tree: Tree, files: CgroupFiles) -> None:
    """Report the names that corewise gives to the cgroups of a tree."""
    found = find_pod_cgroups(files, tree.cgroup_root)
    named = {pod: found.pod(uid, QOS[pod]) for pod, uid in UIDS.items()}
    for role, number in CONTAINERS.items():
        pod = role.partition("/")[0]
        named[role] = found.container(UIDS[pod], QOS[pod], f"{tree.runtime}://{number}")
    report.add(f"names/{tree.name}", Names(found.driver.value, dict(tree.cgroups), named))


def actions(tree: Tree, hundredths: int) -> list[WriteQuota]:
    """Return the writes that normalization asks for, from the pods' specs alone."""
    return [_action(tree, role, hundredths) for role in tree.cgroups]


def _action(tree: Tree, role: str, hundredths: int) -> WriteQuota:
    period = Microseconds(int(KUBELETS[role].split()[1]))
    wanted = _quota(role, period, Ratio(hundredths))
    base = _quota(role, period, Ratio(100))
    why = f"ratio {Ratio(hundredths)}"
    return WriteQuota(
        tree.cgroups[role], QuotaOwner.NORMALIZATION, wanted, base, period, Reason.RATIO_FROM_MODEL, why
    )


def _quota(role: str, period: Microseconds, ratio: Ratio) -> Microseconds | None:
    if role in LIMITS:
        return container_quota(AmplifiedMilli(LIMITS[role]), period=period, ratio=ratio)
    of_pod = tuple(
        ContainerLimit(AmplifiedMilli(limit)) for each, limit in LIMITS.items() if each.startswith(f"{role}/")
    )
    return pod_quota(PodLimits(of_pod), period=period, ratio=ratio)
