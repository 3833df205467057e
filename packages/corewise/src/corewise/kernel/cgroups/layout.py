"""The location of kubelet's cgroups: the version that serves the CPU, the mounts, the names of pods' cgroups.

v2 serves the CPU if the unified hierarchy has the cpu controller; else v1 does, whether or not a unified
hierarchy is mounted beside it (hybrid). Two sources, in this order, each believed only where the files are:

1. the mounts as the kernel lists them below ``root``: proc/self/mountinfo, and for another root than "/"
   first proc/1/mountinfo, since a container's own list names its own mount points;
2. the shape that every distribution has: sys/fs/cgroup as v2, or with a directory for each v1 controller.

Of several mounts of one hierarchy (bind mounts, containers) the one that shows its root at the shortest path
counts. A mount that leads out of ``root`` through symbolic links is refused.

How kubelet and the container runtimes name the cgroups of pods and containers:

=========  ==================================================================================================
driver     a burstable pod and its container
=========  ==================================================================================================
systemd    /kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod<uid, - as _>.slice/
           cri-containerd-<id>.scope, crio-<id>.scope or docker-<id>.scope
cgroupfs   /kubepods/burstable/pod<uid>/<id>, with CRI-O crio-<id>
=========  ==================================================================================================

Guaranteed pods stand directly below kubepods. With kubelet's ``--cgroup-root /a/b`` (kind: /kubelet) that is
/a/b/kubepods, or /a.slice/a-b.slice/a-b-kubepods.slice. A prefix may also be the literal path of a cgroup
that holds one of these, such as the one of a node that is itself a container.

A pod UID or container ID comes from the API: it becomes part of a path only if it is plain.

Source: Documentation/filesystems/proc.rst (mountinfo), cgroups(7); kubelet's
pkg/kubelet/cm/cgroup_manager_linux.go (ToSystemd, ToCgroupfs) and pod_container_manager_linux.go;
containerd's internal/cri/server/helpers_linux.go; CRI-O's internal/config/cgmgr.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum
from pathlib import Path
from typing import Protocol

from corewise.kernel.errors import LayoutUnknown, UnsafeName

CONTROLLERS = ("cpu", "cpuacct", "cpuset", "memory")
"""The controllers that corewise reads or writes."""

_SHAPE = "sys/fs/cgroup"
_OCTAL = re.compile(r"\\([0-7]{3})")


class Version(Enum):
    """The version of cgroups that has the cpu controller."""

    V1 = "v1"
    V2 = "v2"


@dataclass(frozen=True, slots=True)
class Layout:
    """The mount of each controller, and of the unified hierarchy, which alone has the pressure of cgroups."""

    version: Version
    mounts: Mapping[str, Path]
    unified: Path | None = None

    @property
    def cpu(self) -> Path:
        return self.mounts["cpu"]

    @property
    def hybrid(self) -> bool:
        """Whether v1 serves the CPU with a unified hierarchy beside it."""
        return self.version is Version.V1 and self.unified is not None


@dataclass(frozen=True, slots=True)
class _Mount:
    directory: Path
    controllers: frozenset[str]
    unified: bool


def find_layout(root: Path = Path("/")) -> Layout:
    """Return the cgroup layout of the machine whose files are below ``root``.

    Raises:
        LayoutUnknown: if no mounted hierarchy has the cpu controller.
    """
    for mounts in (*_listed(root), list(_shaped(root))):
        inside = [each for each in mounts if each.directory.resolve().is_relative_to(root.resolve())]
        layout = _layout(inside)
        if layout is not None:
            return layout
    raise LayoutUnknown(
        str(root / _SHAPE), "no cgroup hierarchy with the cpu controller is mounted", hint="is --root right?"
    )


def _layout(mounts: list[_Mount]) -> Layout | None:
    unified = next((mount for mount in mounts if mount.unified), None)
    if unified is not None and "cpu" in unified.controllers:
        return Layout(Version.V2, dict.fromkeys(CONTROLLERS, unified.directory), unified.directory)
    # Reversed, so that of several mounts with a controller the first one counts.
    found = {
        controller: mount.directory
        for controller in CONTROLLERS
        for mount in reversed(mounts)
        if not mount.unified and controller in mount.controllers
    }
    beside = None if unified is None else unified.directory
    return Layout(Version.V1, found, beside) if "cpu" in found else None


def _listed(root: Path) -> Iterator[list[_Mount]]:
    processes = ("self",) if root == Path("/") else ("1", "self")
    for process in processes:
        try:
            text = (root / "proc" / process / "mountinfo").read_text(errors="surrogateescape")
        except OSError:
            continue
        yield list(_parse(text.splitlines(), root))


def _parse(lines: Iterable[str], root: Path) -> Iterator[_Mount]:
    rows = []
    for line in lines:
        place, _, source = line.partition(" - ")
        fields, filesystem = place.split(" "), source.split(" ")
        if len(fields) > 4 and len(filesystem) > 2 and filesystem[0] in {"cgroup", "cgroup2"}:
            point = _OCTAL.sub(lambda match: chr(int(match[1], 8)), fields[4])
            rows.append((fields[3] != "/", len(point), point, filesystem))
    for _, _, point, filesystem in sorted(rows, key=lambda row: row[:2]):
        directory = root / point.lstrip("/")
        if filesystem[0] == "cgroup2":
            yield from _unified(directory)
        elif directory.is_dir():
            yield _Mount(directory, frozenset(filesystem[2].split(",")), unified=False)


def _shaped(root: Path) -> Iterator[_Mount]:
    base = root / _SHAPE
    yield from _unified(base)
    yield from _unified(base / "unified")
    try:
        entries = sorted(base.iterdir())
    except OSError:
        return
    for entry in entries:
        controllers = frozenset(entry.name.split(","))
        if controllers & set(CONTROLLERS) and entry.is_dir():
            yield _Mount(entry, controllers, unified=False)


def _unified(directory: Path) -> Iterator[_Mount]:
    try:
        controllers = (directory / "cgroup.controllers").read_text().split()
    except (OSError, ValueError):
        return
    yield _Mount(directory, frozenset(controllers), unified=True)


_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,252}")
_SLICE = ".slice"
_SCOPES = {"containerd": "cri-containerd-", "cri-o": "crio-", "docker": "docker-"}
_CGROUPFS_PREFIXES = {"containerd": "", "cri-o": "crio-", "docker": ""}


class Driver(Enum):
    """Kubelet's cgroup driver, which decides how cgroups are named."""

    SYSTEMD = "systemd"
    CGROUPFS = "cgroupfs"


class QOSClass(StrEnum):
    """The quality-of-service class of a pod, as the API spells it."""

    GUARANTEED = "Guaranteed"
    BURSTABLE = "Burstable"
    BEST_EFFORT = "BestEffort"


class Directories(Protocol):
    """Something that knows which cgroups there are."""

    def exists(self, cgroup: str) -> bool: ...

    def children(self, cgroup: str) -> tuple[str, ...]: ...


@dataclass(frozen=True, slots=True)
class PodCgroups:
    """Names of cgroups below ``kubepods``, the path of kubelet's uppermost cgroup of pods."""

    driver: Driver
    kubepods: str

    def qos(self, qos: QOSClass) -> str:
        """Return the cgroup that holds all pods of a class; guaranteed pods have none of their own."""
        return self.kubepods if qos is QOSClass.GUARANTEED else self._below(self.kubepods, qos.lower())

    def pod(self, uid: str, qos: QOSClass) -> str:
        """Return the cgroup of a pod. A static pod goes by the UID in its config.mirror annotation.

        Raises:
            UnsafeName: if the UID is not plain.
        """
        return self._below(self.qos(qos), f"pod{_plain(uid, 'pod UID')}")

    def container(self, uid: str, qos: QOSClass, container_id: str) -> str:
        """Return the cgroup of a container, given its ID as the pod's status has it ("containerd://…").

        Raises:
            UnsafeName: if the UID or the ID is not plain, or the runtime is unknown.
        """
        runtime, _, plain_id = container_id.partition("://")
        if runtime not in _SCOPES:
            known = ", ".join(f"{name}://" for name in _SCOPES)
            raise UnsafeName(container_id[:80], f"not a container ID of a known runtime ({known})")
        name = _plain(plain_id, "container ID")
        if self.driver is Driver.SYSTEMD:
            return f"{self.pod(uid, qos)}/{_SCOPES[runtime]}{name}.scope"
        return f"{self.pod(uid, qos)}/{_CGROUPFS_PREFIXES[runtime]}{name}"

    def _below(self, parent: str, name: str) -> str:
        if self.driver is Driver.CGROUPFS:
            return f"{parent}/{name}"
        stem = parent.rpartition("/")[2].removesuffix(_SLICE)
        return f"{parent}/{stem}-{name.replace('-', '_')}{_SLICE}"


def find_pod_cgroups(directories: Directories, cgroup_root: str = "/") -> PodCgroups:
    """Return the names in use below a cgroup root: kubelet's ``--cgroup-root``, or a literal path.

    Where both drivers have left cgroups, the one that has more of them is in use.

    Raises:
        LayoutUnknown: if there is no kubepods below the root; kubelet may not have started yet.
        UnsafeName: if the root has a part such as "..".
    """
    parts = [part for part in cgroup_root.split("/") if part]
    if any(part in {".", ".."} for part in parts):
        raise UnsafeName(cgroup_root, "a cgroup root is a path without . and ..")
    candidates = _candidates(parts)
    found = [candidate for candidate in candidates if directories.exists(candidate.kubepods)]
    if not found:
        sought = ", ".join(candidate.kubepods for candidate in candidates)
        raise LayoutUnknown(cgroup_root, f"kubelet's cgroups do not exist; looked for {sought}")
    return max(found, key=lambda candidate: _pods_below(directories, candidate))


def _candidates(parts: list[str]) -> list[PodCgroups]:
    literal = "".join(f"/{part}" for part in parts)
    expanded, stem = "", ""
    for part in parts:
        stem = f"{stem}-{part.replace('-', '_')}" if stem else part.replace("-", "_")
        expanded = f"{expanded}/{stem}{_SLICE}"
    systemd = [f"{literal}/kubepods{_SLICE}"]
    if parts:
        systemd.append(f"{expanded}/{stem}-kubepods{_SLICE}")
    if parts and parts[-1].endswith(_SLICE):
        systemd.append(f"{literal}/{parts[-1].removesuffix(_SLICE)}-kubepods{_SLICE}")
    return [
        *(PodCgroups(Driver.SYSTEMD, path) for path in systemd),
        PodCgroups(Driver.CGROUPFS, f"{literal}/kubepods"),
    ]


def _pods_below(directories: Directories, cgroups: PodCgroups) -> int:
    parents = {cgroups.qos(qos) for qos in QOSClass}
    return sum(len(directories.children(parent)) for parent in parents if directories.exists(parent))


def _plain(name: str, what: str) -> str:
    if not _PLAIN.fullmatch(name) or ".." in name:
        raise UnsafeName(name[:80], f"this {what} is not plain (letters, digits, - _ .)")
    return name
