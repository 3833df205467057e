"""The manager as one program: everything wired together, one TaskGroup, ended by canceling it.

On every replica: caches, webhooks, certificates, health. On the leader: the reconciler, and the
installation of the webhook configurations. A dry run has neither lease nor webhooks: it writes nothing at
all, and prints instead.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import corewise
from corewise.actions import EmitEvent
from corewise.kube.client import Client
from corewise.kube.clock import SYSTEM_CLOCK, Clock
from corewise.kube.config import ClusterConfig
from corewise.kube.election import DEFAULT_TERMS, Terms
from corewise.kube.events import EventRecorder
from corewise.kube.objects import ObjectReference
from corewise.kube.resources import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS
from corewise.manager import reporting as gauges
from corewise.manager.amplification_path import alternative
from corewise.manager.executor import APIExecutor, Executor, PrintingExecutor
from corewise.manager.namespace_labels import NamespaceLabels
from corewise.manager.node_speed import NodeSpeedWatch
from corewise.manager.options import VALIDATING_NAME, ManagerOptions, OfflinePods
from corewise.manager.pod_webhooks import pods_configuration
from corewise.manager.profiles import Profiles
from corewise.manager.queue import WorkQueue
from corewise.manager.reconciler import CONFIGURATION, Reconciler
from corewise.manager.reporting import validity
from corewise.manager.snapshot import Listeners, Snapshot
from corewise.manager.untranslated_pods import UntranslatedPods
from corewise.manager.webhooks import SECRET_NAME, validating_configuration, webhooks
from corewise.service.certificates import Lifetimes
from corewise.service.health import TokenAccess
from corewise.service.http_servers import WEBHOOKS
from corewise.service.installation import ClientConfig
from corewise.service.logs import fields
from corewise.service.program import Loop, Program
from corewise.service.webhooks import WebhookService, installed_bundle
from corewise.vocabulary import metrics
from corewise.vocabulary.metrics import MANAGER, QUEUE
from corewise.vocabulary.names import MANAGER_COMPONENT
from corewise.workload.pods import Pod

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
    synced: Callable[[], None] = lambda: None,
    stopping: asyncio.Event | None = None,
    write: Write = sys.stdout.write,
) -> None:
    """Run the manager until canceled.

    ``started`` is called with it before its loops run, ``synced`` once it has listed everything; while
    ``stopping`` is set it is not ready. ``write`` takes what a dry run prints.
    """
    async with Client(config, on_warning=None) as client:
        manager = Manager(
            client,
            options,
            server=f"{config.server} ({config.source})",
            clock=clock,
            terms=terms,
            lifetimes=lifetimes,
            synced=synced,
            stopping=stopping,
            write=write,
        )
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
        synced: Callable[[], None],
        stopping: asyncio.Event | None,
        write: Write,
    ) -> None:
        self.options = options
        self.program = Program(MANAGER, clock, stopping)
        self.metrics = self.program.metrics
        self._server = server
        self._client = client
        self._terms = terms
        self._synced = synced
        self.queue = WorkQueue()
        listeners = Listeners(
            self.queue.add,
            self._pods_changed,
            self._everything_changed,
            self._pod_changed,
        )
        self.profiles = Profiles(
            client,
            self._profiles_changed,
            clock,
            self._selection_changed,
            self._labels_changed,
        )
        self.snapshot = Snapshot(client, options, listeners, clock, more=self.profiles.caches)
        self.events = EventRecorder(
            client, component=MANAGER_COMPONENT, instance=options.identity, clock=clock
        )
        self.namespace_labels = NamespaceLabels(self.profiles.namespaces, self._say, clock)
        self.untranslated = UntranslatedPods(
            self.snapshot, self.profiles, namespace=options.namespace, record=self._say, clock=clock
        )
        executor: Executor = (
            PrintingExecutor(write) if options.dry_run else APIExecutor(client, self._record, self.metrics)
        )
        self.reconciler = Reconciler(
            self.snapshot, executor, self.queue, heartbeats=self.program.heartbeats, clock=clock
        )
        self.node_speed = NodeSpeedWatch(self.snapshot, executor, clock)
        self.webhooks = self._webhook_service(lifetimes)
        self.program.expose(
            options.metrics_listen,
            ready=self.webhooks.problems if self.webhooks else tuple,
            publish=self._publish,
            caches=self.snapshot.caches,
            access=TokenAccess(client, clock) if options.metrics_auth else None,
        )

    async def run(self) -> None:
        """Run every loop until canceled.

        Raises:
            OptionsError: if an address cannot be listened on.
        """
        options = self.options
        role = "dry run" if options.dry_run else "elects a leader" if options.leader_elect else "leads"
        log.info(
            "corewise manager %s begins",
            corewise.__version__,
            extra=fields(server=self._server, identity=options.identity, replica=role),
        )
        if self.webhooks and options.client_ca:
            log.info("webhooks answer only callers with a client certificate of --client-ca")
        elif self.webhooks:
            log.info(
                "webhooks answer everyone who can connect; to restrict that: docs/operate/webhook-callers.md"
            )
        await self.program.run(self._loops(), main=self._lead_or_follow())

    def _publish(self) -> None:
        gauges.publish(self.reconciler.reports, self.metrics)
        self.node_speed.publish(self.metrics)
        self.metrics.set(QUEUE, len(self.queue))
        self.metrics.replace(metrics.UNTRANSLATED_PODS, self.untranslated.count())
        self.metrics.replace(metrics.CONFIG_VALID, validity(self.snapshot.reading))

    def _loops(self) -> Iterator[Loop]:
        yield "caches", self.snapshot.caches.run
        if not self.options.dry_run:
            yield "events", self.events.run
        if self.webhooks:
            yield from self.webhooks.loops()

    async def _lead_or_follow(self) -> None:
        await self.snapshot.synced()
        self._synced()
        await self.program.elect(
            self._lead, self._client, self.options, lease=MANAGER_COMPONENT, terms=self._terms
        )

    async def _lead(self) -> None:
        """Do what only the leader does, until canceled."""
        loops: list[Loop] = [("reconciler", self._reconcile), ("node speed", self.node_speed.run)]
        if not self.options.dry_run:
            loops.append(("namespace labels", self.namespace_labels.run))
        if self.options.offline_pods is not OfflinePods.LEAVE and not self.options.dry_run:
            loops.append(("untranslated pods", self.untranslated.run))
        if self.webhooks and self.webhooks.installer:
            loops.append(("installation", self.webhooks.installer.run))
        with self.program.leads():
            await self.program.supervise(loops)

    async def _reconcile(self) -> None:
        """Reconcile, once the webhooks by which a ratio takes effect are installed, or after a while."""
        if self.webhooks and self.options.manage_webhooks:
            with suppress(TimeoutError):
                async with asyncio.timeout(_INSTALLED_WITHIN):
                    await self.webhooks.installed.wait()
        await self.reconciler.run(self.options.concurrency)

    def _webhook_service(self, lifetimes: Lifetimes | None) -> WebhookService | None:
        listen = self.options.webhooks_at
        if listen is None:
            return None
        return WebhookService(
            self._client,
            WEBHOOKS,
            listen,
            self.options,
            webhooks(self.options, self.snapshot, self.profiles, self._client, self.metrics),
            configurations=lambda config: [
                (MUTATING_WEBHOOKS, self._pods_configuration(config)),
                (VALIDATING_WEBHOOKS, validating_configuration(config, self.options.config_namespace)),
            ],
            alternatives=[alternative(self._client, self.options, self.snapshot, self.metrics)],
            changing=lambda config: [(MUTATING_WEBHOOKS, self._pods_configuration(config))],
            field_manager=MANAGER_COMPONENT,
            secret=(self.options.namespace, SECRET_NAME),
            installed_bundle=lambda: installed_bundle(self.snapshot.installed, VALIDATING_NAME),
            program=self.program,
            lifetimes=lifetimes,
        )

    def _pods_configuration(self, config: ClientConfig) -> dict[str, Any]:
        options = self.options
        return options.stated_on(
            pods_configuration(
                config,
                self.profiles.ordered(),
                offline=options.offline_pods,
                namespace=options.namespace,
                failure_policy=options.pod_failure_policy,
            )
        )

    def _pods_changed(self, node: str) -> None:
        self.reconciler.pods_changed(node)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        self.untranslated.pod_changed(old, new)

    def _labels_changed(self) -> None:
        self.namespace_labels.changed()

    def _selection_changed(self) -> None:
        self.untranslated.everything_changed()

    def _profiles_changed(self) -> None:
        if self.webhooks and self.webhooks.installer:
            self.webhooks.installer.outdated.set()

    def _everything_changed(self) -> None:
        self.queue.add(CONFIGURATION)
        self.queue.add_all(self.snapshot.names())

    def _say(self, event: EmitEvent) -> None:
        self.metrics.count(metrics.EVENTS, event.reason)
        self._record(event)

    def _record(self, event: EmitEvent) -> None:
        regarding = ObjectReference(
            kind=event.regarding_kind, name=event.name, namespace=event.namespace, uid=event.uid
        )
        self.events.emit(regarding, event.reason, event.message, warning=event.warning)
