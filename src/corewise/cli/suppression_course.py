"""What suppression does next on a node, if nothing changes (pure).

adjustments = ceil(|quota - target| / step)        one quota for all; shrinking at once is one
"""

from __future__ import annotations

from corewise.cli.output import count
from corewise.config.colocation import SuppressionSettings
from corewise.vocabulary.offline_report import OfflineReport, SuppressionReport
from corewise.vocabulary.reasons import Reason

_MOVING = frozenset({Reason.SUPPRESSION_STEPPED_DOWN, Reason.SUPPRESSION_STEPPED_UP})


def adjustments_left(suppression: SuppressionReport) -> int | None:
    """Return how many adjustments lead to the target; None without a quota for all or a target."""
    quota, target, step = suppression.quota_milli, suppression.target_milli, suppression.step_milli
    if quota is None or target is None or step is None:
        return None
    if suppression.reason not in _MOVING:
        return 0
    return max(1, -(-abs(quota - target) // max(1, step)))


def course(
    suppression: SuppressionReport, report: OfflineReport, settings: SuppressionSettings | None
) -> str:
    """Return what happens next, in words."""
    match suppression.reason:
        case Reason.SLICE_MISSING | Reason.SLICE_UNREADABLE:
            return f"tried again every {report.interval_seconds} s"
        case Reason.UTILIZATION_HIGH | Reason.UTILIZATION_LOW | Reason.UTILIZATION_BETWEEN:
            return _of_each_pod(suppression, settings)
        case Reason.NOTHING_ADJUSTABLE:
            return "nothing, until pods come and go or utilization changes"
    left = adjustments_left(suppression)
    if left is None:
        return "-"
    if left == 0:
        return "nothing, until the offer changes"
    about = left * report.interval_seconds
    return f"{count(left, 'adjustment')} to the target if the offer stays, about {about} s"


def _of_each_pod(suppression: SuppressionReport, settings: SuppressionSettings | None) -> str:
    if settings is None:
        return "depends on settings that are not known"
    step = f"the next {settings.pods_a_cycle} pods {{}} {settings.quota_step} of their limit each interval"
    match suppression.reason:
        case Reason.UTILIZATION_HIGH:
            return f"{step.format('lose')}, until utilization is below {settings.low}"
        case Reason.UTILIZATION_LOW:
            return f"{step.format('gain')}, until utilization is above {settings.low}"
        case _:
            return f"nothing, until utilization is above {settings.high} or below {settings.recover}"
