"""The scheduler as one program: everything wired together, one TaskGroup, ended by cancelling it.

On every replica: caches, certificates, health, what steers decisions (the file, Prometheus), and the address
of extender and gate, which answers that it cannot unless the replica leads. The leader answers, once it has
counted what was bound before it led; and it keeps the webhook configuration installed, and gives back what
was reserved and never bound.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Iterator
from typing import Any

from corewise.engine import Engine
from corewise.engine.objects import PlacedPod
from corewise.kube.cache import Cache
from corewise.kube.client import Client
from corewise.kube.clock import SYSTEM_CLOCK, Clock
from corewise.kube.config import ClusterConfig
from corewise.kube.election import DEFAULT_TERMS, Elector, Terms
from corewise.kube.errors import KubeError
from corewise.kube.events import EventRecorder
from corewise.kube.objects import ObjectReference
from corewise.kube.resources import MUTATING_WEBHOOKS
from corewise.prometheus.exposition import Exposition
from corewise.scheduler.active_config import ConfigReloader
from corewise.scheduler.decisions import Decisions
from corewise.scheduler.extender import Extender, ExtenderRoutes
from corewise.scheduler.gate import Gate
from corewise.scheduler.installation import (
    CONFIGURATION_NAME,
    EXPLAIN,
    GATE,
    GATE_PATH,
    SECRET_NAME,
    configurations,
)
from corewise.scheduler.options import SchedulerOptions
from corewise.scheduler.state import ClusterState
from corewise.service.access import TokenAccess
from corewise.service.doors import EXTENDER, anyone, certified
from corewise.service.health import HealthServer
from corewise.service.logs import fields
from corewise.service.supervision import Pulses, Supervisor, run_together
from corewise.service.webhooks.authority import Lifetimes
from corewise.service.webhooks.server import Webhook
from corewise.service.webhooks.service import WebhookService
from corewise.vocabulary.metrics import exported_by
from corewise.vocabulary.metrics import scheduler as metrics
from corewise.vocabulary.metrics.service import CACHE_OBJECTS, EVENTS, LEADER
from corewise.vocabulary.metrics.table import SCHEDULER
from corewise.vocabulary.reasons import Reason

log = logging.getLogger(__name__)

COMPONENT = "corewise-scheduler"
SETTLE = 1.0
"""Seconds a new leader waits, so that bindings which the last one let through are done when it lists."""
_LOOK_EVERY = 5.0
_LOOP = "reservations"
_BEAT_LIMIT = 120.0


async def run_scheduler(
    options: SchedulerOptions,
    config: ClusterConfig,
    *,
    clock: Clock = SYSTEM_CLOCK,
    terms: Terms = DEFAULT_TERMS,
    lifetimes: Lifetimes | None = None,
    started: Callable[[Scheduler], None] | None = None,
    synced: Callable[[], None] | None = None,
) -> None:
    """Run the scheduler until cancelled.

    ``started`` is called with it before its loops run, ``synced`` once it has listed everything.
    """
    async with Client(config, on_warning=None) as client:
        scheduler = Scheduler(client, options, clock=clock, terms=terms, lifetimes=lifetimes)
        scheduler.synced = synced
        if started:
            started(scheduler)
        await scheduler.run()


class Scheduler:
    """All parts of the scheduler."""

    def __init__(
        self,
        client: Client,
        options: SchedulerOptions,
        *,
        clock: Clock,
        terms: Terms,
        lifetimes: Lifetimes | None,
    ) -> None:
        self.options = options
        self._client = client
        self._clock = clock
        self._terms = terms
        self.metrics = Exposition(exported_by(SCHEDULER))
        self.pulses = Pulses(clock)
        self._supervisor = Supervisor(clock, self.metrics)
        self.state = ClusterState(client, clock, rules=options.rules)
        self.decisions = Decisions(options.configuration.remembered_decisions, clock)
        self.reloader = ConfigReloader(
            options, self.state, self.decisions, exposition=self.metrics, pulses=self.pulses, clock=clock
        )
        self.events = EventRecorder(client, component=COMPONENT, instance=options.identity, clock=clock)
        self.configurations = Cache(
            client,
            MUTATING_WEBHOOKS,
            field_selector=f"metadata.name={CONFIGURATION_NAME}",
            clock=clock,
        )
        self.access = TokenAccess(client, clock)
        self.service = self._service(lifetimes)
        self.health = self._health()
        self.leading = asyncio.Event()
        self.synced: Callable[[], None] | None = None
        self.stopping = False

    async def run(self) -> None:
        """Run every loop until cancelled.

        Raises:
            OptionsError: if an address cannot be listened on.
        """
        tasks = [(name, self._supervisor.run(name, loop)) for name, loop in self._loops()]
        try:
            await run_together([*tasks, ("leadership", self._lead_or_follow())])
        finally:
            await self.reloader.close()

    def problems(self) -> Iterator[str]:
        """Say why this replica does not answer, if it does not."""
        unsynced = self.state.unsynced
        yield from (f"{name} have not been listed yet" for name in unsynced)
        yield from filter(None, (cache.stale() for cache in self.state.caches.values()))
        if not unsynced and not self.leading.is_set():
            yield "this replica does not lead"

    def unready(self) -> Iterator[str]:
        """Say why nothing should be sent to this replica, if so."""
        if self.stopping:
            yield "this replica is stopping"
        yield from self.problems()
        yield from self.service.problems()

    def metrics_text(self) -> bytes:
        """Return all metrics as they are now."""
        self.metrics.set(metrics.GATE_RESERVATIONS, len(self.state.reservations))
        self.metrics.set(metrics.CPU_CONFLICTS, self.state.conflicts)
        for name, cache in self.state.caches.items():
            self.metrics.set(CACHE_OBJECTS, len(cache.items), name)
        self.reloader.export()
        return self.metrics.text()

    def _loops(self) -> Iterable[tuple[str, Callable[[], Coroutine[Any, Any, None]]]]:
        yield "caches", self.state.run
        yield "events", self.events.run
        if self.health:
            yield "health", self.health.run
        yield from self.service.loops()
        if self.options.manage_webhooks:
            yield "configuration", self.configurations.run
        yield from self.reloader.loops()

    async def _lead_or_follow(self) -> None:
        await self.state.synced()
        if self.synced:
            self.synced()
        if not self.options.leader_elect:
            await self._lead()
            return
        elector = Elector(
            self._client,
            namespace=self.options.namespace,
            name=COMPONENT,
            identity=self.options.identity,
            terms=self._terms,
            clock=self._clock,
        )
        await self._supervisor.run("election", lambda: elector.run(self._lead))

    async def _lead(self) -> None:
        """Answer, and do what only the leader does, until cancelled."""
        try:
            if self.options.leader_elect:
                await self._take_over()
            self.leading.set()
            self.metrics.set(LEADER, 1)
            log.info("extender and gate answer", extra=fields(nodes=len(self.state.nodes.items)))
            async with asyncio.TaskGroup() as group:
                group.create_task(self._supervisor.run(_LOOP, self._settle))
                if self.service.installer:
                    group.create_task(self._supervisor.run("installation", self.service.installer.run))
        finally:
            self.leading.clear()
            self.pulses.stop(_LOOP)
            self.metrics.set(LEADER, 0)

    async def _take_over(self) -> None:
        """Count what the last leader let through: what is bound by now, seen or not."""
        await self._clock.sleep(SETTLE)
        while True:
            try:
                await self.state.catch_up()
            except KubeError as error:
                log.warning(
                    "the pods cannot be listed, so nothing is answered yet", extra=fields(error=error)
                )
                await self._clock.sleep(SETTLE)
            else:
                return

    async def _settle(self) -> None:
        """Give back what was reserved and never bound, until cancelled."""
        while True:
            self.pulses.beat(_LOOP, _BEAT_LIMIT)
            freed = await self.state.settle()
            if freed:
                self.metrics.count(metrics.GATE_EXPIRED, by=freed)
            self.reloader.expire()
            await self._clock.sleep(_LOOK_EVERY)

    def _engine(self) -> Engine:
        return self.reloader.active.engine

    def _service(self, lifetimes: Lifetimes | None) -> WebhookService:
        engine = self._engine
        gate = Gate(self.state, engine, self.decisions, self.problems, self.metrics, self._clock)
        extender = Extender(self.state, engine, self.decisions, self._nothing_suits)
        routes = ExtenderRoutes(
            extender,
            self.decisions,
            self.problems,
            self.metrics,
            caller=certified if self.options.client_ca else anyone,
            reader=self.access.guard(f"/{EXPLAIN}"),
        )
        return WebhookService(
            self._client,
            EXTENDER.with_body(self.options.max_extender_body),
            self.options.listen,
            self.options.webhooks,
            [Webhook(GATE, GATE_PATH, gate.review)],
            configurations=configurations,
            field_manager=COMPONENT,
            secret=(self.options.namespace, SECRET_NAME),
            installed_bundle=self._installed_bundle,
            metrics=self.metrics,
            pulses=self.pulses,
            clock=self._clock,
            lifetimes=lifetimes,
            routes=routes.routes(),
        )

    def _installed_bundle(self) -> str:
        """Return the authorities that the installed configuration trusts, from the cache."""
        installed = self.configurations.get(CONFIGURATION_NAME)
        if installed is None or not installed.webhooks:
            return ""
        return installed.webhooks[0].client_config.ca_bundle.decode("ascii", "replace")

    def _health(self) -> HealthServer | None:
        if self.options.metrics_listen is None:
            return None
        return HealthServer(
            self.options.metrics_listen,
            alive=self.pulses.problems,
            ready=self.unready,
            text=self.metrics_text,
            metrics=self.metrics,
            access=self.access if self.options.metrics_auth else None,
        )

    def _nothing_suits(self, pod: PlacedPod, message: str) -> None:
        """Tell the pod's owner; a repetition is counted, not written again.

        Nobody is authenticated where the extender is served: of pods that do not exist nothing is told.
        """
        meta = pod.metadata
        known = self.state.pods.get(meta.name, meta.namespace or "default")
        if known is None or known.metadata.uid != meta.uid:
            return
        regarding = ObjectReference(
            kind="Pod", name=meta.name, namespace=meta.namespace or "default", uid=meta.uid
        )
        self.events.emit(regarding, Reason.NO_NODE_SUITS, message, warning=True)
        self.metrics.count(EVENTS, Reason.NO_NODE_SUITS)
