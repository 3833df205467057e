"""Histories whose profiles and affinities are known, because they are planted. Deterministic with a seed.

Every node has a level of each pressure for six hours, independent of the others, around which it varies by
a per cent. Work of a type that takes ``BASE`` seconds on the least pressed node takes, with the pressures
placed between the cluster's percentiles as the analysis places them,

    BASE x (1 + sum of affinity / 100 x pressure) x noise

Of the pressure of a node a pod's own use is a part, and does not slow it down.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corewise.config.interference.metrics import RANKED, Metric
from corewise.interference.analysis import MetricRange
from corewise.interference.history import CPI, OWN_PART, History, PodRecord, TimeSeries

Numbers = NDArray[np.float64]
Affinities = Mapping[Metric, int]
RANGES: Mapping[Metric, tuple[float, float]] = {
    Metric.MEMORY_BANDWIDTH: (10e9, 100e9),
    Metric.MEMORY_LATENCY: (80e-9, 250e-9),
    Metric.LLC_OCCUPANCY: (5e6, 40e6),
    Metric.LLC_MPKI: (1.0, 30.0),
    Metric.CPU: (0.1, 0.95),
}
DEFAULT = {str(metric): 50 for metric in RANKED}
USE = {"memoryBandwidth": 5e9, "memory": 2e9, "cpu": 1.5, "llc": 4e6}
BASE = 1800.0
CPI_BASE = 0.8
STEP = 60.0
WARM_UP = 300.0
LEVEL = 6 * 3600.0
HOURS = 48.0
LONGEST = 4.0
"""Hours that a run takes at most: six times ``BASE``, and some noise."""


@dataclass(frozen=True, slots=True)
class Planted:
    """The contents of a history. ``flat`` metrics are the same on all nodes at all times."""

    affinity: Mapping[str, Affinities]
    seed: int = 1
    runs: int = 200
    nodes: int = 12
    noise: float = 0.03
    flat: frozenset[Metric] = frozenset()
    cpi: bool = False
    used: bool = True


def planted_history(planted: Planted) -> History:
    """Return a history in which types have the planted affinities."""
    random = np.random.default_rng(planted.seed)
    nodes = {f"n{number}": _node(random, planted.flat) for number in range(planted.nodes)}
    scales = {
        str(metric): MetricRange.of(np.concatenate([node[metric].values for node in nodes.values()]))
        for metric in RANGES
    }
    pods = [
        _pod(random, planted, nodes, scales, kind, number)
        for kind in planted.affinity
        for number in range(planted.runs)
    ]
    return History(0.0, HOURS * 3600, nodes, pods)


def _node(random: np.random.Generator, flat: frozenset[Metric]) -> dict[str, TimeSeries]:
    times = np.arange(0, HOURS * 3600, STEP)
    levels = random.random((len(RANGES), int(HOURS * 3600 / LEVEL)))
    node = {}
    for (metric, (low, high)), level in zip(RANGES.items(), levels, strict=True):
        exact = np.full_like(times, 0.5) if metric in flat else level[(times // LEVEL).astype(int)]
        values = (low + (high - low) * exact) * random.normal(
            1.0, 0.002 if metric in flat else 0.01, len(times)
        )
        node[str(metric)] = TimeSeries(times, values)
    return node


def _pod(
    random: np.random.Generator,
    planted: Planted,
    nodes: Mapping[str, Mapping[str, TimeSeries]],
    scales: Mapping[str, MetricRange],
    kind: str,
    number: int,
) -> PodRecord:
    name = f"n{random.integers(planted.nodes)}"
    start = float(random.integers(0, int(HOURS - LONGEST) * 60)) * 60
    slower = float(random.lognormal(0.0, planted.noise)) * _slowness(planted, nodes[name], scales, kind)
    steps = slice(int(start / STEP), int((start + LONGEST * 3600) / STEP))
    took = BASE if planted.cpi else _time_until(BASE, slower[steps])
    began = start - WARM_UP if planted.cpi else start
    use = _use(random, began, start + took) if planted.used else {}
    end = None if planted.cpi else start + took
    if planted.cpi:
        times = np.arange(start, start + BASE, STEP)
        pace = slower[steps][: len(times)]
        use[CPI] = TimeSeries(times, CPI_BASE * pace)
    return PodRecord(f"default/{kind}-{number}", kind, name, began, end, use)


def _slowness(
    planted: Planted, node: Mapping[str, TimeSeries], scales: Mapping[str, MetricRange], kind: str
) -> Numbers:
    """Return the slowdown of a type's work on a node, step by step."""
    slower = np.ones(len(node[Metric.CPU].times))
    for metric, affinity in planted.affinity[kind].items():
        if metric not in planted.flat:
            own = USE.get(OWN_PART.get(metric, ""), 0.0) if planted.used else 0.0
            slower += affinity / 100 * scales[metric].place(node[metric].values - own)
    return slower


def _time_until(work: float, slower: Numbers) -> float:
    """Return the time that so much work takes when it is slowed down step by step."""
    done = np.concatenate([[0.0], np.cumsum(STEP / slower)])
    return float(np.interp(work, done, STEP * np.arange(len(done))))


def _use(random: np.random.Generator, start: float, end: float) -> dict[str, TimeSeries]:
    times = np.arange(start, end, STEP)
    warm = np.where(times < start + WARM_UP, 0.3, 1.0)
    return {
        what: TimeSeries(times, amount * warm * random.normal(1.0, 0.05, len(times)))
        for what, amount in USE.items()
    }
