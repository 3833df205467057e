"""The agents of all simulated nodes: the real agent's code, thousands of times in one process.

Each node has what ``corewise agent --root`` has: its cgroups and their writer, the rule of quotas, the
report of its machine, the controller of offline pods. What differs is what surrounds them, for the sake of
thousands: all share one client and one watch of nodes and of pods, where each agent has watches of its own;
journals are forgotten at the end, since cgroups are too; and a machine of a shape that has been read before
is not read again. No container runtime is asked.

A node is looked at when something about it has changed, and every ``PERIOD`` seconds.

Offline pods are looked after in virtual time, when the simulation says so; what was found is published in
real time, since that is what the API server and its users live in. The ConfigMap is read once for all nodes.
Only nodes that have offline pods, or offer CPU to them, are simulated in time.

Measured is a window of ``WINDOW`` seconds of simulated time that begins at 0, with corewise off and on
alike. Before it, with corewise on, ``WARM_UP`` seconds pass in which the agents look and quotas come to
where they belong. After it time goes on as long as the cluster is up, ``SPEED_UP`` times as fast as real
time (slower where there are too many nodes for that), and the agents publish what they find.

No more than ``MOST`` nodes are simulated, chosen evenly over all of them.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from corewise.agent.cgroups import NodeCgroups
from corewise.agent.executor import write_publication
from corewise.agent.local_node import LocalNode
from corewise.agent.objects import AGENT_NODES, QUOTA_PODS, AgentNode, QuotaPod
from corewise.agent.offline_controller import OfflineController
from corewise.agent.offline_settings import ColocationConfiguration, raw_allocatable
from corewise.agent.problems import ProblemLog
from corewise.agent.publication import Publisher, Tick
from corewise.agent.topology_report import TopologyReporter
from corewise.kernel.machine import MachineReading, read_machine
from corewise.kernel.writing.journal import MemoryLog
from corewise.kube.cache import Cache
from corewise.kube.client import Client
from corewise.kube.clock import Clock
from corewise.kube.objects import KubeObject
from corewise.kube.resources import CONFIG_MAPS
from corewise.manager.queue import WorkQueue
from corewise.quantities import Ratio
from corewise.vocabulary.names import CONFIG_NAME, CONFIG_NAMESPACE, OVERSUBSCRIPTION
from corewise.vocabulary.qos import QoSRules
from corewise.workload.pods import Pod
from corewise_lab.kubelets import KubeletFleet
from corewise_lab.local_scheduler import is_in
from corewise_lab.machine_files import MachineFiles
from corewise_lab.machine_model import Moment, moment
from corewise_lab.machines import Machine
from corewise_lab.measurement import Colocation, of_account
from corewise_lab.node_cgroups import NodeTree, describe, is_offline, read_tree
from corewise_lab.node_simulation import UNKNOWN_SPEED, NodeSimulation

PERIOD = 60.0
_WORKERS = 8
_AGAIN_AFTER = 1.0
_POLL = 0.1

_quiet = logging.getLogger(f"{__name__}.nodes")
_quiet.addHandler(logging.NullHandler())
_quiet.propagate = False
"""Gets what an agent logs about its own node; thousands of agents would drown the run's own messages."""


@dataclass(slots=True)
class SimulatedAgent:
    """One node's agent."""

    local: LocalNode
    reporter: TopologyReporter
    controller: OfflineController
    publisher: Publisher = field(default_factory=Publisher)
    last: Tick = field(default_factory=Tick)
    pods: dict[str, QuotaPod] = field(default_factory=dict)
    reported: bool = False

    @property
    def is_normalizing(self) -> bool:
        """Whether a change of its pods can matter now."""
        found = self.local.cgroups.found
        return self.local.is_dividing or bool(found and found.writer.held)


class AgentFleet:
    """The agents of all machines. ``fleet`` bounds their requests to the API and counts failures."""

    def __init__(
        self, client: Client, roots: Mapping[str, Path], fleet: KubeletFleet, *, rules: QoSRules, clock: Clock
    ) -> None:
        self._fleet = fleet
        self._rules = rules
        self._clock = clock
        self._nodes = Cache(client, AGENT_NODES, on_change=self._node_changed, clock=clock)
        self._pods = Cache(
            client, QUOTA_PODS, field_selector="spec.nodeName!=", on_change=self._pod_changed, clock=clock
        )
        self._settings = ColocationConfiguration()
        self._configs = Cache(
            client,
            CONFIG_MAPS,
            namespace=CONFIG_NAMESPACE,
            field_selector=f"metadata.name={CONFIG_NAME}",
            on_change=lambda _old, new: self._settings.read(new),
            clock=clock,
        )
        self._client = client
        self._machines: dict[Path, MachineReading] = {}
        self._agents = {name: self._agent(client, name, root) for name, root in roots.items()}
        self._quotas, self._reports = WorkQueue(), WorkQueue()
        self._unanswered: set[str] = set()
        self.publications = 0
        self.unreadable_ratios = 0

    def _agent(self, client: Client, name: str, root: Path) -> SimulatedAgent:
        cgroups = NodeCgroups(root, "/", MemoryLog(), now=time.time)
        problem_log = ProblemLog(name, _quiet)
        local = LocalNode(
            name, root, cgroups, unreadable=self._count_unreadable, problem_log=problem_log, rules=self._rules
        )
        reporter = TopologyReporter(client, local, root, read=self._read)
        return SimulatedAgent(local, reporter, OfflineController(local, root))

    @property
    def reported(self) -> int:
        """The number of nodes whose machines are in the API."""
        return sum(agent.reported for agent in self._agents.values())

    @property
    def unanswered(self) -> int:
        """The number of nodes with quotas that do not yet follow from all that the agents have seen."""
        return len(self._unanswered)

    def ratio(self, node: str) -> Ratio:
        """Return the normalization ratio by which a node's quotas are divided."""
        return self._agents[node].local.ratio

    def offers(self, node: str) -> bool:
        """Whether the Node's label, as the agent has seen it, turns on offers to offline pods."""
        seen = self._nodes.get(node)
        return seen is not None and seen.metadata.labels.get(OVERSUBSCRIPTION) == "true"

    def look(self, node: str, now: float) -> Tick:
        """Run a node's agent for its offline pods once, at this time of the simulation."""
        seen, agent = self._nodes.get(node), self._agents[node]
        if seen is None or not agent.local.is_seen:
            return Tick()
        labels, settings, controller = seen.metadata.labels, self._settings, agent.controller
        controller.configure(settings.oversubscription(labels), settings.suppression(labels))
        controller.observe(labels, raw_allocatable(seen), agent.local.ratio)
        agent.last = controller.tick(now, time.time(), agent.pods.values())
        return agent.last

    def close(self, node: str) -> None:
        """Close the cgroups that a node's agent has open; the next look opens them again."""
        self._agents[node].local.cgroups.close()

    def interval(self, node: str) -> float:
        """Return the seconds between two looks."""
        return self._agents[node].controller.node.interval

    async def publish(self, node: str) -> None:
        """Write the result of the last look to the Node, if it is due."""
        seen, agent = self._nodes.get(node), self._agents[node]
        if seen is None:
            return
        publication = agent.publisher.change(agent.last, seen, agent.local.ratio, time.monotonic())
        if publication is not None and await self._fleet.attempt(
            partial(write_publication, self._client, node, publication)
        ):
            agent.publisher.done(publication, time.monotonic())
            self.publications += 1

    async def have_seen(
        self, nodes: Iterable[KubeObject], pods: Iterable[KubeObject], configs: Iterable[KubeObject] = ()
    ) -> None:
        """Wait until the agents have seen these objects, in these versions or later ones."""
        for cache, objects in ((self._nodes, nodes), (self._pods, pods), (self._configs, configs)):
            for each in objects:
                while not is_in(cache, each):
                    await self._clock.sleep(_POLL)

    async def run(self) -> None:
        """Run all agents until canceled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._nodes.run())
            tasks.create_task(self._pods.run())
            tasks.create_task(self._configs.run())
            if self._agents:
                tasks.create_task(self._now_and_then())
            tasks.create_task(self._keep_quotas())
            for _ in range(_WORKERS):
                tasks.create_task(self._report())

    def _count_unreadable(self) -> None:
        self.unreadable_ratios += 1

    def _node_changed(self, _old: AgentNode | None, new: AgentNode | None) -> None:
        agent = self._agents.get(new.metadata.name) if new else None
        if (
            new is not None
            and agent is not None
            and agent.local.see(new.metadata.annotations, new.metadata.uid)
        ):
            self._unanswered.add(new.metadata.name)
            self._quotas.add(new.metadata.name)
            self._reports.add(new.metadata.name)

    def _pod_changed(self, old: QuotaPod | None, new: QuotaPod | None) -> None:
        pod = new or old
        agent = self._agents.get(pod.spec.node_name) if pod else None
        if pod is None or agent is None:
            return
        if new is None:
            agent.pods.pop(pod.metadata.uid, None)
        else:
            agent.pods[pod.metadata.uid] = new
        if old is None or new is None or not new.says_the_same(old):
            self.look_at(pod.spec.node_name)

    def look_at(self, node: str) -> None:
        """Queue a node whose pods or cgroups have changed, if it is normalized."""
        if self._agents[node].is_normalizing:
            self._unanswered.add(node)
            self._quotas.add(node)

    async def _now_and_then(self) -> None:
        """Queue every node once in a period, evenly spread."""
        while True:
            for name in self._agents:
                self._quotas.add(name)
                await self._clock.sleep(PERIOD / len(self._agents))

    async def _keep_quotas(self) -> None:
        """Write the quotas of one node after the other; each takes about a millisecond."""
        await self._nodes.synced.wait()
        await self._pods.synced.wait()
        while True:
            name = await self._quotas.take()
            self._unanswered.discard(name)
            agent = self._agents[name]
            if agent.local.is_seen:
                cycle = agent.local.cycle(agent.pods.values())
                agent.controller.record_repairs(cycle)
                agent.local.cgroups.close()
            self._quotas.done(name)
            await asyncio.sleep(0)

    async def _report(self) -> None:
        """Report machines; several of these loops run side by side."""
        await self._pods.synced.wait()
        while True:
            name = await self._reports.take()
            agent, node = self._agents[name], self._nodes.get(name)
            if node is not None:
                check = partial(agent.reporter.check, node, list(agent.pods.values()))
                agent.reported = await self._fleet.attempt(check)
                if not agent.reported:
                    self._reports.add_later(name, _AGAIN_AFTER)
            self._reports.done(name)

    def _read(self, root: Path) -> MachineReading:
        """Read a machine, once for each shape."""
        shape = (root / "sys/devices").resolve()
        reading = self._machines.get(shape)
        if reading is None:
            reading = self._machines[shape] = read_machine(root)
        return reading


WINDOW = 240.0
WARM_UP = 120.0
SPEED_UP = 10.0
MOST = 100
_PERIOD = 1.0
PodsByNode = Mapping[str, Sequence[Pod]]


@dataclass(slots=True)
class _RunningSimulation:
    """The simulation of one node. ``offers``: what its agent has offered, in milli-CPU."""

    simulation: NodeSimulation
    pods: frozenset[tuple[str, str]]
    offers: list[int] = field(default_factory=list)


class NodeSimulations:
    """The nodes that are simulated in time. ``pods`` returns the running pods of each node."""

    def __init__(
        self,
        machines: Mapping[str, Machine],
        files: MachineFiles,
        agents: AgentFleet,
        pods: Callable[[], PodsByNode],
    ) -> None:
        self._machines = machines
        self._files = files
        self._agents = agents
        self._pods = pods
        self._running: dict[str, _RunningSimulation] = {}
        self.left_out = 0
        """How many nodes with offline pods are not simulated."""

    async def measure(self, *, on: bool) -> Mapping[str, Colocation]:
        """Run the window on each node, with or without its agent; return what pods got."""
        pods, found = self._pods(), {}
        for name in self._chosen(pods):
            running = self._begin(name, pods.get(name, ()), on=on)
            if on:
                await self._advance(running, WARM_UP)
            running.offers.clear()
            running.simulation.accounting = True
            await self._advance(running, WINDOW)
            running.simulation.accounting = False
            found[name] = of_account(running.simulation.account, running.offers)
            if on:
                self._running[name] = running
                self._agents.close(name)
                await self._agents.publish(name)
        return found

    async def run(self) -> None:
        """Simulate until canceled."""
        now = asyncio.get_running_loop().time
        while True:
            began, pods = now(), self._pods()
            for name in self._chosen(pods):
                await self._go_on(name, pods.get(name, ()))
            await asyncio.sleep(max(0.0, began + _PERIOD - now()))

    def now(self, name: str, pods: Sequence[Pod]) -> tuple[NodeTree, Moment]:
        """Return the CPU that a node's containers get now, even on a node that is not simulated."""
        if running := self._running.get(name):
            simulation = running.simulation
            return simulation.tree, simulation.at(simulation.now).beside
        machine, root = self._machines[name], self._files.root(name)
        tree = read_tree(root, describe(root, pods), machine.cpus)
        seconds = SPEED_UP * asyncio.get_running_loop().time()
        demand = {task.leaf: task.demand(seconds) for task in tree.tasks}
        return tree, moment(tree.tree, demand, machine.threads or UNKNOWN_SPEED)

    async def _go_on(self, name: str, pods: Sequence[Pod]) -> None:
        running = self._running.get(name)
        if running is None:
            running = self._running[name] = self._begin(name, pods, on=True)
        elif running.pods != _identities(pods):
            running.simulation.place(pods)
            running.pods = _identities(pods)
        running.offers.clear()
        await self._advance(running, SPEED_UP * _PERIOD)
        self._agents.close(name)
        await self._agents.publish(name)

    def _chosen(self, pods: PodsByNode) -> list[str]:
        """Return the nodes to simulate. A node stays once it is chosen, to show what it gives back."""
        wanted = [
            name
            for name in self._machines
            if name in self._running or self._agents.offers(name) or any(map(is_offline, pods.get(name, ())))
        ]
        stride = -(-len(wanted) // MOST) or 1
        chosen = wanted[::stride]
        self.left_out = len(wanted) - len(chosen)
        return chosen

    def _begin(self, name: str, pods: Sequence[Pod], *, on: bool) -> _RunningSimulation:
        offers: list[int] = []

        def look(now: float) -> None:
            tick = self._agents.look(name, now)
            simulation.interval = self._agents.interval(name)
            if tick.report is not None:
                offers.append(tick.report.offered_milli)

        simulation = NodeSimulation(
            self._machines[name],
            self._files.root(name),
            pods,
            agent=look if on else None,
            start=-WARM_UP if on else 0.0,
        )
        simulation.accounting = False
        return _RunningSimulation(simulation, _identities(pods), offers)

    @staticmethod
    async def _advance(running: _RunningSimulation, seconds: float) -> None:
        """Advance in small steps, so that heartbeats go on."""
        end = running.simulation.now + seconds
        while running.simulation.now < end:
            running.simulation.advance(min(SPEED_UP, end - running.simulation.now))
            await asyncio.sleep(0)


def _identities(pods: Sequence[Pod]) -> frozenset[tuple[str, str]]:
    return frozenset((pod.metadata.uid, pod.metadata.resource_version) for pod in pods)
