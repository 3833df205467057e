"""Option 1: one quota on kubelet's BestEffort cgroup, towards what the offer is, step by step.

Each time the file is read first. Where somebody has changed it, the step goes on from what was applied last,
so a reset (systemd makes one each minute) costs nothing but the time until the next tick. A process that has
just started has applied nothing: it goes on from the file, or, where the journal says that the file was
changed since, from what the journal has. What comes back at the end is kubelet's own: no quota.
"""

from __future__ import annotations

from dataclasses import dataclass

from corewise.actions import QuotaOwner, WriteQuota
from corewise.agent.cgroups import Found
from corewise.config.colocation import SuppressionSettings
from corewise.kernel.cgroups.cpu import Bandwidth, read_bandwidth
from corewise.kernel.cgroups.pods import QOSClass
from corewise.kernel.writing.report import Report
from corewise.quantities import Microseconds
from corewise.suppression.quotas import Adjustment, adjust


@dataclass(frozen=True, slots=True)
class Adjusted:
    """What came of an event: the quota that the file had, the one it has, and why."""

    cgroup: str
    before: Bandwidth
    after: Bandwidth
    adjustment: Adjustment
    report: Report


class SliceSuppression:
    """The quota of one node's BestEffort cgroup."""

    def __init__(self) -> None:
        self._applied: Bandwidth | None = None
        self._action: WriteQuota | None = None

    def forget(self) -> None:
        """Have nothing applied: the quota has been given back."""
        self._applied = self._action = None

    def apply(
        self, found: Found, *, target_milli: int, allocatable_milli: int, settings: SuppressionSettings
    ) -> Adjusted:
        """Take one step.

        Raises:
            KernelError: if the cgroup is missing, or cannot be read or written; it stays as it is.
        """
        cgroup = found.names.qos(QOSClass.BEST_EFFORT)
        present = read_bandwidth(found.files, cgroup)
        adjustment = adjust(
            present=present.quota,
            applied=self._applied_over(found, cgroup, present),
            period=present.period,
            target_milli=target_milli,
            allocatable_milli=allocatable_milli,
            step=settings.adjust_step,
            fast=settings.fast,
        )
        before = self._action
        action = self._action_for(cgroup, present.period, adjustment)
        if action is before and present.quota == action.quota and cgroup in found.writer.held:
            return Adjusted(cgroup, present, present, adjustment, Report())
        report = found.writer.reconcile(QuotaOwner.SUPPRESSION, [action])
        if cgroup in report.failed:
            raise report.failed[cgroup]
        self._applied = after = read_bandwidth(found.files, cgroup)
        return Adjusted(cgroup, present, after, adjustment, report)

    def _applied_over(self, found: Found, cgroup: str, present: Bandwidth) -> int | None:
        """Return what was last applied, for the present period."""
        if self._applied is None:
            return found.writer.applied(cgroup, present)
        return self._applied.quota_over(present.period)

    def _action_for(self, cgroup: str, period: Microseconds, adjustment: Adjustment) -> WriteQuota:
        """Return the action: the one before while the quota stays, so that the journal has nothing to add."""
        quota, before = Microseconds(adjustment.quota), self._action
        if before is not None and (before.cgroup, before.quota, before.period) == (cgroup, quota, period):
            return before
        self._action = WriteQuota(
            cgroup=cgroup,
            owner=QuotaOwner.SUPPRESSION,
            quota=quota,
            base=None,
            period=period,
            reason=adjustment.reason,
            why=adjustment.why,
        )
        return self._action
