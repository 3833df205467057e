"""The metrics of a node's memory and caches, set when somebody asks. What is not known has no series."""

from __future__ import annotations

from corewise.agent.interference.readings import MEASURED, NodeReadings
from corewise.kernel.absence import Absent
from corewise.prometheus.exposition import Exposition
from corewise.vocabulary.metrics import interference as metrics
from corewise.vocabulary.metrics.table import Metric

SUPPORTED = "ok"
FROM_MODULES = "dimm"
_NANO = 1e9
Labelled = dict[tuple[str, ...], float]


def publish(readings: NodeReadings, node: str, exposition: Exposition) -> None:
    """Set everything that is told about a node."""
    for metric, series in _series(readings, node).items():
        exposition.replace(metric, series)
    absent = readings.absent
    reasons = {metric: absent[metric].reason if metric in absent else SUPPORTED for metric in MEASURED}
    supported: Labelled = {
        (node, metric.value, str(reason)): float(reason == SUPPORTED) for metric, reason in reasons.items()
    }
    exposition.replace(metrics.NODE_METRIC_SUPPORTED, supported)


def _series(readings: NodeReadings, node: str) -> dict[Metric, Labelled]:
    """Return the series of every metric; none of one that is not known."""
    latency, cpu = readings.latency, readings.cpu
    misses = None if isinstance(readings.misses, Absent) else readings.misses
    return {
        metrics.NODE_MEMORY_TRAFFIC: _amount(readings.traffic, node),
        metrics.NODE_MEMORY_BANDWIDTH_CAPACITY: _amount(readings.capacity, node, FROM_MODULES),
        metrics.NODE_MEMORY_LATENCY: (
            {} if isinstance(latency, Absent) else {(node, str(numa)): each for numa, each in latency.items()}
        ),
        metrics.NODE_LLC_OCCUPANCY: _amount(readings.occupancy, node),
        metrics.NODE_LLC_CAPACITY: _amount(readings.cache, node),
        metrics.NODE_INSTRUCTIONS: {(node,): float(misses.instructions)} if misses else {},
        metrics.NODE_LLC_MISSES: {(node, misses.level): float(misses.misses)} if misses else {},
        metrics.NODE_CPU_BUSY: {} if isinstance(cpu, Absent) else {(node,): cpu.busy / _NANO},
        metrics.NODE_CPUS_ONLINE: {} if isinstance(cpu, Absent) else {(node,): float(cpu.cpus)},
        metrics.NODE_MEMORY_AVAILABLE: _amount(readings.memory_available, node),
    }


def _amount(value: int | Absent, *labels: str) -> Labelled:
    return {} if isinstance(value, Absent) else {labels: float(value)}
