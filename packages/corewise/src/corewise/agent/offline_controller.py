"""Controls the offline pods of one node: samples, offers, suppresses, and reports what it did.

Synchronous; time is an argument, so one process may keep one node or a thousand simulated ones. Each
``tick`` is an interval: a sample, an offer, and a step of suppression (:mod:`corewise.agent.suppressor`).
``settle`` is for what need not wait for the next interval: a pod's own limits, and giving back what is
switched off.

As long as the settings or the node are not known, nothing is begun and nothing given back.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

from corewise.agent.cgroups import CgroupSetup, Cycle
from corewise.agent.eviction import Evictor
from corewise.agent.local_node import LocalNode
from corewise.agent.objects import QuotaPod
from corewise.agent.offline_limits import BatchLimits, native_limit
from corewise.agent.offline_pods import NodePods, PodTable, batch_requests
from corewise.agent.offline_settings import Switch, read_switch
from corewise.agent.resctrl_limits import ResctrlLimits
from corewise.agent.sampler import Miss, Missed, Sampler, Samples
from corewise.agent.suppressor import LimitedPod, Suppressor
from corewise.config.colocation import (
    OversubscriptionSettings,
    ResctrlSettings,
    SuppressionMode,
    SuppressionSettings,
)
from corewise.config.eviction import NO_EVICTION, EvictionSettings
from corewise.kernel.errors import KernelError
from corewise.kube.clock import rfc3339
from corewise.quantities import ONE, Ratio, Share
from corewise.suppression.eviction import EvictionVerdict
from corewise.suppression.offer import (
    NO_AMOUNTS,
    Computed,
    Offer,
    OfferHistory,
    OfflineAmounts,
    Usage,
    compute,
)
from corewise.vocabulary.offline_report import (
    LONGEST_CURVE,
    EvictionReport,
    MemoryReport,
    OfflineReport,
    ResctrlReport,
    SuppressionReport,
)
from corewise.vocabulary.reasons import Reason

_NOTHING_USED = Usage(0, 0, (), 0, 0)
_NOTHING_COMPUTED = Computed(0, 0, 0, 0, 0, Reason.OFFER_WITHDRAWN)


@dataclass(slots=True)
class SampleHistory:
    """The last samples of a node. ``wall``: when the last one was taken, in seconds since 1970."""

    wall: float = 0.0
    usage: Usage | None = None
    online: deque[int] = field(default_factory=lambda: deque(maxlen=LONGEST_CURVE))
    offline: deque[int] = field(default_factory=lambda: deque(maxlen=LONGEST_CURVE))

    def add(self, wall: float, usage: Usage, computed: Computed) -> None:
        self.wall, self.usage = wall, usage
        self.online.append(computed.online_milli)
        self.offline.append(usage.offline_milli)


def report_of(
    measured: SampleHistory,
    offer: Offer,
    suppression: SuppressionReport | None,
    *,
    settings: OversubscriptionSettings,
    allocatable: OfflineAmounts,
    normalization: Ratio,
    native: int,
    offline: int,
    resctrl: ResctrlReport | None = None,
    eviction: EvictionReport | None = None,
) -> OfflineReport | None:
    """Return the report, or None as long as there is nothing to act on.

    What was withdrawn without ever having been measured (an agent that can read nothing) is reported with
    zeros. ``native`` and ``offline`` count the best-effort pods of the node.
    """
    if not offer.is_known:
        return None
    usage, latest = measured.usage or _NOTHING_USED, offer.latest or _NOTHING_COMPUTED
    return OfflineReport(
        time=rfc3339(datetime.fromtimestamp(measured.wall, UTC)),
        interval_seconds=int(settings.interval),
        state=offer.state,
        ratio=str(settings.ratio),
        normalization_ratio=str(normalization),
        allocatable_milli=allocatable.cpu_milli,
        node_milli=usage.node_milli,
        online_milli=latest.online_milli,
        offline_milli=usage.offline_milli,
        pinned_milli=latest.pinned_extra_milli,
        offered_milli=offer.cpu_milli,
        raw_offer_milli=latest.cpu_milli,
        memory=MemoryReport(
            allocatable=allocatable.memory,
            online=latest.online_memory,
            offline=usage.offline_memory,
            offered=offer.memory,
        ),
        samples=offer.samples,
        missing=offer.missing,
        native_best_effort=native,
        offline_pods=offline,
        limited_by=offer.reason,
        suppression=suppression,
        resctrl=resctrl,
        eviction=eviction,
        online=list(measured.online),
        offline=list(measured.offline),
    )


@dataclass(slots=True)
class Tick(Cycle):
    """The result of one interval.

    ``on``: whether the node offers at all; None if that is not known; then nothing is reported. ``wall``:
    when it was, in seconds since 1970. ``running`` and ``requested``: the batch resources that pods of the
    node request, those that run and all of them.
    """

    on: bool | None = None
    wall: float = 0.0
    running: OfflineAmounts = NO_AMOUNTS
    requested: OfflineAmounts = NO_AMOUNTS
    offer: Offer | None = None
    report: OfflineReport | None = None


class OfflineController:
    """One node's offline pods. ``samples`` is asked for their usage in place of the kernel's counters.

    ``on``: whether the node offers to offline pods; None if that is not known. ``suppression``: how offline
    pods are held back; None if that is not known.
    """

    def __init__(self, local: LocalNode, root: Path, *, samples: Samples | None = None) -> None:
        self._local = local
        self._samples = samples or Sampler(root, local.cgroups)
        self._halfway = Sampler(root, local.cgroups)
        self._table = PodTable(local.rules)
        self._limits = BatchLimits()
        self._resctrl = ResctrlLimits()
        self._history = OfferHistory()
        self._measured = SampleHistory()
        self._switch = Switch()
        self._allocatable: OfflineAmounts | None = None
        self._ratio = ONE
        self._held_milli: int | None = None
        """The quota of all offline pods as the last tick left it."""
        self._oversubscription: OversubscriptionSettings | None = None
        self._resctrl_settings: ResctrlSettings | None = None
        self.suppression: SuppressionSettings | None = None
        self.suppressor = Suppressor(local.name)
        self.evictor = Evictor(local.name)
        self.on: bool | None = None
        self.missed: Counter[Miss] = Counter()
        self.utilization: Fraction | None = None
        self.pods = NodePods()
        self.last = Tick()

    @property
    def sampled_at(self) -> float | None:
        """The time of the last sample since oversubscription was turned on, in seconds since 1970."""
        return self._measured.wall if self._measured.usage else None

    @property
    def suppresses(self) -> bool:
        """Whether pods are held back: by one quota while the node offers, by each pod's own always."""
        settings = self.suppression
        if settings is None or not settings.enabled or self.on is None:
            return False
        return self.on or settings.mode is SuppressionMode.PER_POD_QUOTA

    @property
    def holds_all_back(self) -> bool:
        """Whether one quota holds all offline pods back, by what the node offers."""
        settings = self.suppression
        return (
            self.on is True
            and settings is not None
            and settings.enabled
            and settings.mode is SuppressionMode.BESTEFFORT_QUOTA
        )

    @property
    def interval(self) -> float:
        """Seconds between two ticks."""
        return float((self._oversubscription or OversubscriptionSettings()).interval)

    def configure(
        self,
        oversubscription: OversubscriptionSettings | None,
        suppression: SuppressionSettings | None,
        resctrl: ResctrlSettings | None = None,
        eviction: EvictionSettings | None = NO_EVICTION,
    ) -> None:
        """Take the settings that apply; None is unknown and evicts no pod."""
        self.evictor.settings = eviction or NO_EVICTION
        self._oversubscription, self.suppression = oversubscription, suppression
        self._resctrl_settings = resctrl

    def observe(
        self, labels: Mapping[str, str], allocatable: OfflineAmounts | None, normalization: Ratio
    ) -> None:
        """Take the Node: its labels, its raw allocatable amounts (None: not stated yet), and its ratio."""
        self._switch = read_switch(labels, self._switch)
        self._allocatable, self._ratio, self.on = allocatable, normalization, self._switch.on
        problem = self._switch.problem
        self._local.problem_log.update("oversubscription label", {"label": problem} if problem else {})

    def record_repairs(self, cycle: Cycle) -> None:
        """Count what a cycle of quotas has put right of suppression's."""
        found = self._local.cgroups.found
        if found is not None and cycle.written:
            self.suppressor.record_repairs(found, cycle.written, cycle.drifted)

    def settle(self, wall: float, pods: Collection[QuotaPod]) -> Tick:
        """Do what need not wait: limits of offline pods, and giving back what is switched off."""
        result = self._begin(wall, pods)
        self._settle(pods, result)
        self._log_problems(result)
        return result

    def tick(self, now: float, wall: float, pods: Collection[QuotaPod]) -> Tick:
        """Do what an interval asks for.

        ``now`` is monotonic, in seconds; ``wall`` the seconds since 1970, for what is reported alone.
        """
        result = self._begin(wall, pods)
        found = self._settle(pods, result)
        if not self.holds_all_back:
            self._halfway.forget()
        settings, allocatable = self._oversubscription, self._allocatable
        if settings is None or allocatable is None or not (self.on or self.suppresses):
            self._log_problems(result)
            self.last = result
            return result
        usage = self._sample(now, wall, settings, allocatable, result)
        utilization = self.utilization if usage else None
        offer = self._history.offer(now)
        if found is not None and self.suppresses and self.suppression is not None:
            adjusted = self.suppressor.adjust(
                found,
                self.suppression,
                offer=offer,
                allocatable_milli=allocatable.cpu_milli,
                utilization=utilization,
                pods=(*self._limits.limited, *self._native_limits(found, result)),
            )
            result.merge(adjusted)
        if self.on:
            self.evictor.observe(now, usage, self._held_milli, self.pods.marked, self._ratio)
            result.offer = offer
            result.report = report_of(
                self._measured,
                offer,
                self.suppressor.report,
                settings=settings,
                allocatable=allocatable,
                normalization=self._ratio,
                native=self.pods.native,
                offline=len(self.pods.offline),
                resctrl=self._resctrl.report,
                eviction=self.evictor.report,
            )
        report = self.suppressor.report
        self._held_milli = report.quota_milli if report else None
        self._log_problems(result)
        self.last = result
        return result

    def hold_back(self, now: float) -> Cycle:
        """Half-way between two ticks: lower the quota of all offline pods if online work needs more.

        A jump of load late in an interval hardly shows in its sample. So this one spans an interval too, but
        begins half-way. It stands for the next tick's sample, and is then forgotten. If the quota is to sink
        by half a step or more, it does so by half a step; less can wait. What fails here fails at the next
        tick too, which says so.
        """
        result = Cycle()
        found, suppression, held = self._local.cgroups.found, self.suppression, self.suppressor.report
        oversubscription, allocatable = self._oversubscription, self._allocatable
        if found is None or suppression is None or not self.holds_all_back:
            return result
        usage = self._halfway.sample(now, self.pods.pinned)
        if isinstance(usage, Missed) or oversubscription is None or allocatable is None:
            return result
        computed = compute(usage, allocatable, oversubscription.ratio)
        offer = self._history.with_sample(now, computed).offer(now)
        half = Share(max(1, suppression.adjust_step.ten_thousandths // 2))
        highest = offer.cpu_milli + half.of(allocatable.cpu_milli)
        if held is not None and held.quota_milli is not None and held.quota_milli >= highest:
            result.merge(
                self.suppressor.adjust(
                    found,
                    replace(suppression, adjust_step=half),
                    offer=offer,
                    allocatable_milli=allocatable.cpu_milli,
                    utilization=None,
                    pods=(),
                )
            )
        return result

    def eviction_due(self, now: float) -> EvictionVerdict | None:
        """Return the pod to evict now, by the last sample and the present pods."""
        return self.evictor.due(now, self.pods.marked, self._ratio)

    def stop(self) -> Tick:
        """Do what is to be done at the end of the agent.

        The resctrl group is removed: nothing else would move tasks that start meanwhile. What suppression
        bounds is given back if that is configured.
        """
        result = Tick(on=self.on)
        if self._local.cgroups.found is not None:
            result.merge(self._resctrl.release(self._local.cgroups.found))
        if self.suppression is not None and self.suppression.restore_on_stop:
            with result.noting_errors():
                self._release(self._local.cgroups.find(), result)
            self._log_problems(result)
        return result

    def _begin(self, wall: float, pods: Collection[QuotaPod]) -> Tick:
        running = batch_requests(pod for pod in pods if pod.status.phase == "Running")
        return Tick(on=self.on, wall=wall, running=running, requested=batch_requests(pods))

    def _settle(self, pods: Collection[QuotaPod], result: Tick) -> CgroupSetup | None:
        try:
            found = self._local.cgroups.find()
        except KernelError as error:
            result.problems[error.path] = str(error)
            return None
        certain = self._local.certain_pods(pods).pods
        self.pods = self._table.sort(certain, found.names, self._local.cpu_manager())
        result.problems |= self.pods.problems
        limited = self._limits.reconcile(found, self.pods.offline, self._ratio)
        result.merge(limited)
        self.suppressor.record_repairs(found, limited.written, limited.drifted)
        self.suppressor.adopt(self._limits.limited)
        if self.on is False:
            self._history, self._measured = OfferHistory(), SampleHistory()
            self.evictor.forget()
            result.merge(self._resctrl.release(found, "oversubscription is off"))
        elif self.on and self._resctrl_settings is not None:
            result.merge(self._resctrl.reconcile(found, self._resctrl_settings, self.pods.cgroups))
        is_disabled = self.suppression is not None and not self.suppression.enabled
        if (self.on is False or is_disabled) and not self.suppresses:
            self._release(found, result)
        return found

    def _native_limits(self, found: CgroupSetup, result: Tick) -> list[LimitedPod]:
        """Return the offline pods that kubelet limits; one whose cgroups cannot be read is a problem."""
        limited = []
        for pod in self.pods.limited:
            ratio = self._ratio if self._local.divides(pod.pod) else ONE
            try:
                limit = native_limit(found, pod, ratio)
            except KernelError as error:
                result.problems[pod.name] = str(error)
                continue
            limited += [limit] if limit else []
        return limited

    def _release(self, found: CgroupSetup, result: Tick) -> None:
        if self.on is False:
            self._samples.forget()
            self.utilization = None
        self._held_milli = None
        result.merge(self.suppressor.release(found))

    def _sample(
        self,
        now: float,
        wall: float,
        settings: OversubscriptionSettings,
        allocatable: OfflineAmounts,
        result: Tick,
    ) -> Usage | None:
        """Take a sample into the history; return it, if there is one."""
        usage = self._samples.sample(now, self.pods.pinned)
        if isinstance(usage, Missed):
            if self.on:
                self._history = self._history.with_miss(now)
            if usage.kind is not Miss.FIRST:
                self.missed[usage.kind] += 1
                result.problems["sample"] = f"no sample of usage: {usage.why}"
            return None
        if self.on:
            computed = compute(usage, allocatable, settings.ratio)
            self._history = self._history.with_sample(now, computed)
            self._measured.add(wall, usage, computed)
        self.utilization = Fraction(usage.node_milli, max(1, self._samples.cpus * 1000))
        return usage

    def _log_problems(self, result: Tick) -> None:
        self._local.problem_log.update("offline pods", result.problems)
