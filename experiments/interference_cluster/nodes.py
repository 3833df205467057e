"""A simulated node: the pods on it, how fast each works beside the others, and when the next one ends. Pure.

Work is stretched as :mod:`corewise_lab.contention` says of the pods that are there; it is settled whenever a
pod comes or goes. Times are seconds of one clock.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from corewise_lab.contention import Contention, contend
from corewise_lab.node_memory import BACKGROUND, BACKGROUND_LLC, INSTRUCTIONS, MemoryState
from experiments.interference_cluster.mixes import Workload
from experiments.interference_wca.experiment import Machine

_DONE = 1e-6


@dataclass
class _Running:
    workload: Workload
    work: float
    since: float
    left: float


@dataclass(frozen=True, slots=True)
class Ended:
    """A pod that has ended; ``slowdown``: the part of its throughput that it lost, over its life."""

    pod: str
    at: float
    slowdown: float


@dataclass
class Node:
    """One node; ``busy`` has the seconds in which any pod ran."""

    machine: Machine
    busy: float = 0.0
    _at: float = 0.0
    _running: dict[str, _Running] = field(default_factory=dict)
    _contention: Contention = field(init=False)

    def __post_init__(self) -> None:
        self._settle()

    def start(self, pod: str, workload: Workload, work: float, now: float) -> None:
        """Let a pod run from now on."""
        self._advance(now)
        self._running[pod] = _Running(workload, work, now, work)
        self._settle()

    def end(self, now: float) -> Iterable[Ended]:
        """Remove and return the pods whose work is done; ``now`` may be a little in the past."""
        now = max(now, self._at)
        self._advance(now)
        done = [pod for pod, each in self._running.items() if each.left <= _DONE]
        gone = [(pod, self._running.pop(pod)) for pod in done]
        self._settle()
        return [Ended(pod, now, 1 - each.work / max(each.work, now - each.since)) for pod, each in gone]

    def next_end(self) -> float | None:
        """Return when the next pod's work is done, if none comes or goes before."""
        stretch = self._contention.stretch
        ends = (each.left * stretch[user] for user, each in enumerate(self._running.values()))
        return self._at + min(ends) if self._running else None

    def _advance(self, now: float) -> None:
        passed, self._at = now - self._at, now
        self.busy += passed if self._running else 0.0
        for user, each in enumerate(self._running.values()):
            each.left -= passed / self._contention.stretch[user]

    def _settle(self) -> None:
        pods = [each.workload for each in self._running.values()]
        uses = {user: workload.use for user, workload in enumerate(pods)}
        self._contention = contend(
            self.machine.system,
            uses,
            lambda stretch: {user: pods[user].cpus / stretch[user] for user in uses},
        )

    def state(self) -> MemoryState:
        """Return the values that the node's agent would measure now."""
        pods = [each.workload for each in self._running.values()]
        now, cpus = self._contention, sum(workload.cpus for workload in pods)
        done = sum(workload.cpus / now.stretch[user] for user, workload in enumerate(pods))
        memory = sum(workload.memory for workload in pods) * 10**9
        return MemoryState(
            bandwidth=self.machine.system.bandwidth,
            used=max(now.used, BACKGROUND),
            latency=now.latency,
            llc=self.machine.system.llc,
            llc_occupancy=max(now.occupancy, BACKGROUND_LLC),
            llc_mpki=1000 * now.misses / (INSTRUCTIONS * done) if done else 0.0,
            cpu=cpus / self.machine.cpus,
            cpus=self.machine.cpus,
            memory_available=max(0, self.machine.memory - memory),
            slowdowns={},
        )
