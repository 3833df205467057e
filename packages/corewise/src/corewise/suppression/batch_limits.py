"""The kernel settings for an offline pod's batch resources.

Kubelet knows none of them: it gives the pod's cgroups the least weight and no limit.

    shares (v1) = clamp(requested milli-CPU x 1024 / 1000, 2, 262144)         cpu.shares
    weight (v2) = 1 + (shares - 2) x 9999 / 262142                            cpu.weight
    quota       = max(1000 us, ceil(limit milli-CPU x period / 1000 / normalization ratio))
    memory      = limit in bytes

Batch CPU is normalized CPU, so time is divided by the normalization ratio, as any other quota is; weights
only compare pods of one node and are not. A request that is absent is the limit. All of it comes from the
spec and never from the present values, so nothing is ever divided twice.

As kubelet has it, a pod has a limit only if every container has one; it is the sum over containers and
sidecars, or what the most demanding init container needs with the sidecars started before it. The same holds
for the requests, absent ones being 0. Since ceil and max keep order, a pod's quota is never below one of
its containers'.

The quotas of idle pods count over the longest period that the kernel takes. Each time a throttled cgroup
comes back, the kernel protects it for some milliseconds, even from online work that wakes up: the fewer
periods, the less often (docs/concepts/offline-cost.md).

Source: kubelet's pkg/kubelet/cm/helpers_linux.go (MilliCPUToShares, MilliCPUToQuota),
libcontainer's ConvertCPUSharesToCgroupV2Value, and k8s.io/component-helpers/resource (PodRequests,
PodLimits).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from corewise.quantities import LONGEST_PERIOD, MILLI, ONE, Microseconds, Ratio, deamplified_ceil

SMALLEST_QUOTA = 1000
"""Microseconds; the kernel refuses less."""

KUBELET_PERIOD = Microseconds(100_000)
"""The period that cgroups of offline pods begin with."""

SMALLEST_SHARES, LARGEST_SHARES = 2, 262_144
SMALLEST_SENSIBLE = 10
"""Milli-CPU; less is 1 % of a CPU, and most likely CPUs written where thousandths were meant."""

_SHARES_A_CPU = 1024
_LARGEST_WEIGHT = 10_000


@dataclass(frozen=True, slots=True)
class BatchContainer:
    """The batch resources of one container: milli-CPU and bytes; None or 0 is absent.

    ``sidecar`` marks an init container with ``restartPolicy: Always``, which runs as long as the pod.
    """

    name: str
    cpu_request: int | None = None
    cpu_limit: int | None = None
    memory_limit: int | None = None
    sidecar: bool = False

    @property
    def requested(self) -> int:
        """The milli-CPU asked for; 0 if none are."""
        return self.cpu_request or self.cpu_limit or 0

    @property
    def is_tiny(self) -> bool:
        """Whether an amount of CPU is so small that CPUs were meant, not thousandths."""
        return any(0 < amount < SMALLEST_SENSIBLE for amount in (self.requested, self.cpu_limit or 0))


@dataclass(frozen=True, slots=True)
class BatchPod:
    """The parts of an offline pod's spec that count here. Init containers are in the order of the spec."""

    containers: tuple[BatchContainer, ...]
    init_containers: tuple[BatchContainer, ...] = ()

    @property
    def is_offline(self) -> bool:
        return any(each.requested for each in (*self.containers, *self.init_containers))

    @property
    def cpu_request(self) -> int:
        return self._most(lambda each: each.requested)

    @property
    def cpu_limit(self) -> int | None:
        """The milli-CPU that the pod is limited to; None if one of its containers has no limit."""
        return self._limit(lambda each: each.cpu_limit or 0)

    @property
    def memory_limit(self) -> int | None:
        """The bytes that the pod is limited to; None if one of its containers has no limit."""
        return self._limit(lambda each: each.memory_limit or 0)

    def _limit(self, amount: Callable[[BatchContainer], int]) -> int | None:
        """Return the sum, or None. An init container counts with the sidecars started before it."""
        if not self.containers or not all(amount(each) for each in self.containers):
            return None
        started = 0
        for each in self.init_containers:
            if not started + amount(each):
                return None
            started += amount(each) if each.sidecar else 0
        return self._most(amount)

    def _most(self, amount: Callable[[BatchContainer], int]) -> int:
        sidecars = starting = 0
        for each in self.init_containers:
            starting = max(starting, sidecars + amount(each))
            sidecars += amount(each) if each.sidecar else 0
        return max(starting, sidecars + sum(amount(each) for each in self.containers))


def period_beside(present: Microseconds, *, idle: bool) -> tuple[Microseconds, Microseconds | None]:
    """Return the period of an offline cgroup's quota, and the one that comes back.

    A period that is neither kubelet's nor the longest is somebody else's and stays: None comes back.
    """
    if present not in {KUBELET_PERIOD, LONGEST_PERIOD}:
        return present, None
    return (LONGEST_PERIOD if idle else KUBELET_PERIOD), KUBELET_PERIOD


def shares(request_milli: int) -> int:
    """Return cpu.shares of cgroup v1 for a request in milli-CPU; 0 is none."""
    return min(LARGEST_SHARES, max(SMALLEST_SHARES, request_milli * _SHARES_A_CPU // MILLI))


def weight(request_milli: int) -> int:
    """Return cpu.weight of cgroup v2 for a request in milli-CPU; 0 is none."""
    above = shares(request_milli) - SMALLEST_SHARES
    return 1 + above * (_LARGEST_WEIGHT - 1) // (LARGEST_SHARES - SMALLEST_SHARES)


def quota(limit_milli: int | None, *, period: int, normalization: Ratio) -> int | None:
    """Return the quota of a limit in microseconds of the period, or None for unlimited.

    Raises:
        ValueError: if the ratio is below 1.00 or the period is not positive.
    """
    if normalization < ONE or period <= 0:
        raise ValueError(f"ratio {normalization} must be at least 1.00, and period {period} us above 0")
    if not limit_milli:
        return None
    return max(SMALLEST_QUOTA, deamplified_ceil(limit_milli * period // MILLI, normalization))
