"""Handles the events of the bus: squeezes offline pods by the option in force, and says what holds them back.

The options never hold at once: whoever acts states all that suppression bounds, so what the other option had
bounded goes back to kubelet's in the same call. Without a sample (or an offer) nobody acts: what is bounded
stays, by whichever option, and what somebody else has changed is put back.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from corewise.actions import QuotaOwner
from corewise.agent.cgroups import Found
from corewise.agent.colocation.pod_suppression import LimitedPod, PodSuppression, Turn
from corewise.agent.colocation.slice_suppression import Adjusted, SliceSuppression
from corewise.config.colocation import SuppressionMode, SuppressionSettings
from corewise.kernel.cgroups.cpu import SMALLEST_QUOTA, Bandwidth
from corewise.kernel.cgroups.pods import QOSClass
from corewise.kernel.errors import KernelError, Missing
from corewise.kernel.writing.report import Report, Written
from corewise.service.logs import fields
from corewise.suppression.offer import Offer
from corewise.suppression.quotas import Task
from corewise.vocabulary.offline_report import SuppressionReport
from corewise.vocabulary.reasons import Reason

log = logging.getLogger(__name__)
_MILLI = 1000


@dataclass(frozen=True, slots=True)
class Event:
    """One computation: the offer, and the state of the node that it was made in.

    ``utilization`` is node usage / raw CPUs over the last interval, None where the sample is missing.
    """

    found: Found
    settings: SuppressionSettings
    offer: Offer
    allocatable_milli: int
    utilization: Fraction | None
    pods: tuple[LimitedPod, ...]


class Suppressor:
    """Suppression on one node. What it did since the start is counted by direction (down, up)."""

    def __init__(self, node: str) -> None:
        self._node = node
        self._slice = SliceSuppression()
        self._pods = PodSuppression()
        self._turn: Turn | None = None
        self._after: Bandwidth | None = None
        self.report: SuppressionReport | None = None
        self.repaired = 0
        self.adjustments: Counter[str] = Counter()
        self.slice_missing = False
        self.written: list[Written] = []
        self.problems: dict[str, str] = {}

    @property
    def task(self) -> Task:
        """What goes on in the option of one quota for each pod."""
        return self._pods.task

    @property
    def suppressed_pods(self) -> int:
        """How many pods have less than their limit."""
        return self._turn.suppressed if self._turn else 0

    @property
    def at_floor(self) -> bool:
        """Whether nobody can be squeezed further."""
        if self._turn is not None:
            return bool(self._turn.pods) and all(pod.quota <= pod.floor for pod in self._turn.pods)
        return self._after is not None and self._after.quota == SMALLEST_QUOTA

    def handle(self, event: Event) -> None:
        """Act on an event.

        Raises:
            KernelError: if the BestEffort cgroup is missing or cannot be used, or nothing can be written.
        """
        if event.settings.mode is SuppressionMode.BESTEFFORT_QUOTA:
            self._squeeze_all(event)
        else:
            self._squeeze_each(event)

    def adopt(self, pods: Iterable[LimitedPod]) -> None:
        """Take over what pods were met with (see :class:`PodSuppression`)."""
        self._pods.adopt(pods)

    def release(self, found: Found) -> Report | None:
        """Give everything back; None if there was nothing to give back.

        Raises:
            JournalError: if nothing can be written.
        """
        self._slice.forget()
        self._pods.forget()
        self.report = self._turn = self._after = None
        self.slice_missing = False
        if not found.concerns(QuotaOwner.SUPPRESSION):
            return None
        report = found.writer.reconcile(QuotaOwner.SUPPRESSION, ())
        if report.written:
            log.info("suppression ends: what it bounded is given back", extra=fields(node=self._node))
        return report

    def heed(self, found: Found, written: Iterable[Written], drifted: Iterable[str]) -> None:
        """Count what somebody else's round has put right of ours: the writer mends every owner's bounds.

        Nobody but suppression bounds the BestEffort cgroup, so every write there has mended it.
        """
        ours = found.bounded_by(QuotaOwner.SUPPRESSION)
        cgroup = found.names.qos(QOSClass.BEST_EFFORT)
        mended = {each.cgroup for each in written if each.cgroup == cgroup}
        self.repaired += len(ours.intersection(mended.union(drifted)))

    def _squeeze_all(self, event: Event) -> None:
        self._pods.forget()
        self._turn = None
        if not event.offer.is_known:
            self._mend(event.found)
            return
        try:
            done = self._slice.apply(
                event.found,
                target_milli=event.offer.cpu_milli,
                allocatable_milli=event.allocatable_milli,
                settings=event.settings,
            )
        except KernelError as error:
            self._failed(event, error)
            raise
        self._take(done.report)
        self._after = done.after
        self.repaired += done.adjustment.repaired
        self.slice_missing = False
        self._count(done.before, done.after)
        self._tell(done)
        self.report = self._report_of(event, done)

    def _squeeze_each(self, event: Event) -> None:
        self._slice.forget()
        self._after, self.slice_missing = None, False
        if event.utilization is None:
            self._mend(event.found)
            return
        before = event.found.bounded_by(QuotaOwner.SUPPRESSION)
        self._turn = turn = self._pods.apply(event.found, event.pods, event.utilization, event.settings)
        self._take(turn.report)
        self.repaired += len(before.intersection(turn.report.drifted))
        present = {pod.key: pod.quota for pod in turn.pods}
        for change in turn.cycle.changes:
            self.adjustments["down" if change.quota < present[change.key] else "up"] += 1
            log.info(
                "%s: %s", change.key, change.why, extra=fields(node=self._node, reason=turn.cycle.reason)
            )
        self.report = SuppressionReport(
            mode=event.settings.mode,
            reason=turn.cycle.reason,
            why=_why(turn),
            task=turn.cycle.task,
            repaired=self.repaired,
        )

    def _mend(self, found: Found) -> None:
        report = found.writer.mend()
        self._take(report)
        self.heed(found, report.written, report.drifted)

    def _take(self, report: Report) -> None:
        self.written += report.written
        self.problems |= {cgroup: str(error) for cgroup, error in report.failed.items()}

    def _count(self, before: Bandwidth, after: Bandwidth) -> None:
        if before != after:
            self.adjustments["down" if after.fits_in(before) else "up"] += 1

    def _tell(self, done: Adjusted) -> None:
        """Log a change; a quota that follows the offer by small steps only when asked for much."""
        adjustment = done.adjustment
        if done.before == done.after and not adjustment.repaired:
            return
        known = (
            self.report is not None and self.report.reason == adjustment.reason and not adjustment.repaired
        )
        where = fields(node=self._node, cgroup=done.cgroup, reason=adjustment.reason)
        log.log(logging.DEBUG if known else logging.INFO, "%s", adjustment.why, extra=where)

    def _failed(self, event: Event, error: KernelError) -> None:
        self.slice_missing = isinstance(error, Missing)
        reason = Reason.SLICE_MISSING if self.slice_missing else Reason.SLICE_UNREADABLE
        self.report = SuppressionReport(
            mode=event.settings.mode,
            reason=reason,
            why=str(error),
            target_milli=event.offer.cpu_milli,
            repaired=self.repaired,
        )

    def _report_of(self, event: Event, done: Adjusted) -> SuppressionReport:
        quota, period = done.after.quota, done.after.period
        return SuppressionReport(
            mode=event.settings.mode,
            reason=done.adjustment.reason,
            why=done.adjustment.why,
            quota_milli=None if quota is None else quota * _MILLI // period,
            target_milli=event.offer.cpu_milli,
            step_milli=event.settings.adjust_step.of(event.allocatable_milli),
            repaired=self.repaired,
        )


def _why(turn: Turn) -> str:
    """Return the sentence about a cycle: its first change, and how many more there are."""
    changes = turn.cycle.changes
    if not changes:
        return turn.cycle.reason.text.meaning
    more = f", and {len(changes) - 1} more" if len(changes) > 1 else ""
    return f"{changes[0].key}: {changes[0].why}{more}"
