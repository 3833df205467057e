"""The cgroups of a pod whose quotas kubelet computes from the pod's spec, and the quota that its limits give.

The limits come from the spec that kubelet applies. While a resize waits for room, or kubelet has not seen the
latest spec yet, that is the one before (:func:`spec_in_force`).

*cgroup v1.* A child above its parent is refused, also when a runtime restarts a container with kubelet's
undivided quota while no agent runs. So on v1 a pod's own cgroup is never narrower than the largest base among
its containers; each container is bounded by its own divided quota, and so is their sum. Only containers that
live on their pod's limit (pod-level resources) may there together use up to that base. v2 has no such rule,
and the pod's quota is divided as its containers' are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from corewise.agent.objects import QuotaPod, QuotaPodSpec
from corewise.kernel.cgroups.layout import PodCgroups, QOSClass
from corewise.kernel.errors import UnsafeName
from corewise.normalization.quota import ContainerLimit, PodLimits, container_quota, pod_quota
from corewise.quantities import ONE, AmplifiedMilli, Microseconds, QuantityError, Ratio, largest, requested
from corewise.vocabulary.reasons import Reason
from corewise.workload.pods import Container

_TOO_LARGE = Reason.AMOUNT_TOO_LARGE
_ANY_PERIOD = Microseconds(100_000)


def spec_in_force(pod: QuotaPod, before: QuotaPodSpec | None) -> QuotaPodSpec | None:
    """Return the spec that kubelet goes by; ``before`` is what this said last. None is unknown."""
    return before if pod.awaits_resize else pod.spec


@dataclass(frozen=True, slots=True)
class Target:
    """A cgroup whose quota follows from a pod's spec: a container's, or with container "" the pod's own.

    ``container_id`` is the container's as the runtime knows it, without the runtime's name.
    """

    cgroup: str
    pod: str
    container: str
    limits: PodLimits
    limit: AmplifiedMilli | None = None
    container_id: str = ""

    @property
    def is_unlimited(self) -> bool:
        return self.quota(_ANY_PERIOD, ONE) is None

    def quota(self, period: Microseconds, ratio: Ratio, *, above_bases: bool = False) -> Microseconds | None:
        """Return the quota under a ratio; kubelet's own under 1.00.

        ``above_bases``: a pod's is at least the largest base of a container, as v1 needs it.
        """
        if self.container:
            return container_quota(self.limit, period=period, ratio=ratio, pod_level=self.limits.pod_level)
        limits = self.limits
        quota = pod_quota(limits, period=period, ratio=ratio)
        base = pod_quota(limits, period=period, ratio=ONE)
        if quota is None or base is None or not above_bases:
            return quota
        bases = (
            container_quota(each.limit, period=period, ratio=ONE, pod_level=limits.pod_level)
            for each in (*limits.containers, *limits.init_containers)
        )
        return min(base, max([quota, *(each for each in bases if each is not None)]))


def targets_of(pod: QuotaPod, spec: QuotaPodSpec, cgroups: PodCgroups) -> Iterator[Target]:
    """Yield the cgroups of a pod and of its running containers.

    Raises:
        UnsafeName: if the API's UID or container ID is none that a path can be made of.
        ValueError: if the QoS class is none, or an amount of CPU is more than any machine has.
    """
    qos = QOSClass(pod.status.qos_class)
    limits = PodLimits(
        containers=tuple(map(_limit, spec.containers)),
        init_containers=tuple(map(_limit, spec.init_containers)),
        pod_level=_cpu(spec.resources.limits),
        overhead=_cpu(spec.overhead) or AmplifiedMilli(0),
    )
    yield Target(cgroups.pod(pod.uid, qos), pod.name, "", limits)
    by_name = {container.name: _cpu(container.resources.limits) for container in spec.all_containers}
    for status in pod.status.all_containers:
        if status.runs and status.name in by_name:
            cgroup = cgroups.container(pod.uid, qos, status.container_id)
            plain_id = status.container_id.partition("://")[2]
            yield Target(cgroup, pod.name, status.name, limits, by_name[status.name], plain_id)


def container_cgroups(pod: QuotaPod, cgroups: PodCgroups) -> Iterator[tuple[str, str]]:
    """Yield the IDs of a pod's running containers with their cgroups; other names are left out."""
    for status in pod.status.all_containers:
        if status.runs:
            with suppress(UnsafeName, ValueError):
                qos = QOSClass(pod.status.qos_class)
                yield status.container_id, cgroups.container(pod.uid, qos, status.container_id)


def _limit(container: Container) -> ContainerLimit:
    return ContainerLimit(_cpu(container.resources.limits), sidecar=container.restart_policy == "Always")


def _cpu(amounts: Mapping[str, str]) -> AmplifiedMilli | None:
    """Return the CPU of a ResourceList; as no limit, an amount that cannot be read would free the pod."""
    if "cpu" not in amounts:
        return None
    amount = requested("cpu", amounts["cpu"])
    if amount == largest("cpu"):
        raise QuantityError(f"its CPU {amounts['cpu'][:40]!r} is more than any machine has ({_TOO_LARGE})")
    return AmplifiedMilli(amount.milli)
