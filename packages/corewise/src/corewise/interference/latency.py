"""A node's memory latency by the bandwidth in use: the curve, how it is learned, and what it predicts.

    latency(x) = idle + slope x x / (1 - x)      x = used / capacity, below 0.95

which is flat where there is room and rises steeply near saturation, as measured curves do; the second term is
the waiting time of a queue whose server is x busy. Beyond 0.95 the curve goes on as a straight line, so that
nodes above their capacity still differ.

Idle and slope are fitted by least squares to what snapshots showed of the node, old ones fading; slope is
never negative. A node whose bandwidth hardly varied does not show its slope, and is missing here: its
latency is then ranked as measured.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from corewise.interference.pressure import Pressure, Values

_STEEPEST = 0.95
_FADING = 0.999
"""The weight left to a sample at the next snapshot: half of it after 693, which are hours."""

_LEAST_SAMPLES = 5.0
_LEAST_SPREAD = 0.02
_NOISE = 0.05
"""The standard deviation of the term must exceed the first, and what an error of x by the second makes of it:
over a smaller range a curve is noise.
"""


def load_term(used: Values, capacity: Values) -> Values:
    """Return x / (1 - x), going on straight from 0.95."""
    share = used / capacity
    below = np.minimum(share, _STEEPEST)
    straight = np.maximum(share - _STEEPEST, 0.0) / (1 - _STEEPEST) ** 2
    term: Values = below / (1 - below) + straight
    return term


def predicted_latency(pressure: Pressure, more: Values) -> Values:
    """Return the latency by each node's curve with ``more`` bytes/s in use; as measured without a curve."""
    term = load_term(pressure.memorybandwidth_used + more, pressure.memorybandwidth_capacity)
    predicted = pressure.memorylatency_idle + pressure.memorylatency_slope * term
    return np.where(np.isnan(predicted), pressure.memorylatency, predicted)


@dataclass(frozen=True, slots=True, eq=False)
class LatencyHistory:
    """Faded sums of snapshots: weight, term, term², latency, term x latency; a column per node."""

    sums: np.ndarray[tuple[int, int], np.dtype[np.float64]]

    @classmethod
    def empty(cls, size: int) -> LatencyHistory:
        return cls(np.zeros((5, size)))

    @property
    def size(self) -> int:
        return int(self.sums.shape[1])

    def rows(self, indices: np.ndarray[tuple[int], np.dtype[np.intp]]) -> LatencyHistory:
        """Return the history of some nodes, in that order; a negative index is a node without one."""
        if not self.size:
            return LatencyHistory.empty(len(indices))
        return LatencyHistory(np.where(indices >= 0, self.sums[:, np.maximum(indices, 0)], 0.0))

    def observed(self, pressure: Pressure) -> LatencyHistory:
        """Return the history with another cleaned snapshot of the same nodes."""
        term = load_term(pressure.memorybandwidth_used, pressure.memorybandwidth_capacity)
        latency = pressure.memorylatency
        known = ~np.isnan(term + latency)
        sample = np.where(known, [np.ones_like(term), term, term**2, latency, term * latency], 0.0)
        faded = np.where(known, _FADING, 1.0)
        return LatencyHistory(self.sums * faded + sample)

    def learned(self, pressure: Pressure) -> Pressure:
        """Return the pressure with the curves learned; an idle latency that it states itself stays."""
        idle, slope = self.curves()
        stated = pressure.memorylatency_idle
        known = np.where(np.isnan(stated), idle, stated)
        return replace(pressure, memorylatency_idle=known, memorylatency_slope=slope)

    def curves(self) -> tuple[Values, Values]:
        """Return idle latency and slope of each node, NaN where too little is known."""
        weight, term, squares, latency, products = self.sums
        with np.errstate(divide="ignore", invalid="ignore"):
            mean, mean_latency = term / weight, latency / weight
            variance = squares / weight - mean**2
            slope = np.maximum((products / weight - mean * mean_latency) / variance, 0.0)
            idle = mean_latency - slope * mean
            least = np.maximum(_NOISE * mean * (1 + mean), _LEAST_SPREAD)
            known = (weight >= _LEAST_SAMPLES) & (variance >= least**2) & (idle > 0)
        return np.where(known, idle, np.nan), np.where(known, slope, np.nan)
