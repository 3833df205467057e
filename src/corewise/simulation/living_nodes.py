"""The nodes whose time runs: those that have offline pods, or offer to them.

Measured is a window of ``WINDOW`` seconds of simulated time that begins at 0, with corewise off and on
alike. Before it, with corewise on, ``WARM_UP`` seconds pass in which the agents look and quotas come to
where they belong. After it time goes on as long as the cluster is up, ``SPEED_UP`` times as fast as real
time (slower where there are too many nodes for that), and the agents tell the API what they find.

No more than ``MOST`` nodes are simulated, chosen evenly over all of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from corewise.manager.objects import DemandingPod
from corewise.simulation.agents import AgentFleet
from corewise.simulation.colocation import Colocation, of_account
from corewise.simulation.machine_files import MachineFiles
from corewise.simulation.machines import Machine
from corewise.simulation.node_simulation import NodeSimulation
from corewise.simulation.pod_cgroups import is_offline

WINDOW = 240.0
WARM_UP = 120.0
SPEED_UP = 10.0
MOST = 100
_PERIOD = 1.0
Pods = Mapping[str, Sequence[DemandingPod]]


@dataclass(slots=True)
class _Living:
    """One node; ``offers`` are those its agent made, in milli-CPU."""

    simulation: NodeSimulation
    pods: frozenset[tuple[str, str]]
    offers: list[int] = field(default_factory=list)


class LivingNodes:
    """Their simulations. ``pods`` returns the running pods of each node."""

    def __init__(
        self,
        machines: Mapping[str, Machine],
        files: MachineFiles,
        agents: AgentFleet,
        pods: Callable[[], Pods],
    ) -> None:
        self._machines = machines
        self._files = files
        self._agents = agents
        self._pods = pods
        self._living: dict[str, _Living] = {}
        self.left_out = 0
        """How many nodes with offline pods are not simulated."""

    async def measure(self, *, on: bool) -> Mapping[str, Colocation]:
        """Run the window on each node, with or without its agent; return what everybody got."""
        pods, found = self._pods(), {}
        for name in self._chosen(pods):
            living = self._begin(name, pods.get(name, ()), on=on)
            if on:
                await self._advance(living, WARM_UP)
            living.offers.clear()
            living.simulation.accounting = True
            await self._advance(living, WINDOW)
            living.simulation.accounting = False
            found[name] = of_account(living.simulation.account, living.offers)
            if on:
                self._living[name] = living
                await self._agents.publish(name)
        return found

    async def run(self) -> None:
        """Let time go on until cancelled."""
        now = asyncio.get_running_loop().time
        while True:
            began, pods = now(), self._pods()
            for name in self._chosen(pods):
                await self._go_on(name, pods.get(name, ()))
            await asyncio.sleep(max(0.0, began + _PERIOD - now()))

    async def _go_on(self, name: str, pods: Sequence[DemandingPod]) -> None:
        living = self._living.get(name)
        if living is None:
            living = self._living[name] = self._begin(name, pods, on=True)
        elif living.pods != _identities(pods):
            living.simulation.place(pods)
            living.pods = _identities(pods)
        living.offers.clear()
        await self._advance(living, SPEED_UP * _PERIOD)
        await self._agents.publish(name)

    def _chosen(self, pods: Pods) -> list[str]:
        """Return the nodes to simulate; one that was once is until the end, to see what it gives back."""
        wanted = [name for name in self._machines if self._lives(name, pods)]
        stride = -(-len(wanted) // MOST) or 1
        chosen = wanted[::stride]
        self.left_out = len(wanted) - len(chosen)
        return chosen

    def _lives(self, name: str, pods: Pods) -> bool:
        return name in self._living or self._agents.offers(name) or any(map(is_offline, pods.get(name, ())))

    def _begin(self, name: str, pods: Sequence[DemandingPod], *, on: bool) -> _Living:
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
        return _Living(simulation, _identities(pods), offers)

    @staticmethod
    async def _advance(living: _Living, seconds: float) -> None:
        """Let time pass by and by: heartbeats go on."""
        end = living.simulation.now + seconds
        while living.simulation.now < end:
            living.simulation.advance(min(SPEED_UP, end - living.simulation.now))
            await asyncio.sleep(0)


def _identities(pods: Sequence[DemandingPod]) -> frozenset[tuple[str, str]]:
    return frozenset((pod.metadata.uid, pod.metadata.resource_version) for pod in pods)
