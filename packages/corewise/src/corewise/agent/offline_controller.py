"""Controls the offline pods of one node: samples, offers, suppresses, and reports what it did.

Synchronous; time is an argument, so one process may keep one node or a thousand simulated ones. Each
``tick`` is an interval: a sample, an offer, and a step of suppression. ``settle`` is for what need not wait
for the next interval: a pod's own limits, and giving back what is switched off.

:mod:`corewise.agent.offline_cache` keeps what was seen, :mod:`corewise.agent.offline_decision` decides,
:mod:`corewise.agent.suppressor` and its neighbors write to cgroups, and :mod:`corewise.agent.publication`
reports.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

from corewise.agent.cgroups import CgroupSetup, Cycle
from corewise.agent.eviction import Evictor
from corewise.agent.latest import Latest
from corewise.agent.local_node import LocalNode
from corewise.agent.objects import QuotaPod
from corewise.agent.offline_cache import OfflineCache
from corewise.agent.offline_decision import Measurement, NodeColocation, SuppressionStep, next_step
from corewise.agent.offline_limits import BatchLimits, native_limit
from corewise.agent.offline_pods import batch_requests
from corewise.agent.offline_settings import Switch, read_switch
from corewise.agent.publication import Tick, report_of
from corewise.agent.resctrl_limits import ResctrlLimits
from corewise.agent.sampler import Samples
from corewise.agent.suppressor import Suppressor
from corewise.config.colocation import (
    Isolation,
    OversubscriptionSettings,
    ResctrlSettings,
    SuppressionSettings,
)
from corewise.config.eviction import NO_EVICTION, EvictionSettings
from corewise.kernel.errors import KernelError
from corewise.quantities import ONE, Ratio
from corewise.suppression.eviction import EvictionVerdict
from corewise.suppression.offer import OfflineAmounts
from corewise.vocabulary.offline_report import IsolationReport


class OfflineController:
    """One node's offline pods. ``samples`` is asked for their usage in place of the kernel's counters.

    ``node`` is what is known of the node, ``last`` the result of the last tick.
    """

    def __init__(self, local: LocalNode, root: Path, *, samples: Samples | None = None) -> None:
        self._local = local
        self._limits = BatchLimits()
        self._resctrl = ResctrlLimits()
        self._switch = Switch()
        self._batch_requests = Latest(batch_requests)
        self.node = NodeColocation()
        self.cache = OfflineCache(local, root, samples)
        self.suppressor = Suppressor(local.name)
        self.evictor = Evictor(local.name)
        self.last = Tick()

    def configure(
        self,
        oversubscription: OversubscriptionSettings | None,
        suppression: SuppressionSettings | None,
        resctrl: ResctrlSettings | None = None,
        eviction: EvictionSettings | None = NO_EVICTION,
    ) -> None:
        """Take the settings that apply; None is unknown and evicts no pod."""
        self.evictor.settings = eviction or NO_EVICTION
        self.node = replace(
            self.node, oversubscription=oversubscription, suppression=suppression, resctrl=resctrl
        )

    def observe(
        self, labels: Mapping[str, str], allocatable: OfflineAmounts | None, normalization: Ratio
    ) -> None:
        """Take the Node: its labels, its raw allocatable amounts (None: not stated yet), and its ratio."""
        self._switch = read_switch(labels, self._switch)
        self.node = replace(self.node, on=self._switch.on, allocatable=allocatable, ratio=normalization)
        problem = self._switch.problem
        self._local.problem_log.update("oversubscription label", {"label": problem} if problem else {})

    @property
    def isolation(self) -> IsolationReport | None:
        return self._limits.isolation

    @property
    def awaits_first_sample(self) -> bool:
        """Whether the node is to offer, but has no sample yet."""
        return self.node.computes_offer and self.cache.utilization is None

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
        if self.node.is_sampled:
            before = self.suppressor.report
            measured = self.cache.sample(now, wall, self.node)
            if measured.problem:
                result.problems["sample"] = measured.problem
            step = next_step(self.node, measured)
            if found is not None and step is not None:
                self._suppress(found, step, result)
            if self.node.computes_offer:
                self._report(now, measured, before.quota_milli if before else None, result)
        self._log_problems(result)
        self.last = result
        return result

    def eviction_due(self, now: float) -> EvictionVerdict | None:
        """Return the pod to evict now, by the last sample and the present pods."""
        return self.evictor.due(now, self.cache.pods.marked, self.node.ratio)

    def stop(self) -> Tick:
        """Do what is to be done at the end of the agent.

        The resctrl group is removed: nothing else would move tasks that start meanwhile. What suppression
        bounds is given back if that is configured, and isolation ends.
        """
        result = Tick(on=self.node.on)
        if self._local.cgroups.found is not None:
            result.merge(self._resctrl.release(self._local.cgroups.found))
        if self.node.suppression is not None and self.node.suppression.restore_on_stop:
            with result.noting_errors():
                found = self._local.cgroups.find()
                self._release(found, result)
                pods, ratio = self.cache.pods.offline, self.node.ratio
                result.merge(self._limits.reconcile(found, pods, ratio, Isolation.WEIGHTS))
            self._log_problems(result)
        return result

    def _begin(self, wall: float, pods: Collection[QuotaPod]) -> Tick:
        running, requested = self._batch_requests(tuple(pods))
        return Tick(on=self.node.on, wall=wall, running=running, requested=requested)

    def _settle(self, pods: Collection[QuotaPod], result: Tick) -> CgroupSetup | None:
        try:
            found = self._local.cgroups.find()
        except KernelError as error:
            result.problems[error.path] = str(error)
            return None
        node, cache = self.node, self.cache
        result.events += cache.see(found, pods)
        result.problems |= cache.pods.problems
        limited = self._limits.reconcile(found, cache.pods.offline, node.ratio, node.isolation, node.interval)
        result.merge(limited)
        self.suppressor.record_repairs(found, limited.written, limited.drifted)
        self.suppressor.adopt(self._limits.limited or ())
        if node.on is False:
            cache.forget_offers()
            self.evictor.forget()
            result.merge(self._resctrl.release(found, "oversubscription is off"))
        elif node.on and node.resctrl is not None:
            result.merge(self._resctrl.reconcile(found, node.resctrl, cache.pods.cgroups))
        if node.gives_back:
            self._release(found, result)
        return found

    def _suppress(self, found: CgroupSetup, step: SuppressionStep, result: Tick) -> None:
        """Take a step; a pod whose cgroups cannot be read is a problem, and its bounds stay."""
        if self._limits.limited is None:
            result.merge(self.suppressor.adjust(found, step, None))
            return
        limited = [*self._limits.limited]
        known = {each.cgroup for pod in limited for each in pod.cgroups}
        held = {pod.cgroup for pod in self.cache.pods.offline} - known
        for pod in self.cache.pods.limited:
            ratio = self._local.ratio_of(pod.pod) if self._local.divides(pod.pod) else ONE
            limit = None
            try:
                held |= set() if pod.is_certain else {each.cgroup for each in pod.targets}
                limit = native_limit(found, pod, ratio)
            except KernelError as error:
                result.problems[pod.name] = str(error)
                held |= {each.cgroup for each in pod.targets}
            limited += [limit] if limit else []
        result.merge(self.suppressor.adjust(found, step, limited, held))

    def _report(self, now: float, measured: Measurement, held_milli: int | None, result: Tick) -> None:
        """Tell the evictor and the Node what an interval came to, with the quota that held in it."""
        pods = self.cache.pods
        self.evictor.observe(now, measured.usage, held_milli, pods.marked, self.node.ratio)
        result.offer = measured.offer
        result.report = report_of(
            self.cache.history,
            measured.offer,
            self.node,
            native=pods.native,
            offline=len(pods.offline),
            suppression=self.suppressor.report,
            resctrl=self._resctrl.report,
            eviction=self.evictor.report,
            isolation=self.isolation,
        )

    def _release(self, found: CgroupSetup, result: Tick) -> None:
        if self.node.on is False:
            self.cache.forget_usage()
        result.merge(self.suppressor.release(found, keeps_pods=self.node.keeps_pods_bounds))

    def _log_problems(self, result: Tick) -> None:
        self._local.problem_log.update("offline pods", result.problems)
