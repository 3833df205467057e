"""Option 2: a quota for each offline pod, adjusted by the utilization of the node.

    utilization > high                      -> suppressing, whatever went on before
    suppressing, until utilization < low    -> pods by descending (quota / limit, limit), names ascending
    utilization < recover, nothing going on -> recovering
    recovering, until utilization > low     -> pods by ascending (quota / limit, limit), names ascending

In each cycle the first ``pods_a_cycle`` of those that can still be moved lose, or gain,
``quota_step x limit``, at least one microsecond; never below max(10 % of the limit, 1000 us), never above
the limit. If none can be moved, the task ends. A suppression that ends below ``recover`` turns into a
recovery in the same cycle.

The limit is the batch-cpu limit divided by the normalization ratio: physical, in microseconds of the pod's
period. A pod without one is skipped. What a pod has is read from its cgroup, so a restart loses nothing; a
pod without a quota ("max") counts as at its limit. Pods' periods may differ: limits compare as CPUs.

Source: design/suppression.md, Option 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from corewise.config.colocation import SuppressionSettings
from corewise.quantities import Share
from corewise.suppression.wording import quota_cores
from corewise.vocabulary.reasons import Reason

SMALLEST_QUOTA = 1000
"""Microseconds; the kernel refuses less."""

_SMALLEST_PART = 10
_TENTHS_OF_PERCENT = 1000


class Task(StrEnum):
    """What goes on over several cycles."""

    NONE = ""
    SUPPRESSING = "suppressing"
    RECOVERING = "recovering"


@dataclass(frozen=True, slots=True)
class PodQuota:
    """One offline pod: its limit, and what its cgroup holds (None: "max"), in microseconds of its period."""

    key: str
    limit: int
    present: int | None
    period: int

    @property
    def top(self) -> int:
        """The largest quota: the limit."""
        return max(self.limit, SMALLEST_QUOTA)

    @property
    def floor(self) -> int:
        """The smallest quota: 10 % of the limit, and what the kernel takes at least."""
        return max(-(-self.limit // _SMALLEST_PART), SMALLEST_QUOTA)

    @property
    def quota(self) -> int:
        """What the pod may use; never more than its limit, whatever the file says."""
        return self.top if self.present is None else min(self.present, self.top)


@dataclass(frozen=True, slots=True)
class Change:
    """The quota that one pod is to have, in microseconds of its period."""

    key: str
    quota: int
    why: str


@dataclass(frozen=True, slots=True)
class Cycle:
    """What goes on after a cycle, and what it changes. Pods that are not named keep what they have."""

    task: Task
    changes: tuple[Change, ...]
    reason: Reason


def cycle(
    task: Task, utilization: Fraction, pods: Sequence[PodQuota], settings: SuppressionSettings
) -> Cycle:
    """Return what one cycle does. Utilization is node usage by raw CPU over the last interval."""
    wanted = _task(task, utilization, settings)
    if wanted is Task.NONE:
        return Cycle(Task.NONE, (), Reason.UTILIZATION_BETWEEN)
    limited = [pod for pod in pods if pod.limit > 0]
    suppresses = wanted is Task.SUPPRESSING
    moved = _lowered(limited, settings) if suppresses else _raised(limited, settings)
    if not moved:
        return Cycle(Task.NONE, (), Reason.NOTHING_ADJUSTABLE)
    changes = tuple(Change(pod.key, quota, _why(pod, quota, utilization)) for pod, quota in moved)
    return Cycle(wanted, changes, Reason.UTILIZATION_HIGH if suppresses else Reason.UTILIZATION_LOW)


def _task(task: Task, utilization: Fraction, settings: SuppressionSettings) -> Task:
    low = settings.low.fraction
    if utilization > settings.high.fraction:
        return Task.SUPPRESSING
    if task is Task.SUPPRESSING and utilization >= low:
        return Task.SUPPRESSING
    if task is Task.RECOVERING and utilization <= low:
        return Task.RECOVERING
    return Task.RECOVERING if utilization < settings.recover.fraction else Task.NONE


def _lowered(pods: Sequence[PodQuota], settings: SuppressionSettings) -> list[tuple[PodQuota, int]]:
    movable = [pod for pod in pods if pod.quota > pod.floor]
    movable.sort(key=lambda pod: (*(-part for part in _rank(pod)), pod.key))
    chosen = movable[: settings.pods_a_cycle]
    return [(pod, max(pod.floor, pod.quota - _step(pod, settings.quota_step))) for pod in chosen]


def _raised(pods: Sequence[PodQuota], settings: SuppressionSettings) -> list[tuple[PodQuota, int]]:
    movable = [pod for pod in pods if pod.quota < pod.top]
    movable.sort(key=lambda pod: (*_rank(pod), pod.key))
    chosen = movable[: settings.pods_a_cycle]
    return [
        (pod, min(pod.top, max(pod.floor, pod.quota + _step(pod, settings.quota_step)))) for pod in chosen
    ]


def _rank(pod: PodQuota) -> tuple[Fraction, Fraction]:
    """Return how little suppressed a pod is, and how many CPUs its limit is."""
    return Fraction(pod.quota, pod.limit), Fraction(pod.limit, pod.period)


def _step(pod: PodQuota, step: Share) -> int:
    return max(1, step.of(pod.limit))


def _why(pod: PodQuota, quota: int, utilization: Fraction) -> str:
    before, after, limit = (quota_cores(each, pod.period) for each in (pod.quota, quota, pod.limit))
    tenths = int(utilization * _TENTHS_OF_PERCENT)
    return (
        f"node utilization {tenths // 10}.{tenths % 10} %: from {before} to {after} CPUs of the limit {limit}"
    )
