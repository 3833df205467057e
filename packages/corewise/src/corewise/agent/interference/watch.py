"""Joins collector, latency probe and metrics for one agent, and logs what is not measured and why.

Metrics are set when somebody scrapes. What is not known has no series.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

from corewise.agent.interference.collector import OTHER_KERNEL, CollectedSeries, Collector, is_own_kernel
from corewise.agent.interference.latency import LatencyProbe, ProbeThread
from corewise.config.interference.metrics import Metric
from corewise.kernel.host_files import HostFiles
from corewise.kernel.memory_latency import load_chase
from corewise.kernel.perf import KernelPerf
from corewise.kube.clock import Clock
from corewise.prometheus.exposition import Exposition
from corewise.service.logs import fields
from corewise.service.program import Heartbeats
from corewise.vocabulary import metrics
from corewise.vocabulary.findings import Finding
from corewise.vocabulary.reasons import Reason

log = logging.getLogger(__name__)

SUPPORTED = "ok"

_PASSING = frozenset(
    {Reason.RESCTRL_NO_VALUE, Reason.UNCORE_NO_VALUE, Reason.PERF_NO_VALUE, Reason.LATENCY_NOT_YET}
)
"""Reasons that come and go by themselves; the metric has them, the log only at level debug."""

_OFF = Finding(Reason.LATENCY_PROBE_OFF, "--no-latency-probe")


class InterferenceWatch:
    """The measurements of one agent on its node. Without ``latency_interval``, memory is not probed."""

    def __init__(
        self, node: str, root: Path, *, latency_interval: float | None, metrics: Exposition, clock: Clock
    ) -> None:
        self._node = node
        self._metrics = metrics
        self._logged: Mapping[Metric, Finding] = {}
        self._collector = Collector(root, KernelPerf() if is_own_kernel(root) else None)
        self._thread: ProbeThread | None = None
        self._probe = self._make_probe(root, latency_interval, clock)

    async def run(self, heartbeats: Heartbeats) -> None:
        """Begin to count, and probe until canceled, if there is anything to probe with."""
        self.read()
        if not isinstance(self._probe, Finding):
            await self._probe.run(heartbeats)

    def read(self) -> dict[Metric, CollectedSeries]:
        latency = self._probe if isinstance(self._probe, Finding) else self._probe.latest()
        readings = self._collector.read(latency)
        self._log({metric: each for metric, each in readings.items() if isinstance(each, Finding)})
        return readings

    def publish(self) -> None:
        publish(self.read(), self._node, self._metrics)

    def close(self) -> None:
        self._collector.close()
        if self._thread is not None:
            self._thread.close()

    def _make_probe(self, root: Path, interval: float | None, clock: Clock) -> LatencyProbe | Finding:
        if interval is None:
            return _OFF
        chase = load_chase() if is_own_kernel(root) else OTHER_KERNEL
        if isinstance(chase, Finding):
            return chase
        self._thread = ProbeThread(chase, HostFiles(root))
        return LatencyProbe(self._thread.measure, interval=interval, clock=clock)

    def _log(self, absent: Mapping[Metric, Finding]) -> None:
        """Log what has come to be missing, or to be there: once, with the reason."""
        for metric, each in absent.items():
            before = self._logged.get(metric)
            if before is None or before.reason is not each.reason:
                facts = fields(node=self._node, metric=metric.value, reason=each.reason)
                log.log(_level(each), "%s is not measured: %s", metric, each.message, extra=facts)
        for metric in self._logged.keys() - absent.keys():
            facts = fields(node=self._node, metric=metric.value)
            log.log(_level(self._logged[metric]), "%s is measured", metric, extra=facts)
        self._logged = dict(absent)


def _level(absent: Finding) -> int:
    return logging.DEBUG if absent.reason in _PASSING else logging.INFO


def publish(readings: Mapping[Metric, CollectedSeries], node: str, exposition: Exposition) -> None:
    """Set everything that a node exports. What is not known has no series."""
    supported: dict[tuple[str, ...], float] = {}
    for metric, reading in readings.items():
        for index, exported in enumerate(metric.spec.exports):
            values = {} if isinstance(reading, Finding) else reading[index]
            exposition.replace(exported, {(node, *labels): value for labels, value in values.items()})
        reason = str(reading.reason) if isinstance(reading, Finding) else SUPPORTED
        supported[node, metric.value, reason] = float(reason == SUPPORTED)
    exposition.replace(metrics.NODE_METRIC_SUPPORTED, supported)
