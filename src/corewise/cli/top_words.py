"""What limits the offline pods of a node, in a few words (pure); the report has the sentence with numbers."""

from __future__ import annotations

from corewise.cli.offline_reports import offer_problem
from corewise.cli.output import cpus
from corewise.vocabulary.offline_report import OfflineReport, SuppressionReport
from corewise.vocabulary.reasons import Reason

_OF_THE_OFFER: dict[str, str] = {
    Reason.OFFER_FROM_IDLE: "{ratio} of idle",
    Reason.OFFER_LESS_PINNED: "{ratio} of idle, less CPUs owned",
    Reason.OFFER_NOTHING_IDLE: "online work takes all",
    Reason.OFFER_RATIO_ZERO: "ratio is 0",
    Reason.OFFER_FROZEN: "no samples: frozen",
    Reason.OFFER_WITHDRAWN: "no samples: withdrawn",
    Reason.SAMPLE_MISSED: "no samples yet",
}
_OF_THE_QUOTA: dict[str, str] = {
    Reason.SUPPRESSION_AT_FLOOR: "at the floor: {offer}",
    Reason.SUPPRESSION_STEPPED_DOWN: "going down to {target}: {offer}",
    Reason.SUPPRESSION_STEPPED_UP: "going up to {target}: {offer}",
    Reason.SUPPRESSION_FAST: "cut to {target}: {offer}",
    Reason.SLICE_MISSING: "nothing: no BestEffort cgroup",
    Reason.SLICE_UNREADABLE: "quota unreadable, as it was",
    Reason.UTILIZATION_HIGH: "utilization high: squeezing pods",
    Reason.UTILIZATION_LOW: "utilization low: raising pods",
    Reason.UTILIZATION_BETWEEN: "each pod's own quota",
    Reason.NOTHING_ADJUSTABLE: "each pod's own quota, all at their ends",
}
"""SuppressionAtTarget is not here: the quota is the offer then, and what limits the offer limits the pods."""


def limit_of(report: OfflineReport) -> str:
    """Return what limits offline pods: the offer, the quota on its way to it, or nothing."""
    if report.suppression is None:
        return f"nothing: not suppressed (offer: {_offer(report)})"
    return _quota(report, report.suppression)


def _offer(report: OfflineReport) -> str:
    code = offer_problem(report) or report.limited_by or Reason.OFFER_FROM_IDLE
    words = _OF_THE_OFFER.get(code, code)
    return words.replace("{ratio}", report.ratio)


def _quota(report: OfflineReport, suppression: SuppressionReport) -> str:
    if suppression.reason == Reason.SUPPRESSION_AT_TARGET:
        return _offer(report)
    words = _OF_THE_QUOTA.get(suppression.reason, suppression.reason)
    return words.replace("{target}", cpus(suppression.target_milli)).replace("{offer}", _offer(report))
