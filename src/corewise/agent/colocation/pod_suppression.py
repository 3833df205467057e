"""Option 2: a quota for each offline pod, lowered and raised by the node's utilization.

A restart loses nothing: what this owner has bounded is in the journal, and without the journal a quota below
the limit that nobody accounts for is taken for our own from before. What somebody else has changed is put
back by the writer, and the bound is what counts.

The bound is on the pod's cgroup. Where its containers have more (v1 refuses that) the writer narrows them
first.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from corewise.actions import QuotaOwner, WriteQuota
from corewise.agent.cgroups import Found
from corewise.config.colocation import SuppressionSettings
from corewise.kernel.writing.report import Report
from corewise.quantities import Microseconds
from corewise.suppression.quotas import PodQuota, PodQuotaPlan, Task, cycle
from corewise.vocabulary.reasons import Reason


@dataclass(frozen=True, slots=True)
class LimitedPod:
    """An offline pod with a limit. ``limit`` is its batch-cpu limit as a quota: physical, per period.

    ``met``: a quota that the cgroup was just met with, and that nobody accounts for.
    """

    name: str
    cgroup: str
    limit: Microseconds
    period: Microseconds
    met: Microseconds | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    """What came of one cycle: the quotas as they were found, the decision, and what was written."""

    pods: tuple[PodQuota, ...]
    cycle: PodQuotaPlan
    report: Report
    suppressed: int


class PodSuppression:
    """The quotas of one node's offline pods."""

    def __init__(self) -> None:
        self.task = Task.NONE
        self._actions: dict[str, WriteQuota] = {}
        self._adopted: dict[str, Microseconds] = {}

    def forget(self) -> None:
        """Have no task and nothing bounded: all has been given back."""
        self.task = Task.NONE
        self._actions.clear()
        self._adopted.clear()

    def adopt(self, pods: Iterable[LimitedPod]) -> None:
        """Take quotas that were met, and that nobody accounts for, for our own from before."""
        self._adopted.update({pod.cgroup: pod.met for pod in pods if pod.met is not None})

    def apply(
        self,
        found: Found,
        pods: Iterable[LimitedPod],
        utilization: Fraction,
        settings: SuppressionSettings,
    ) -> Turn:
        """Run one cycle.

        Raises:
            JournalError: if nothing can be written.
        """
        by_name = {pod.name: pod for pod in pods}
        quotas = tuple(self._quota(found, pod) for pod in by_name.values())
        self._adopted.clear()
        decided = cycle(self.task, utilization, quotas, settings)
        changes = {change.key: change for change in decided.changes}
        wanted: dict[str, WriteQuota] = {}
        for quota in quotas:
            change = changes.get(quota.key)
            target = change.quota if change else quota.quota
            if target < quota.limit:
                why = change.why if change else "as it was"
                action = self._action(by_name[quota.key], Microseconds(target), decided.reason, why)
                wanted[action.cgroup] = action
        self.task, self._actions = decided.task, wanted
        report = found.writer.reconcile(QuotaOwner.SUPPRESSION, wanted.values())
        return Turn(quotas, decided, report, len(wanted))

    def _action(self, pod: LimitedPod, quota: Microseconds, reason: Reason, why: str) -> WriteQuota:
        """Return the bound of a pod: the one before while it stays, so that the journal has nothing to
        add.
        """
        before = self._actions.get(pod.cgroup)
        if before is not None and (before.quota, before.period) == (quota, pod.period):
            return before
        return WriteQuota(
            cgroup=pod.cgroup,
            owner=QuotaOwner.SUPPRESSION,
            quota=quota,
            base=None,
            period=pod.period,
            reason=reason,
            why=f"pod {pod.name}: {why}",
        )

    def _quota(self, found: Found, pod: LimitedPod) -> PodQuota:
        """Return what a pod has: what this owner bounds it to, else its limit."""
        hold = found.writer.held.get(pod.cgroup)
        bound = hold.bounds.get(QuotaOwner.SUPPRESSION) if hold else None
        present = self._adopted.get(pod.cgroup) if bound is None else bound.quota_over(pod.period)
        return PodQuota(pod.name, pod.limit, present, pod.period)
