"""Metrics as Prometheus reads them: registered from the table in ``vocabulary.metrics``, and nothing else.

A program makes one ``Exposition``, counts and observes by the table's rows, and serves ``text()``. Gauges of
many series (one per node) are set as a whole with ``replace``, so that series of nodes that are gone vanish;
so are counters whose totals somebody else keeps.
Source: https://prometheus.io/docs/instrumenting/exposition_formats/
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.core import Metric as Family
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from corewise.vocabulary.metrics import ExportedMetric, MetricType

CONTENT_TYPE = CONTENT_TYPE_LATEST

# A second series beside every counter, with its creation time, would say nothing that restarts don't.
disable_created_metrics()  # type: ignore[no-untyped-call]  # the library leaves it untyped

SeriesValues = Mapping[tuple[str, ...], float]


class Exposition:
    """The metrics of one program, in a registry of their own."""

    def __init__(self, table: Iterable[ExportedMetric]) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._counters: dict[ExportedMetric, Counter] = {}
        self._histograms: dict[ExportedMetric, Histogram] = {}
        self._stated = _Stated()
        for metric in table:
            self._register(metric)
        self._registry.register(self._stated)

    def count(self, metric: ExportedMetric, *labels: str, by: int = 1) -> None:
        """Add to a counter; ``labels`` in the order of the table."""
        counter = self._counters[metric]
        (counter.labels(*labels) if metric.labels else counter).inc(by)

    def observe(self, metric: ExportedMetric, value: float, *labels: str) -> None:
        """Add an observation to a histogram."""
        histogram = self._histograms[metric]
        (histogram.labels(*labels) if metric.labels else histogram).observe(value)

    def set(self, metric: ExportedMetric, value: float, *labels: str) -> None:
        """Set one series of a gauge, or of a counter that is tallied elsewhere."""
        self._stated.series[metric][labels] = value

    def replace(self, metric: ExportedMetric, series: SeriesValues) -> None:
        """Set all series of a gauge or tallied counter at once; those not named vanish."""
        self._stated.series[metric] = dict(series)

    def value(self, metric: ExportedMetric, *labels: str) -> float:
        """Return one series as it stands; 0.0 if it has none. A histogram's value is its count."""
        if metric in self._stated.series:
            return self._stated.series[metric].get(labels, 0.0)
        name = metric.name + ("_count" if metric.type is MetricType.HISTOGRAM else "")
        found = self._registry.get_sample_value(name, dict(zip(metric.labels, labels, strict=True)))
        return found or 0.0

    def text(self) -> bytes:
        """Return all metrics in the text format."""
        return generate_latest(self._registry)

    def _register(self, metric: ExportedMetric) -> None:
        match metric.type:
            case MetricType.COUNTER if not metric.tallied:
                self._counters[metric] = Counter(
                    metric.name, metric.meaning, metric.labels, registry=self._registry
                )
            case MetricType.HISTOGRAM:
                self._histograms[metric] = Histogram(
                    metric.name,
                    metric.meaning,
                    metric.labels,
                    buckets=metric.buckets,
                    registry=self._registry,
                )
            case _:
                self._stated.series[metric] = {} if metric.labels else {(): 0.0}


class _Stated:
    """Collects what is set rather than counted from plain dicts: cheap for thousands of series."""

    def __init__(self) -> None:
        self.series: dict[ExportedMetric, dict[tuple[str, ...], float]] = {}

    def collect(self) -> Iterable[Family]:
        for metric, series in self.series.items():
            kind = CounterMetricFamily if metric.tallied else GaugeMetricFamily
            family = kind(metric.name, metric.meaning, labels=metric.labels)
            for labels, value in series.items():
                family.add_metric(labels, value)
            yield family
