"""Histories whose profiles and affinities are known, because they are planted. Deterministic with a seed.

Every node has a level of each pressure for six hours, independent of the others, around which it varies by a
per cent. Work of a type that takes ``BASE`` seconds on the least pressed node takes, with the pressures placed
between the cluster's percentiles as the analysis places them,

    BASE x (1 + sum of affinity / 100 x pressure) x noise
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corewise.interference.analysis_affinity import Scale
from corewise.interference.analysis_history import CPI, History, PodRecord, Series
from corewise.policy.interference import Metric

Numbers = NDArray[np.float64]
RANGES: Mapping[str, tuple[float, float]] = {
    Metric.MEMORY_BANDWIDTH: (10e9, 100e9),
    Metric.MEMORY_LATENCY: (80e-9, 250e-9),
    Metric.LLC_OCCUPANCY: (5e6, 40e6),
    Metric.LLC_MPKI: (1.0, 30.0),
    Metric.CPU: (0.1, 0.95),
}
DEFAULT = {str(metric): 50 for metric in Metric}
USE = {"memoryBandwidth": 5e9, "memory": 2e9, "cpu": 1.5, "llc": 4e6}
BASE = 1800.0
CPI_BASE = 0.8
STEP = 60.0
LEVEL = 6 * 3600.0
HOURS = 48.0


@dataclass(frozen=True, slots=True)
class Planted:
    """What a history is made of. ``flat`` metrics are the same on all nodes at all times."""

    affinity: Mapping[str, Mapping[str, int]]
    seed: int = 1
    runs: int = 200
    nodes: int = 12
    noise: float = 0.03
    flat: frozenset[str] = frozenset()
    cpi: bool = False
    used: bool = True


def planted_history(planted: Planted) -> History:
    """Return a history in which types have the planted affinities."""
    random = np.random.default_rng(planted.seed)
    nodes = {f"n{number}": _node(random, planted.flat) for number in range(planted.nodes)}
    scales = {
        metric: Scale.of(np.concatenate([node[metric].values for node in nodes.values()])) for metric in RANGES
    }
    pods = [
        _pod(random, planted, nodes, scales, kind, number)
        for kind in planted.affinity
        for number in range(planted.runs)
    ]
    return History(0.0, HOURS * 3600, nodes, pods)


def _node(random: np.random.Generator, flat: frozenset[str]) -> dict[str, Series]:
    times = np.arange(0, HOURS * 3600, STEP)
    levels = random.random((len(RANGES), int(HOURS * 3600 / LEVEL)))
    node = {}
    for (metric, (low, high)), level in zip(RANGES.items(), levels, strict=True):
        exact = np.full_like(times, 0.5) if metric in flat else level[(times // LEVEL).astype(int)]
        values = (low + (high - low) * exact) * random.normal(1.0, 0.002 if metric in flat else 0.01, len(times))
        node[str(metric)] = Series(times, values)
    return node


def _pod(
    random: np.random.Generator,
    planted: Planted,
    nodes: Mapping[str, Mapping[str, Series]],
    scales: Mapping[str, Scale],
    kind: str,
    number: int,
) -> PodRecord:
    name = f"n{random.integers(planted.nodes)}"
    start = float(random.integers(0, int(HOURS - 3)) * 3600 + random.integers(0, 3600))
    slower = float(random.lognormal(0.0, planted.noise))
    for metric, affinity in planted.affinity[kind].items():
        mean = nodes[name][metric].mean(start, start + BASE)
        if mean is not None and metric not in planted.flat:
            slower += affinity / 100 * float(scales[metric].place(np.array([mean]))[0])
    took = BASE if planted.cpi else BASE * slower
    use = _use(random, start, start + took) if planted.used else {}
    if planted.cpi:
        times = np.arange(start, start + 2 * BASE, STEP)
        use[CPI] = Series(times, CPI_BASE * slower * random.normal(1.0, 0.01, len(times)))
        return PodRecord(f"default/{kind}-{number}", kind, name, start - 300.0, None, use)
    return PodRecord(f"default/{kind}-{number}", kind, name, start, start + took, use)


def _use(random: np.random.Generator, start: float, end: float) -> dict[str, Series]:
    times = np.arange(start, end, STEP)
    warm = np.where(times < start + 300.0, 0.3, 1.0)
    return {
        what: Series(times, amount * warm * random.normal(1.0, 0.05, len(times)))
        for what, amount in USE.items()
    }
