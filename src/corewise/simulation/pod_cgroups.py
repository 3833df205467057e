"""The cgroups of pods on a simulated machine, as kubelet and its runtime make them (v2, systemd driver).

Of online pods only those that kubelet bounds are made, with ``cpu.max`` and CPU sets alone: of all others
nobody reads anything, and a container without a cgroup here is an unlimited one with kubelet's weight.
Offline pods and the slice that they are in have all that an agent reads and writes there. What is read back
is what the agent has made of them.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path

from corewise.kernel.cgroups.pods import Driver, PodCgroups, QOSClass
from corewise.manager.objects import DemandingContainer, DemandingPod
from corewise.normalization import ContainerLimit, PodLimits, container_quota, pod_quota
from corewise.quantities import ONE, AmplifiedMilli, Microseconds, Quantity, QuantityError
from corewise.simulation.pods import memory_of
from corewise.vocabulary.names import BATCH_CPU, BATCH_MEMORY

PERIOD = Microseconds(100_000)
"""kubelet's --cpu-cfs-quota-period."""

_NAMES = PodCgroups(Driver.SYSTEMD, "/kubepods.slice")
MOUNT = "sys/fs/cgroup"
KUBEPODS = _NAMES.kubepods[1:]
BURSTABLE, BEST_EFFORT = (_NAMES.qos(qos)[1:] for qos in (QOSClass.BURSTABLE, QOSClass.BEST_EFFORT))
"""Cgroups here are paths below the mount, without a slash in front."""

WORKING_SET = 70
"""Percent of the memory it requests that a container uses, from its first moment to its last."""

_UNBOUNDED = {"cpu.max": f"max {PERIOD}", "cpu.weight": "1"}
"""What kubelet gives best-effort pods: no quota, and the least weight."""

_MOST_PATHS = 10_000

_COUNTED = {"cpu.stat": "usage_usec 0", "memory.stat": "inactive_file 0"}


def container_id(pod: DemandingPod, container: str) -> str:
    """Return the ID that the runtime gives a container; always the same for the same pod."""
    digest = hashlib.blake2b(f"{pod.metadata.uid}/{container}".encode(), digest_size=32).hexdigest()
    return f"containerd://{digest}"


def running_containers(pod: DemandingPod) -> Iterator[DemandingContainer]:
    """Yield the containers that run as long as the pod does: sidecars, and the pod's own."""
    yield from (each for each in pod.spec.init_containers if each.restart_policy == "Always")
    yield from pod.spec.containers


def make_cgroups(root: Path, pod: DemandingPod) -> None:
    """Make the cgroups of a pod that begins to run, with kubelet's quotas; whatever was there is replaced."""
    mount, own = root / MOUNT, pod_cgroup(pod)
    shutil.rmtree(mount / own, ignore_errors=True)
    if is_offline(pod):
        _make_offline(root, pod)
    else:
        _make_online(mount, pod)
    for directory in (mount / own, *(mount / own).glob("*/")):
        if directory.is_dir():
            (directory / "cpuset.cpus").write_text("\n", encoding="ascii")


def _make_online(mount: Path, pod: DemandingPod) -> None:
    quota = pod_quota(_limits(pod), period=PERIOD, ratio=ONE)
    if quota is not None:
        _make(mount / pod_cgroup(pod), quota)
    level = cpu_of(pod.spec.resources.limits)
    for each in running_containers(pod):
        limit = cpu_of(each.resources.limits)
        quota = container_quota(limit, period=PERIOD, ratio=ONE, pod_level=level)
        if quota is not None:
            _make(mount / container_cgroup(pod, each.name), quota)


def is_offline(pod: DemandingPod) -> bool:
    """Whether a pod lives on what online pods leave: it asks for batch CPU, and is best effort to kubelet."""
    if pod.status.qos_class != QOSClass.BEST_EFFORT:
        return False
    amounts = ((c.resources.requests, c.resources.limits) for c in running_containers(pod))
    return any(BATCH_CPU in each for pair in amounts for each in pair)


def make_best_effort_slice(root: Path) -> None:
    """Give the slice of the best-effort pods its files, unless it has them."""
    directory = root / MOUNT / BEST_EFFORT
    if not (directory / "cpu.max").exists():
        _write_files(directory, {**_UNBOUNDED, **_COUNTED, "memory.current": "0"})


def _make_offline(root: Path, pod: DemandingPod) -> None:
    make_best_effort_slice(root)
    sizes = {
        each.name: memory_of(each, BATCH_MEMORY) * WORKING_SET // 100 for each in running_containers(pod)
    }
    used = {pod_cgroup(pod): sum(sizes.values())}
    used |= {container_cgroup(pod, name): size for name, size in sizes.items()}
    for cgroup, size in used.items():
        files = {**_UNBOUNDED, "memory.current": str(size), "memory.max": "max"}
        _write_files(root / MOUNT / cgroup, files)


def _write_files(directory: Path, files: Mapping[str, str]) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (directory / name).write_text(f"{content}\n", encoding="ascii")


def remove_cgroups(root: Path, pod: DemandingPod) -> None:
    """Remove the cgroups of a pod that is gone."""
    shutil.rmtree(root / MOUNT / pod_cgroup(pod), ignore_errors=True)


def read_share(root: Path, pod: DemandingPod, container: str) -> float | None:
    """Return how many CPUs a container may use at most, as its cgroup says; None is unlimited."""
    return read_quota(root, container_cgroup(pod, container))


def read_quota(root: Path, cgroup: str) -> float | None:
    """Return how many CPUs a cgroup may use at most; None is unlimited, or no such cgroup."""
    text = _read(root, cgroup, "cpu.max")
    if text is None:
        return None
    quota, period = text.split()
    return None if quota == "max" else int(quota) / int(period)


def read_weight(root: Path, cgroup: str) -> int | None:
    """Return the weight that stands in a cgroup; None if there is none."""
    text = _read(root, cgroup, "cpu.weight")
    return None if text is None else int(text)


def _read(root: Path, cgroup: str, file: str) -> str | None:
    try:
        return _path(root, cgroup, file).read_text(encoding="ascii")
    except FileNotFoundError:
        return None


@lru_cache(maxsize=_MOST_PATHS)
def _path(root: Path, cgroup: str, file: str) -> Path:
    """Return the path of a file; simulations read the same ones again and again."""
    return root / MOUNT / cgroup / file


def cpu_of(amounts: Mapping[str, str]) -> AmplifiedMilli | None:
    """Return the CPU of a ResourceList; None if there is none."""
    try:
        return AmplifiedMilli(Quantity.parse(amounts["cpu"]).milli) if "cpu" in amounts else None
    except QuantityError:
        return None


def _make(directory: Path, quota: Microseconds) -> None:
    directory.mkdir(parents=True)
    (directory / "cpu.max").write_text(f"{quota} {PERIOD}\n", encoding="ascii")


def pod_cgroup(pod: DemandingPod) -> str:
    """Return a pod's cgroup, below the mount and without a slash in front."""
    return _NAMES.pod(pod.metadata.uid, _qos(pod))[1:]


def container_cgroup(pod: DemandingPod, container: str) -> str:
    """Return a container's cgroup, below the mount and without a slash in front."""
    return _NAMES.container(pod.metadata.uid, _qos(pod), container_id(pod, container))[1:]


def _qos(pod: DemandingPod) -> QOSClass:
    return QOSClass(pod.status.qos_class)


def _limits(pod: DemandingPod) -> PodLimits:
    return PodLimits(
        containers=tuple(map(_limit, pod.spec.containers)),
        init_containers=tuple(map(_limit, pod.spec.init_containers)),
        pod_level=cpu_of(pod.spec.resources.limits),
        overhead=cpu_of(pod.spec.overhead) or AmplifiedMilli(0),
    )


def _limit(container: DemandingContainer) -> ContainerLimit:
    return ContainerLimit(cpu_of(container.resources.limits), sidecar=container.restart_policy == "Always")
