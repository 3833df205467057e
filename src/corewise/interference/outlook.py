"""The nodes as they are when the pods just placed show in the measurements: what filter and score work on.

    free bandwidth = capacity - used - counterweight
    free memory    = available - counterweight
    LLC occupancy  = occupancy + counterweight
    CPU            = utilization + counterweight / cores
    latency        = as measured; with ``latencyModel: curve`` by the node's curve at used + counterweight

With ``relative: true`` bandwidth and LLC occupancy are shares of the node's capacity, and latency is the
ratio to the node's own idle value. Where no node at all states what a metric is set against, that metric
stays absolute: nodes are never compared by different measures.

Nothing here depends on the pod to be placed, so one outlook serves all pods until a counterweight changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from corewise.config.interference import InterferenceConfiguration, LatencyModel, Metric, Order
from corewise.interference.counterweights import Weights
from corewise.interference.latency import predicted_latency
from corewise.interference.pressure import Pressure, Values

_MILLI = 1000.0


@dataclass(frozen=True, slots=True, eq=False)
class Outlook:
    """Columns over nodes; ``values`` are what each metric ranks by, in the metric's own unit.

    ``best_high`` is the same turned so that more is better. ``relative`` names the metrics that are relative.
    """

    pressure: Pressure
    weights: Weights
    free_bandwidth: Values
    free_memory: Values
    values: Mapping[Metric, Values]
    best_high: Mapping[Metric, Values]
    relative: frozenset[Metric]

    @property
    def size(self) -> int:
        return len(self.free_memory)


def outlook(pressure: Pressure, weights: Weights, config: InterferenceConfiguration) -> Outlook:
    """Return the outlook of nodes by a cleaned pressure and the counterweights of the moment."""
    free = pressure.memorybandwidth_capacity - pressure.memorybandwidth_used - weights.memory_bandwidth
    values = {
        Metric.MEMORY_BANDWIDTH: free,
        Metric.MEMORY_LATENCY: _latency(pressure, weights, config),
        Metric.LLC_OCCUPANCY: pressure.llc_occupancy + _signed(Metric.LLC_OCCUPANCY, weights.llc, config),
        Metric.LLC_MPKI: pressure.llc_mpki,
        Metric.CPU: _cpu(pressure, weights, config),
    }
    relative = frozenset(_relative(pressure, values)) if config.relative else frozenset()
    return Outlook(
        pressure=pressure,
        weights=weights,
        free_bandwidth=free,
        free_memory=pressure.memory_available - weights.memory,
        values=values,
        best_high={metric: _turned(metric, column, config) for metric, column in values.items()},
        relative=relative,
    )


def _latency(pressure: Pressure, weights: Weights, config: InterferenceConfiguration) -> Values:
    if config.latency_model is LatencyModel.CURVE:
        return predicted_latency(pressure, weights.memory_bandwidth)
    return pressure.memorylatency


def _cpu(pressure: Pressure, weights: Weights, config: InterferenceConfiguration) -> Values:
    """Return utilization with counterweights; a node that states no cores is missing once it has one."""
    more = np.where(weights.cpu > 0, weights.cpu / _MILLI / pressure.cpu_cores, 0.0)
    return pressure.cpu + _signed(Metric.CPU, more, config)


def _signed(metric: Metric, more: Values, config: InterferenceConfiguration) -> Values:
    """Return a counterweight with the sign that makes a node worse."""
    return -more if config.metrics.rankings[metric].order is Order.DESCENDING else more


def _turned(metric: Metric, column: Values, config: InterferenceConfiguration) -> Values:
    return column if config.metrics.rankings[metric].order is Order.DESCENDING else -column


def _relative(pressure: Pressure, values: dict[Metric, Values]) -> list[Metric]:
    """Make metrics relative where any node states what they are set against; name those that are."""
    against = {
        Metric.MEMORY_BANDWIDTH: pressure.memorybandwidth_capacity,
        Metric.MEMORY_LATENCY: pressure.memorylatency_idle,
        Metric.LLC_OCCUPANCY: pressure.llc_capacity,
    }
    stated = [metric for metric, column in against.items() if not np.isnan(column).all()]
    for metric in stated:
        values[metric] = values[metric] / against[metric]
    return stated
