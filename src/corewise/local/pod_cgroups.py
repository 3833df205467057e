"""The cgroups of pods on a simulated machine, as kubelet and its runtime make them (v2, systemd driver).

Only those that kubelet bounds are made, each with ``cpu.max`` alone: of all others nobody reads anything, and
a container without a cgroup here is an unlimited one. What is read back is what the agent has made of them.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from corewise.kernel.cgroups.pods import Driver, PodCgroups, QOSClass
from corewise.manager.objects import DemandingContainer, DemandingPod
from corewise.normalization import ContainerLimit, PodLimits, container_quota, pod_quota
from corewise.quantities import ONE, AmplifiedMilli, Microseconds, Quantity, QuantityError

PERIOD = Microseconds(100_000)
"""kubelet's --cpu-cfs-quota-period."""

_NAMES = PodCgroups(Driver.SYSTEMD, "/kubepods.slice")
_MOUNT = "sys/fs/cgroup"


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
    mount, own = root / _MOUNT, _pod_cgroup(pod)
    shutil.rmtree(mount / own, ignore_errors=True)
    quota = pod_quota(_limits(pod), period=PERIOD, ratio=ONE)
    if quota is not None:
        _make(mount / own, quota)
    level = cpu_of(pod.spec.resources.limits)
    for each in running_containers(pod):
        limit = cpu_of(each.resources.limits)
        quota = container_quota(limit, period=PERIOD, ratio=ONE, pod_level=level)
        if quota is not None:
            _make(mount / _container_cgroup(pod, each.name), quota)


def remove_cgroups(root: Path, pod: DemandingPod) -> None:
    """Remove the cgroups of a pod that is gone."""
    shutil.rmtree(root / _MOUNT / _pod_cgroup(pod), ignore_errors=True)


def read_share(root: Path, pod: DemandingPod, container: str) -> float | None:
    """Return how many CPUs a container may use at most, as its cgroup says; None is unlimited."""
    try:
        text = (root / _MOUNT / _container_cgroup(pod, container) / "cpu.max").read_text(encoding="ascii")
    except FileNotFoundError:
        return None
    quota, period = text.split()
    return None if quota == "max" else int(quota) / int(period)


def cpu_of(amounts: Mapping[str, str]) -> AmplifiedMilli | None:
    """Return the CPU of a ResourceList; None if there is none."""
    try:
        return AmplifiedMilli(Quantity.parse(amounts["cpu"]).milli) if "cpu" in amounts else None
    except QuantityError:
        return None


def _make(directory: Path, quota: Microseconds) -> None:
    directory.mkdir(parents=True)
    (directory / "cpu.max").write_text(f"{quota} {PERIOD}\n", encoding="ascii")


def _pod_cgroup(pod: DemandingPod) -> str:
    return _NAMES.pod(pod.metadata.uid, _qos(pod))[1:]


def _container_cgroup(pod: DemandingPod, container: str) -> str:
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
