"""Runs the controller of offline pods on time, with the settings that apply.

A tick is made each interval, and 1 s after the first look, so that a node offers soon after its label says
so. A change of the Node, its pods or the ConfigMap is answered at once, but without a sample: a short one is
noise.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from functools import partial
from pathlib import Path

from corewise.actions import EmitEvent
from corewise.agent.eviction import EvictionResult, EvictPod
from corewise.agent.executor import Executor
from corewise.agent.local_node import LocalNode
from corewise.agent.objects import AgentNode
from corewise.agent.offline_controller import OfflineController
from corewise.agent.offline_settings import ColocationConfiguration, raw_allocatable
from corewise.agent.publication import Publisher, Tick
from corewise.agent.topology_report import result_of
from corewise.agent.watched import Watched
from corewise.kube.clock import Clock, next_beat, sleep_between
from corewise.kube.errors import KubeError
from corewise.kube.objects import ConfigMap
from corewise.prometheus.exposition import Exposition
from corewise.service.logs import fields
from corewise.service.program import Heartbeats
from corewise.service.reader import in_reader
from corewise.vocabulary import metrics
from corewise.vocabulary.metrics import OFFLINE_EVICTIONS, OVERSUBSCRIPTION_WRITES

log = logging.getLogger(__name__)

NAME, PUBLISHING, EVICTING = "oversubscription", "offers", "eviction"
FIRST_PAUSE = 1.0
"""Seconds between the first look and the next one."""
SHORTEST_PAUSE = 0.1
_LONG_SILENCE = 6
_LONGEST_PUBLISHING = 600.0
"""Seconds: a write is tried several times, with a pause in between."""
_CONFIG_WITHIN = 5.0
"""Seconds that the ConfigMap is waited for before the rest begins without it."""

_UNREAD = object()
"""Stands for the ConfigMap before one has been read: None is that there is none."""


class OfflineLoop:
    """The loop of one agent."""

    def __init__(
        self,
        local: LocalNode,
        watched: Watched,
        executor: Executor,
        root: Path,
        *,
        metrics: Exposition,
        clock: Clock,
    ) -> None:
        self._local = local
        self._watched = watched
        self._executor = executor
        self._metrics = metrics
        self._clock = clock
        self._due, self._to_publish, self._to_evict = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._latest: tuple[Tick, float] = Tick(), 0.0
        self._labels: object = None
        self._read: object = _UNREAD
        self._prepared: asyncio.Future[ColocationConfiguration] | None = None
        self.configuration = ColocationConfiguration()
        self.controller = OfflineController(local, root)
        self.publisher = Publisher()

    def wake(self) -> None:
        self._due.set()

    def node_changed(self, node: AgentNode) -> None:
        """Take note of a change of the Node: its labels count, and heartbeats do not."""
        if node.metadata.labels != self._labels:
            self._labels = node.metadata.labels
            self.wake()

    async def prepare(self, config_map: ConfigMap) -> None:
        """Read a ConfigMap in a thread, before it counts."""
        reading = in_reader(partial(self.configuration.after, config_map))
        await asyncio.wait([reading])
        self._prepared = reading

    async def run(self, heartbeats: Heartbeats) -> None:
        await self._watched.synced()
        with suppress(TimeoutError):
            async with asyncio.timeout(_CONFIG_WITHIN):
                await self._watched.config_known.wait()
        tick_at = self._clock.monotonic()
        while True:
            self._due.clear()
            now = self._clock.monotonic()
            if now >= tick_at:
                tick_at = self._next(self.round(now, sample=True), now)
            else:
                self.round(now, sample=False)
            heartbeats.beat(NAME, self.controller.node.interval * _LONG_SILENCE)
            longest = max(0.0, tick_at - self._clock.monotonic())
            await sleep_between(SHORTEST_PAUSE, longest, self._due, self._clock)

    async def publish(self, heartbeats: Heartbeats) -> None:
        """Write to the Node what came of the latest round, until canceled.

        A loop of its own: an API server that does not answer must not delay suppression.
        """
        while True:
            heartbeats.beat(PUBLISHING, _LONGEST_PUBLISHING)
            with suppress(TimeoutError):
                async with asyncio.timeout(_LONGEST_PUBLISHING / _LONG_SILENCE):
                    await self._to_publish.wait()
            self._to_publish.clear()
            await self._publish(*self._latest)

    async def evict(self, heartbeats: Heartbeats) -> None:
        """Evict who is to go, until canceled. A loop of its own, as publishing is."""
        while True:
            heartbeats.beat(EVICTING, _LONGEST_PUBLISHING)
            with suppress(TimeoutError):
                async with asyncio.timeout(_LONGEST_PUBLISHING / _LONG_SILENCE):
                    await self._to_evict.wait()
            self._to_evict.clear()
            while (result := await self._evict_one()) is not None and result.passes_over:
                heartbeats.beat(EVICTING, _LONGEST_PUBLISHING)

    async def once(self) -> bool:
        """Take one sample of a second, act, and write to the Node; return whether all went well."""
        try:
            await self._watched.listed(config=True)
        except KubeError as error:
            self._local.problem_log.update("ConfigMap", {"ConfigMap": str(error)})
            return False
        tick = self.round(self._clock.monotonic(), sample=True)
        if self.controller.node.is_sampled:
            await self._clock.sleep(FIRST_PAUSE)
            tick = self.round(self._clock.monotonic(), sample=True)
        published = await self._publish(*self._latest)
        return published and not tick.problems

    def round(self, now: float, *, sample: bool) -> Tick:
        """Do one round; have its Events emitted, and the other loops act on its outcome."""
        node = self._watched.node
        if node is None or not self._local.is_seen:
            return Tick()
        self._configure(node)
        pods = self._watched.pods
        began = self._clock.monotonic()
        wall = self._clock.now().timestamp()
        tick = self.controller.tick(now, wall, pods) if sample else self.controller.settle(wall, pods)
        self._metrics.observe(metrics.AGENT_LOOP_SECONDS, self._clock.monotonic() - began, NAME)
        self._executor.wrote(tick.written)
        for event in tick.events:
            self._executor.emit(event)
        if tick.on and not sample and self.publisher.is_short:
            tick.offer, tick.report = self.controller.last.offer, self.controller.last.report
        if sample:
            self._to_evict.set()
        if sample or tick.on is False or self.publisher.is_short:
            self._latest = tick, now
            self._to_publish.set()
        return tick

    def stop(self) -> None:
        """Give back what is to be given back at the end of the agent."""
        self._executor.give_back(self.controller.stop)

    def _next(self, tick: Tick, now: float) -> float:
        """Return the time of the next tick."""
        interval = self.controller.node.interval
        if self.controller.awaits_first_sample and "sample" not in tick.problems:
            return now + min(FIRST_PAUSE, interval)
        following = next_beat(now, interval)
        return following if following - now >= interval / 2 else following + interval

    def _configure(self, node: AgentNode) -> None:
        """Take the ConfigMap if it is known and another one, and what both it and the Node say."""
        config_map = self._watched.config
        if self._watched.config_known.is_set() and config_map is not self._read:
            logged = self.configuration.warnings
            if config_map is not None and self._prepared is not None:
                self.configuration = self._prepared.result()
            else:
                self.configuration = self.configuration.after(None)
            self._read = config_map
            self._local.problem_log.update("ConfigMap", self.configuration.problems)
            for warning in self.configuration.warnings:
                if warning not in logged:
                    log.warning("%s", warning, extra=fields(node=node.metadata.name))
        labels = node.metadata.labels
        self.controller.configure(
            self.configuration.oversubscription(labels),
            self.configuration.suppression(labels),
            self.configuration.resctrl(labels),
            self.configuration.eviction(labels),
        )
        self.controller.observe(labels, raw_allocatable(node), self._local.ratio)

    async def _evict_one(self) -> EvictionResult | None:
        """Evict the pod that is to go, if one is; return what became of it."""
        evictor = self.controller.evictor
        verdict = self.controller.eviction_due(self._clock.monotonic())
        if verdict is None or verdict.pod is None:
            return None
        pod = verdict.pod
        action = EvictPod(pod, verdict.reason, verdict.why, evictor.settings.dry_run)
        result, why = await self._executor.evict(action)
        now, wall = self._clock.monotonic(), self._clock.now().timestamp()
        evictor.record(verdict, result, why, now, wall)
        self._metrics.count(OFFLINE_EVICTIONS, verdict.shortage, result)
        if result is EvictionResult.EVICTED:
            message = f"evicted by the agent of node {self._local.name}: {verdict.why}; {pod.order}"
            about = ("Pod", pod.namespace, pod.name, pod.uid)
            self._executor.emit(EmitEvent(*about, verdict.reason, message, warning=True))
        self._local.problem_log.update("eviction", {pod.label: why} if result.is_bad else {})
        return result

    async def _publish(self, tick: Tick, now: float) -> bool:
        """Write what is due, if anything is; say whether the Node shows what it should."""
        node = self._watched.node
        if node is None:
            return True
        publication = self.publisher.change(tick, node, self._local.ratio, now)
        if publication is None:
            return True
        problems: dict[str, str] = {}
        try:
            is_written = await self._executor.publish(node.metadata.name, publication)
            self.publisher.done(publication, now, is_written=is_written)
            if is_written:
                self._metrics.count(OVERSUBSCRIPTION_WRITES, "ok")
        except KubeError as error:
            self._metrics.count(OVERSUBSCRIPTION_WRITES, result_of(error))
            problems["publication"] = str(error)
        self._local.problem_log.update("offer on the Node", problems)
        return not problems
