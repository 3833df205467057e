"""Sixty pods of the document's own type within one window, placed one by one by the scheduler's arithmetic.

The ways differ in what of it is used; filter, ranking, score and counterweights are those of
:mod:`corewise.interference`. Of nodes with equal scores any may be taken, so they are drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from corewise.config.interference.model import InterferenceConfiguration, WorkloadProfile
from corewise.config.interference.reading import parse_interference
from corewise.interference.filtering import Selected, filter_nodes
from corewise.interference.latency import LatencyHistory
from corewise.interference.outlook import Counterweights, Weights, outlook
from corewise.interference.pressure import Pressure
from corewise.interference.score import score_nodes
from experiments.interference_burst.cluster import CAPACITY, NODES, STEP, Cluster

PODS = 60
TYPE = "incept-no-leak"
BUSY = 0.8
"""The share of its bandwidth above which a node counts as busy."""

_SNAPSHOTS = 60
_FILE = """\
interference:
  latencyModel: {model}
  metrics: {{preset: corewise, memorylatency: {{tolerance: {tolerance}}}}}
  profiles:
    incept-no-leak:
      profile:  {{memoryBandwidth: 5GB/s, memory: 0.2GB, cpu: 1, llc: 4MiB}}
      affinity: {{memorybandwidth: 60, memorylatency: 60, llc_occupancy: 0, llc_mpki: 0, cpu: 50}}
"""


@dataclass(frozen=True, slots=True)
class Burst:
    """The arrival of pods: one each ``between`` seconds; the metrics are read every ``refresh`` seconds."""

    name: str
    between: float
    refresh: float

    @property
    def length(self) -> float:
        return PODS * self.between


AT_ONCE = Burst("within a minute, before the metrics are refreshed", between=1.0, refresh=60.0)
SLOW = Burst("within four minutes, metrics refreshed every 15 s", between=4.0, refresh=15.0)


@dataclass(frozen=True, slots=True)
class Way:
    """The parts of the arithmetic in use, with their name and line style."""

    name: str
    style: str
    in_score: bool = True
    in_filter: bool = True
    tolerance: str = "0%"
    model: str = "measured"

    @property
    def config(self) -> InterferenceConfiguration:
        """The configuration that a user would write for it."""
        parsed = parse_interference(_FILE.format(model=self.model, tolerance=self.tolerance))
        if parsed.value is None:
            raise ValueError(parsed.errors)
        return parsed.value


WAYS = (
    Way("no counterweights", "quota", in_score=False, in_filter=False),
    Way("score only", "target", in_filter=False),
    Way("score and filter", "online"),
    Way("both, tolerance 2 %", "offline", tolerance="2%"),
    Way("both, latency curve", "other", tolerance="2%", model="curve"),
)


@dataclass(frozen=True, slots=True)
class Run:
    """The results of one burst, once all pods run.

    ``fullest`` has seconds and the pods on the fullest node; ``latency`` (seconds) and ``lost`` (of their
    throughput, 0..1) are means over the pods; ``busy`` counts nodes above BUSY, ``unplaced`` pods left over.
    """

    fullest: Sequence[tuple[float, float]]
    latency: float
    lost: float
    busy: int
    unplaced: int

    @property
    def most(self) -> int:
        """Pods on the fullest node in the end."""
        return int(self.fullest[-1][1])


class _Scheduler:
    """The state kept between decisions."""

    def __init__(self, way: Way, cluster: Cluster, random: np.random.Generator) -> None:
        self._way, self._random = way, random
        self._config = way.config
        self._placed = Counterweights(self._config.counterweight)
        self._history = LatencyHistory.empty(NODES)
        for snapshot in cluster.seen_before(_SNAPSHOTS):
            self._history = self._history.observed(snapshot)

    @property
    def workload(self) -> WorkloadProfile:
        return self._config.profiles[TYPE]

    def choose(self, pod: str, measured: Pressure, now: float) -> int | None:
        """Return the row of the node for a pod, None if no node passes; count the pod there from now on."""
        pressure = self._history.learned(measured)
        weights, none = self._placed.at(now, NODES), Weights.none(NODES)
        filtering = outlook(pressure, weights if self._way.in_filter else none, self._config)
        scoring = outlook(pressure, weights if self._way.in_score else none, self._config)
        config = replace(self._config, missing_passes=True)
        workload = self.workload
        selected = Selected(workload.name, workload.profile, workload.affinity)
        passes = filter_nodes(filtering, selected, config).passes
        if not passes.any():
            return None
        raw = np.where(passes, score_nodes(scoring, workload.affinity, self._config, passes).raw, -1.0)
        row = int(self._random.choice(np.flatnonzero(raw == raw.max())))
        self._placed.put(pod, row, workload.profile, now)
        return row


def run(burst: Burst, way: Way, seed: int) -> Run:
    """Run one burst; runs of one seed have the same nodes and the same errors of measurement."""
    cluster = Cluster(np.random.default_rng(seed), way.config.profiles[TYPE].profile)
    scheduler = _Scheduler(way, cluster, np.random.default_rng(seed + 10_000))
    measured = cluster.measured()
    fullest: list[tuple[float, float]] = []
    unplaced = 0
    for now in np.arange(0.0, burst.length).tolist():
        if now and now % burst.refresh == 0:
            measured = cluster.measured()
        if now % burst.between == 0:
            row = scheduler.choose(f"pod-{now:g}", measured, now)
            if row is None:
                unplaced += 1
            else:
                cluster.pods[row] += 1
            fullest.append((now, float(cluster.pods.max())))
        if now % STEP == 0:
            cluster.note()
    return _told(cluster, fullest, unplaced)


def _told(cluster: Cluster, fullest: list[tuple[float, float]], unplaced: int) -> Run:
    states, pods = cluster.states(), cluster.pods
    placed = max(int(pods.sum()), 1)
    return Run(
        fullest,
        latency=sum(state.latency * count for state, count in zip(states, pods.tolist(), strict=True))
        / placed,
        lost=sum(state.lost * count for state, count in zip(states, pods.tolist(), strict=True)) / placed,
        busy=sum(state.used > BUSY * CAPACITY for state in states),
        unplaced=unplaced,
    )
