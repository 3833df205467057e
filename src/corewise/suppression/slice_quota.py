"""Option 1: one quota for all offline pods, moved towards the offer in steps.

    floor  = 1000 us, what the kernel takes at least
    top    = max(floor, allocatable milli x period // 1000)
    target = clamp(offered milli x period // 1000, floor, top)       0 offered is the floor, never "max"
    step   = max(1 us, adjustStep x top)
    start  = what was applied last, if somebody changed it (repaired);
             top, if there is no quota or one above top; else what is there
    quota  = target, if that is at most one step from start, or below it and ``fast``; else start +- step

So floor <= quota <= top always; one adjustment moves by at most one step (but for ``fast`` shrinking and for
repairs), in both directions; under a constant target the quota is there after ceil(|start - target| / step)
adjustments, to the microsecond, and stays. What was applied last goes back and is stepped from in one
tick, so somebody who writes "max" each minute gains nothing. After a restart nothing was applied yet, and the
file is what to go on from.

A period is only read. If somebody changes it, the amounts follow it, and what was applied last is to be
stated as what it is worth in the new one.

Source: design/suppression.md, Option 1.
"""

from __future__ import annotations

from dataclasses import dataclass

from corewise.quantities import Share
from corewise.suppression.wording import quota_cores
from corewise.vocabulary.reasons import Reason

SMALLEST_QUOTA = 1000
"""Microseconds; the kernel refuses less."""

_MILLI = 1000


@dataclass(frozen=True, slots=True)
class Adjustment:
    """What the quota of the slice is to be. All quotas are in microseconds of the period.

    ``start`` is what the step was taken from and ``target`` what is stepped towards. ``repaired``: somebody
    else had changed the quota that was applied last.
    """

    quota: int
    start: int
    target: int
    repaired: bool
    reason: Reason
    why: str


def quota_of(milli: int, period: int) -> int:
    """Return the quota that is worth so many milli-CPU, at least the floor; 0 CPU are the floor too."""
    return max(SMALLEST_QUOTA, milli * period // _MILLI)


def largest_step(allocatable_milli: int, period: int, step: Share) -> int:
    """Return by how many microseconds one adjustment moves at most; at least one."""
    return max(1, step.of(quota_of(allocatable_milli, period)))


def adjust(
    present: int | None,
    applied: int | None,
    period: int,
    *,
    target_milli: int,
    allocatable_milli: int,
    step: Share,
    fast: bool,
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
    start = _start(applied if repaired else present, top)
    quota = _stepped(start, target, largest, fast=fast)
    reason = _reason(start, quota, target, largest)
    why = _told(reason, start, quota, target, period)
    if repaired:
        why = f"somebody set it to {_shown(present)} instead of {_shown(applied)}, which goes back; {why}"
    return Adjustment(quota, start, target, repaired, reason, why)


def _start(quota: int | None, top: int) -> int:
    return top if quota is None else min(top, max(SMALLEST_QUOTA, quota))


def _stepped(start: int, target: int, largest: int, *, fast: bool) -> int:
    if target < start:
        return target if fast else max(target, start - largest)
    return min(target, start + largest)


def _reason(start: int, quota: int, target: int, largest: int) -> Reason:
    if quota != target:
        return Reason.SUPPRESSION_STEPPED_DOWN if quota < start else Reason.SUPPRESSION_STEPPED_UP
    if start - quota > largest:
        return Reason.SUPPRESSION_FAST
    return Reason.SUPPRESSION_AT_FLOOR if target == SMALLEST_QUOTA else Reason.SUPPRESSION_AT_TARGET


def _told(reason: Reason, start: int, quota: int, target: int, period: int) -> str:
    now, before, aim = (quota_cores(each, period) for each in (quota, start, target))
    is_now = f"quota {quota} us of {period} us ({now} CPUs)"
    match reason:
        case Reason.SUPPRESSION_STEPPED_DOWN:
            return f"{is_now}, one step down from {before} CPUs towards {aim} CPUs"
        case Reason.SUPPRESSION_STEPPED_UP:
            return f"{is_now}, one step up from {before} CPUs towards {aim} CPUs"
        case Reason.SUPPRESSION_FAST:
            return f"{is_now}, down from {before} CPUs at once, as fastSuppress asks"
        case Reason.SUPPRESSION_AT_FLOOR:
            return f"{is_now}, the smallest: no more than that is offered"
        case _:
            return f"{is_now}, the amount offered"


def _shown(quota: int | None) -> str:
    return "max" if quota is None else f"{quota} us"
