"""Joins collector, latency probe and metrics for one agent, and logs what is not measured and why.

Metrics are set when somebody scrapes. What is not known has no series.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

from corewise.agent.interference.collector import (
    MEASURED,
    OTHER_KERNEL,
    Collector,
    NodeReadings,
    is_own_kernel,
)
from corewise.agent.interference.latency import LatencyProbe, ProbeThread
from corewise.config.interference.model import Series
from corewise.kernel.absence import Absent
from corewise.kernel.host_files import HostFiles
from corewise.kernel.memory_latency.library import load_chase
from corewise.kernel.perf.system import KernelPerf
from corewise.kube.clock import Clock
from corewise.prometheus.exposition import Exposition
from corewise.service.logs import fields
from corewise.service.program import Heartbeats
from corewise.vocabulary.metrics import interference as metrics
from corewise.vocabulary.metrics.table import Metric
from corewise.vocabulary.reasons import Reason

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


log = logging.getLogger(__name__)

_PASSING = frozenset(
    {Reason.RESCTRL_NO_VALUE, Reason.UNCORE_NO_VALUE, Reason.PERF_NO_VALUE, Reason.LATENCY_NOT_YET}
)
"""Reasons that come and go by themselves; the metric tells of them, the log only if it is to say more."""

_OFF = Absent(Reason.LATENCY_PROBE_OFF, "--no-latency-probe")


class InterferenceWatch:
    """What one agent measures of its node. ``latency_interval`` is None if memory is not to be probed."""

    def __init__(
        self, node: str, root: Path, *, latency_interval: float | None, metrics: Exposition, clock: Clock
    ) -> None:
        self._node = node
        self._metrics = metrics
        self._said: Mapping[Series, Absent] = {}
        self._collector = Collector(root, KernelPerf() if is_own_kernel(root) else None)
        self._thread: ProbeThread | None = None
        self._probe = self._make_probe(root, latency_interval, clock)

    async def run(self, heartbeats: Heartbeats) -> None:
        """Begin to count, and probe until cancelled, if there is anything to probe with."""
        self.look()
        if not isinstance(self._probe, Absent):
            await self._probe.run(heartbeats)

    def look(self) -> NodeReadings:
        """Return what is known now."""
        latency = self._probe if isinstance(self._probe, Absent) else self._probe.latest()
        readings = self._collector.look(latency)
        self._tell(readings.absent)
        return readings

    def publish(self) -> None:
        """Set all metrics as they are now."""
        publish(self.look(), self._node, self._metrics)

    def close(self) -> None:
        """Stop counting and probing."""
        self._collector.close()
        if self._thread is not None:
            self._thread.close()

    def _make_probe(self, root: Path, interval: float | None, clock: Clock) -> LatencyProbe | Absent:
        if interval is None:
            return _OFF
        chase = load_chase() if is_own_kernel(root) else OTHER_KERNEL
        if isinstance(chase, Absent):
            return chase
        self._thread = ProbeThread(chase, HostFiles(root))
        return LatencyProbe(self._thread.measure, interval=interval, clock=clock)

    def _tell(self, absent: Mapping[Series, Absent]) -> None:
        """Log what has come to be missing, or to be there: once, with the reason."""
        for metric, each in absent.items():
            before = self._said.get(metric)
            if before is None or before.reason is not each.reason:
                facts = fields(node=self._node, metric=metric.value, reason=each.reason)
                log.log(_level(each), "%s is not measured: %s", metric, each.why, extra=facts)
        for metric in self._said.keys() - absent.keys():
            facts = fields(node=self._node, metric=metric.value)
            log.log(_level(self._said[metric]), "%s is measured", metric, extra=facts)
        self._said = dict(absent)


def _level(absent: Absent) -> int:
    return logging.DEBUG if absent.reason in _PASSING else logging.INFO
