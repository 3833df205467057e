"""Brings offline pods to their own limits and weights, from batch resources, which kubelet does not know.

They stay as long as the pod does, whatever the node's label says: the pod asked for them. The quota follows
from the batch-cpu limit. The weight follows from the batch-cpu request and compares offline pods with each
other: the weight of all of them together is that of kubelet's BestEffort cgroup, the least there is. The
memory limit is the batch-memory limit, in a container and, where every container has one, in the pod.

With isolation the pod's cgroup is idle. It then has no weight: idle pods share equally, each up to its
limit. It is the pod's own cgroup, not the BestEffort cgroup: kubelet writes that one's weight each minute and
when it starts, the kernel refuses one to an idle cgroup, and then kubelet does not start. Nor is it a
container's: the runtime writes a weight to that whenever kubelet moves the container to other CPUs.

What comes back is what kubelet gives everything in its BestEffort class, whatever is found: no quota, the
least weight, not idle, no memory limit and the kernel's usual period. So the way back is known without a
journal, too. That a pod is not idle is stated as well: an idle cgroup that a lost journal knew would refuse
every weight. The period of a cgroup is read when it is seen for the first time; one that is not there has
ended, or will start later.

Source: kubelet's pkg/kubelet/cm/helpers_linux.go (ResourceConfigForPod) for pods,
pkg/kubelet/kuberuntime/kuberuntime_container_linux.go (calculateLinuxResources) for containers.
"""

from __future__ import annotations

import logging
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from corewise.actions import QuotaOwner, Setting, SettingOwner, WriteQuota, WriteSetting
from corewise.agent.cgroups import CgroupSetup, Cycle
from corewise.agent.offline_pods import NativePod, OfflinePod
from corewise.agent.suppressor import LimitedCgroup, LimitedPod
from corewise.config.colocation import Isolation
from corewise.kernel.cgroups.files import Files
from corewise.kernel.cgroups.layout import QOSClass, Version
from corewise.kernel.cgroups.resources import IDLE_FILE, Bandwidth, has_idle, read_bandwidth
from corewise.kernel.errors import KernelError, Missing
from corewise.kernel.writing.journaled_writer import WriteReport
from corewise.normalization.quota import divided_quota
from corewise.quantities import ONE, Microseconds, Ratio
from corewise.service.logs import fields
from corewise.suppression.batch_limits import period_beside, quota, shares, weight
from corewise.vocabulary.names import BATCH_CPU, BATCH_MEMORY
from corewise.vocabulary.offline_report import IsolationReport
from corewise.vocabulary.reasons import Reason

AGAIN_AFTER = 60
"""Seconds between two looks at weights, idleness and memory limits of pods that stay the same."""
log = logging.getLogger(__name__)

_Wanted: TypeAlias = tuple[Ratio, tuple[OfflinePod, ...], Isolation | None]


@dataclass(frozen=True, slots=True)
class BatchCgroup:
    """A cgroup of an offline pod, with container "" the pod's own, and what it asks for: milli-CPU, bytes.

    A limit of None is none.
    """

    cgroup: str
    pod: str
    container: str
    request: int
    cpu_limit: int | None
    memory_limit: int | None

    @property
    def label(self) -> str:
        return f"pod {self.pod}" + (f" container {self.container}" if self.container else "")

    def quota(self, period: Microseconds, ratio: Ratio) -> Microseconds:
        return Microseconds(quota(self.cpu_limit, period=period, normalization=ratio) or 0)

    def bound(self, present: Microseconds, ratio: Ratio, *, idle: bool) -> WriteQuota:
        """Bound the cgroup, which has the ``present`` period, by its limit."""
        period, base_period = period_beside(present, idle=idle)
        return WriteQuota(
            cgroup=self.cgroup,
            owner=QuotaOwner.BATCH_LIMIT,
            quota=self.quota(period, ratio),
            base=None,
            period=period,
            reason=Reason.BATCH_LIMIT_APPLIED,
            why=f"{self.label}: batch-cpu limit {self.cpu_limit} / {ratio}",
            base_period=base_period,
        )

    def limited(self, seen: Bandwidth, ratio: Ratio, *, idle: bool) -> LimitedPod:
        """Return the pod whose own cgroup this is, which was first seen so."""
        period, base_period = period_beside(seen.period, idle=idle)
        own = LimitedCgroup(self.cgroup, self.quota(period, ratio), period, base_period=base_period)
        return LimitedPod(self.pod, (own,), seen.quota_over(period))

    def settings(self, files: Files, *, idle: bool) -> Iterator[WriteSetting]:
        """Yield the settings that the cgroup is to have, of an idle pod or another."""
        version = files.version
        of = weight if version is Version.V2 else shares
        wanted = [(Setting.CPU_WEIGHT, of(self.request), str(of(0)), f"{BATCH_CPU} request {self.request}")]
        if not self.container and (idle or has_idle(files, self.cgroup)):
            isolation = Isolation.IDLE if idle else Isolation.WEIGHTS
            wanted.append((Setting.CPU_IDLE, int(idle), "0", f"isolation {isolation}"))
        if self.memory_limit:
            why = f"{BATCH_MEMORY} limit {self.memory_limit}"
            wanted.append((Setting.MEMORY_LIMIT, self.memory_limit, "max", why))
        of_idle = Reason.OFFLINE_POD_IDLE if idle else Reason.SETTING_RESTORED
        for setting, value, base, why in wanted:
            yield WriteSetting(
                cgroup=self.cgroup,
                setting=setting,
                owner=SettingOwner.BATCH,
                value=str(value),
                base=base,
                reason=of_idle if setting is Setting.CPU_IDLE else Reason.BATCH_LIMIT_APPLIED,
                why=f"{self.label}: {why}",
            )


def batch_cgroups(pod: OfflinePod) -> Iterator[BatchCgroup]:
    """Yield a pod's own cgroup and those of its running containers."""
    spec = pod.spec
    yield BatchCgroup(pod.cgroup, pod.name, "", spec.cpu_request, spec.cpu_limit, spec.memory_limit)
    for each in (*spec.containers, *spec.init_containers):
        if (cgroup := pod.containers.get(each.name)) is not None:
            yield BatchCgroup(cgroup, pod.name, each.name, each.requested, each.cpu_limit, each.memory_limit)


def native_limit(found: CgroupSetup, pod: NativePod, ratio: Ratio) -> LimitedPod | None:
    """Return the limits of an offline pod that kubelet limits; None if there are none, or none yet.

    Where the spec that kubelet goes by is not known, the base of a bound is the quota that kubelet gave the
    cgroup; where nothing is bounded, no limit is known.

    Raises:
        KernelError: if a cgroup cannot be read.
    """
    if not pod.is_certain:
        bounded = found.bounded_by(QuotaOwner.SUPPRESSION)
        bases = {
            each.cgroup: found.writer.held[each.cgroup].base for each in pod.targets if each.cgroup in bounded
        }
        known = tuple(
            LimitedCgroup(cgroup, divided_quota(base.quota, ratio), base.period, base.quota)
            for cgroup, base in bases.items()
            if base.quota is not None
        )
        return LimitedPod(pod.name, known) if known else None
    own, *containers = pod.targets
    # A container without a limit leaves the pod without one.
    targets = containers if found.is_v1 or own.is_unlimited else [own]
    limited = []
    for target in targets:
        claim = found.writer.held.get(target.cgroup)
        try:
            period = claim.base.period if claim else _period_of_limit(found, target.cgroup)
        except Missing:
            continue
        if period and (limit := target.quota(period, ratio)) is not None:
            base = target.quota(period, ONE)
            limited.append(LimitedCgroup(target.cgroup, limit, period, base))
    return LimitedPod(pod.name, tuple(limited)) if limited else None


def _period_of_limit(found: CgroupSetup, cgroup: str) -> Microseconds | None:
    """Return the period of a cgroup; None where kubelet does not enforce limits, or not yet."""
    bandwidth = read_bandwidth(found.files, cgroup)
    return None if bandwidth.quota is None else bandwidth.period


def _stays_idle(found: CgroupSetup, cgroup: str) -> bool:
    """Whether a pod is idle: by what was written, or by what it has if the journal does not know it."""
    applied = found.settings.applied(cgroup, Setting.CPU_IDLE)
    if applied is not None:
        return applied == "1"
    return has_idle(found.files, cgroup) and found.files.read(cgroup, IDLE_FILE) == "1"


class BatchLimits:
    """The limits and weights of one node's offline pods.

    ``limited`` are the pods that have a limit and a cgroup, as the last call found them; None if their limits
    could not be written.

    ``idle`` counts the pods that are idle, by the claims on their cgroups.

    As long as pods, ratio and isolation are the same, nothing is read again before ``AGAIN_AFTER``: drift of
    quotas is mended by every round of whoever writes quotas, and weights are rarely changed.
    """

    def __init__(self) -> None:
        self._seen: dict[str, Bandwidth] = {}
        self._applied: _Wanted | None = None
        self._since = 0.0
        self.idle = 0
        self._hindered: IsolationReport | None = None
        self._said = ""
        self.limited: tuple[LimitedPod, ...] | None = ()

    @property
    def isolation(self) -> IsolationReport | None:
        """The report on isolation; None where no pod is kept apart, and none is to be."""
        if self._hindered or not self.idle:
            return self._hindered
        return IsolationReport(
            reason=Reason.OFFLINE_POD_IDLE, why=f"pods with {IDLE_FILE}: {self.idle}", pods=self.idle
        )

    def reconcile(
        self,
        found: CgroupSetup,
        pods: Iterable[OfflinePod],
        ratio: Ratio,
        isolation: Isolation | None = Isolation.WEIGHTS,
        interval: float = AGAIN_AFTER,
    ) -> Cycle:
        """Bring every offline pod to its limits and weights.

        With ``isolation`` None, which is unknown, a pod stays idle or not. ``interval``: the seconds since
        the last call, at most.
        """
        result, wanted = Cycle(), (ratio, tuple(pods), isolation)
        self._since += interval
        held = found.writer.held
        if wanted == self._applied and self._since < AGAIN_AFTER and all(each in held for each in self._seen):
            self.limited = tuple(replace(pod, unclaimed=None) for pod in self.limited or ())
            return result
        self._applied, self._since, self.limited = None, 0.0, None
        cgroups = [each for pod in wanted[1] for each in batch_cgroups(pod)]
        limits = {each.cgroup: each for each in cgroups if each.cpu_limit}
        with result.noting_errors():
            idle = self._idle_pods(found, cgroups, isolation)
            self._write_quotas(found, limits, ratio, idle, result)
            self.limited = tuple(
                limit.limited(seen, ratio, idle=limit.pod in idle)
                for cgroup, seen in self._seen.items()
                if not (limit := limits[cgroup]).container
            )
            is_complete = len(self._seen) == len(limits)
            settings = [s for each in cgroups for s in each.settings(found.files, idle=each.pod in idle)]
            if settings or found.settings.held:
                report = found.settings.reconcile(SettingOwner.BATCH, settings)
                is_complete = is_complete and not report.gone
                result.add(report)
            self._count_idle(found, cgroups)
            if is_complete and not result.problems:
                self._applied = wanted
        return result

    def _idle_pods(
        self, found: CgroupSetup, cgroups: Sequence[BatchCgroup], isolation: Isolation | None
    ) -> set[str]:
        """Return the names of the pods that are to be idle."""
        best_effort = found.names.qos(QOSClass.BEST_EFFORT)
        is_wanted, self._hindered = isolation is Isolation.IDLE, None
        if is_wanted and not found.files.exists(best_effort):
            is_wanted = False  # what the kernel can is unknown
            if cgroups:
                why = f"there is no cgroup {best_effort}"
                self._hindered = IsolationReport(reason=Reason.SLICE_MISSING, why=why)
        elif is_wanted and not has_idle(found.files, best_effort):
            is_wanted, why = False, f"there is no {IDLE_FILE}"
            self._hindered = IsolationReport(reason=Reason.ISOLATION_UNSUPPORTED, why=why)
        return {
            each.pod
            for each in cgroups
            if is_wanted or (isolation is None and not each.container and _stays_idle(found, each.cgroup))
        }

    def _count_idle(self, found: CgroupSetup, cgroups: Sequence[BatchCgroup]) -> None:
        """Count the claims on idleness: a pod that has no cgroup yet has none. Log a change of reason."""
        own = [each.cgroup for each in cgroups if not each.container]
        self.idle = sum(found.settings.applied(each, Setting.CPU_IDLE) == "1" for each in own)
        if (reason := self.isolation.reason if self.isolation else "") != self._said:
            self._said = reason
            log.info("isolation of offline pods: %s", reason or "none is idle", extra=fields(reason=reason))

    def _write_quotas(
        self,
        found: CgroupSetup,
        limits: Mapping[str, BatchCgroup],
        ratio: Ratio,
        idle: Container[str],
        result: Cycle,
    ) -> None:
        def bound(cgroup: str, period: Microseconds) -> WriteQuota:
            return limits[cgroup].bound(period, ratio, idle=limits[cgroup].pod in idle)

        read = [(cgroup, self._read(found, cgroup, result)) for cgroup in limits]
        present = {cgroup: seen for cgroup, seen in read if seen is not None}
        wanted = [bound(cgroup, seen.period) for cgroup, seen in present.items()]
        report = WriteReport()
        if wanted or found.concerns(QuotaOwner.BATCH_LIMIT):
            report = found.writer.reconcile(QuotaOwner.BATCH_LIMIT, wanted)
        self._seen = present  # what could not be written is new at the next call, too
        result.add(report)
        foreign = {
            cgroup: period for cgroup, period in report.foreign_periods.items() if cgroup in self._seen
        }
        if foreign:
            for cgroup, period in foreign.items():
                self._seen[cgroup] = replace(self._seen[cgroup], period=period)
            again = [bound(cgroup, period) for cgroup, period in foreign.items()]
            result.add(found.writer.apply(again))

    def _read(self, found: CgroupSetup, cgroup: str, result: Cycle) -> Bandwidth | None:
        """Return the period, and beside it the quota of a cgroup that is new and whose origin is unknown."""
        known = self._seen.get(cgroup)
        if known is not None:
            return replace(known, quota=None)
        try:
            seen = read_bandwidth(found.files, cgroup)
        except Missing:
            return None
        except KernelError as error:
            result.problems[cgroup] = str(error)
            return None
        return replace(seen, quota=None) if cgroup in found.writer.held else seen
