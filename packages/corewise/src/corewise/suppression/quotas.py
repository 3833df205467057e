"""The movement of offline pods' quotas: one quota for all of them, or one for each.

Option 1: one quota for all offline pods, moved towards the offer in steps.

    floor  = 1 % of a CPU, and 1000 us, what the kernel takes at least
    top    = max(floor, allocatable milli x period // 1000)
    target = clamp(offered milli x period // 1000, floor, top)       0 offered is the floor, never "max"
    step   = max(1 us, adjustStep x top)
    start  = what was applied last, if somebody changed it (repaired);
             top, if there is no quota or one above top; else what is there
    quota  = target, if that is at most one step from start; else start +- step

So floor <= quota <= top always; one adjustment moves by at most one step (but for repairs), in both
directions; under a constant target the quota is there after ceil(|start - target| / step) adjustments, to the
microsecond, and stays. What was applied last goes back and is stepped from in one tick, so somebody who
writes "max" each minute gains nothing. After a restart nothing was applied yet: steps start from the file.

If somebody changes the period, the amounts follow it, and what was applied last is to be stated as what it is
worth in the new one.

Option 2: a quota for each offline pod, adjusted by the utilization of the CPUs that no CPUSet pod owns.

    utilization = (node usage - sum over CPUSet pods of min(requested, used)) / (CPUs - sum of requested)

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

docs/concepts/suppression.md compares the two options.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from corewise.config.colocation import SuppressionSettings
from corewise.quantities import MILLI, Share
from corewise.suppression.batch_limits import SMALLEST_QUOTA
from corewise.suppression.offer import Usage
from corewise.vocabulary.reasons import Reason

_SMALLEST_PART = 10
_PERCENT = 100
_TENTHS_OF_PERCENT = 1000


@dataclass(frozen=True, slots=True)
class Adjustment:
    """The new quota of the slice. All quotas are in microseconds of the period.

    ``start`` is what the step was taken from and ``target`` what is stepped towards. ``repaired``: somebody
    else had changed the quota that was applied last.
    """

    quota: int
    start: int
    target: int
    repaired: bool
    reason: Reason
    why: str


def floor_of(period: int) -> int:
    """Return the smallest quota: 1 % of a CPU, and what the kernel takes at least."""
    return max(SMALLEST_QUOTA, period // _PERCENT)


def quota_of(milli: int, period: int) -> int:
    """Return the quota that is worth so many milli-CPU, at least the floor; 0 CPU are the floor too."""
    return max(floor_of(period), milli * period // MILLI)


def largest_step(allocatable_milli: int, period: int, step: Share) -> int:
    """Return the largest change of one adjustment in microseconds; at least one."""
    return max(1, step.of(quota_of(allocatable_milli, period)))


def adjust(
    present: int | None,
    applied: int | None,
    period: int,
    *,
    target_milli: int,
    allocatable_milli: int,
    step: Share,
) -> Adjustment:
    """Return the next quota of the slice.

    ``present`` is what the file holds, None for "max"; ``applied`` what was last written there, None if
    nothing was yet; both in microseconds of the present period. Milli-CPU are physical.

    Raises:
        ValueError: if the period is not positive.
    """
    if period <= 0:
        raise ValueError(f"period {period} us must be above 0")
    top = quota_of(allocatable_milli, period)
    target = min(top, quota_of(target_milli, period))
    largest = largest_step(allocatable_milli, period, step)
    repaired = applied is not None and present != applied
    begin = applied if repaired else present
    start = top if begin is None else min(top, max(floor_of(period), begin))
    quota = max(start - largest, min(target, start + largest))
    reason, why = _explain(start, quota, target, period)
    if repaired:
        texts = ("max" if each is None else f"{each} us" for each in (present, applied))
        why = "somebody set it to {} instead of {}, which is restored; {}".format(*texts, why)
    return Adjustment(quota, start, target, repaired, reason, why)


def _explain(start: int, quota: int, target: int, period: int) -> tuple[Reason, str]:
    now, before, aim = (_cores(each, period) for each in (quota, start, target))
    if quota < start and quota != target:
        reason, what = Reason.SUPPRESSION_STEPPED_DOWN, f"one step down from {before} CPUs towards {aim} CPUs"
    elif quota != target:
        reason, what = Reason.SUPPRESSION_STEPPED_UP, f"one step up from {before} CPUs towards {aim} CPUs"
    elif target == floor_of(period):
        reason, what = Reason.SUPPRESSION_AT_FLOOR, "the smallest: no more than that is offered"
    else:
        reason, what = Reason.SUPPRESSION_AT_TARGET, "the amount offered"
    return reason, f"quota {quota} us of {period} us ({now} CPUs), {what}"


class Task(StrEnum):
    """The task that runs over several cycles."""

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
        return max(self.limit, SMALLEST_QUOTA)

    @property
    def floor(self) -> int:
        """The smallest quota: 10 % of the limit, and what the kernel takes at least."""
        return max(-(-self.limit // _SMALLEST_PART), SMALLEST_QUOTA)

    @property
    def quota(self) -> int:
        """The CPU time that the pod may use; never more than its limit, whatever the file says."""
        return self.top if self.present is None else min(self.present, self.top)

    @property
    def rank(self) -> tuple[Fraction, Fraction]:
        """The order of pods: by the part of the limit they have, then by their limit in CPUs."""
        return Fraction(self.quota, self.limit), Fraction(self.limit, self.period)


@dataclass(frozen=True, slots=True)
class PodQuotaChange:
    """The quota that one pod is to have, in microseconds of its period."""

    key: str
    quota: int
    why: str


@dataclass(frozen=True, slots=True)
class PodQuotaPlan:
    """The task after a cycle, and the quotas it changes. Pods that are not named keep theirs."""

    task: Task
    changes: tuple[PodQuotaChange, ...]
    reason: Reason


def utilization_of(usage: Usage, cpus: int) -> Fraction:
    """Return the used part of the CPUs that no CPUSet pod owns, of ``cpus`` online; 1 if pods own all.

    A pod whose use is not known yet still counts among the others, with its CPUs.
    """
    owners = [each for each in usage.pinned if each.is_known]
    shared = cpus * MILLI - sum(each.requested_milli for each in owners)
    used = usage.node_milli - sum(min(each.requested_milli, each.used_milli) for each in owners)
    return min(Fraction(1), Fraction(max(0, used), shared)) if shared > 0 else Fraction(1)


def cycle(
    task: Task, utilization: Fraction, pods: Sequence[PodQuota], settings: SuppressionSettings
) -> PodQuotaPlan:
    """Return the plan of one cycle. ``utilization`` is that of :func:`utilization_of`."""
    following = _following(task, utilization, settings)
    if following is Task.NONE:
        return PodQuotaPlan(Task.NONE, (), Reason.UTILIZATION_BETWEEN)
    suppresses = following is Task.SUPPRESSING
    limited = [pod for pod in pods if pod.limit > 0]
    moved = list(_moved(limited, settings, way=-1 if suppresses else 1))
    if not moved:
        return PodQuotaPlan(Task.NONE, (), Reason.NOTHING_ADJUSTABLE)
    changes = tuple(PodQuotaChange(pod.key, quota, _why(pod, quota, utilization)) for pod, quota in moved)
    reason = Reason.UTILIZATION_HIGH if suppresses else Reason.UTILIZATION_LOW
    return PodQuotaPlan(following, changes, reason)


def _following(task: Task, utilization: Fraction, settings: SuppressionSettings) -> Task:
    low = settings.low.fraction
    if utilization > settings.high.fraction or (task is Task.SUPPRESSING and utilization >= low):
        return Task.SUPPRESSING
    if utilization < settings.recover.fraction or (task is Task.RECOVERING and utilization <= low):
        return Task.RECOVERING
    return Task.NONE


def _moved(
    pods: Sequence[PodQuota], settings: SuppressionSettings, *, way: int
) -> Iterator[tuple[PodQuota, int]]:
    """Yield the pods that are moved, and their new quotas; ``way`` is -1 (down) or 1 (up)."""
    movable = [pod for pod in pods if (pod.quota > pod.floor if way < 0 else pod.quota < pod.top)]
    # The least suppressed are lowered first, the most suppressed raised first.
    movable.sort(key=lambda pod: (*(way * part for part in pod.rank), pod.key))
    for pod in movable[: settings.pods_a_cycle]:
        step = max(1, settings.quota_step.of(pod.limit))
        yield pod, min(pod.top, max(pod.floor, pod.quota + way * step))


def _why(pod: PodQuota, quota: int, utilization: Fraction) -> str:
    before, after, limit = (_cores(each, pod.period) for each in (pod.quota, quota, pod.limit))
    tenths = int(utilization * _TENTHS_OF_PERCENT)
    return (
        f"node utilization {tenths // 10}.{tenths % 10} %: from {before} to {after} CPUs of the limit {limit}"
    )


def _cores(quota: int, period: int) -> str:
    """Return a quota per period as CPUs, rounded down to thousandths, without a binary float: "14.4"."""
    whole, rest = divmod(quota * MILLI // period, MILLI)
    return str(whole) + f".{rest:03d}".rstrip("0").rstrip(".")
