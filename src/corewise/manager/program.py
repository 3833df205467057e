"""The manager as one program: everything wired together, one TaskGroup, ended by cancelling it.

On every replica: caches, webhooks, certificates, health. On the leader: the reconciler, and the
installation of the webhook configurations. A dry run has neither lease nor webhooks: it writes nothing at
all, and prints instead.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from typing import Any

import corewise
from corewise.actions import EmitEvent
from corewise.kube.client import Client
from corewise.kube.clock import SYSTEM_CLOCK, Clock
from corewise.kube.config import ClusterConfig
from corewise.kube.election import DEFAULT_TERMS, Elector, Terms
from corewise.kube.events import EventRecorder
from corewise.kube.objects import ObjectReference
from corewise.manager import gauges
from corewise.manager.assembly import webhooks
from corewise.manager.configuration_events import validity
from corewise.manager.executor import FIELD_MANAGER, APIExecutor, Executor, PrintingExecutor
from corewise.manager.installation import MUTATING_NAME, SECRET_NAME, configurations
from corewise.manager.options import ManagerOptions
from corewise.manager.queue import WorkQueue
from corewise.manager.reconciler import CONFIGURATION, Reconciler
from corewise.manager.snapshot import Listeners, Snapshot
from corewise.prometheus.exposition import Exposition
from corewise.service.access import TokenAccess
from corewise.service.doors import WEBHOOKS
from corewise.service.health import HealthServer
from corewise.service.logs import fields
from corewise.service.supervision import Pulses, Supervisor, run_together
from corewise.service.webhooks.authority import Lifetimes
from corewise.service.webhooks.service import WebhookService
from corewise.vocabulary.metrics import exported_by
from corewise.vocabulary.metrics import service as metrics
from corewise.vocabulary.metrics.manager import QUEUE
from corewise.vocabulary.metrics.table import MANAGER

COMPONENT = "corewise-manager"
log = logging.getLogger(__name__)
_INSTALLED_WITHIN = 10.0
Write = Callable[[str], object]


async def run_manager(
    options: ManagerOptions,
    config: ClusterConfig,
    *,
    clock: Clock = SYSTEM_CLOCK,
    terms: Terms = DEFAULT_TERMS,
    lifetimes: Lifetimes | None = None,
    started: Callable[[Manager], None] | None = None,
    synced: Callable[[], None] | None = None,
    write: Write = sys.stdout.write,
) -> None:
    """Run the manager until cancelled.

    ``started`` is called with it before its loops run, ``synced`` once it has listed everything; ``write``
    takes what a dry run prints.
    """
    async with Client(config, on_warning=None) as client:
        manager = Manager(
            client,
            options,
            server=f"{config.server} ({config.source})",
            clock=clock,
            terms=terms,
            lifetimes=lifetimes,
            write=write,
        )
        manager.synced = synced
        if started:
            started(manager)
        await manager.run()


class Manager:
    """All parts of the manager."""

    def __init__(
        self,
        client: Client,
        options: ManagerOptions,
        *,
        server: str,
        clock: Clock,
        terms: Terms,
        lifetimes: Lifetimes | None,
        write: Write,
    ) -> None:
        self.options = options
        self._server = server
        self._client = client
        self._clock = clock
        self._terms = terms
        self.metrics = Exposition(exported_by(MANAGER))
        self.pulses = Pulses(clock)
        self._supervisor = Supervisor(clock, self.metrics)
        self.queue = WorkQueue()
        listeners = Listeners(self.queue.add, self._pods_changed, self._everything_changed)
        self.snapshot = Snapshot(client, options, listeners, clock)
        self.events = EventRecorder(client, component=COMPONENT, instance=options.identity, clock=clock)
        executor: Executor = (
            PrintingExecutor(write) if options.dry_run else APIExecutor(client, self._record, self.metrics)
        )
        self.reconciler = Reconciler(self.snapshot, executor, self.queue, pulses=self.pulses, clock=clock)
        self.webhooks = self._webhook_service(lifetimes)
        self.health = self._health()
        self.leading = asyncio.Event()
        self.synced: Callable[[], None] | None = None
        self.stopping = False

    async def run(self) -> None:
        """Run every loop until cancelled.

        Raises:
            OptionsError: if an address cannot be listened on.
        """
        self._say_what_begins()
        tasks = [(name, self._supervisor.run(name, loop)) for name, loop in self._loops()]
        await run_together([*tasks, ("leadership", self._lead_or_follow())])

    def _say_what_begins(self) -> None:
        options = self.options
        role = "dry run" if options.dry_run else "elects a leader" if options.leader_elect else "leads"
        log.info(
            "corewise manager %s begins",
            corewise.__version__,
            extra=fields(server=self._server, identity=options.identity, replica=role),
        )

    def problems(self) -> Iterable[str]:
        """Say why this replica is not ready, if it is not."""
        if self.stopping:
            yield "this replica is stopping"
        yield from (f"{name} have not been listed yet" for name in self.snapshot.unsynced)
        yield from filter(None, (cache.stale() for cache in self.snapshot.caches.values()))
        if self.webhooks:
            yield from self.webhooks.problems()

    def metrics_text(self) -> bytes:
        """Return all metrics as they are now."""
        gauges.publish(self.reconciler.assessments, self.metrics)
        self.metrics.set(QUEUE, len(self.queue))
        self.metrics.replace(metrics.CONFIG_VALID, validity(self.snapshot.reading))
        for name, cache in self.snapshot.caches.items():
            self.metrics.set(metrics.CACHE_OBJECTS, len(cache.items), name)
        return self.metrics.text()

    def _loops(self) -> Iterable[tuple[str, Callable[[], Coroutine[Any, Any, None]]]]:
        yield "caches", self.snapshot.run
        if not self.options.dry_run:
            yield "events", self.events.run
        if self.health:
            yield "health", self.health.run
        if self.webhooks:
            yield from self.webhooks.loops()

    async def _lead_or_follow(self) -> None:
        await self.snapshot.synced()
        if self.synced:
            self.synced()
        if not self.options.leader_elect or self.options.dry_run:
            await self._lead()
            return
        elector = Elector(
            self._client,
            namespace=self.options.config_namespace,
            name=COMPONENT,
            identity=self.options.identity,
            terms=self._terms,
            clock=self._clock,
        )
        await self._supervisor.run("election", lambda: elector.run(self._lead))

    async def _lead(self) -> None:
        """Do what only the leader does, until cancelled."""
        self.leading.set()
        self.metrics.set(metrics.LEADER, 1)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._supervisor.run("reconciler", self._reconcile))
                if self.webhooks and self.webhooks.installer:
                    installer = self.webhooks.installer
                    group.create_task(self._supervisor.run("installation", installer.run))
        finally:
            self.leading.clear()
            self.metrics.set(metrics.LEADER, 0)

    async def _reconcile(self) -> None:
        """Reconcile, once the webhooks by which a ratio takes effect are installed, or after a while."""
        if self.webhooks and self.webhooks.installer:
            with suppress(TimeoutError):
                async with asyncio.timeout(_INSTALLED_WITHIN):
                    await self.webhooks.installed.wait()
        await self.reconciler.run(self.options.concurrency)

    def _installed_bundle(self) -> str:
        """Return the authorities that the installed mutating webhook trusts, from the cache."""
        installed = self.snapshot.webhooks.get(MUTATING_NAME)
        if installed is None or not installed.webhooks:
            return ""
        return installed.webhooks[0].client_config.ca_bundle.decode("ascii", "replace")

    def _webhook_service(self, lifetimes: Lifetimes | None) -> WebhookService | None:
        options, namespace = self.options.webhooks, self.options.config_namespace
        if options.listen is None:
            return None
        return WebhookService(
            self._client,
            WEBHOOKS,
            options.listen,
            options,
            webhooks(self.options, self.snapshot, self._client, self.metrics, self._clock),
            configurations=lambda config: configurations(config, namespace),
            field_manager=FIELD_MANAGER,
            secret=(namespace, SECRET_NAME),
            installed_bundle=self._installed_bundle,
            metrics=self.metrics,
            pulses=self.pulses,
            clock=self._clock,
            lifetimes=lifetimes,
        )

    def _health(self) -> HealthServer | None:
        if self.options.metrics_listen is None:
            return None
        return HealthServer(
            self.options.metrics_listen,
            alive=self.pulses.problems,
            ready=self.problems,
            text=self.metrics_text,
            metrics=self.metrics,
            access=TokenAccess(self._client, self._clock) if self.options.metrics_auth else None,
        )

    def _pods_changed(self, node: str) -> None:
        self.reconciler.pods_changed(node)

    def _everything_changed(self) -> None:
        self.queue.add(CONFIGURATION)
        self.queue.add_all(self.snapshot.names())

    def _record(self, event: EmitEvent) -> None:
        regarding = ObjectReference(
            kind=event.regarding_kind, name=event.name, namespace=event.namespace, uid=event.uid
        )
        self.events.emit(regarding, event.reason, event.message, warning=event.warning)
