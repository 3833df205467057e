"""The scheduler as one program: everything wired together, one TaskGroup, ended by canceling it.

On every replica: caches, certificates, health, what steers decisions (the file, Prometheus), and the
extender, which answers as soon as the caches are filled, filter, prioritize and bind alike: what two replicas
bind at once is kept apart by the Nodes' ledgers (binding.py). The leader alone keeps the ledgers in order
(collector.py), and removes what an older version left in the cluster.

When the program ends, calls in flight are answered first: a binding under way is finished.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator

from corewise.config.interference.model import InterferenceConfiguration
from corewise.engine import Engine
from corewise.kube.client import Client
from corewise.kube.clock import SYSTEM_CLOCK, Clock, sleep_between, to_beat
from corewise.kube.config import ClusterConfig
from corewise.kube.election import DEFAULT_TERMS, Terms
from corewise.kube.errors import KubeError, NotFound
from corewise.kube.events import EventRecorder
from corewise.kube.objects import ObjectReference
from corewise.kube.resources import MUTATING_WEBHOOKS
from corewise.scheduler import marking, policy
from corewise.scheduler.active_config import ConfigReloader
from corewise.scheduler.binding import Binder
from corewise.scheduler.collector import LedgerCollector
from corewise.scheduler.decisions import Decisions
from corewise.scheduler.executor import LedgerExecutor
from corewise.scheduler.extender import Extender, ExtenderRoutes
from corewise.scheduler.installation import CLIENT_SECRET_NAME, EXPLAIN, FORMER_GATE, SECRET_NAME
from corewise.scheduler.options import SchedulerOptions
from corewise.scheduler.preemption import PROFILED_BUDGET, Preemptor
from corewise.scheduler.profiled import ProfiledExtender
from corewise.scheduler.state import ClusterState
from corewise.service.certificates import Lifetimes
from corewise.service.health import TokenAccess
from corewise.service.http_servers import EXTENDER, Certified
from corewise.service.installation import Path
from corewise.service.logs import fields
from corewise.service.program import Loop, Program
from corewise.service.webhooks import Webhook, WebhookService
from corewise.vocabulary import metrics
from corewise.vocabulary.metrics import EVENTS, SCHEDULER, ExportedMetric
from corewise.vocabulary.reasons import Reason
from corewise.workload.pods import Pod

log = logging.getLogger(__name__)

COMPONENT = "corewise-scheduler"
LIFETIMES = Lifetimes(settle=Lifetimes().client)
"""kube-scheduler's copy of the authorities is as old as its client certificate may be."""
_LOOK_EVERY = 5.0
_PAUSE = 1.0
"""Seconds from one look at the ledgers to the next, whatever happens: one at 10,000 entries takes 0.3 s."""
_GATHERING = 2.0
"""Seconds, about, for which events of pods stay unread while kube-scheduler asks nothing."""
_EXPIRY, _LEDGERS = "expiry", "ledgers"
_BEAT_LIMIT = 120.0


async def run_scheduler(
    options: SchedulerOptions,
    config: ClusterConfig,
    *,
    clock: Clock = SYSTEM_CLOCK,
    terms: Terms = DEFAULT_TERMS,
    lifetimes: Lifetimes | None = None,
    started: Callable[[Scheduler], None] | None = None,
    synced: Callable[[], None] = lambda: None,
    stopping: asyncio.Event | None = None,
) -> None:
    """Run the scheduler until canceled.

    ``started`` is called with it before its loops run, ``synced`` once it has listed everything; while
    ``stopping`` is set it is not ready.
    """
    async with Client(config, on_warning=None) as client:
        scheduler = Scheduler(
            client,
            options,
            clock=clock,
            terms=terms,
            lifetimes=lifetimes,
            synced=synced,
            stopping=stopping,
        )
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
        synced: Callable[[], None],
        stopping: asyncio.Event | None,
    ) -> None:
        self.options = options
        self.program = Program(SCHEDULER, clock, stopping)
        self.metrics = self.program.metrics
        self.client = client
        self._clock = clock
        self._terms = terms
        self._synced = synced
        self._is_following = False
        """Whether a pod that the watch shows first was bound just now."""
        self.state = ClusterState(
            client, clock, on_pod=self._count_missed, rules=options.rules, gathering=_GATHERING
        )
        self.decisions = Decisions(options.configuration.remembered_decisions, clock)
        self.reloader = ConfigReloader(
            options,
            self.state,
            self.decisions,
            exposition=self.metrics,
            heartbeats=self.program.heartbeats,
            clock=clock,
            on_change=self._follow,
        )
        self.events = EventRecorder(client, component=COMPONENT, instance=options.identity, clock=clock)
        executor = LedgerExecutor(client, self.state)
        self.binder = Binder(client, self.state, executor, self._engine, self.decisions, self.metrics)
        self.collector = LedgerCollector(
            client, self.state, executor, self._engine, self.events, self.metrics, clock
        )
        self.access = TokenAccess(client, clock)
        self.service = self._service(lifetimes)
        self.program.expose(
            options.metrics_listen,
            ready=self.service.problems,
            publish=self._publish,
            caches=self.state.caches,
            access=self.access if options.metrics_auth else None,
        )

    async def run(self) -> None:
        """Run every loop until canceled.

        Raises:
            OptionsError: if an address cannot be listened on.
        """
        try:
            await self.program.run(self._loops(), main=self._lead_or_follow())
        finally:
            await self.reloader.close()

    def problems(self) -> Iterator[str]:
        """Return the reasons why this replica does not answer, if it does not."""
        return self.state.caches.problems()

    def _publish(self) -> None:
        self.collector.publish()
        self.metrics.set(metrics.CPU_CONFLICTS, self.state.counted.conflicts)
        self.reloader.export()

    def _loops(self) -> Iterator[Loop]:
        yield "caches", self.state.caches.run
        yield "events", self.events.run
        yield from self.service.loops()
        yield _EXPIRY, self._expire
        yield from self.reloader.loops()

    async def _lead_or_follow(self) -> None:
        await self.state.caches.listed(self._clock)
        self._is_following = True
        self._synced()
        await self.program.elect(self._lead, self.client, self.options, lease=COMPONENT, terms=self._terms)

    async def _lead(self) -> None:
        """Do what only the leader does, until canceled."""
        loops: list[Loop] = [(_LEDGERS, self._keep_ledgers), ("former-gate", self._remove_gate)]
        if self.service.installer:
            loops.append(("installation", self.service.installer.run))
        with self.program.leads():
            log.info("this replica leads", extra=fields(nodes=len(self.state.nodes.items)))
            try:
                await self.program.supervise(loops)
            finally:
                self.program.heartbeats.stop(_LEDGERS)

    async def _keep_ledgers(self) -> None:
        """Keep the Nodes' ledgers in order, every few seconds, soon if a pod is gone, until canceled."""
        self.collector.begin()
        while True:
            self.program.heartbeats.beat(_LEDGERS, _BEAT_LIMIT)
            self.state.counted.given_back.clear()
            await self.collector.look()
            longest = to_beat(self._clock, _LOOK_EVERY)
            await sleep_between(_PAUSE, longest, self.state.counted.given_back, self._clock)

    async def _remove_gate(self) -> None:
        """Remove the webhook configuration of the binding gate, which an older version may have left."""
        while True:
            try:
                await self.client.delete(MUTATING_WEBHOOKS, FORMER_GATE)
            except NotFound:
                return
            except KubeError as error:
                log.warning("the webhook configuration of an older version stays", extra=fields(error=error))
                await self._clock.sleep(_BEAT_LIMIT)

    async def _expire(self) -> None:
        """Forget what counts no more, counterweights and assumed pods, until canceled."""
        while True:
            self.program.heartbeats.beat(_EXPIRY, _BEAT_LIMIT)
            self.reloader.expire()
            self.state.assumed.expire()
            await self._clock.sleep(to_beat(self._clock, _LOOK_EVERY))

    def _engine(self) -> Engine:
        return self.reloader.active.engine

    def _profiled_engine(self) -> Engine:
        return self.reloader.active.profiled

    def _interference(self) -> InterferenceConfiguration | None:
        return self.reloader.active.configuration.interference

    def _normalizes(self) -> bool:
        return self.reloader.active.configuration.normalize_cpuset

    def _service(self, lifetimes: Lifetimes | None) -> WebhookService:
        engine = self._engine
        shared = self.decisions, self._on_unschedulable
        profiled = self._profiled_engine
        routes = ExtenderRoutes(
            Extender(self.state, engine, *shared),
            self.binder,
            Preemptor(self.client, self.state, engine, self._clock, self.decisions),
            ProfiledExtender(self.state, profiled, *shared),
            Preemptor(self.client, self.state, profiled, self._clock, self.decisions, PROFILED_BUDGET),
            self.decisions,
            self.problems,
            self.metrics,
            caller=self._callers(),
            reader=self.access.guard(f"/{EXPLAIN}"),
        )
        return WebhookService(
            self.client,
            EXTENDER.with_body(self.options.max_extender_body),
            self.options.listen,
            self.options,
            [
                Webhook(policy.NAME, policy.WEBHOOK_PATH, policy.add_owned_cpus),
                Webhook(policy.NAME, policy.NORMALIZE_PATH, policy.normalize_cpuset),
                Webhook(marking.NAME, marking.WEBHOOK_PATH, marking.marker(self._interference)),
            ],
            configurations=lambda _: [],
            alternatives=[
                policy.alternative(
                    self.options.rules, self._normalizes, self._reporter(metrics.OWNED_CPUS_PATH)
                ),
                marking.alternative(self._interference, self._reporter(metrics.INTERFERENCE_PATH)),
            ],
            field_manager=COMPONENT,
            secret=(self.options.namespace, SECRET_NAME),
            installed_bundle=lambda: self.service.bundle,
            program=self.program,
            lifetimes=lifetimes or LIFETIMES,
            routes=routes.routes(),
            client_secret=CLIENT_SECRET_NAME,
        )

    def _reporter(self, metric: ExportedMetric) -> Callable[[frozenset[Path]], None]:
        return lambda paths: self.metrics.replace(metric, {(path.value,): 1.0 for path in paths})

    def _follow(self) -> None:
        """Have the policies follow the configuration at once."""
        if self.service.installer:
            self.service.installer.outdated.set()

    def _count_missed(self, old: Pod | None, new: Pod | None) -> None:
        """Count a pod with a stake that kube-scheduler did not ask about, when it is seen bound."""
        if (
            old is None
            and new is not None
            and self._is_following
            and marking.is_missed(new, self._interference())
        ):
            self.metrics.count(metrics.INTERFERENCE_MISSED)

    def _callers(self) -> Certified:
        """Return the access rule of the extender: callers show a client certificate that TLS has verified."""
        return Certified(
            "show a client certificate: `corewise scheduler config --write-certificates DIR` writes one, "
            "unless --client-ca names other authorities",
            lambda expiry: self.metrics.set(metrics.CLIENT_CERTIFICATE_EXPIRY, expiry),
        )

    def _on_unschedulable(self, pod: Pod, message: str) -> None:
        """Tell the pod's owner; a repetition is counted, not written again."""
        meta = pod.metadata
        regarding = ObjectReference(
            kind="Pod", name=meta.name, namespace=meta.namespace or "default", uid=meta.uid
        )
        self.events.emit(regarding, Reason.NO_NODE_SUITS, message, warning=True)
        self.metrics.count(EVENTS, Reason.NO_NODE_SUITS)
