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

Labels = tuple[str, ...]
SeriesValues = Mapping[Labels, float]
_NODE = "node"


class Exposition:
    """The metrics of one program, in a registry of their own.

    With ``node``, every series has the label ``node``: a program of one node says which
    one, whoever scrapes it.
    """

    def __init__(self, table: Iterable[ExportedMetric], *, node: str = "") -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._node = node
        self._counters: dict[ExportedMetric, Counter] = {}
        self._histograms: dict[ExportedMetric, Histogram] = {}
        self._stated: dict[ExportedMetric, dict[Labels, float]] = {}
        for metric in table:
            self._register(metric)
        self._registry.register(self)

    def count(self, metric: ExportedMetric, *labels: str, by: int = 1) -> None:
        """Add to a counter; ``labels`` in the order of the table."""
        counter, values = self._counters[metric], self._values(metric, labels)
        (counter.labels(*values) if values else counter).inc(by)

    def observe(self, metric: ExportedMetric, value: float, *labels: str) -> None:
        """Add an observation to a histogram."""
        histogram, values = self._histograms[metric], self._values(metric, labels)
        (histogram.labels(*values) if values else histogram).observe(value)

    def set(self, metric: ExportedMetric, value: float, *labels: str) -> None:
        """Set one series of a gauge, or of a counter that is tallied elsewhere."""
        self._stated[metric][labels] = value

    def replace(self, metric: ExportedMetric, series: SeriesValues) -> None:
        """Set all series of a gauge or tallied counter at once; those not named vanish."""
        self._stated[metric] = dict(series)

    def value(self, metric: ExportedMetric, *labels: str) -> float:
        """Return one series as it stands; 0.0 if it has none. A histogram's value is its count."""
        if metric in self._stated:
            return self._stated[metric].get(labels, 0.0)
        name = metric.name + ("_count" if metric.type is MetricType.HISTOGRAM else "")
        series = dict(zip(self._names(metric), self._values(metric, labels), strict=True))
        return self._registry.get_sample_value(name, series) or 0.0

    def text(self) -> bytes:
        """Return all metrics in the text format."""
        return generate_latest(self._registry)

    def collect(self) -> Iterable[Family]:
        """Yield the series that are set, not counted, from plain dicts: cheap for thousands of series."""
        for metric, series in self._stated.items():
            kind = CounterMetricFamily if metric.tallied else GaugeMetricFamily
            family = kind(metric.name, metric.meaning, labels=self._names(metric))
            for labels, value in series.items():
                family.add_metric(self._values(metric, labels), value)
            yield family

    def _register(self, metric: ExportedMetric) -> None:
        names = self._names(metric)
        match metric.type:
            case MetricType.COUNTER if not metric.tallied:
                self._counters[metric] = Counter(metric.name, metric.meaning, names, registry=self._registry)
                if not metric.labels:
                    self.count(metric, by=0)
            case MetricType.HISTOGRAM:
                self._histograms[metric] = Histogram(
                    metric.name, metric.meaning, names, buckets=metric.buckets, registry=self._registry
                )
            case _:
                self._stated[metric] = {} if metric.labels else {(): 0.0}

    def _names(self, metric: ExportedMetric) -> Labels:
        return metric.labels if not self._node or _NODE in metric.labels else (*metric.labels, _NODE)

    def _values(self, metric: ExportedMetric, labels: Labels) -> Labels:
        return labels if not self._node or _NODE in metric.labels else (*labels, self._node)
