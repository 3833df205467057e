"""Assesses nodes when something has changed and carries out what the assessment says. Runs on the leader.

Level-triggered: an event only puts a node into the queue; a change of configuration puts in all of them. A
few hands take nodes from the queue side by side; each node is in one hand at most. Errors put a node back,
later each time; a conflict waits for the newer object. Nothing is written when nothing changes.

A ratio is lowered only by what the API server says of the node's pods at that moment: the cache may be
behind, and no webhook stands between the manager and its own mistakes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from corewise.assessment.decision import NodeAssessment, StatusHistory, assess
from corewise.assessment.nodes import NodeView
from corewise.kube.clock import Clock
from corewise.kube.errors import Conflict, KubeError, NotFound
from corewise.manager.configuration_events import event_about_koordinator, events_about
from corewise.manager.executor import Executor
from corewise.manager.memory import STALE_FOR, NodeMemory
from corewise.manager.queue import WorkQueue
from corewise.manager.snapshot import Snapshot
from corewise.service.logs import fields
from corewise.service.program import Heartbeats

log = logging.getLogger(__name__)

LOOP = "reconciler"
CONFIGURATION = ""
"""What stands in the queue for the configuration; no node has an empty name."""
_BEAT = 5.0
_BEAT_LIMIT = 60.0
_FIRST_BACKOFF = 1.0
_LONGEST_BACKOFF = 60.0


class Reconciler:
    """Brings nodes to what their assessments say."""

    def __init__(
        self,
        snapshot: Snapshot,
        executor: Executor,
        queue: WorkQueue,
        *,
        heartbeats: Heartbeats,
        clock: Clock,
    ) -> None:
        self._snapshot = snapshot
        self._executor = executor
        self._queue = queue
        self._heartbeats = heartbeats
        self._clock = clock
        self._memories: dict[str, NodeMemory] = {}
        self._assessments: dict[str, NodeAssessment] = {}
        self._configuration_was_bad = False

    @property
    def assessments(self) -> Mapping[str, NodeAssessment]:
        """The last assessment of every node."""
        return self._assessments

    def pods_changed(self, node: str) -> None:
        """Look again at a node whose pods have changed, if that is what it waits for."""
        assessment = self._assessments.get(node)
        if assessment and assessment.held_back:
            self._queue.add(node)

    async def run(self, hands: int) -> None:
        """Work until cancelled."""
        self._queue.add(CONFIGURATION)
        self._queue.add_all(self._snapshot.names())
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._beat(), name="reconciler beat")
                for number in range(hands):
                    group.create_task(self._work(), name=f"reconciler hand {number}")
        finally:
            self._heartbeats.stop(LOOP)
            self._queue.clear()
            self._assessments.clear()
            self._memories.clear()

    async def _beat(self) -> None:
        while True:
            self._heartbeats.beat(LOOP, _BEAT_LIMIT)
            await self._clock.sleep(_BEAT)

    async def _work(self) -> None:
        while True:
            name = await self._queue.take()
            try:
                await self._reconcile(name)
            finally:
                self._queue.done(name)
            # A hand that finds nothing to write never waits: let the webhooks have their turn.
            await asyncio.sleep(0)

    async def _reconcile(self, name: str) -> None:
        if name == CONFIGURATION:
            await self._tell_configuration()
            return
        node = self._snapshot.view(name)
        if node is None:
            self._memories.pop(name, None)
            self._assessments.pop(name, None)
            return
        memory = self._memories.setdefault(name, NodeMemory())
        now = self._clock.monotonic()
        if memory.stale(node, now):
            self._queue.add_later(name, STALE_FOR)
            return
        try:
            assessment = await self._assess(node, memory.observe(node, now))
        except KubeError as error:
            self._failed(node, "reading the node's pods", error, memory)
            return
        memory.assessed(assessment, now)
        self._tell_change(assessment)
        self._assessments[name] = assessment
        if assessment.recheck is not None:
            self._queue.add_later(name, assessment.recheck)
        await self._carry_out(assessment, memory)

    async def _assess(self, node: NodeView, observed: StatusHistory) -> NodeAssessment:
        assessment = assess(node, self._snapshot.context, observed)
        if not assessment.lowers:
            return assessment
        current = await self._snapshot.with_current_pods(node)
        return assess(current, self._snapshot.context, observed)

    async def _carry_out(self, assessment: NodeAssessment, memory: NodeMemory) -> None:
        node = assessment.node
        try:
            for action in assessment.actions:
                version = await self._executor.carry_out(action)
                memory.wrote(action, node, version, self._clock.monotonic())
        except NotFound:
            log.debug("node is gone", extra=fields(node=node.name))
        except Conflict:
            log.debug("node has changed meanwhile", extra=fields(node=node.name))
            memory.outdated(node, self._clock.monotonic())
            self._queue.add(node.name)
        except KubeError as error:
            self._failed(node, type(action).__name__, error, memory)
        else:
            memory.failures = 0

    async def _tell_configuration(self) -> None:
        """Say what is wrong with the configuration, on the object at fault, and in the log."""
        snapshot = self._snapshot
        reading = snapshot.reading
        found = events_about(
            reading, snapshot.config_map, snapshot.node_labels(), was_bad=self._configuration_was_bad
        )
        koordinator = snapshot.webhooks.get(snapshot.koordinator.partition("/")[0])
        meta = koordinator.metadata if koordinator else None
        for event in (*found, *event_about_koordinator(snapshot.koordinator, meta)):
            level = logging.WARNING if event.warning else logging.INFO
            log.log(level, event.message, extra=fields(object=event.name, reason=event.reason))
            await self._executor.carry_out(event)
        if not reading.bad_keys:
            log.info("configuration in force", extra=fields(present=reading.present))
        self._configuration_was_bad = bool(reading.bad_keys)

    def _failed(self, node: NodeView, what: str, error: KubeError, memory: NodeMemory) -> None:
        wait = min(_FIRST_BACKOFF * 2.0**memory.failures, _LONGEST_BACKOFF)
        wait = error.retry_after or wait
        memory.failures = min(memory.failures + 1, 10)
        extra = fields(node=node.name, action=what, error=error, hint=error.hint, retry_in=wait)
        log.warning("the API server refused, or did not answer", extra=extra)
        self._queue.add_later(node.name, wait)

    def _tell_change(self, assessment: NodeAssessment) -> None:
        """One log line when the problems of a node change, none while they stay."""
        name = assessment.node.name
        before = self._assessments.get(name)
        told = {(each.reason, each.resource) for each in before.problems} if before else set()
        for problem in assessment.problems:
            if (problem.reason, problem.resource) not in told:
                log.warning(problem.message, extra=fields(node=name, reason=problem.reason))
        if told and not assessment.problems:
            log.info("no problem any more", extra=fields(node=name))
