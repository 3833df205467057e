"""Offline pods' weights and memory limits, from the batch resources that kubelet knows nothing of. Pure.

The weight follows from the batch-cpu request and compares offline pods with each other: the weight of all of
them together is that of kubelet's BestEffort cgroup, the least there is. The memory limit is the
batch-memory limit, in a container and, where every container has one, in the pod.

What comes back is what kubelet gives everything in its BestEffort class, whatever is found: the least weight
and no memory limit. So the way back is known without a journal, too.

Source: kubelet's pkg/kubelet/cm/helpers_linux.go (ResourceConfigForPod) for pods,
pkg/kubelet/kuberuntime/kuberuntime_container_linux.go (calculateLinuxResources) for containers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from corewise.actions import Setting, SettingOwner, WriteSetting
from corewise.agent.colocation.offline_pods import OfflinePod
from corewise.kernel.cgroups.layout import Version
from corewise.suppression.batch_limits import shares, weight
from corewise.vocabulary.names import BATCH_CPU, BATCH_MEMORY
from corewise.vocabulary.reasons import Reason

_REQUESTS_NOTHING = 0
_NO_LIMIT = "max"


def batch_settings(pods: Iterable[OfflinePod], version: Version) -> Iterator[WriteSetting]:
    """Yield what the cgroups of offline pods are to have."""
    for pod in pods:
        spec, whose = pod.spec, f"pod {pod.name}"
        yield _weight(pod.cgroup, version, spec.cpu_request, whose)
        if spec.memory_limit:
            yield _memory(pod.cgroup, spec.memory_limit, whose)
        for container in (*spec.containers, *spec.init_containers):
            cgroup = pod.containers.get(container.name)
            if cgroup is None:
                continue
            whose = f"pod {pod.name} container {container.name}"
            yield _weight(cgroup, version, container.requested, whose)
            if container.memory_limit:
                yield _memory(cgroup, container.memory_limit, whose)


def _weight(cgroup: str, version: Version, request: int, whose: str) -> WriteSetting:
    of = weight if version is Version.V2 else shares
    why = f"{whose}: {BATCH_CPU} request {request}"
    return _action(cgroup, Setting.CPU_WEIGHT, str(of(request)), str(of(_REQUESTS_NOTHING)), why)


def _memory(cgroup: str, limit: int, whose: str) -> WriteSetting:
    return _action(
        cgroup, Setting.MEMORY_LIMIT, str(limit), _NO_LIMIT, f"{whose}: {BATCH_MEMORY} limit {limit}"
    )


def _action(cgroup: str, setting: Setting, value: str, base: str, why: str) -> WriteSetting:
    return WriteSetting(
        cgroup=cgroup,
        setting=setting,
        owner=SettingOwner.BATCH,
        value=value,
        base=base,
        reason=Reason.BATCH_LIMIT_APPLIED,
        why=why,
    )
