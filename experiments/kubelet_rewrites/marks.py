"""The files that are watched, and the value that each is given, so that a rewrite of it is seen.

A mark differs from what kubelet wrote and harms no pod of others:

=========  ===============================  ===================================================
file       cgroups of kubepods and classes  the test's own pods and containers
=========  ===============================  ===================================================
quota      four times the machine           three quarters; half a CPU where there is none;
                                            on v1 a pod's: a quarter more
weight     one more                         one more
idle       not marked                       1, on the BestEffort pod, whose weight is not marked
CPU set    not marked                       all CPUs but the last
=========  ===============================  ===================================================

An idle cgroup has no weight of its own, so one cgroup cannot have both marks. On v1 a child may have no
more than its parent, and the runtime starts no container that wants more: so there a pod's mark leaves room
for its containers. Children are marked first, and originals come back from the top.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from corewise.kernel.cgroups.files import Files, depth
from corewise.kernel.cgroups.layout import PodCgroups, QOSClass, Version
from corewise.kernel.cgroups.resources import IDLE_FILE, quota_file, weight_file
from corewise.kernel.errors import KernelError
from corewise.topology import CPUSet

CPU_SET_FILE = "cpuset.cpus"
_SMALLEST_QUOTA = 1000
_HEAVIEST = {Version.V1: 262_144, Version.V2: 10_000}
_MACHINES = 4


class Kind(Enum):
    """Whose a cgroup is: one that all pods share, a pod's of the test, or a container's of it."""

    SHARED = "shared"
    POD = "pod"
    CONTAINER = "container"


@dataclass(frozen=True, slots=True)
class WatchedCgroup:
    """A cgroup of kubelet's; ``about`` names it to readers."""

    about: str
    path: str
    kind: Kind = Kind.SHARED
    best_effort: bool = False


@dataclass(frozen=True, slots=True)
class Watched:
    """One file of a cgroup."""

    cgroup: WatchedCgroup
    file: str

    @property
    def key(self) -> tuple[str, str]:
        """Name the file as readers know it: a new container's is the same."""
        return self.cgroup.about, self.file


@dataclass(frozen=True, slots=True)
class Machine:
    """What marks depend on."""

    version: Version
    cpus: CPUSet


def node_cgroups(names: PodCgroups) -> list[WatchedCgroup]:
    """Return kubelet's uppermost cgroup and those of the classes."""
    classes = (QOSClass.BURSTABLE, QOSClass.BEST_EFFORT)
    above = WatchedCgroup("kubepods", names.kubepods)
    return [above, *(WatchedCgroup(f"class {each}", names.qos(each)) for each in classes)]


def files_of(cgroup: WatchedCgroup, version: Version) -> Iterator[Watched]:
    """Yield the files of a cgroup that are marked."""
    yield Watched(cgroup, quota_file(version))
    yield Watched(cgroup, IDLE_FILE if cgroup.best_effort else weight_file(version))
    if cgroup.kind is not Kind.SHARED:
        yield Watched(cgroup, CPU_SET_FILE)


def bottom_up(watched: Sequence[Watched]) -> list[Watched]:
    """Return files in the order in which marks are written."""
    return sorted(watched, key=lambda each: -depth(each.cgroup.path))


def mark_of(watched: Watched, original: str, files: Files, machine: Machine) -> str | None:
    """Return the mark of a file; None if it has none.

    Raises:
        KernelError: if a period cannot be read.
        ValueError: if the original is not what a kernel shows.
    """
    file = watched.file
    if file == CPU_SET_FILE:
        cpus = sorted(CPUSet.parse(original).cpus if original else machine.cpus.cpus)
        return str(CPUSet.of(cpus[:-1])) if len(cpus) > 1 else None
    if file == IDLE_FILE:
        return "1" if original == "0" else "0"
    if file == weight_file(machine.version):
        return str(int(original) + (1 if int(original) < _HEAVIEST[machine.version] else -1))
    if machine.version is Version.V2:
        quota, _, period = original.partition(" ")
        return f"{_quota(watched, quota, int(period), machine)} {period}"
    return str(_quota(watched, original, int(files.read(watched.cgroup.path, "cpu.cfs_period_us")), machine))


def _quota(watched: Watched, original: str, period: int, machine: Machine) -> int:
    if watched.cgroup.kind is Kind.SHARED:
        return _MACHINES * len(machine.cpus) * period
    if original in {"-1", "max"}:
        return max(_SMALLEST_QUOTA, period // 2)
    if machine.version is Version.V1 and watched.cgroup.kind is Kind.POD:
        return int(original) * 5 // 4
    return max(_SMALLEST_QUOTA, int(original) * 3 // 4)


def read_or_none(files: Files, watched: Watched) -> str | None:
    """Return the content of a file; None if it or its cgroup does not exist."""
    try:
        return files.read(watched.cgroup.path, watched.file)
    except KernelError:
        return None
