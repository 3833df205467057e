"""One run: pods arrive one after the other on a mixed cluster, and the scheduler's engine places them.

Every ``ARRIVAL`` seconds a pod comes, of a workload drawn evenly; it runs from then on and uses what its
workload uses, less what it loses to its neighbors (:mod:`corewise_lab.contention`). Every ``REFRESH``
seconds the scheduler sees the nodes as means over the last ``WINDOW`` seconds, as Prometheus would say. A pod
that fits nowhere is not tried again: it is the price.

Time is virtual, and arrivals are the same for every way of placing them.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

import numpy as np

from corewise.config.interference.model import InterferenceConfiguration
from corewise.config.interference.reading import parse_interference
from corewise.engine import (
    AllocationScore,
    Cluster,
    Engine,
    Interference,
    Measured,
    NodeConstraints,
    NodeFacts,
    Placement,
    Plugin,
    PodFacts,
    ResourceFit,
)
from corewise.engine.facts import CPU, MEMORY, PODS
from corewise_lab.contention import Contention, Memory, contend
from corewise_lab.node_memory import BACKGROUND, BACKGROUND_LLC, CROWDED
from experiments.interference_wca.workloads import WORKLOADS, Workload

ARRIVAL = 10.0
REFRESH = 30.0
WINDOW = 300.0
_GIGA = 10**9
_MEBI = 1 << 20
_HEADING = "interference:\n  overprovisioning: {factor}\n  profiles:\n"
_ENTRY = """\
    {name}:
      profile: {{memoryBandwidth: {bandwidth}MB/s, memory: {memory}GB, cpu: {cpus}}}
      affinity: {{memorybandwidth: {weight}, memorylatency: {weight}, llc_occupancy: 0, llc_mpki: 0, cpu: 0}}
"""


@dataclass(frozen=True, slots=True)
class Shape:
    """Like machines: CPUs, GB of memory, GB/s, MiB of last-level cache, and their number."""

    name: str
    cpus: int
    memory: int
    bandwidth: int
    llc: int
    count: int


SHAPES = (
    Shape("two-channels", 32, 384, 34, 35, 20),
    Shape("six-channels", 48, 512, 85, 33, 20),
    Shape("eight-channels", 96, 1024, 150, 96, 20),
)


@dataclass(frozen=True, slots=True)
class Machine:
    """One machine."""

    name: str
    cpus: int
    memory: int
    system: Memory


def machines(bandwidth: float = 1.0) -> tuple[Machine, ...]:
    """Return the cluster; ``bandwidth``: the part of the memory channels that is populated."""
    return tuple(
        Machine(
            f"{shape.name}-{number}",
            shape.cpus,
            shape.memory * _GIGA,
            Memory(shape.bandwidth * _GIGA * bandwidth, float(shape.llc * _MEBI)),
        )
        for shape in SHAPES
        for number in range(shape.count)
    )


CPUS = sum(machine.cpus for machine in machines())


@dataclass(frozen=True, slots=True)
class Outcome:
    """The results of a run: shares of all nodes, mean slowdown of placed pods, unplaced pods and CPUs."""

    oversubscribed: float
    crowded: float
    slowdown: float
    placed: int
    unplaced: int
    unplaced_cpus: float


@dataclass
class _Node:
    machine: Machine
    pods: list[Workload] = field(default_factory=list)
    seen: deque[tuple[float, Contention]] = field(default_factory=deque)
    _now: tuple[int, Contention] | None = None

    def contention(self) -> Contention:
        """Return the contention now; pods come and never go, so their number says whether it has changed."""
        if self._now is None or self._now[0] != len(self.pods):
            self._now = len(self.pods), self._contention()
        return self._now[1]

    def _contention(self) -> Contention:
        uses = {index: workload.use for index, workload in enumerate(self.pods)}
        return contend(
            self.machine.system,
            uses,
            lambda stretch: {index: self.pods[index].cpus / stretch[index] for index in uses},
        )

    @property
    def demand(self) -> float:
        return sum(workload.bandwidth for workload in self.pods)

    def look(self, now: float) -> None:
        """Record the present contention; forget what is older than the window."""
        self.seen.append((now, self.contention()))
        while self.seen[0][0] <= now - WINDOW:
            self.seen.popleft()


def arrivals(load: float, seed: int) -> list[Workload]:
    """Return workloads until together they ask for this share of all CPUs."""
    drawn, wanted = random.Random(seed), load * CPUS  # noqa: S311 - a simulation
    found: list[Workload] = []
    while wanted > 0:
        found.append(drawn.choice(WORKLOADS))
        wanted -= found[-1].cpus
    return found


def configuration(factor: str) -> InterferenceConfiguration:
    """Return an operator's configuration: the measured profiles, and affinities by what waiting costs."""
    text = _HEADING.format(factor=factor) + "".join(
        _ENTRY.format(
            name=each.name,
            bandwidth=round(each.bandwidth / 1e6),
            memory=each.memory,
            cpus=each.cpus,
            weight=each.affinity,
        )
        for each in WORKLOADS
    )
    parsed = parse_interference(text)
    if parsed.value is None:
        raise ValueError("; ".join(map(str, parsed.errors)))
    return parsed.value


class Run:
    """A cluster, filled by the default scheduling, or with the Interference plugin before it."""

    def __init__(self, cluster: Sequence[Machine], interference: InterferenceConfiguration | None) -> None:
        self._now = 0.0
        self._nodes = {machine.name: _Node(machine) for machine in cluster}
        self._cluster = Cluster()
        for machine in cluster:
            self._cluster.put_node(_facts(machine))
        self._engine = self._plugins(interference)
        self._unplaced: list[Workload] = []
        self._sees = interference is not None

    def _plugins(self, interference: InterferenceConfiguration | None) -> Engine:
        plugins: list[Plugin] = [NodeConstraints(), ResourceFit(), AllocationScore()]
        if interference is None:
            return Engine.of(*plugins)
        plugin = Interference(interference, lambda: self._now)
        self._cluster.estimate(plugin.estimates())
        return Engine.of(*plugins, plugin)

    def take(self, workloads: Sequence[Workload]) -> Outcome:
        """Let them arrive one after the other; return the outcome."""
        next_look = 0.0
        for number, workload in enumerate(workloads):
            self._now = number * ARRIVAL
            if self._sees and self._now >= next_look:
                self._measure()
                next_look += REFRESH
            self._place(f"default/pod-{number}", workload)
        return self._outcome()

    def _place(self, key: str, workload: Workload) -> None:
        pod = PodFacts(
            key=key,
            requests={CPU: workload.cpus * 1000, MEMORY: workload.memory * _GIGA},
            labels={"app": workload.name},
        )
        decision = self._engine.decide(pod, self._cluster.snapshot())
        if decision.node is None:
            self._unplaced.append(workload)
            return
        self._cluster.put_pod(pod, Placement(decision.node, since=self._now))
        self._nodes[decision.node].pods.append(workload)

    def _measure(self) -> None:
        """Show the scheduler means over the window."""
        for node in self._nodes.values():
            node.look(self._now)
        columns = {name: np.array(values) for name, values in self._columns().items()}
        sampled = np.full(len(self._nodes), self._now)
        shown = {name: (values, sampled) for name, values in columns.items()}
        self._cluster.measure(Measured(tuple(self._nodes), shown))

    def _columns(self) -> Mapping[str, list[float]]:
        nodes = list(self._nodes.values())
        seen = [[contention for _, contention in node.seen] for node in nodes]
        return {
            "memorybandwidth_capacity": [node.machine.system.bandwidth for node in nodes],
            "memorybandwidth_used": [max(BACKGROUND, fmean(each.used for each in window)) for window in seen],
            "memorylatency": [fmean(each.latency for each in window) for window in seen],
            "llc_occupancy": [
                max(BACKGROUND_LLC, fmean(each.occupancy for each in window)) for window in seen
            ],
            "memory_available": [
                float(node.machine.memory - sum(pod.memory for pod in node.pods) * _GIGA) for node in nodes
            ],
            "cpu": [sum(pod.cpus for pod in node.pods) / node.machine.cpus for node in nodes],
            "cpu_cores": [float(node.machine.cpus) for node in nodes],
        }

    def _outcome(self) -> Outcome:
        nodes = list(self._nodes.values())
        states = [node.contention() for node in nodes]
        lost = [state.slowdown(user) for state in states for user in state.stretch]
        return Outcome(
            oversubscribed=fmean(node.demand > node.machine.system.bandwidth for node in nodes),
            crowded=fmean(state.utilization > CROWDED for state in states),
            slowdown=fmean(lost) if lost else 0.0,
            placed=len(lost),
            unplaced=len(self._unplaced),
            unplaced_cpus=float(sum(workload.cpus for workload in self._unplaced)),
        )


def _facts(machine: Machine) -> NodeFacts:
    amounts = {CPU: machine.cpus * 1000, MEMORY: machine.memory, PODS: 110}
    return NodeFacts(name=machine.name, labels={}, allocatable=amounts)
