"""One simulated machine in virtual time: the plant runs, counters grow, the agent looks at them and acts.

    simulation = NodeSimulation(machine, root, pods, agent=controller.tick)
    simulation.advance(300)           # simulated seconds, at once
    simulation.account                # what online and offline pods got

In each step, ``STEP`` seconds, the loads at its beginning hold, and the plant divides the CPUs under the
quotas and weights that stand in the machine's tree. After each interval the counters are written and the
agent is called; it reads them, and writes quotas, which the next step obeys. Without an agent nothing
bounds offline pods: only the kernel's weights protect online ones.

While ``accounting``, each step also works out what online pods would get at the same load, quotas and
weights if there were no offline pods: *alone*. From both follows what offline work costs.

Deterministic: the same machine, pods, start and agent give the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from corewise.workload.pods import Pod
from corewise_lab.machine_files import NodeCounters
from corewise_lab.machine_model import Moment, ThreadSpeeds, moment, moment_with_memory
from corewise_lab.machines import Machine
from corewise_lab.node_cgroups import BEST_EFFORT, NodeTree, describe, read_tree

STEP = 5.0
INTERVAL = 10.0
"""Seconds between two looks of the agent, as it has them by default."""

UNKNOWN_SPEED = ThreadSpeeds(1.0, 1.0)
"""Of a machine whose CPU is unknown: it counts as a baseline CPU."""


@dataclass(slots=True)
class PodTotals:
    """CPU and work of pods over a time: CPU seconds, and baseline CPU seconds, both by container."""

    seconds: float = 0.0
    cpus: int = 0
    offline: float = 0.0
    throttled: float = 0.0
    """CPU seconds that offline pods wanted and quotas refused them."""

    online: float = 0.0
    online_alone: float = 0.0
    work: dict[str, float] = field(default_factory=dict)
    work_alone: dict[str, float] = field(default_factory=dict)

    def slowdown(self, container: str) -> float | None:
        """Return the part of its work that a container lost beside offline pods; None if it had none."""
        alone = self.work_alone[container]
        return max(0.0, 1 - self.work[container] / alone) if alone > 0 else None

    @property
    def slowdowns(self) -> list[float]:
        """Of all online containers that had work."""
        return [lost for each in self.work if (lost := self.slowdown(each)) is not None]


@dataclass(frozen=True, slots=True)
class Step:
    """One step: its beginning in seconds, and the CPU of all containers, with offline pods and without.

    ``alone`` is the same as ``beside`` where there are no offline pods, or nothing is accounted.
    """

    at: float
    beside: Moment
    alone: Moment


class NodeSimulation:
    """A machine, its pods and its agent. ``agent`` is called with the virtual time after each interval."""

    def __init__(
        self,
        machine: Machine,
        root: Path,
        pods: Iterable[Pod],
        *,
        agent: Callable[[float], object] | None = None,
        interval: float = INTERVAL,
        start: float = 0.0,
    ) -> None:
        self.machine = machine
        self.now = start
        self.account = PodTotals(cpus=machine.cpus)
        self.accounting = True
        self._root = root
        self._agent = agent
        self.interval = interval
        """Seconds from the next look to the one after it."""
        self._next_look = start + interval
        self._threads = machine.threads or UNKNOWN_SPEED
        self.counters = NodeCounters(root, machine)
        self.place(pods)
        self.counters.write(self.tree)

    def place(self, pods: Iterable[Pod]) -> None:
        """Set the pods that run from now on."""
        self._pods = describe(self._root, pods)
        self.read()

    def read(self) -> None:
        """Reread quotas and weights, after they were written."""
        self.tree: NodeTree = read_tree(self._root, self._pods, self.machine.cpus)

    def begin_account(self) -> None:
        self.account = PodTotals(cpus=self.machine.cpus)

    def advance(self, seconds: float) -> None:
        """Simulate this many seconds."""
        end = self.now + seconds
        while self.now < end:
            self.step(min(STEP, end - self.now, self._next_look - self.now))
            if self.now >= self._next_look:
                self._look()
                self._next_look += self.interval

    def step(self, seconds: float) -> Step:
        """Simulate one step, and return it."""
        taken = self.at(self.now)
        self.counters.add(seconds, self.tree, taken.beside)
        if self.accounting:
            self._enter(seconds, taken)
        self.now += seconds
        return taken

    def at(self, seconds: float) -> Step:
        """Return the CPU that all containers get at a time, under the quotas last read."""
        demand = {task.leaf: task.demand(seconds) for task in self.tree.tasks}
        beside = self._moment(demand)
        online = {task.leaf: demand[task.leaf] for task in self.tree.tasks if not task.offline}
        if not self.accounting or len(online) == len(demand):
            return Step(seconds, beside, beside)
        return Step(seconds, beside, self._moment(online))

    def _moment(self, demand: Mapping[int, float]) -> Moment:
        memory, tree = self.machine.memory_system, self.tree.tree
        uses = {leaf: use for leaf, use in self.tree.memory_uses.items() if leaf in demand}
        if memory is None or not uses:
            return moment(tree, demand, self._threads)
        return moment_with_memory(tree, demand, self._threads, memory, uses)

    def _look(self) -> None:
        self.counters.write(self.tree)
        if self._agent is not None:
            self._agent(self.now)
        self.read()

    def _enter(self, seconds: float, taken: Step) -> None:
        account, beside, alone = self.account, taken.beside, taken.alone
        account.seconds += seconds
        for task in self.tree.tasks:
            if task.offline:
                account.offline += beside.time[task.leaf] * seconds
            elif not task.best_effort:
                leaf, name = task.leaf, task.name
                account.online += beside.time[leaf] * seconds
                account.online_alone += alone.time[leaf] * seconds
                account.work[name] = account.work.get(name, 0.0) + beside.compute[leaf] * seconds
                account.work_alone[name] = account.work_alone.get(name, 0.0) + alone.compute[leaf] * seconds
        account.throttled += seconds * sum(
            refused
            for cgroup, refused in zip(self.tree.tree.cgroups, beside.refused, strict=True)
            if refused and cgroup.path.startswith(BEST_EFFORT)
        )
