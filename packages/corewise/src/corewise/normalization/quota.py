"""CFS quota of CPUShare pods: the time a limit buys on a CPU that is ``ratio`` times as fast as the baseline.

    base  = limit in milli-CPU x period / 1000, in whole microseconds, as kubelet computes it
    quota = max(1000 us, ceil(base / ratio))

A container without a limit is unlimited (None) and left untouched; with a pod-level limit kubelet gives it
the pod's. A pod has a quota only if every container has a CPU limit or the pod itself has one. Its limit is
the sum of containers and sidecars, or what the most demanding init container needs together with the sidecars
started before it, whichever is more; a pod-level limit takes its place; overhead comes on top.

The limit always comes from the pod's spec, never from the current quota, so nothing is ever divided twice.
Since ceil and max keep order, a pod's quota is never below that of one of its containers.

Source: kubelet's pkg/kubelet/cm/helpers_linux.go (MilliCPUToQuota, ResourceConfigForPod),
kuberuntime_container_linux.go (getCPULimit), and k8s.io/component-helpers/resource (PodLimits).
"""

from __future__ import annotations

from dataclasses import dataclass

from corewise.quantities import MILLI, ONE, AmplifiedMilli, Microseconds, Ratio, deamplified_ceil

SMALLEST_QUOTA = Microseconds(1000)
"""The kernel refuses less, and kubelet never asks for less."""

_NOTHING = AmplifiedMilli(0)


@dataclass(frozen=True, slots=True)
class ContainerLimit:
    """The CPU limit of one container; None or 0: no limit.

    ``sidecar`` marks an init container with ``restartPolicy: Always``, which runs as long as the pod.
    """

    limit: AmplifiedMilli | None
    sidecar: bool = False


@dataclass(frozen=True, slots=True)
class PodLimits:
    """The parts of a pod's spec that decide its quota. Init containers are in the order of the spec."""

    containers: tuple[ContainerLimit, ...]
    init_containers: tuple[ContainerLimit, ...] = ()
    pod_level: AmplifiedMilli | None = None
    overhead: AmplifiedMilli = _NOTHING


def container_quota(
    limit: AmplifiedMilli | None,
    *,
    period: Microseconds,
    ratio: Ratio,
    pod_level: AmplifiedMilli | None = None,
) -> Microseconds | None:
    """Return a container's quota per period, or None for unlimited.

    Raises:
        ValueError: if the ratio is below 1.00 or the period is not positive.
    """
    return _quota(limit or pod_level, period, ratio)


def pod_quota(pod: PodLimits, *, period: Microseconds, ratio: Ratio) -> Microseconds | None:
    """Return the quota of the pod's own cgroup per period, or None for unlimited.

    Raises:
        ValueError: if the ratio is below 1.00 or the period is not positive.
    """
    if pod.pod_level:
        return _quota(AmplifiedMilli(pod.pod_level + pod.overhead), period, ratio)
    limit = _sum_of_limits(pod)
    return _quota(AmplifiedMilli(limit + pod.overhead) if limit else None, period, ratio)


def divided_quota(base: Microseconds, ratio: Ratio) -> Microseconds:
    """Return the quota under a ratio, of a base: a positive quota that kubelet set."""
    return Microseconds(max(SMALLEST_QUOTA, deamplified_ceil(base, ratio)))


def _sum_of_limits(pod: PodLimits) -> int:
    """Return the limit that the pod's containers add up to, or 0 if one of them has none.

    As kubelet has it, an init container counts with the sidecars started before it, and so has a limit if
    one of those has.
    """
    if not all(container.limit for container in pod.containers):
        return 0
    sidecars = 0
    starting = 0
    for container in pod.init_containers:
        needed = sidecars + (container.limit or 0)
        if not needed:
            return 0
        sidecars = needed if container.sidecar else sidecars
        starting = max(starting, needed)
    running = sum(container.limit or 0 for container in pod.containers) + sidecars
    return max(running, starting)


def _quota(limit: AmplifiedMilli | None, period: Microseconds, ratio: Ratio) -> Microseconds | None:
    if ratio < ONE or period <= 0:
        raise ValueError(f"ratio {ratio} must be at least 1.00, and period {period} us above 0")
    if not limit:
        return None
    return divided_quota(Microseconds(limit * period // MILLI), ratio)
