"""What quota each cgroup of a pod has by kubelet's hand, and by the node's ratio. Pure.

The quota of a CPUShare pod is divided, that of every other pod is kubelet's own. CPUShare is every pod but
those that are SYSTEM (in a namespace that may have such pods) or BE, and those that own CPUs: by kubelet's
static policy, or, if LSR or LSE, by a claim that is believed (:mod:`corewise.agent.pinning.division`). The
labels LSR and LSE alone exempt nobody: whoever creates a pod writes them.

The limits come from the spec that kubelet has in force. While a resize waits for room, or kubelet has not
seen the latest spec yet, that is the one before (``spec_in_force``).

On cgroup v1 a child above its parent is refused, also when a runtime restarts a container with kubelet's
undivided quota while no agent runs. So on v1 a pod's own cgroup is never narrower than the largest base among
its containers; each container is bounded by its own divided quota, and so is their sum. Only containers that
live on their pod's limit (pod-level resources) may there together use up to that base. v2 has no such rule,
and the pod's quota is divided as its containers' are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum

from corewise.actions import QuotaOwner, WriteQuota
from corewise.agent.cpu_manager import CPUManager
from corewise.agent.objects import QuotaContainer, QuotaPod, QuotaPodSpec
from corewise.kernel.cgroups.pods import PodCgroups, QOSClass
from corewise.kernel.errors import UnsafeName
from corewise.normalization import ContainerLimit, PodLimits, container_quota, pod_quota
from corewise.quantities import ONE, AmplifiedMilli, Microseconds, QuantityError, Ratio, largest, requested
from corewise.vocabulary.qos import OWNERS_OF_CPUS
from corewise.vocabulary.reasons import Reason

EXEMPT_CLASSES = frozenset({"SYSTEM", "BE"})
_TOO_LARGE = Reason.AMOUNT_TOO_LARGE
_ANY_PERIOD = Microseconds(100_000)
_WAITING = frozenset({"Proposed", "Deferred", "Infeasible"})


class Standing(Enum):
    """Whether a pod's quotas are divided."""

    SHARE = "CPUShare pod"
    EXEMPT = "not a CPUShare pod"
    UNCERTAIN = "not known to be a CPUShare pod"
    """Its quotas stay as they are."""


def standing_of(
    qos_class: str, uid: str, qos: str, manager: CPUManager, *, owns: bool | None = None
) -> Standing:
    """Say whether a pod shares CPUs.

    ``qos_class`` is the class that counts (:mod:`corewise.vocabulary.qos`), ``owns`` whether the pod owns
    CPUs by its claim, None if that is not decided. ``qos`` is the class by Kubernetes, taken for Guaranteed
    if unknown.
    """
    if qos_class in EXEMPT_CLASSES or uid in manager.pinned:
        return Standing.EXEMPT
    if qos_class in OWNERS_OF_CPUS and owns is not False:
        return Standing.EXEMPT if owns else Standing.UNCERTAIN
    if not manager.is_known and qos not in {QOSClass.BURSTABLE, QOSClass.BEST_EFFORT}:
        return Standing.UNCERTAIN
    return Standing.SHARE


def spec_in_force(pod: QuotaPod, before: QuotaPodSpec | None) -> QuotaPodSpec | None:
    """Return the spec that kubelet goes by; ``before`` is what this said last. None is unknown."""
    status, generation = pod.status, pod.metadata.generation
    unseen = 0 < status.observed_generation < generation
    waiting = status.resize in _WAITING or any(
        condition.type == "PodResizePending" and condition.status == "True" for condition in status.conditions
    )
    return before if unseen or waiting else pod.spec


@dataclass(frozen=True, slots=True)
class Target:
    """A cgroup whose quota follows from a pod's spec: a container's, or with container "" the pod's own."""

    cgroup: str
    pod: str
    container: str
    limits: PodLimits
    limit: AmplifiedMilli | None = None

    @property
    def is_unlimited(self) -> bool:
        return self.quota(_ANY_PERIOD, ONE) is None

    def quota(self, period: Microseconds, ratio: Ratio, *, above_bases: bool = False) -> Microseconds | None:
        """Return the quota under a ratio; kubelet's own under 1.00.

        ``above_bases``: a pod's is at least the largest base of a container, as v1 needs it.
        """
        if self.container:
            return container_quota(self.limit, period=period, ratio=ratio, pod_level=self.limits.pod_level)
        quota = pod_quota(self.limits, period=period, ratio=ratio)
        base = pod_quota(self.limits, period=period, ratio=ONE)
        if quota is None or base is None or not above_bases:
            return quota
        return min(base, max([quota, *self._bases(period)]))

    def _bases(self, period: Microseconds) -> Iterator[Microseconds]:
        """Yield the bases of the pod's limited containers."""
        level = self.limits.pod_level
        for each in (*self.limits.containers, *self.limits.init_containers):
            base = container_quota(each.limit, period=period, ratio=ONE, pod_level=level)
            if base is not None:
                yield base


def targets_of(pod: QuotaPod, spec: QuotaPodSpec, cgroups: PodCgroups) -> Iterator[Target]:
    """Yield the cgroups of a pod and of its running containers.

    Raises:
        UnsafeName: if the API's UID or container ID is none that a path can be made of.
        ValueError: if the QoS class is none, or an amount of CPU is more than any machine has.
    """
    qos = QOSClass(pod.status.qos_class)
    limits = _limits(spec)
    yield Target(cgroups.pod(pod.uid, qos), pod.name, "", limits)
    by_name = {container.name: _cpu(container.resources.limits) for container in spec.all_containers}
    for status in pod.status.all_containers:
        if status.runs and status.name in by_name:
            cgroup = cgroups.container(pod.uid, qos, status.container_id)
            yield Target(cgroup, pod.name, status.name, limits, by_name[status.name])


def container_cgroups(pod: QuotaPod, cgroups: PodCgroups) -> Iterator[tuple[str, str]]:
    """Yield the IDs of a pod's running containers with their cgroups; what is no name of one is left out."""
    for status in pod.status.all_containers:
        if status.runs:
            with suppress(UnsafeName, ValueError):
                qos = QOSClass(pod.status.qos_class)
                yield status.container_id, cgroups.container(pod.uid, qos, status.container_id)


def _limits(spec: QuotaPodSpec) -> PodLimits:
    return PodLimits(
        containers=tuple(map(_limit, spec.containers)),
        init_containers=tuple(map(_limit, spec.init_containers)),
        pod_level=_cpu(spec.resources.limits),
        overhead=_cpu(spec.overhead) or AmplifiedMilli(0),
    )


def _limit(container: QuotaContainer) -> ContainerLimit:
    return ContainerLimit(_cpu(container.resources.limits), sidecar=container.restart_policy == "Always")


def _cpu(amounts: Mapping[str, str]) -> AmplifiedMilli | None:
    """Return the CPU of a ResourceList; as no limit, an amount that cannot be read would free the pod."""
    if "cpu" not in amounts:
        return None
    amount = requested("cpu", amounts["cpu"])
    if amount == largest("cpu"):
        raise QuantityError(f"its CPU {amounts['cpu'][:40]!r} is more than any machine has ({_TOO_LARGE})")
    return AmplifiedMilli(amount.milli)


def divided(target: Target, period: Microseconds, ratio: Ratio, *, above_bases: bool) -> WriteQuota:
    """Bound a cgroup by its quota under the ratio."""
    base = target.quota(period, ONE)
    return WriteQuota(
        cgroup=target.cgroup,
        owner=QuotaOwner.NORMALIZATION,
        quota=target.quota(period, ratio, above_bases=above_bases),
        base=base,
        period=period,
        reason=Reason.QUOTA_NORMALIZED,
        why=f"{_whose(target)}: {base} / {ratio}",
    )


def undivided(target: Target, period: Microseconds, why: str) -> WriteQuota:
    """Give a cgroup kubelet's quota back."""
    base = target.quota(period, ONE)
    return WriteQuota(
        cgroup=target.cgroup,
        owner=QuotaOwner.NORMALIZATION,
        quota=base,
        base=base,
        period=period,
        reason=Reason.QUOTA_RESTORED,
        why=f"{_whose(target)}: {why}",
    )


def _whose(target: Target) -> str:
    return f"pod {target.pod}" + (f" container {target.container}" if target.container else "")
