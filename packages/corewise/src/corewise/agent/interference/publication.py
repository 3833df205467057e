"""Shows the pods that wait on the node's NodeResourceTopology, and says when that is due.

The annotation is written when a verdict comes, changes or goes, at most every 10 s; while there are verdicts
also every minute with the figures of then; and every 10 minutes without, so that a reader can tell an agent
that sees nothing from one that is gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime

from corewise.agent.executor import Executor
from corewise.agent.interference.neighbors import NeighborSampler
from corewise.agent.interference.waiting import REST, Verdict, WaitWatch
from corewise.agent.local_node import LocalNode
from corewise.agent.watched import Watched
from corewise.interference.antagonist import Suspect
from corewise.kernel.errors import KernelError
from corewise.kube.clock import Clock, rfc3339, to_beat
from corewise.kube.errors import KubeError, NotFound
from corewise.prometheus.exposition import Exposition
from corewise.service.program import Heartbeats
from corewise.vocabulary import metrics
from corewise.vocabulary.interference_report import (
    MOST_PODS,
    OWN_REASONS,
    InterferenceReport,
    SuspectReport,
    WaitingReport,
)
from corewise.vocabulary.names import INTERFERENCE_REPORT

NAME, REPORTING = "waiting", "waiting-report"
_SOONEST, _WITH_VERDICTS, _WITHOUT = 10.0, 60.0, 600.0
_LONG_SILENCE = 12
_LONGEST_WRITE = 300.0
_DIGITS = 3


def report_of(watch: WaitWatch, uids: Mapping[str, str], wall: float) -> InterferenceReport:
    """Return the report; of more pods than fit those that wait most for others.

    ``uids``: those of the API by those of the cgroups; a static pod has two.
    """
    verdicts = _in_order(watch)
    return InterferenceReport(
        time=rfc3339(datetime.fromtimestamp(wall, UTC)),
        watched=watch.watched,
        sources=sorted(set(watch.sampler.sources.values())),
        unknown=len(watch.sampler.unknown),
        left_out=max(0, len(verdicts) - MOST_PODS),
        pods=[_waiting(verdict, uids.get(uid, "")) for uid, verdict in verdicts[:MOST_PODS]],
    )


def _in_order(watch: WaitWatch) -> list[tuple[str, Verdict]]:
    """Return the verdicts: first pods that wait for others, then, in a lasting order, the other ones."""

    def place(item: tuple[str, Verdict]) -> tuple[bool, float, str]:
        judgment = item[1].judgment
        is_own = judgment.reason in OWN_REASONS
        return is_own, 0.0 if is_own else -judgment.wait.for_others, judgment.pod

    return sorted(watch.verdicts.items(), key=place)


def _waiting(verdict: Verdict, uid: str) -> WaitingReport:
    judgment = verdict.judgment
    return WaitingReport(
        pod=judgment.pod,
        uid=uid,
        reason=judgment.reason,
        used=round(judgment.used, _DIGITS),
        waited=round(judgment.wait.for_others, _DIGITS),
        among_itself=round(judgment.wait.among_itself, _DIGITS),
        throttled=round(judgment.wait.throttled, _DIGITS),
        samples=judgment.samples,
        seconds=round(judgment.seconds, 1),
        since=rfc3339(datetime.fromtimestamp(verdict.since, UTC)),
        suspects=[_suspect(each) for each in judgment.suspects],
    )


def _suspect(suspect: Suspect) -> SuspectReport:
    correlation = suspect.correlation
    return SuspectReport(
        name=suspect.name,
        share=round(suspect.share, _DIGITS),
        slowdown=round(suspect.slowdown, _DIGITS),
        used=round(suspect.used, _DIGITS),
        wanted=round(suspect.wanted, _DIGITS),
        request=None if suspect.request is None else round(suspect.request, _DIGITS),
        correlation=None if correlation is None else round(correlation, _DIGITS),
    )


class WaitLoop:
    """The loop of one agent: look, and write the annotation when it is due."""

    def __init__(
        self,
        local: LocalNode,
        watched: Watched,
        executor: Executor,
        sampler: NeighborSampler,
        *,
        metrics: Exposition,
        clock: Clock,
    ) -> None:
        self._local = local
        self._watched = watched
        self._executor = executor
        self._metrics = metrics
        self._clock = clock
        self._looks = 0
        self._due = asyncio.Event()
        self._written: tuple[float, frozenset[tuple[str, str, str]] | None] | None = None
        """The time of the last write, and what it said; None of one that failed."""
        self.watch = WaitWatch(sampler)

    async def run(self, heartbeats: Heartbeats) -> None:
        """Look at the pods until canceled."""
        await self._watched.synced()
        while True:
            heartbeats.beat(NAME, REST * _LONG_SILENCE)
            pause = self._look()
            if self._is_due(self._said(), self._clock.monotonic()):
                self._due.set()
            await self._clock.sleep(pause if pause < REST else to_beat(self._clock, REST))

    async def report(self, heartbeats: Heartbeats) -> None:
        """Write the report whenever it is due. A loop of its own: the API server may not answer."""
        while True:
            heartbeats.stop(REPORTING)
            await self._due.wait()
            self._due.clear()
            heartbeats.beat(REPORTING, _LONGEST_WRITE)
            await self._publish()

    def _look(self) -> float:
        now = self._clock.monotonic()
        pods = self._local.certain_pods(self._watched.pods).pods
        try:
            wall, owned = self._clock.now().timestamp(), self._local.owned_by(pods)
            pause = self.watch.look(now, wall, pods, self._local.ratio_of, owned)
        except KernelError as error:
            self._local.problem_log.update("waits of pods", {error.path: str(error)})
            return REST
        self._looks += 1
        self._local.problem_log.update("waits of pods", {})
        self._metrics.observe(metrics.AGENT_LOOP_SECONDS, self._clock.monotonic() - now, NAME)
        return pause

    def publish(self) -> None:
        """Set the metrics."""
        reasons = [each.judgment.reason for each in self.watch.verdicts.values()]
        self._metrics.replace(
            metrics.WAITING_PODS, {(str(reason),): float(reasons.count(reason)) for reason in set(reasons)}
        )
        self._metrics.set(metrics.WAIT_UNKNOWN_PODS, len(self.watch.sampler.unknown))

    async def _publish(self) -> None:
        """Write the report if it is due; a write that fails is due again after the shortest pause."""
        node, now, said = self._watched.node, self._clock.monotonic(), self._said()
        if node is None or not self._is_due(said, now):
            return
        self._written = now, said
        uids = {pod.uid: pod.metadata.uid for pod in self._watched.pods}
        text = report_of(self.watch, uids, self._clock.now().timestamp()).encode()
        problems: dict[str, str] = {}
        try:
            await self._executor.annotate(node.metadata.name, {INTERFERENCE_REPORT: text})
        except NotFound:  # the topology is not reported yet
            self._written = self._clock.monotonic(), None
        except KubeError as error:
            problems["report"] = str(error)
            self._written = self._clock.monotonic(), None
        self._local.problem_log.update("report of waits", problems)

    def _said(self) -> frozenset[tuple[str, str, str]]:
        """Return the pod, reason and named neighbor of each verdict that is shown or is about others."""
        return frozenset(
            (uid, str(each.judgment.reason), each.judgment.antagonist)
            for place, (uid, each) in enumerate(_in_order(self.watch))
            if place < MOST_PODS or each.judgment.reason not in OWN_REASONS
        )

    def _is_due(self, said: frozenset[tuple[str, str, str]], now: float) -> bool:
        if self._written is None:
            return self._looks > 1  # the first look compares with nothing, and may come before the topology
        at, before = self._written
        longest = _WITHOUT if all(reason in OWN_REASONS for _, reason, _ in said) else _WITH_VERDICTS
        return now - at >= (_SOONEST if said != before else longest)
