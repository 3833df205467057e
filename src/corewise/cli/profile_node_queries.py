"""The pressure on nodes over a time, from Prometheus: by the queries with which the scheduler asks for it."""

from __future__ import annotations

from collections.abc import Mapping

from corewise.cli.profile_file import Points, series_of
from corewise.config.interference import InterferenceConfiguration, Metric
from corewise.config.interference import Series as Measured
from corewise.interference.history import Series
from corewise.prometheus.client import PrometheusClient
from corewise.prometheus.ranges import RangeSeries, query_range
from corewise.scheduler.observing.readings import NodeNames
from corewise.scheduler.observing.sources import Source, sources

_METRICS = frozenset(str(metric) for metric in Metric)
_AGAINST = {
    Measured.MEMORY_BANDWIDTH_CAPACITY: Metric.MEMORY_BANDWIDTH,
    Measured.MEMORY_LATENCY_IDLE: Metric.MEMORY_LATENCY,
    Measured.LLC_CAPACITY: Metric.LLC_OCCUPANCY,
}


async def node_series(
    client: PrometheusClient,
    settings: InterferenceConfiguration,
    nodes: NodeNames,
    *,
    start: float,
    end: float,
    step: float,
) -> dict[str, Mapping[str, Series]]:
    """Return the series of each node by metric; those that nobody can tell apart are left out.

    Raises:
        PrometheusError: if there is no answer.
    """
    found: dict[str, dict[str, Points]] = {name: {} for name in nodes.names}
    for source in _asked(settings):
        answer = await query_range(client, source.query, start=start, end=end, step=step)
        for name, points in _by_node(source, nodes, answer).items():
            found[name][str(source.series)] = points
    return {name: series_of(points) for name, points in found.items()}


async def node_measures(
    client: PrometheusClient, settings: InterferenceConfiguration, nodes: NodeNames
) -> dict[str, dict[str, float]]:
    """Return what each node's values are a share of, by metric; nothing unless ``relative`` is configured.

    Raises:
        PrometheusError: if there is no answer.
    """
    found: dict[str, dict[str, float]] = {name: {} for name in nodes.names}
    for source in sources(settings) if settings.relative else ():
        metric = _AGAINST.get(source.series)
        answer = await client.query(source.query) if metric else None
        for sample in answer.samples if answer else ():
            place = nodes.place(sample.labels.get(source.node_label, ""))
            if place is not None and sample.value > 0:
                found[nodes.names[place]][str(metric)] = sample.value * source.factor
    return found


def _asked(settings: InterferenceConfiguration) -> list[Source]:
    return [source for source in sources(settings) if str(source.series) in _METRICS]


def _by_node(source: Source, nodes: NodeNames, answer: tuple[RangeSeries, ...]) -> dict[str, Points]:
    by_place: dict[int, list[RangeSeries]] = {}
    for series in answer:
        place = nodes.place(series.labels.get(source.node_label, ""))
        if place is not None:
            by_place.setdefault(place, []).append(series)
    return {
        nodes.names[place]: [(at, value * source.factor) for at, value in only[0].points]
        for place, only in by_place.items()
        if len(only) == 1
    }
