"""The cgroups of pods on a simulated machine, as kubelet and its runtime make them (v2, systemd driver).

Of online pods only those that kubelet bounds are made, with ``cpu.max`` and CPU sets alone: no program
reads those of the others, and a container without a cgroup here is an unlimited one with kubelet's weight.
Offline pods and the slice that they are in have all that an agent reads and writes there. What is read back
is what the agent has made of them.

From these files and the pods follows the tree by which the machine's CPUs are divided (:mod:`plant`). Quotas
are those of the tree, at every level: kubelet's, or what the agent has made of them. Weights are those of the
tree too, and where there is none, kubelet's: with ``shares(r) = r milli-CPU x
1024 / 1000``, at least 2, turned into a v2 weight as runtimes do,

    container   by its request, 1 without one          pod     by the sum of its containers
    burstable   by the sum of its pods                 best effort   1

Guaranteed pods stand beside the two slices. A pod that owns CPUs (``resource-status``) is confined to them,
and all others to the CPUs without an owner, if any are left.

A container's demand is its load times what it requests, in baseline CPUs: for an offline pod that is its
batch CPU, for a pod that requests no CPU at all its limit.
"""

from __future__ import annotations

import hashlib
import math
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from corewise.kernel.cgroups.layout import Driver, PodCgroups, QOSClass
from corewise.normalization.quota import ContainerLimit, PodLimits, container_quota, pod_quota
from corewise.quantities import MILLI, ONE, AmplifiedMilli, Microseconds, offered
from corewise.suppression.batch_limits import weight
from corewise.vocabulary.cpu_annotations import stated_cpus
from corewise.vocabulary.names import BATCH_CPU, BATCH_MEMORY, RESOURCE_STATUS
from corewise.workload.pods import Container, Pod
from corewise_lab.contention import MemoryUse
from corewise_lab.fair_share import Cgroup, Tree
from corewise_lab.load import Load
from corewise_lab.pods import amount_of, load_of, memory_use_of, phase_of

PERIOD = Microseconds(100_000)
"""kubelet's --cpu-cfs-quota-period."""

_NAMES = PodCgroups(Driver.SYSTEMD, "/kubepods.slice")
MOUNT = "sys/fs/cgroup"
KUBEPODS = _NAMES.kubepods[1:]
BURSTABLE, BEST_EFFORT = (_NAMES.qos(qos)[1:] for qos in (QOSClass.BURSTABLE, QOSClass.BEST_EFFORT))
"""Cgroups here are paths below the mount, without a slash in front."""

WORKING_SET = 70
"""Percent of the memory it requests that a container uses, from its first moment to its last."""

_UNBOUNDED = {"cpu.max": f"max {PERIOD}", "cpu.weight": "1", "cpu.idle": "0"}
"""What kubelet gives best-effort pods: no quota, and the least weight."""

_MOST_PATHS = 10_000

_COUNTED = {"cpu.stat": "usage_usec 0", "memory.stat": "inactive_file 0"}


def container_id(pod: Pod, container: str) -> str:
    """Return the ID that the runtime gives a container; always the same for the same pod."""
    digest = hashlib.blake2b(f"{pod.metadata.uid}/{container}".encode(), digest_size=32).hexdigest()
    return f"containerd://{digest}"


def running_containers(pod: Pod) -> Iterator[Container]:
    """Yield the containers that run as long as the pod does: sidecars, and the pod's own."""
    yield from (each for each in pod.spec.init_containers if each.restart_policy == "Always")
    yield from pod.spec.containers


def make_cgroups(root: Path, pod: Pod) -> None:
    """Make the cgroups of a pod that begins to run, with kubelet's quotas; whatever was there is replaced."""
    own = root / MOUNT / pod_cgroup(pod)
    shutil.rmtree(own, ignore_errors=True)
    if is_offline(pod):
        make_best_effort_slice(root)
        files = _offline_files(pod)
    else:
        files = {cgroup: {"cpu.max": f"{quota} {PERIOD}"} for cgroup, quota in _kubelet_quotas(pod)}
    for cgroup, content in files.items():
        write_files(root / MOUNT / cgroup, content)
    for directory in (own, *own.glob("*/")):
        if directory.is_dir():
            write_files(directory, {"cpuset.cpus": ""})


def _kubelet_quotas(pod: Pod) -> Iterator[tuple[str, Microseconds]]:
    """Yield the cgroups of an online pod that kubelet bounds."""
    limits = PodLimits(
        containers=tuple(map(_limit, pod.spec.containers)),
        init_containers=tuple(map(_limit, pod.spec.init_containers)),
        pod_level=cpu_of(pod.spec.resources.limits),
        overhead=cpu_of(pod.spec.overhead) or AmplifiedMilli(0),
    )
    quota = pod_quota(limits, period=PERIOD, ratio=ONE)
    if quota is not None:
        yield pod_cgroup(pod), quota
    for each in running_containers(pod):
        limit = cpu_of(each.resources.limits)
        quota = container_quota(limit, period=PERIOD, ratio=ONE, pod_level=limits.pod_level)
        if quota is not None:
            yield container_cgroup(pod, each.name), quota


def _limit(container: Container) -> ContainerLimit:
    return ContainerLimit(cpu_of(container.resources.limits), sidecar=container.restart_policy == "Always")


def _offline_files(pod: Pod) -> dict[str, dict[str, str]]:
    sizes = {
        container_cgroup(pod, each.name): amount_of(each, BATCH_MEMORY) * WORKING_SET // 100
        for each in running_containers(pod)
    }
    sizes = {pod_cgroup(pod): sum(sizes.values()), **sizes}
    return {
        cgroup: {**_UNBOUNDED, "memory.current": str(size), "memory.max": "max"}
        for cgroup, size in sizes.items()
    }


def is_offline(pod: Pod) -> bool:
    """Whether a pod lives on what online pods leave: it asks for batch CPU, and is best effort to kubelet."""
    if pod.status.qos_class != QOSClass.BEST_EFFORT:
        return False
    amounts = ((c.resources.requests, c.resources.limits) for c in running_containers(pod))
    return any(BATCH_CPU in each for pair in amounts for each in pair)


def make_best_effort_slice(root: Path) -> None:
    """Give the slice of the best-effort pods its files, unless it has them."""
    directory = root / MOUNT / BEST_EFFORT
    if not (directory / "cpu.max").exists():
        write_files(directory, {**_UNBOUNDED, **_COUNTED, "memory.current": "0"})


def write_files(directory: Path, files: Mapping[str, str]) -> None:
    """Write files of one directory, each as one line or more."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (directory / name).write_text(f"{content}\n", encoding="ascii")


def remove_cgroups(root: Path, pod: Pod) -> None:
    """Remove the cgroups of a pod that is gone."""
    shutil.rmtree(root / MOUNT / pod_cgroup(pod), ignore_errors=True)


def read_quota(root: Path, cgroup: str) -> float | None:
    """Return the largest number of CPUs a cgroup may use; None is unlimited, or no such cgroup."""
    quota, *period = _read(root, cgroup, "cpu.max") or ("max",)
    return None if quota == "max" else int(quota) / int(period[0])


def _read(root: Path, cgroup: str, file: str) -> list[str]:
    """Return the words of a file; none if there is no such cgroup."""
    try:
        with _path(root, cgroup, file).open("rb", buffering=0) as content:  # in half the time of read_text
            return content.read().decode("ascii").split()
    except FileNotFoundError:
        return []


@lru_cache(maxsize=_MOST_PATHS)
def _path(root: Path, cgroup: str, file: str) -> Path:
    """Return the path of a file; simulations read the same ones again and again."""
    return root / MOUNT / cgroup / file


def cpu_of(amounts: Mapping[str, str]) -> AmplifiedMilli | None:
    """Return the CPU of a ResourceList; None if there is none."""
    amount = offered(amounts["cpu"]) if "cpu" in amounts else None
    return AmplifiedMilli(amount.milli) if amount else None


def pod_cgroup(pod: Pod) -> str:
    """Return a pod's cgroup, below the mount and without a slash in front."""
    return _NAMES.pod(pod.metadata.uid, QOSClass(pod.status.qos_class))[1:]


def container_cgroup(pod: Pod, container: str) -> str:
    """Return a container's cgroup, below the mount and without a slash in front."""
    return _NAMES.container(pod.metadata.uid, QOSClass(pod.status.qos_class), container_id(pod, container))[
        1:
    ]


@dataclass(frozen=True, slots=True)
class RunningContainer:
    """A running container as its spec has it: the amounts that kubelet counts, and its load.

    ``request`` is in milli-CPU, ``requested`` (what its load is a multiple of) in CPUs, ``memory`` in bytes.
    """

    path: str
    name: str
    request: int
    requested: float
    load: Load
    memory: int
    memory_use: MemoryUse | None = None


@dataclass(frozen=True, slots=True)
class RunningPod:
    """A running pod as its spec has it. ``owned`` are the CPUs that are its own."""

    path: str
    qos: QOSClass
    offline: bool
    phase: float
    owned: frozenset[int]
    containers: tuple[RunningContainer, ...]

    @property
    def request(self) -> int:
        return sum(container.request for container in self.containers)


@dataclass(frozen=True, slots=True)
class ContainerTask:
    """A running container in a tree."""

    leaf: int
    container: RunningContainer
    pod: RunningPod

    @property
    def name(self) -> str:
        return self.container.name

    @property
    def offline(self) -> bool:
        return self.pod.offline

    @property
    def best_effort(self) -> bool:
        return self.pod.qos is QOSClass.BEST_EFFORT

    def demand(self, seconds: float) -> float:
        """Return its demand at a time, in baseline CPUs."""
        return self.container.requested * self.container.load.at(seconds, self.pod.phase)


@dataclass(frozen=True, slots=True)
class NodeTree:
    """A machine's tree, and the containers in it. ``owners`` are the cgroups of the pods that own CPUs."""

    tree: Tree
    tasks: tuple[ContainerTask, ...]
    owners: tuple[str, ...]

    @property
    def memory_uses(self) -> dict[int, MemoryUse]:
        """The memory use of those of its leaves for which it is known."""
        return {task.leaf: use for task in self.tasks if (use := task.container.memory_use) is not None}


def describe(root: Path, pods: Iterable[Pod]) -> tuple[RunningPod, ...]:
    """Describe the pods that run on a machine, in an order that is always the same."""
    return tuple(_describe(root, pod) for pod in sorted(pods, key=lambda pod: pod.metadata.uid))


def _describe(root: Path, pod: Pod) -> RunningPod:
    meta, offline = pod.metadata, is_offline(pod)
    owned = stated_cpus(meta.annotations.get(RESOURCE_STATUS)).cpus
    containers = []
    for each in running_containers(pod):
        path = container_cgroup(pod, each.name)
        requests, limits = each.resources.requests, each.resources.limits
        request = cpu_of(requests if "cpu" in requests else limits) or 0
        limited = offline or bool(owned) or read_quota(root, path) is not None
        containers.append(
            RunningContainer(
                path=path,
                name=f"{meta.namespace}/{meta.name}/{each.name}",
                request=request,
                requested=(amount_of(each, BATCH_CPU) if offline else request) / MILLI,
                load=load_of(meta.annotations, limited=limited),
                memory=amount_of(each, BATCH_MEMORY if offline else "memory"),
                memory_use=memory_use_of(meta.annotations),
            )
        )
    return RunningPod(
        path=pod_cgroup(pod),
        qos=QOSClass(pod.status.qos_class),
        offline=offline,
        phase=phase_of(meta.name),
        owned=owned,
        containers=tuple(containers),
    )


def read_tree(root: Path, pods: Sequence[RunningPod], cpus: int) -> NodeTree:
    """Read the tree of a machine with so many CPUs, on which these pods run."""
    taken = frozenset(cpu for pod in pods for cpu in pod.owned)
    rest = (frozenset(range(cpus)) - taken if taken else None) or None
    by_class: dict[QOSClass, list[Cgroup]] = {qos: [] for qos in QOSClass}
    for pod in pods:
        containers = [_cgroup(root, each.path, each.request) for each in pod.containers]
        by_class[pod.qos].append(_cgroup(root, pod.path, pod.request, containers, pod.owned or rest))
    burstable = sum(pod.request for pod in pods if pod.qos is QOSClass.BURSTABLE)
    slices = (
        _cgroup(root, BURSTABLE, burstable, by_class[QOSClass.BURSTABLE]),
        _cgroup(root, BEST_EFFORT, 0, by_class[QOSClass.BEST_EFFORT]),
    )
    tree = Tree(Cgroup(KUBEPODS, children=(*by_class[QOSClass.GUARANTEED], *slices)), cpus)
    tasks = (ContainerTask(tree.index[each.path], each, pod) for pod in pods for each in pod.containers)
    return NodeTree(tree, tuple(tasks), tuple(pod.path for pod in pods if pod.owned))


def _cgroup(
    root: Path, path: str, request: int, children: Sequence[Cgroup] = (), cpus: frozenset[int] | None = None
) -> Cgroup:
    """Return a cgroup; below the best-effort slice it has the weight written there, if not idle."""
    quota = read_quota(root, path)
    is_offline = path.startswith(BEST_EFFORT)
    is_idle = is_offline and _read(root, path, "cpu.idle") == ["1"]
    written = ["1"] if is_idle else _read(root, path, "cpu.weight") if is_offline else []
    return Cgroup(
        path,
        float(int(written[0]) if written else weight(request)),
        math.inf if quota is None else quota,
        cpus,
        tuple(children),
    )
