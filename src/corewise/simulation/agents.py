"""The agents of all simulated nodes: the real agent's code, thousands of times in one process.

Each node has what ``corewise agent --root`` has: its cgroups and their writer, the rule of quotas, the
report of its machine, the keeper of offline pods. What differs is what surrounds them, for the sake of
thousands: all share one client and one watch of nodes and of pods, where each agent has watches of its own;
journals are forgotten at the end, since cgroups are too; and a machine of a shape that has been read before
is not read again. No container runtime is asked.

A node is looked at when something about it has changed, and every ``PERIOD`` seconds.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from corewise.agent.colocation.keeper import Tick
from corewise.agent.colocation.publisher import write_publication
from corewise.agent.complaints import Complaints
from corewise.agent.local_node import LocalNode
from corewise.agent.node_cgroups import NodeCgroups
from corewise.agent.objects import AGENT_NODES, QUOTA_PODS, AgentNode, QuotaPod
from corewise.agent.topology_reporter import TopologyReporter
from corewise.kernel.machine import MachineReading, read_machine
from corewise.kernel.writing.journal import MemoryLog
from corewise.kube.cache import Cache
from corewise.kube.client import Client
from corewise.kube.clock import Clock
from corewise.kube.objects import KubeObject
from corewise.kube.resources import CONFIG_MAPS
from corewise.manager.queue import WorkQueue
from corewise.quantities import ONE, Ratio
from corewise.simulation.kubelets import KubeletFleet
from corewise.simulation.local_scheduler import is_in
from corewise.simulation.offline_agents import OfflineAgent, Settings
from corewise.vocabulary.names import CONFIG_NAME, CONFIG_NAMESPACE, OVERSUBSCRIPTION
from corewise.vocabulary.qos import ANY_NAMESPACE

PERIOD = 60.0
_WORKERS = 8
_AGAIN_AFTER = 1.0
_POLL = 0.1

_quiet = logging.getLogger(f"{__name__}.nodes")
_quiet.addHandler(logging.NullHandler())
_quiet.propagate = False
"""What an agent would log about its own node; thousands of them would drown what the run has to say."""


@dataclass(slots=True)
class SimulatedAgent:
    """One node's agent."""

    local: LocalNode
    reporter: TopologyReporter
    offline: OfflineAgent
    pods: dict[str, QuotaPod] = field(default_factory=dict)
    reported: bool = False

    @property
    def is_normalizing(self) -> bool:
        """Whether a change of its pods can be of any consequence now."""
        found = self.local.cgroups.found
        return self.local.ratio != ONE or bool(found and found.writer.held)


class AgentFleet:
    """The agents of all machines. ``fleet`` lends its turns at the API and its failure counter."""

    def __init__(
        self, client: Client, roots: Mapping[str, Path], fleet: KubeletFleet, *, clock: Clock
    ) -> None:
        self._fleet = fleet
        self._clock = clock
        self._nodes = Cache(client, AGENT_NODES, on_change=self._node_changed, clock=clock)
        self._pods = Cache(
            client, QUOTA_PODS, field_selector="spec.nodeName!=", on_change=self._pod_changed, clock=clock
        )
        self._settings = Settings()
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
        self.quota_writes = 0
        self.publications = 0
        self.unreadable_ratios = 0

    def _agent(self, client: Client, name: str, root: Path) -> SimulatedAgent:
        cgroups = NodeCgroups(root, "/", MemoryLog(), now=time.time)
        complaints = Complaints(name, _quiet)
        local = LocalNode(
            name,
            root,
            cgroups,
            unreadable=self._count_unreadable,
            complaints=complaints,
            rules=ANY_NAMESPACE,
        )
        offline = OfflineAgent(local, root, self._settings)
        return SimulatedAgent(local, TopologyReporter(client, local, root, read=self._read), offline)

    @property
    def reported(self) -> int:
        """How many nodes' machines are in the API."""
        return sum(agent.reported for agent in self._agents.values())

    @property
    def is_idle(self) -> bool:
        """Whether the quotas follow from everything that was seen."""
        return not self._unanswered

    def ratio(self, node: str) -> Ratio:
        """Return the normalization ratio by which a node's quotas are divided."""
        return self._agents[node].local.ratio

    def offers(self, node: str) -> bool:
        """Whether the Node's label asks for offers to offline pods, as far as the agent has seen."""
        seen = self._nodes.get(node)
        return seen is not None and seen.metadata.labels.get(OVERSUBSCRIPTION) == "true"

    def look(self, node: str, now: float) -> Tick:
        """Have a node's agent look after its offline pods, at a time of the simulation."""
        seen, agent = self._nodes.get(node), self._agents[node]
        if seen is None or not agent.local.is_seen:
            return Tick()
        return agent.offline.look(now, seen, agent.pods.values())

    def interval(self, node: str) -> float:
        """Return the seconds between two looks."""
        return self._agents[node].offline.keeper.interval

    async def publish(self, node: str) -> None:
        """Write to the Node what came of the last look, if it is time."""
        seen, agent = self._nodes.get(node), self._agents[node].offline
        publication = agent.publication(seen) if seen else None
        if publication is None:
            return
        if await self._fleet.attempt(partial(write_publication, self._client, node, publication)):
            agent.published(publication)
            self.publications += 1

    async def have_seen(
        self, nodes: Iterable[KubeObject], pods: Iterable[KubeObject], configs: Iterable[KubeObject] = ()
    ) -> None:
        """Wait until these have been seen in these versions or later ones: versions count upwards."""
        for cache, objects in ((self._nodes, nodes), (self._pods, pods), (self._configs, configs)):
            for each in objects:
                while not is_in(cache, each):
                    await self._clock.sleep(_POLL)

    async def run(self) -> None:
        """Keep every node until cancelled."""
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
        """Have a node looked at soon, if it is normalized: its pods or their cgroups have changed."""
        if self._agents[node].is_normalizing:
            self._unanswered.add(node)
            self._quotas.add(node)

    async def _now_and_then(self) -> None:
        """Have every node looked at once in a period, evenly spread."""
        while True:
            for name in self._agents:
                self._quotas.add(name)
                await self._clock.sleep(PERIOD / len(self._agents))

    async def _keep_quotas(self) -> None:
        """Bring one node after the other to its quotas; each takes a millisecond or so."""
        await self._nodes.synced.wait()
        await self._pods.synced.wait()
        while True:
            name = await self._quotas.take()
            self._unanswered.discard(name)
            agent = self._agents[name]
            if agent.local.is_seen:
                cycle = agent.local.cycle(agent.pods.values())
                agent.offline.keeper.heed(cycle)
                self.quota_writes += len(cycle.written)
                agent.local.cgroups.close()
            self._quotas.done(name)
            await asyncio.sleep(0)

    async def _report(self) -> None:
        """Report machines, a few at a time."""
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
        """Read a machine, or return what one of the same shape has shown."""
        shape = (root / "sys/devices").resolve()
        reading = self._machines.get(shape)
        if reading is None:
            reading = self._machines[shape] = read_machine(root)
        return reading
