"""Nodes whose memory is in use, and what Prometheus says of them: averages over the window, a little wrong.

Each node has a load of its own; pods placed add theirs at once. What memory makes of both is what the local
cluster's plant makes of it (:mod:`corewise_lab.contention`): latency rises with use, and whoever waits
for
memory moves less. Every ``STEP`` seconds the state is noted; the metrics are averages of what was noted over
the window, with the error of a measurement.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from corewise.config.interference.model import Profile
from corewise.interference.pressure import Pressure, Values
from corewise_lab.contention import Contention, Memory, MemoryUse, Stretches, contend

NODES = 50
CAPACITY = 107e9
CORES = 64
WINDOW = 300.0
STEP = 5.0
NOISE = 0.01
"""Standard deviation of a measurement, as a share of it."""

_MEMORY = Memory(CAPACITY, llc=64 * 2**20)
_KEPT = int(WINDOW / STEP)
_LOADS = (0.1, 0.6)
_BEFORE = (0.05, 0.85)
_OWN, _PODS = 0, 1


@dataclass(frozen=True, slots=True)
class State:
    """The true state of a node: bytes/s, seconds, and its pods' loss of throughput, 0..1."""

    used: float
    latency: float
    lost: float


@lru_cache(maxsize=100_000)
def state_of(load: float, pods: int, bandwidth: int) -> State:
    """Return the state of a node with a load of its own, in bytes/s, and pods of so much traffic each."""
    use = MemoryUse(float(bandwidth))
    wanted = {_OWN: load / bandwidth, _PODS: float(pods)}

    def work(stretches: Stretches) -> dict[int, float]:
        return {user: cpus / stretches[user] for user, cpus in wanted.items()}

    found: Contention = contend(_MEMORY, dict.fromkeys(wanted, use), work)
    return State(found.used, found.latency, found.slowdown(_PODS))


class Cluster:
    """The nodes of one run."""

    def __init__(self, random: np.random.Generator, profile: Profile) -> None:
        self._random = random
        self._profile = profile
        self._load = random.uniform(*_LOADS, NODES) * CAPACITY
        self._cpu = random.uniform(*_LOADS, NODES)
        self.pods = np.zeros(NODES, dtype=np.int64)
        self._noted = [self._columns()] * _KEPT

    def states(self) -> list[State]:
        """Return the true state of every node."""
        traffic = self._profile.memory_bandwidth
        pairs = zip(self._load.tolist(), self.pods.tolist(), strict=True)
        return [state_of(load, pods, traffic) for load, pods in pairs]

    def note(self) -> None:
        """Note the state of this moment, and forget that of a window ago."""
        self._noted = [*self._noted[1:], self._columns()]

    def measured(self) -> Pressure:
        """Return the current values from Prometheus."""
        used, latency, cpu = np.mean(self._noted, axis=0) * self._random.normal(1, NOISE, (3, NODES))
        return _pressure(used, latency, cpu)

    def seen_before(self, snapshots: int) -> list[Pressure]:
        """Return measurements of earlier days, when loads came and went: curves are learned from them."""
        return [self._seen_at(self._random.uniform(*_BEFORE, NODES) * CAPACITY) for _ in range(snapshots)]

    def _seen_at(self, loads: Values) -> Pressure:
        states = [state_of(load, 0, self._profile.memory_bandwidth) for load in loads.tolist()]
        seen = np.array([[each.used, each.latency] for each in states]).T
        used, latency = seen * self._random.normal(1, NOISE, (2, NODES))
        return _pressure(used, latency, self._cpu)

    def _columns(self) -> list[Values]:
        states = self.states()
        cpu = np.minimum(self._cpu + self.pods * (self._profile.cpu / 1000 / CORES), 1.0)
        return [np.array([each.used for each in states]), np.array([each.latency for each in states]), cpu]


def _pressure(used: Values, latency: Values, cpu: Values) -> Pressure:
    columns = {
        "memorybandwidth_used": used,
        "memorybandwidth_capacity": np.full(NODES, CAPACITY),
        "memorylatency": latency,
        "cpu": cpu,
        "cpu_cores": np.full(NODES, float(CORES)),
        "memory_available": np.full(NODES, 256e9),
    }
    return Pressure.of(NODES, columns).cleaned()
