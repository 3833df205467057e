"""The same cells without a cluster, in virtual time: what a change of the score does, in minutes.

kube-scheduler is imitated: resource fit, and its scores that tell these nodes apart (LeastAllocated,
BalancedAllocation, and spreading by Service with the default constraints). corewise is its engine, asked as
the extender is: tenths of the best score, times the weight that ``corewise scheduler config`` prints. Of
equal nodes one is drawn.

A pod counts for corewise where it guesses, as in the extender, until the watches of corewise and of the node
show it: ``lag`` seconds after its node was chosen, as on a crowded control plane.
"""

from __future__ import annotations

import heapq
import math
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from corewise.amplification.numa import BoolColumn, IntColumn
from corewise.config.interference.model import InterferenceConfiguration
from corewise.engine import Cluster, Engine, Interference, Measured, NodeFacts, Placement, PodFacts
from corewise.engine.columns import ClusterSnapshot
from corewise.engine.facts import CPU, MEMORY, PODS
from corewise.engine.framework import BEST_SCORE
from corewise.engine.kube_plugins import NodeResourcesFit
from corewise.quantities import MILLI
from corewise.scheduler.extender import LARGEST_SCORE
from corewise.scheduler.installation import PROFILED_WEIGHT
from corewise.scheduler.profiled import GUESSED_FOR
from corewise_lab.metrics_server import MetricsHistory
from corewise_lab.node_memory import series
from experiments.interference_cluster.cells import OWN, STOCK, Cell, Outcome
from experiments.interference_cluster.mixes import Arrival, Workload

_LOOK_EVERY = 1.0
_SPREAD_WEIGHT = 2
_MAX_SKEW = 3
"""Of the default constraint by host name."""


class BalancedAllocation:
    """kube-scheduler's score of that name, for CPU and memory."""

    name = "NodeResourcesBalancedAllocation"
    weight = 1

    def score(self, pod: PodFacts, snapshot: ClusterSnapshot, feasible: BoolColumn) -> IntColumn:
        """Return 0 to 100: the closer the used shares of CPU and memory would be, the more."""
        used = [
            (allocatable - snapshot.free[resource] + pod.requests.get(resource, 0))
            / np.maximum(allocatable, 1)
            for resource in (CPU, MEMORY)
            for allocatable in (snapshot.allocatable[resource],)
        ]
        apart = np.abs(np.minimum(used[0], 1.0) - np.minimum(used[1], 1.0)) / 2
        score: IntColumn = ((1 - apart) * BEST_SCORE).astype(np.int64)
        return score


class Offline:
    """One cell in virtual time. In the arm STOCK corewise is not asked; in OWN neighbors do not count."""

    def __init__(self, cell: Cell, interference: InterferenceConfiguration, lag: float = 0.0) -> None:
        self._cell, self._lag = cell, lag
        self._now = 0.0
        self._order = 0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._waiting: dict[str, Arrival] = {}
        self._left = len(cell.to_come)
        self._draw = random.Random(f"{cell.mix}/{cell.seed}/ties")  # noqa: S311 - a simulation
        self._own, self._seen = Cluster(), Cluster()
        for node in cell.nodes.values():
            machine = node.machine
            amounts = {CPU: machine.cpus * MILLI, MEMORY: machine.memory, PODS: 110}
            for cluster in (self._own, self._seen):
                cluster.put_node(NodeFacts(name=machine.name, allocatable=amounts))
        self._types = {name: Counter[str]() for name in cell.nodes}
        self._kube = Engine.of(NodeResourcesFit(), BalancedAllocation())
        self._extender: Engine | None = None
        if cell.arm != STOCK:
            plugin = Interference(interference, lambda: self._now)
            self._extender, estimates = Engine.of(plugin), plugin.estimates()
            if cell.arm == OWN:
                estimates = replace(estimates, cache_affinity_of=lambda _: 0)
            self._seen.estimate(estimates)
            self._history = MetricsHistory(
                interference.window,
                lambda: {name: node.state() for name, node in cell.nodes.items()},
                lambda: self._now,
            )
            self._columns = tuple(series([node.state() for node in cell.nodes.values()]))
            self._look()

    def take(self) -> Outcome:
        """Let all pods arrive and end; return the cell's results."""
        self._cell.first = self._cell.to_come[0].at
        for number, arrival in enumerate(self._cell.to_come):
            self._at(arrival.at, partial(self._arrive, f"{self._cell.mix}-{number}", arrival))
        while self._left:
            ends = [(end, name) for name, node in self._cell.nodes.items() if (end := node.next_end())]
            due, name = min(ends, default=(math.inf, ""))
            if not self._events or due <= self._events[0][0]:
                self._now = max(self._now, due)
                self._end(name)
            else:
                self._now, _, act = heapq.heappop(self._events)
                act()
        return self._cell.outcome()

    def _at(self, when: float, act: Callable[[], None]) -> None:
        self._order += 1
        heapq.heappush(self._events, (when, self._order, act))

    def _look(self) -> None:
        self._history.look()
        names, at = self._history.nodes, np.full(len(self._history.nodes), self._now)
        averages = {column: self._history.averages(column) for column in self._columns}
        columns = {
            column: (np.array([of_nodes[name] for name in names]), at)
            for column, of_nodes in averages.items()
        }
        self._seen.measure(Measured(names, columns))
        self._seen.expire(self._now)
        self._at(self._now + _LOOK_EVERY, self._look)

    def _arrive(self, key: str, arrival: Arrival) -> None:
        self._waiting[key] = arrival
        self._place(key)

    def _place(self, key: str) -> None:
        """Choose a node for a waiting pod, if one suits it."""
        arrival = self._waiting[key]
        pod = _facts(key, arrival.workload)
        node = self._choose(pod, arrival.workload)
        if node is None:
            return
        del self._waiting[key]
        self._own.put_pod(pod, Placement(node))
        self._types[node][arrival.workload.name] += 1
        start = partial(self._start, key, pod, arrival, node, self._now)
        if self._lag:
            self._at(self._now + self._lag, start)
        else:  # the next pod of this moment is decided with this one
            start()

    def _choose(self, pod: PodFacts, workload: Workload) -> str | None:
        own = self._own.snapshot()
        decision = self._kube.decide(pod, own)
        suits = decision.feasible
        total = decision.total + _SPREAD_WEIGHT * self._spread(workload, suits)
        if self._extender is not None and suits.any():
            asked = self._extender.decide(pod, self._seen.snapshot(), suits)
            suits = asked.feasible
            (score,) = asked.scores.values() or (np.zeros_like(total),)
            tenths = (score + LARGEST_SCORE // 2) // LARGEST_SCORE
            total = total + PROFILED_WEIGHT * BEST_SCORE // LARGEST_SCORE * tenths
            if asked.node is not None:
                guessed = replace(pod, requests={})
                self._seen.put_pod(guessed, Placement(asked.node, since=self._now))
                self._at(self._now + GUESSED_FOR, partial(self._give_up, pod))
        if not suits.any():
            return None
        best = np.flatnonzero(suits & (total == total[suits].max())).tolist()
        return own.names[self._draw.choice(best)]

    def _spread(self, workload: Workload, feasible: BoolColumn) -> IntColumn:
        """Return PodTopologySpread's score by host name with the default constraint, for Services' pods."""
        counts = np.array([self._types[name][workload.name] for name in self._cell.nodes])
        if not workload.is_service or not feasible.any():
            return np.zeros_like(counts)
        crowd = np.rint(counts * math.log(np.count_nonzero(feasible) + 2) + _MAX_SKEW - 1).astype(np.int64)
        least, most = int(crowd[feasible].min()), int(crowd[feasible].max())
        score: IntColumn = BEST_SCORE * (most + least - crowd) // most
        return np.where(feasible, score, 0)

    def _give_up(self, pod: PodFacts) -> None:
        """Count a pod no more where it was guessed, unless it has been seen since."""
        found = self._seen.pods_on(self._seen.node_of(pod.key) or "").get(pod.key)
        if found is not None and not found[0].requests:
            self._seen.remove_pod(pod.key)

    def _start(self, key: str, pod: PodFacts, arrival: Arrival, node: str, chosen_at: float) -> None:
        self._cell.waits.append(self._now - arrival.at)
        self._cell.nodes[node].start(key, arrival.workload, arrival.work, self._now)
        self._seen.put_pod(pod, Placement(node, since=chosen_at))

    def _end(self, name: str) -> None:
        for ended in self._cell.nodes[name].end(self._now):
            self._cell.ended.append(ended)
            self._left -= 1
            pod, _ = self._own.pods_on(name)[ended.pod]
            self._types[name][pod.labels["app"]] -= 1
            for cluster in (self._own, self._seen):
                cluster.remove_pod(ended.pod)
        for key in list(self._waiting):
            self._place(key)


def _facts(key: str, workload: Workload) -> PodFacts:
    requests = {CPU: workload.cpus * MILLI, MEMORY: workload.memory * 10**9}
    return PodFacts(key=key, requests=requests, labels={"app": workload.name})
