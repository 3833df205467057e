"""The agent as one program: everything wired together, one TaskGroup, ended by canceling it.

Its end changes no quota, and the next agent goes on from the journal; unless suppression is configured to
give back at the end what it bounds. The resctrl group of offline pods is removed. Until the Node and its pods
have been listed nothing is done, and while the API server cannot be reached the last state seen counts, and
drift is still repaired.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import corewise
from corewise.agent.cgroups import Cycle, NodeCgroups
from corewise.agent.evaluation import EvaluationLoop
from corewise.agent.evaluation_run import KernelBench
from corewise.agent.executor import APIExecutor, Executor, PrintingExecutor, Rehearsal, Write
from corewise.agent.interference.collector import is_own_kernel
from corewise.agent.interference.neighbors import NeighborSampler
from corewise.agent.interference.publication import WaitLoop
from corewise.agent.interference.watch import InterferenceWatch
from corewise.agent.local_node import LocalNode
from corewise.agent.metrics import publish_offline, publish_pinning, publish_quotas
from corewise.agent.objects import AgentNode
from corewise.agent.offline_loop import OfflineLoop
from corewise.agent.options import AgentOptions
from corewise.agent.runtime import RuntimeHook
from corewise.agent.topology_report import FIELD_MANAGER, NOBODY, TopologyReporter, result_of
from corewise.agent.watched import Watched
from corewise.kernel.host_files import read_boot_id
from corewise.kernel.writing.journal import Journal, MemoryLog, damage_text
from corewise.kernel.writing.resctrl_writer import ResctrlFiles
from corewise.kube.client import Client
from corewise.kube.clock import SYSTEM_CLOCK, Clock, sleep_between, to_beat
from corewise.kube.config import ClusterConfig
from corewise.kube.errors import KubeError
from corewise.kube.events import EventRecorder
from corewise.service.health import TokenAccess
from corewise.service.logs import fields
from corewise.service.program import Loop, Program
from corewise.vocabulary import metrics
from corewise.vocabulary.metrics import AGENT

TOPOLOGY_INTERVAL = 60.0
_log = logging.getLogger(__name__)
SHORTEST_PAUSE = 0.1
"""Between two cycles: a burst of changes is answered by two of them, the first and one for all the rest."""
_LONG_SILENCE = 6


@contextmanager
def opened_executor(
    options: AgentOptions, client: Client, *, clock: Clock, write: Write
) -> Iterator[Executor]:
    """Choose the executor: one that writes, and holds the journal of its writes, or one that prints.

    Raises:
        JournalError: if the journal cannot be used, or another agent has it.
    """
    root, cgroup_root = options.root, options.cgroup_root
    if options.dry_run:
        cgroups = NodeCgroups(root, cgroup_root, MemoryLog(), now=time.time, wrap=Rehearsal)
        yield PrintingExecutor(cgroups, write)
        return
    with Journal.open(options.journal, boot=read_boot_id(root), now=time.time) as journal:
        if damaged := journal.damage():
            _log.warning(damage_text(damaged))
        cgroups = NodeCgroups(root, cgroup_root, journal, now=time.time, groups=ResctrlFiles(root))
        events = EventRecorder(client, component=FIELD_MANAGER, instance=options.node, clock=clock)
        yield APIExecutor(cgroups, client, events, options.nri_socket)


async def run_agent(
    options: AgentOptions,
    config: ClusterConfig,
    *,
    clock: Clock = SYSTEM_CLOCK,
    started: Callable[[Agent], None] | None = None,
    write: Write = sys.stdout.write,
) -> bool:
    """Run the agent until canceled, or with ``once`` until it is done; return whether it succeeded.

    ``started`` is called with it before its loops run; ``write`` takes what a dry run prints.

    Raises:
        JournalError: if the journal of writes cannot be used.
        OptionsError: if an address cannot be listened on.
    """
    # A descriptor is kept for each cgroup. The usual soft limit of 1,024 is for programs that use select(2).
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    async with Client(config, on_warning=None) as client:
        with opened_executor(options, client, clock=clock, write=write) as executor:
            agent = Agent(client, options, executor, clock=clock)
            if started:
                started(agent)
            _log.info(
                "corewise agent %s starts",
                corewise.__version__,
                extra=fields(server=f"{config.server} ({config.source})", node=options.node),
            )
            return await agent.run()


class Agent:
    """All parts of the agent of one node."""

    def __init__(self, client: Client, options: AgentOptions, executor: Executor, *, clock: Clock) -> None:
        self.options = options
        self.executor = executor
        self._clock = clock
        self.program = Program(AGENT, clock, node=options.node)
        self.metrics = self.program.metrics
        self.local = LocalNode(
            options.node,
            options.root,
            executor.cgroups,
            unreadable=lambda: self.metrics.count(metrics.RATIO_UNREADABLE),
            rules=options.rules,
        )
        self.watched = Watched(
            client,
            options.node,
            node_changed=self._node_changed,
            pods_changed=self._pods_changed,
            prepare_config=lambda config_map: self.offline.prepare(config_map),  # noqa: PLW0108 - made below
            config_changed=lambda _config_map: self.offline.wake(),
            config_namespace=options.config_namespace,
            clock=clock,
        )
        self.offline = OfflineLoop(
            self.local, self.watched, executor, options.root, metrics=self.metrics, clock=clock
        )
        self.reporter = TopologyReporter(client, self.local, options.root)
        self.hook = RuntimeHook(self.local, lambda: self.watched.pods, self.metrics, self._pods_changed)
        self.interference = InterferenceWatch(
            options.node,
            options.root,
            latency_interval=options.latency_interval,
            metrics=self.metrics,
            clock=clock,
        )
        self.waits = WaitLoop(
            self.local,
            self.watched,
            executor,
            NeighborSampler(options.root, executor.cgroups),
            metrics=self.metrics,
            clock=clock,
        )
        self.evaluation = self._evaluation(client)
        self._quotas_due, self._topology_due = asyncio.Event(), asyncio.Event()
        self._owners = NOBODY
        self.cycles = 0
        self.program.expose(
            options.metrics_listen,
            ready=self._problems,
            publish=self._publish,
            caches=self.watched.caches,
            access=TokenAccess(client, clock) if options.metrics_auth else None,
        )

    def _evaluation(self, client: Client) -> EvaluationLoop | None:
        """Return the loop that measures the node's CPUs; None if that is off, and in a dry run."""
        options = self.options
        if options.evaluate_minutes is None or options.dry_run:
            return None
        return EvaluationLoop(
            self.local,
            self.watched,
            client,
            show=self.show_evaluation,
            root=options.root,
            bench=KernelBench(options.root) if is_own_kernel(options.root) else None,
            minutes=options.evaluate_minutes,
            metrics=self.metrics,
            clock=self._clock,
        )

    async def run(self) -> bool:
        """Run every loop until canceled; with ``once`` until each has run once."""
        try:
            if self.options.once:
                loops = self.watched.caches.loops()
                return bool(await self.program.supervise(loops, main=self._once()))
            await self.program.run(self._loops())
        finally:
            self.interference.close()
            if not self.options.once:
                self.offline.stop()
        return True

    def _problems(self) -> Iterator[str]:
        yield from self.watched.problems()
        if not self.cycles:
            yield "no cycle has been completed yet"

    def _publish(self) -> None:
        publish_quotas(self.local, self.watched.pods, self.metrics)
        publish_offline(self.offline, self.metrics)
        publish_pinning(self.local, self.metrics)
        self.interference.publish()
        self.waits.publish()

    def show_evaluation(self, text: str) -> None:
        """Have the NodeResourceTopology show the node's own measurement."""
        self.reporter.evaluation = text
        self._topology_due.set()

    def wake(self) -> None:
        """Have a cycle run as soon as may be."""
        self._quotas_due.set()

    def _loops(self) -> Iterator[Loop]:
        yield from self.watched.caches.loops()
        yield "quotas", self._keep_quotas
        yield "topology", self._keep_topology
        yield "oversubscription", lambda: self.offline.run(self.program.heartbeats)
        yield "offers", lambda: self.offline.publish(self.program.heartbeats)
        yield "eviction", lambda: self.offline.evict(self.program.heartbeats)
        yield "interference", lambda: self.interference.run(self.program.heartbeats)
        yield "waiting", lambda: self.waits.run(self.program.heartbeats)
        yield "waiting-report", lambda: self.waits.report(self.program.heartbeats)
        evaluation = self.evaluation
        if evaluation is not None:
            yield "evaluation", lambda: evaluation.run(self.program.heartbeats)
        yield from self.executor.loops(self.hook)

    async def _once(self) -> bool:
        await self.watched.listed()
        cycle = self._cycle()
        reported = await self._report()
        offered = await self.offline.once()
        return cycle is not None and not cycle.problems and reported and offered

    async def _keep_quotas(self) -> None:
        await self.watched.synced()
        while True:
            self._quotas_due.clear()
            self._cycle()
            await self._wait_for("quotas", self._quotas_due, self.options.interval)

    async def _keep_topology(self) -> None:
        await self.watched.synced()
        while True:
            self._topology_due.clear()
            await self._report()
            await self._wait_for("topology", self._topology_due, TOPOLOGY_INTERVAL)

    async def _wait_for(self, name: str, due: asyncio.Event, interval: float) -> None:
        """Wait until something is due, at least the shortest pause and at most 1.1 intervals."""
        self.program.heartbeats.beat(name, interval * _LONG_SILENCE)
        await sleep_between(SHORTEST_PAUSE, to_beat(self._clock, interval), due, self._clock)

    def _cycle(self) -> Cycle | None:
        """Run a cycle, unless the ratio is not known yet."""
        if not self.local.is_seen:
            return None
        with self._timed("quotas"):
            cycle = self.local.cycle(self.watched.pods)
        if self.local.pins.report != self._owners:
            self._owners = self.local.pins.report
            self._topology_due.set()
        self.offline.controller.record_repairs(cycle)
        self.cycles += 1
        self.executor.wrote(cycle.written)
        return cycle

    async def _report(self) -> bool:
        node = self.watched.node
        if node is None:
            return False
        problems: dict[str, str] = {}
        with self._timed("topology"):
            try:
                change = await self.reporter.change(node, self.watched.pods)
                if await self.executor.report(node.metadata.name, change):
                    self.metrics.count(metrics.TOPOLOGY_WRITES, "ok")
            except KubeError as error:
                self.metrics.count(metrics.TOPOLOGY_WRITES, result_of(error))
                problems["report"] = str(error)
        self.local.problem_log.update("NodeResourceTopology", problems)
        return not problems

    @contextmanager
    def _timed(self, loop: str) -> Iterator[None]:
        began = self._clock.monotonic()
        yield
        self.metrics.observe(metrics.AGENT_LOOP_SECONDS, self._clock.monotonic() - began, loop)

    def _node_changed(self, node: AgentNode) -> None:
        if self.local.see(node.metadata.annotations, node.metadata.uid):
            self._quotas_due.set()
            self._topology_due.set()
        self.offline.node_changed(node)

    def _pods_changed(self) -> None:
        self.wake()
        self.offline.wake()
