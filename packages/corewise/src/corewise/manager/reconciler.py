"""Assesses nodes when something has changed, and carries out what the assessment says. Runs on the leader.

Level-triggered: an event only puts a node into the queue; a change of configuration puts in all of them. A
few workers take nodes from the queue side by side; each node is with one worker at most. Errors put a node
back, later each time; a conflict waits for the newer object. Nothing is written when nothing changes.

A ratio is lowered only by what the API server says of the node's pods at that moment: the cache may be
behind, and no webhook stands between the manager and its own mistakes.

What is remembered of a node between two assessments can be lost at a restart without harm:

- Since when the node's status does not show the ratio; when it was touched and repaired since.
- For how long its record has been as it is.
- What its ratio annotation was when nothing had to be done. A manager that has just started says nothing of a
  user's ratio that it replaces; the warning at admission does.
- Which resourceVersion a write was decided on: until the cache shows another, the node is not assessed again,
  so that nothing is written twice.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from corewise.actions import NodeAction, PatchNode, RepairNodeStatus, TouchNodeStatus
from corewise.amplification import StatusState
from corewise.amplification.annotations import RECORD
from corewise.kube.clock import Clock
from corewise.kube.errors import Conflict, KubeError, NotFound
from corewise.manager.executor import Executor
from corewise.manager.queue import WorkQueue
from corewise.manager.reporting import AssessedNode, event_about_koordinator, events_about, report_on
from corewise.manager.snapshot import Snapshot
from corewise.ratios.decision import NodeAssessment, StatusHistory, assess
from corewise.ratios.nodes import NodeView
from corewise.service.logs import fields
from corewise.service.program import Heartbeats
from corewise.service.reader import in_reader
from corewise.vocabulary.names import AMPLIFICATION_RATIO
from corewise.vocabulary.reasons import Reason

log = logging.getLogger(__name__)

LOOP = "reconciler"
CONFIGURATION = ""
"""The name of the configuration in the queue; no node has an empty name."""
_BEAT = 5.0
_BEAT_LIMIT = 60.0
_FIRST_BACKOFF = 1.0
_LONGEST_BACKOFF = 60.0
JUST_NOW = 60.0
"""Seconds for which a ratio counts as just written: status shows raw amounts, as the manager has seen."""
STALE_FOR = 5.0
"""Seconds after which a node is assessed again although the cache shows the version before the write."""


@dataclass(slots=True)
class NodeMemory:
    """The memory of one node; ``_record``: the texts of its record."""

    _mismatch_since: float | None = None
    _touched: float | None = None
    _touches: int = 0
    _repaired: float | None = None
    _shows_raw: bool = False
    _ratio_written: float | None = None
    _record: tuple[str | None, ...] | None = None
    _record_since: float = 0.0
    _settled_ratio: str | None = None
    _written_on: str = ""
    _written: float = 0.0
    failures: int = 0

    def stale(self, node: NodeView, now: float) -> bool:
        """Whether the cache does not show the last write yet."""
        return node.resource_version == self._written_on and now - self._written < STALE_FOR

    def observe(self, node: NodeView, now: float) -> StatusHistory:
        """Look at the node, and return what has been seen of it over time."""
        record = tuple([node.annotations.get(name) for name in RECORD])
        if record != self._record:
            self._record, self._record_since = record, now
        return StatusHistory(
            mismatch=0 if self._mismatch_since is None else int(now - self._mismatch_since),
            record=int(now - self._record_since),
            since_touch=None if self._touched is None else int(now - self._touched),
            touches=self._touches,
            since_repair=None if self._repaired is None else int(now - self._repaired),
            ratio_written=self._ratio_written is not None and now - self._ratio_written < JUST_NOW,
            settled_ratio=self._settled_ratio,
        )

    def assessed(self, assessment: NodeAssessment, now: float) -> None:
        """Note whether the ratio is what it should be, and whether the status shows it."""
        if not any(isinstance(action, PatchNode) for action in assessment.actions):
            self._settled_ratio = assessment.node.annotations.get(AMPLIFICATION_RATIO)
        self._shows_raw = assessment.status.state is StatusState.SETTLED or assessment.status.touch
        if assessment.status.state is StatusState.SETTLED:
            self._mismatch_since = self._touched = self._repaired = self._ratio_written = None
            self._touches = 0
        elif self._mismatch_since is None:
            self._mismatch_since = now

    def wrote(self, action: NodeAction, node: NodeView, version: str | None, now: float) -> None:
        """Note that an action was carried out; ``version`` is the node's resourceVersion afterwards."""
        match action:
            case PatchNode():
                self._mismatch_since = None
                self._touched, self._touches = now, 1
                if AMPLIFICATION_RATIO in action.annotations:
                    self._ratio_written = now if self._shows_raw else None
            case TouchNodeStatus():
                self._touched = now
                self._touches += 1
            case RepairNodeStatus():
                self._repaired = now
        if version is not None and version != node.resource_version:
            self.outdated(node, now)

    def outdated(self, node: NodeView, now: float) -> None:
        """Note that the node is known to have a newer version than the one in the cache."""
        self._written_on, self._written = node.resource_version, now


class Reconciler:
    """Brings nodes to the state that their assessments call for."""

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
        self._reports: dict[str, AssessedNode] = {}
        self._configuration_was_bad = False

    @property
    def reports(self) -> Mapping[str, AssessedNode]:
        """The reports of the last assessment of every node."""
        return self._reports

    def pods_changed(self, node: str) -> None:
        """Assess a node again whose pods have changed, if a decrease was held back for them."""
        report = self._reports.get(node)
        if report and report.held_back:
            self._queue.add(node)

    async def run(self, workers: int) -> None:
        """Work until canceled."""
        self._queue.add(CONFIGURATION)
        self._queue.add_all(self._snapshot.names())
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._beat(), name="reconciler beat")
                for number in range(workers):
                    group.create_task(self._work(), name=f"reconciler worker {number}")
        finally:
            self._heartbeats.stop(LOOP)
            self._queue.clear()
            self._reports.clear()
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
            # A worker that finds nothing to write never waits: let the webhooks have their turn.
            await asyncio.sleep(0)

    async def _reconcile(self, name: str) -> None:
        if name == CONFIGURATION:
            await self._report_configuration()
            return
        node = self._snapshot.view(name)
        if node is None:
            self._memories.pop(name, None)
            self._reports.pop(name, None)
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
        before = self._reports.get(name)
        self._reports[name] = report_on(assessment)
        self._log_problems(assessment, before.problems if before else ())
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

    async def _report_configuration(self) -> None:
        """Emit and log what is wrong with the configuration, on the object at fault."""
        snapshot = self._snapshot
        reading = snapshot.reading
        found = await in_reader(
            partial(
                events_about,
                reading,
                snapshot.config_map,
                snapshot.node_labels(),
                was_bad=self._configuration_was_bad,
            )
        )
        koordinator = snapshot.webhooks.get(snapshot.koordinator.partition("/")[0])
        meta = koordinator.metadata if koordinator else None
        for event in (*found, *event_about_koordinator(snapshot.koordinator, meta)):
            level = logging.WARNING if event.warning else logging.INFO
            log.log(level, event.message, extra=fields(object=event.name, reason=event.reason))
            await self._executor.carry_out(event)
        if not reading.bad_keys:
            log.info("configuration applied", extra=fields(present=reading.present))
        self._configuration_was_bad = bool(reading.bad_keys)

    def _failed(self, node: NodeView, what: str, error: KubeError, memory: NodeMemory) -> None:
        wait = min(_FIRST_BACKOFF * 2.0**memory.failures, _LONGEST_BACKOFF)
        wait = error.retry_after or wait
        memory.failures = min(memory.failures + 1, 10)
        extra = fields(node=node.name, action=what, error=error, hint=error.hint, retry_in=wait)
        log.warning("the API server refused or did not answer", extra=extra)
        self._queue.add_later(node.name, wait)

    def _log_problems(self, assessment: NodeAssessment, before: tuple[tuple[Reason, str], ...]) -> None:
        """Log the problems of a node when they change, nothing while they stay."""
        name = assessment.node.name
        for problem in assessment.problems:
            if (problem.reason, problem.about) not in before:
                log.warning(problem.message, extra=fields(node=name, reason=problem.reason))
        if before and not assessment.problems:
            log.info("no problems any more", extra=fields(node=name))
