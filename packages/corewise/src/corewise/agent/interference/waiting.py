"""Watches which pods of a node wait for CPUs, and keeps the verdict on each.

At rest all pods are read every 5 s, or none once nothing on the node waits. While one of them waits, and half
a minute longer, they are read every second, and each that waits is judged every second time. A neighbor is
named once two judgments in a row name it. A verdict stands until its pod has waited little for a minute, or
is gone.

Pods are told apart by their UIDs: one that is created again under the same name, as by a StatefulSet, has a
history of its own. Verdicts show names.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from corewise.agent.interference.neighbors import NeighborSampler
from corewise.agent.objects import QuotaPod
from corewise.agent.quotas import RatioOf
from corewise.interference.antagonist import (
    LONGEST,
    Interval,
    Judgment,
    is_held_by_itself,
    is_waiting,
    judge,
)
from corewise.quantities import MILLI, ONE
from corewise.topology import CPUSet
from corewise.vocabulary.interference_report import OWN_REASONS
from corewise.vocabulary.reasons import Reason

REST, ALERT = 5.0, 1.0
"""Seconds between two readings: at rest, and while a pod waits."""
_ALERT_FOR = 30.0
_STANDS_FOR = 60.0
_JUDGED_EVERY = 2
MOST_JUDGED = 8
"""Pods judged at a time: those that wait the largest part of their time."""
_TO_CONFIRM = frozenset({Reason.ANTAGONIST_NAMED, Reason.ANTAGONIST_OUTSIDE_PODS})
_CALM = frozenset({Reason.WAITS_LITTLE, Reason.TOO_FEW_SAMPLES})
_HUNDREDTHS = 100


@dataclass(frozen=True, slots=True)
class Verdict:
    """The judgment on a pod that counts, with the names of pods.

    ``since`` and ``waited_at`` are times of the caller's clocks.
    """

    judgment: Judgment
    since: float
    waited_at: float


class WaitWatch:
    """The pods of one node that wait, by UID."""

    def __init__(self, sampler: NeighborSampler) -> None:
        self.sampler = sampler
        self.verdicts: dict[str, Verdict] = {}
        self._intervals: deque[Interval] = deque()
        self._suspected: dict[str, str] = {}
        self._names: dict[str, str] = {}
        self._alert_until = 0.0
        self._looks = 0

    @property
    def watched(self) -> int:
        """The number of pods that were read at the last look."""
        return len(self.sampler.sources) + len(self.sampler.unknown)

    def look(
        self,
        now: float,
        wall: float,
        pods: Collection[QuotaPod],
        ratio_of: RatioOf = lambda _: ONE,
        owned: Mapping[str, CPUSet] = MappingProxyType({}),
    ) -> float:
        """Read all pods, judge those that wait, and return the seconds until the next look.

        ``now`` is monotonic, ``wall`` in seconds since 1970. ``ratio_of`` returns what divides the CPUs of a
        pod that shares them: its request is in normalized ones. ``owned``: the CPUs of pods, by UID.

        Raises:
            KernelError: if the node's cgroups are not there.
        """
        if now >= self._alert_until and self.sampler.is_calm(now, pods):
            self._intervals.clear()
            self._suspected.clear()
            self._forget(now, pods)
            return REST
        interval = self.sampler.sample(now, pods, frozenset(owned))
        if interval is not None:
            self._keep(interval)
            self._keep_names(pods)
            if any(self._waiting(interval)):
                self._alert_until = now + _ALERT_FOR
            if self._looks % _JUDGED_EVERY == 0:
                self._judge_all(now, wall, lambda: _requests(pods, ratio_of, owned))
            self._looks += 1
        self._forget(now, pods)
        return ALERT if now < self._alert_until or interval is None else REST

    def _keep(self, interval: Interval) -> None:
        """Keep the intervals of the last LONGEST seconds: none, if this one alone is longer."""
        self._intervals.append(interval)
        total = sum(each.seconds for each in self._intervals)
        while total > LONGEST:
            total -= self._intervals.popleft().seconds

    def _keep_names(self, pods: Collection[QuotaPod]) -> None:
        """Know the names of the pods, and of those that are gone and still in an interval."""
        self._names |= {pod.uid: pod.name for pod in pods}
        if len(self._names) > len(pods):
            in_use = {uid for each in self._intervals for uid in each.used}
            self._names = {uid: name for uid, name in self._names.items() if uid in in_use}

    def _named(self, judgment: Judgment) -> Judgment:
        """Return a judgment with names in place of UIDs."""
        suspects = (replace(each, name=self._names.get(each.name, each.name)) for each in judgment.suspects)
        return replace(judgment, pod=self._names[judgment.pod], suspects=tuple(suspects))

    def _waiting(self, interval: Interval) -> Iterator[str]:
        return (uid for uid in interval.waits if is_waiting(uid, interval))

    def _judge_all(self, now: float, wall: float, find_requests: Callable[[], Mapping[str, float]]) -> None:
        suspected, self._suspected = self._suspected, {}
        if not self._intervals:
            return
        last = self._intervals[-1]
        known = {uid: each.judgment.reason in OWN_REASONS for uid, each in self.verdicts.items()}
        waiting = {*self._waiting(last), *(uid for uid in last.waits if known.get(uid) is False)}
        held = {uid for uid in last.waits if known.get(uid) or is_held_by_itself(uid, last)} - waiting
        requests = find_requests() if waiting | held else {}
        most = sorted(waiting, key=lambda each: -last.part_waited(each))[:MOST_JUDGED]
        for uid in (*most, *sorted(held)):  # judging held pods is cheap: it looks for no suspects
            self._take(judge(uid, self._intervals, requests), suspected.get(uid, ""), now, wall)

    def _take(self, judgment: Judgment, suspected: str, now: float, wall: float) -> None:
        """Let a judgment count, once it is confirmed if it names a neighbor: the one ``suspected`` before."""
        uid, before = judgment.pod, self.verdicts.get(judgment.pod)
        if judgment.antagonist:
            self._suspected[uid] = judgment.antagonist
        if judgment.reason in _CALM:
            return
        if judgment.reason in _TO_CONFIRM and suspected != judgment.antagonist:
            if before is not None:
                self.verdicts[uid] = replace(before, waited_at=now)
            return
        named = self._named(judgment)
        same = before is not None and (before.judgment.reason, before.judgment.antagonist) == (
            named.reason,
            named.antagonist,
        )
        since = before.since if before is not None and same else wall
        self.verdicts[uid] = Verdict(named, since, now)

    def _forget(self, now: float, pods: Collection[QuotaPod]) -> None:
        """Drop verdicts on pods that are gone, or have waited little for a while."""
        there = {pod.uid for pod in pods}
        self.verdicts = {
            uid: each
            for uid, each in self.verdicts.items()
            if uid in there and now - each.waited_at <= _STANDS_FOR
        }


def _requests(pods: Collection[QuotaPod], ratio_of: RatioOf, owned: Mapping[str, CPUSet]) -> dict[str, float]:
    """Return the CPUs that pods own or request, by UID, as the kernel counts CPUs."""

    def cpus(pod: QuotaPod, request: int) -> float:
        return request * _HUNDREDTHS / (MILLI * ratio_of(pod).hundredths)

    return {
        pod.uid: float(len(owned[pod.uid])) if pod.uid in owned else cpus(pod, request)
        for pod in pods
        if (request := pod.cpu_request)
    }
