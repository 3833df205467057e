"""Brings offline pods to their own limits and weights, from the batch resources that kubelet knows nothing
of.

They stay as long as the pod does, whatever the node's label says: the pod asked for them. What comes back is
kubelet's: no quota, and the settings that were found. The period of a cgroup is read when it is met for the
first time; one that is not there has ended, or has not begun.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from corewise.actions import QuotaOwner, SettingOwner, WriteQuota
from corewise.agent.cgroups import Found
from corewise.agent.colocation.batch_settings import batch_settings
from corewise.agent.colocation.offline_pods import OfflinePod
from corewise.agent.suppressor import LimitedPod
from corewise.kernel.cgroups.resources import Bandwidth, read_bandwidth
from corewise.kernel.errors import KernelError, Missing
from corewise.kernel.writing.journaled_writer import Report, Written
from corewise.quantities import Microseconds, Ratio
from corewise.suppression.batch_limits import quota
from corewise.vocabulary.reasons import Reason

AGAIN_AFTER = 6


@dataclass(slots=True)
class Brought:
    """What was done. ``limited``: the pods that have a limit and a cgroup. ``problems`` are by cgroup or
    file.
    """

    written: list[Written] = field(default_factory=list)
    drifted: list[str] = field(default_factory=list)
    limited: list[LimitedPod] = field(default_factory=list)
    problems: dict[str, str] = field(default_factory=dict)

    def add(self, report: Report) -> None:
        self.written += report.written
        self.drifted += report.drifted
        self.problems |= {cgroup: str(error) for cgroup, error in report.failed.items()}


@dataclass(frozen=True, slots=True)
class _Limit:
    """A cgroup that is to have a quota: whose, and its batch-cpu limit in milli-CPU."""

    cgroup: str
    pod: str
    container: str
    milli: int

    def quota(self, period: Microseconds, ratio: Ratio) -> Microseconds:
        return Microseconds(quota(self.milli, period=period, normalization=ratio) or 0)

    def action(self, period: Microseconds, ratio: Ratio) -> WriteQuota:
        whose = f"pod {self.pod}" + (f" container {self.container}" if self.container else "")
        return WriteQuota(
            cgroup=self.cgroup,
            owner=QuotaOwner.BATCH_LIMIT,
            quota=self.quota(period, ratio),
            base=None,
            period=period,
            reason=Reason.BATCH_LIMIT_APPLIED,
            why=f"{whose}: batch-cpu limit {self.milli} / {ratio}",
        )


class BatchLimits:
    """The limits and weights of one node's offline pods.

    As long as pods and ratio are the same, nothing is read again but once in ``AGAIN_AFTER`` calls: drift of
    quotas is mended by every round of whoever writes quotas, and nobody changes weights all the time.
    """

    def __init__(self) -> None:
        self._met: dict[str, Bandwidth] = {}
        self._brought: tuple[Ratio, tuple[OfflinePod, ...]] | None = None
        self._limited: list[LimitedPod] = []
        self._calls = 0

    def bring(self, found: Found, pods: Iterable[OfflinePod], ratio: Ratio) -> Brought:
        """Bring every offline pod to its limits and weights.

        Raises:
            JournalError: if nothing can be written.
        """
        wanted = ratio, tuple(pods)
        self._calls += 1
        held = found.writer.held
        if wanted == self._brought and self._calls < AGAIN_AFTER and all(each in held for each in self._met):
            return Brought(limited=self._limited)
        self._brought, self._calls = None, 0
        done = Brought()
        is_complete = self._bring_quotas(found, wanted[1], ratio, done)
        settings = tuple(batch_settings(wanted[1], found.files.version))
        if settings or found.settings.held:
            report = found.settings.reconcile(SettingOwner.BATCH, settings)
            is_complete = is_complete and not report.gone
            done.add(report)
        if is_complete and not done.problems:
            self._brought = wanted
        self._limited = [replace(pod, met=None) for pod in done.limited]
        return done

    def _bring_quotas(self, found: Found, pods: Iterable[OfflinePod], ratio: Ratio, done: Brought) -> bool:
        """Bring pods to their quotas; say whether every cgroup that is to have one is there."""
        limits = {limit.cgroup: limit for pod in pods for limit in _limits(pod)}
        self._met = {cgroup: met for cgroup in limits if (met := self._meet(found, cgroup, done)) is not None}
        wanted = [limits[cgroup].action(met.period, ratio) for cgroup, met in self._met.items()]
        if wanted or found.concerns(QuotaOwner.BATCH_LIMIT):
            report = found.writer.reconcile(QuotaOwner.BATCH_LIMIT, wanted)
            done.add(report)
            foreign = {
                cgroup: period for cgroup, period in report.foreign_periods.items() if cgroup in self._met
            }
            self._met |= {
                cgroup: Bandwidth(self._met[cgroup].quota, period) for cgroup, period in foreign.items()
            }
            if foreign:
                again = (limits[cgroup].action(period, ratio) for cgroup, period in foreign.items())
                done.add(found.writer.apply(again))
        done.limited = list(self._pods(limits, ratio))
        return len(self._met) == len(limits)

    def _meet(self, found: Found, cgroup: str, done: Brought) -> Bandwidth | None:
        """Return the period; beside it a quota that the cgroup is met with now and that nobody accounts
        for.
        """
        known = self._met.get(cgroup)
        if known is not None:
            return replace(known, quota=None)
        try:
            met = read_bandwidth(found.files, cgroup)
        except Missing:
            return None
        except KernelError as error:
            done.problems[cgroup] = str(error)
            return None
        return replace(met, quota=None) if cgroup in found.writer.held else met

    def _pods(self, limits: Mapping[str, _Limit], ratio: Ratio) -> Iterator[LimitedPod]:
        for cgroup, met in self._met.items():
            limit = limits[cgroup]
            if not limit.container:
                yield LimitedPod(limit.pod, cgroup, limit.quota(met.period, ratio), met.period, met.quota)


def _limits(pod: OfflinePod) -> Iterator[_Limit]:
    """Yield the cgroups of a pod that are to have a quota."""
    if pod.spec.cpu_limit:
        yield _Limit(pod.cgroup, pod.name, "", pod.spec.cpu_limit)
    for container in (*pod.spec.containers, *pod.spec.init_containers):
        cgroup = pod.containers.get(container.name)
        if cgroup is not None and container.cpu_limit:
            yield _Limit(cgroup, pod.name, container.name, container.cpu_limit)
