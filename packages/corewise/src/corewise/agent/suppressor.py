"""Suppresses the offline pods of one node by the option configured, and says what holds them back.

*Option 1*: one quota on kubelet's BestEffort cgroup, moved towards the offer step by step. Each time the file
is read first. Where somebody has changed it, the step goes on from what was applied last, so a reset (systemd
makes one each minute) costs nothing but the time until the next tick. A process that has just started has
applied nothing: it goes on from the file, or, where the journal says that the file was changed since, from
what the journal has. What comes back at the end is kubelet's own: no quota.

*Option 2*: a quota for each offline pod, lowered and raised by the node's utilization. A restart loses
nothing: what this owner has bounded is in the journal, and without the journal a quota below the limit whose
origin is unknown counts as one that the agent wrote before. What somebody else has changed is put back by the
writer, and the bound is what counts. The bound is on the pod's cgroup; where its containers have more (v1
refuses that) the writer narrows them first. An offline pod that requests cpu, not batch-cpu, has limits of
kubelet's own: on v1 the bounds are on its containers, each in proportion to its limit, because the kernel
would refuse a container that kubelet restarts with its own quota below a narrower pod.

The options are never active together: each call to the writer names all that suppression bounds, so what the
other option had bounded goes back to kubelet's in the same call. Without a sample (or an offer) nothing
moves: what is bounded stays, by whichever option, and what somebody else has changed is put back. What fails
is left as it is, and the next tick tries again with the newest state.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from corewise.actions import QuotaOwner, WriteQuota
from corewise.agent.cgroups import CgroupSetup, Cycle
from corewise.agent.offline_decision import SuppressionStep
from corewise.config.colocation import Isolation, SuppressionMode, SuppressionSettings
from corewise.kernel.cgroups.layout import QOSClass
from corewise.kernel.cgroups.resources import SMALLEST_QUOTA, Bandwidth, has_idle, read_bandwidth
from corewise.kernel.errors import KernelError, Missing
from corewise.kernel.writing.journaled_writer import Written
from corewise.quantities import MILLI, Microseconds
from corewise.service.logs import fields
from corewise.suppression.batch_limits import period_beside
from corewise.suppression.quotas import Adjustment, PodQuota, PodQuotaPlan, Task, adjust, cycle, floor_of
from corewise.vocabulary.offline_report import SuppressionReport
from corewise.vocabulary.reasons import Reason

log = logging.getLogger(__name__)

_STEADY = 10.0
"""The shortest interval, in seconds, at which the quota of all offline pods counts over the longest period.

Each change of a quota starts a new period, with all of the quota: that adds a tenth of it at most.
"""


@dataclass(frozen=True, slots=True)
class LimitedCgroup:
    """A cgroup that bounds an offline pod. ``limit``: its quota without suppression, physical, per period.

    ``base`` is kubelet's quota, None for none, and ``base_period`` kubelet's period, None if it stays.
    """

    cgroup: str
    limit: Microseconds
    period: Microseconds
    base: Microseconds | None = None
    base_period: Microseconds | None = None


@dataclass(frozen=True, slots=True)
class LimitedPod:
    """An offline pod with a limit, and the cgroups that bound it: mostly the pod's own alone.

    ``unclaimed``: a quota that was just found in the first cgroup, and whose origin is unknown.
    """

    name: str
    cgroups: tuple[LimitedCgroup, ...]
    unclaimed: Microseconds | None = None

    @property
    def period(self) -> Microseconds:
        return self.cgroups[0].period

    @property
    def limit(self) -> Microseconds:
        """The quota of all cgroups together, per period of the first."""
        return Microseconds(sum(each.limit * self.period // each.period for each in self.cgroups))


class Suppressor:
    """Suppression on one node.

    ``task`` is what goes on in option 2, and ``suppressed_pods`` how many pods have less than their limit
    there. ``adjustments`` counts since the start by direction (down, up), ``repaired`` what was put right.
    """

    def __init__(self, node: str) -> None:
        self._node = node
        self._slice: Bandwidth | None = None
        self._pods: tuple[PodQuota, ...] | None = None
        self._bounds: dict[str, WriteQuota] = {}
        self._adopted: dict[str, Microseconds] = {}
        self._unwritten: dict[str, PodQuota] = {}
        self.task = Task.NONE
        self.suppressed_pods = 0
        self.report: SuppressionReport | None = None
        self.repaired = 0
        self.adjustments: Counter[str] = Counter()
        self.slice_missing = False

    @property
    def at_floor(self) -> bool:
        """Whether no quota can be lowered further."""
        if self._pods is not None:
            return bool(self._pods) and all(pod.quota <= pod.floor for pod in self._pods)
        return self._slice is not None and self._slice.quota == floor_of(self._slice.period)

    def adjust(
        self,
        found: CgroupSetup,
        step: SuppressionStep,
        pods: Sequence[LimitedPod] | None = (),
        held: Collection[str] = (),
    ) -> Cycle:
        """Take one step of the option configured. What fails is one of the problems of the result.

        With ``pods`` None, which is unknown, no quota of a pod moves. ``held`` are the cgroups of pods whose
        limits are unknown: what is bounded there stays bounded, also at the limit that its base gives.
        """
        result = Cycle()
        try:
            if step.settings.mode is SuppressionMode.BESTEFFORT_QUOTA:
                self._forget_pods()
                if step.offer.is_known:
                    self._adjust_slice(found, step, result)
                    return result
            else:
                self._forget_slice()
                if step.utilization is not None and pods is not None:
                    self._adjust_pods(found, step.settings, step.utilization, pods, result, held=held)
                    return result
            report = found.writer.mend()
            result.add(report)
            self.record_repairs(found, report.written, report.drifted)
        except KernelError as error:
            result.problems["suppression"] = str(error)
        return result

    def adopt(self, pods: Iterable[LimitedPod]) -> None:
        """Take quotas of unknown origin for the agent's own, written before it restarted."""
        self._adopted |= {pod.name: pod.unclaimed for pod in pods if pod.unclaimed is not None}

    def release(self, found: CgroupSetup, *, keeps_pods: bool = False) -> Cycle:
        """Give back what is bounded; with ``keeps_pods`` the quota of the BestEffort cgroup alone."""
        self._forget_slice()
        self.report = None
        kept = frozenset[str]()
        if keeps_pods:
            kept = found.bounded_by(QuotaOwner.SUPPRESSION) - {found.names.qos(QOSClass.BEST_EFFORT)}
        else:
            self._forget_pods()
            self._bounds = {}
        result = Cycle()
        if found.concerns(QuotaOwner.SUPPRESSION):
            with result.noting_errors():
                result.add(found.writer.reconcile(QuotaOwner.SUPPRESSION, (), kept=kept))
        if result.written and not keeps_pods:
            log.info("suppression ends: its bounds are removed", extra=fields(node=self._node))
        return result

    def record_repairs(self, found: CgroupSetup, written: Iterable[Written], drifted: Iterable[str]) -> None:
        """Count what somebody else's round has put right of ours: the writer mends every owner's bounds.

        Only suppression bounds the BestEffort cgroup, so every write there has mended it.
        """
        ours = found.bounded_by(QuotaOwner.SUPPRESSION)
        cgroup = found.names.qos(QOSClass.BEST_EFFORT)
        mended = {each.cgroup for each in written if each.cgroup == cgroup}
        self.repaired += len(ours.intersection(mended.union(drifted)))

    def _forget_slice(self) -> None:
        self._slice, self.slice_missing = None, False

    def _forget_pods(self) -> None:
        self.task, self.suppressed_pods, self._pods = Task.NONE, 0, None
        self._adopted.clear()
        self._unwritten.clear()

    def _bound(self, of: LimitedCgroup, quota: int, reason: Reason, why: str) -> WriteQuota:
        """Return a bound: the same as long as it stays, so that the journal has nothing to add."""
        last = self._bounds.get(of.cgroup)
        if last is not None and (last.quota, last.period, last.base) == (quota, of.period, of.base):
            return last
        return WriteQuota(
            cgroup=of.cgroup,
            owner=QuotaOwner.SUPPRESSION,
            quota=Microseconds(quota),
            base=of.base,
            period=of.period,
            reason=reason,
            why=why,
            base_period=of.base_period,
        )

    def _adjust_slice(self, found: CgroupSetup, step: SuppressionStep, result: Cycle) -> None:
        """Option 1: take one step.

        Raises:
            KernelError: if the cgroup is missing, or cannot be read or written; it stays as it is.
        """
        settings, target_milli = step.settings, step.offer.cpu_milli
        cgroup = found.names.qos(QOSClass.BEST_EFFORT)
        try:
            before = read_bandwidth(found.files, cgroup)
            is_steady = step.interval >= _STEADY and settings.isolation is Isolation.IDLE
            idle = is_steady and has_idle(found.files, cgroup)
            period, base_period = period_beside(before.period, idle=idle)
            applied = self._slice or Bandwidth(found.writer.applied(cgroup, before), before.period)
            adjustment = adjust(
                present=before.quota_over(period),
                applied=applied.quota_over(period),
                period=period,
                target_milli=target_milli,
                allocatable_milli=step.allocatable_milli,
                step=settings.adjust_step,
            )
            slice_ = LimitedCgroup(cgroup, Microseconds(adjustment.quota), period, base_period=base_period)
            after = self._write_slice(found, slice_, before, adjustment, result)
        except KernelError as error:
            self.slice_missing = isinstance(error, Missing)
            self.report = SuppressionReport(
                mode=settings.mode,
                reason=Reason.SLICE_MISSING if self.slice_missing else Reason.SLICE_UNREADABLE,
                why=str(error),
                target_milli=target_milli,
                repaired=self.repaired,
            )
            raise
        self._slice, self.slice_missing = after, False
        self.repaired += adjustment.repaired
        if before != after:
            self.adjustments["down" if after.fits_in(before) else "up"] += 1
        if before != after or adjustment.repaired:
            # A quota that follows the offer by small steps is logged only where much is to be logged.
            follows = self.report is not None and self.report.reason == adjustment.reason
            level = logging.DEBUG if follows and not adjustment.repaired else logging.INFO
            where = fields(node=self._node, cgroup=cgroup, reason=adjustment.reason)
            log.log(level, "%s", adjustment.why, extra=where)
        self.report = SuppressionReport(
            mode=settings.mode,
            reason=adjustment.reason,
            why=adjustment.why,
            quota_milli=None if after.quota is None else after.quota * MILLI // after.period,
            target_milli=target_milli,
            step_milli=settings.adjust_step.of(step.allocatable_milli),
            repaired=self.repaired,
        )

    def _write_slice(
        self,
        found: CgroupSetup,
        slice_: LimitedCgroup,
        present: Bandwidth,
        adjustment: Adjustment,
        result: Cycle,
    ) -> Bandwidth:
        """Bring the BestEffort cgroup to its quota; return what it has then."""
        cgroup = slice_.cgroup
        last, aim = self._bounds.get(cgroup), Bandwidth(slice_.limit, slice_.period)
        bound = self._bound(slice_, adjustment.quota, adjustment.reason, adjustment.why)
        # The usual tick: nothing to write, and nothing to enter in the journal.
        if bound is last and present == aim and cgroup in found.writer.held:
            return present
        self._bounds = {cgroup: bound}
        report = found.writer.reconcile(QuotaOwner.SUPPRESSION, [bound])
        if cgroup in report.failed:
            raise report.failed[cgroup]
        result.add(report)
        return read_bandwidth(found.files, cgroup)

    def _adjust_pods(
        self,
        found: CgroupSetup,
        settings: SuppressionSettings,
        utilization: Fraction,
        limited: Iterable[LimitedPod],
        result: Cycle,
        *,
        held: Collection[str],
    ) -> None:
        """Option 2: lower or raise some pods' quotas.

        Raises:
            JournalError: if nothing can be written.
        """
        bounded = found.bounded_by(QuotaOwner.SUPPRESSION)
        pods = {pod.name: pod for pod in limited}
        quotas = {name: self._pod_quota(found, pod) for name, pod in pods.items()}
        plan = cycle(self.task, utilization, tuple(quotas.values()), settings)
        changes = {change.key: change for change in plan.changes}
        wanted: dict[str, WriteQuota] = {}
        suppressed = 0
        for name, quota in quotas.items():
            pod, change = pods[name], changes.get(name)
            target, why = (change.quota, change.why) if change else (quota.quota, "as it was")
            if target < quota.limit or any(each.cgroup in held for each in pod.cgroups):
                why = f"pod {name}: {why}"
                for each in pod.cgroups:
                    share = max(SMALLEST_QUOTA, each.limit * target // quota.limit)
                    wanted[each.cgroup] = self._bound(each, share, plan.reason, why)
                suppressed += target < quota.limit
        self.task, self._bounds = plan.task, wanted
        report = found.writer.reconcile(QuotaOwner.SUPPRESSION, wanted.values(), kept=held)
        result.add(report)
        self._adopted.clear()
        self._unwritten = {
            name: quotas[name]
            for name, pod in pods.items()
            if any(each.cgroup in report.failed for each in pod.cgroups)
        }
        self._pods, self.suppressed_pods = tuple(quotas.values()), suppressed
        self.repaired += len(bounded.intersection(report.drifted))
        for change in plan.changes:
            self.adjustments["down" if change.quota < quotas[change.key].quota else "up"] += 1
            log.info("%s: %s", change.key, change.why, extra=fields(node=self._node, reason=plan.reason))
        self.report = SuppressionReport(
            mode=settings.mode,
            reason=plan.reason,
            why=_why(plan),
            task=plan.task,
            repaired=self.repaired,
        )

    def _pod_quota(self, found: CgroupSetup, pod: LimitedPod) -> PodQuota:
        """Return the quota of a pod: the bound that suppression set, else its limit.

        A bound that could not be written is not the pod's quota: what the pod had before it is.
        """
        unwritten = self._unwritten.get(pod.name)
        if unwritten is not None and (unwritten.limit, unwritten.period) == (pod.limit, pod.period):
            return unwritten
        limit, shares = pod.limit, []
        for each in pod.cgroups:
            claim = found.writer.held.get(each.cgroup)
            bound = claim.bounds.get(QuotaOwner.SUPPRESSION) if claim else None
            if bound is not None and (quota := bound.quota_over(each.period)) is not None:
                shares.append(-(-quota * limit // each.limit))
        present = min(shares, default=self._adopted.get(pod.name))
        return PodQuota(pod.name, limit, present, pod.period)


def _why(plan: PodQuotaPlan) -> str:
    """Return the sentence about a cycle: its first change, and how many more there are."""
    if not plan.changes:
        return plan.reason.meaning
    first, *others = plan.changes
    return f"{first.key}: {first.why}" + (f", and {len(others)} more" if others else "")
