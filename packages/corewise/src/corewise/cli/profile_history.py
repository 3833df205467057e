"""Histories for ``corewise profile``: asked from Prometheus, or kept in a file.

=============================  ========================================================================
of pods, kube-state-metrics    kube_pod_labels (the type label must be in its allow list), kube_pod_info,
                               kube_pod_start_time, kube_pod_completion_time, kube_pod_status_phase
of pods, cAdvisor              CPU and memory; periods in which a quota stopped them; with resctrl
                               bandwidth and LLC; with perf events cycles per instruction
of pods, corewise agent        the ratio that divides their quotas
of nodes                       the metrics of the scheduler's configuration, by its preset or PromQL;
                               corewise manager: how fast they are (normalization ratio)
=============================  ========================================================================

Everything but the first row may be missing: without cycles per instruction Jobs are timed, and a use that
is not measured is left out of the profiles.

The file (``--history``, ``--save-history``) is JSON, times in seconds::

    {"start": 0, "end": 604800,
     "nodes": {"n1": {"speed": 1.0, "against": {"memorybandwidth": 1.07e11},
                      "series": {"memorybandwidth": [[0, 4.1e10], [60, 4.3e10]]}}},
     "pods": [{"name": "default/sort-1", "type": "sort", "node": "n1", "start": 30, "end": 1830,
               "use": {"cpu": [[60, 1.9]], "memoryBandwidth": [[60, 5.0e9]]}}]}

Series of nodes are named as the metrics of the configuration are, those of pods as the amounts of a profile
(memoryBandwidth, memory, cpu, llc), ``cpi``, or ``throttled``. ``against``: what the values of a metric are a
share of on this node. ``end`` of a pod is when it finished its work; it is missing if it did not. ``gone`` is
when it stopped running, if that is not its end; ``ratio`` is what its quota was divided by, if that is not
its node's.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec

from corewise.cli.errors import ExitCode, Failure
from corewise.cli.files import decoded
from corewise.config.interference.metrics import LEVEL_LABEL, RANKED, Metric
from corewise.config.interference.model import InterferenceConfiguration
from corewise.interference.analysis import AMOUNTS
from corewise.interference.history import CPI, NEVER_ZERO, THROTTLED, History, PodRecord, TimeSeries
from corewise.prometheus.client import PrometheusClient, RangeSeries, query_range
from corewise.scheduler.observing.readings import NodeIdentity, NodeNames
from corewise.scheduler.observing.sources import Source, sources
from corewise.vocabulary.metrics import CONTAINER_RATIO, NODE_NORMALIZATION_RATIO

Points = list[tuple[float, float]]
_POD_SERIES = (*AMOUNTS, CPI, THROTTLED)


class _Node(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    series: dict[Metric, Points]
    speed: Annotated[float, msgspec.Meta(gt=0)] = 1.0
    against: dict[Metric, Annotated[float, msgspec.Meta(gt=0)]] = msgspec.field(default_factory=dict)


class _Pod(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    type: str
    node: str
    start: float
    end: float | None = None
    use: dict[str, Points] = msgspec.field(default_factory=dict)
    gone: float | None = None
    ratio: Annotated[float, msgspec.Meta(ge=1)] | None = None


class _History(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    start: float
    end: float
    nodes: dict[str, _Node]
    pods: list[_Pod]


def read_history(file: Path) -> History:
    """Read a history.

    Raises:
        Failure: if the file cannot be read or is none.
    """
    hint = "docs/guides/profile.md describes the format"
    return _history(file, decoded(file, msgspec.json.Decoder(_History).decode, "a history", hint))


def write_history(file: Path, history: History) -> None:
    """Write a history.

    Raises:
        Failure: if the file cannot be written.
    """
    nodes = {
        name: _Node(
            {Metric(metric): _points(each) for metric, each in series.items()},
            history.speed.get(name, 1.0),
            {Metric(metric): value for metric, value in history.against.get(name, {}).items()},
        )
        for name, series in history.nodes.items()
    }
    pods = [
        _Pod(
            name=pod.name,
            type=pod.type,
            node=pod.node,
            start=pod.start,
            end=pod.end,
            use={what: _points(each) for what, each in pod.use.items()},
            gone=pod.gone,
            ratio=pod.ratio,
        )
        for pod in history.pods
    ]
    try:
        file.write_bytes(msgspec.json.encode(_History(history.start, history.end, nodes, pods)))
    except OSError as error:
        message = f"{file} cannot be written: {error.strerror}"
        raise Failure(message, exit_code=ExitCode.OUTPUT) from None


def _points(series: TimeSeries) -> Points:
    return list(zip(series.times.tolist(), series.values.tolist(), strict=True))


def _history(file: Path, read: _History) -> History:
    for name, node in read.nodes.items():
        for metric in (*node.series, *node.against):
            if metric not in RANKED:
                known = ", ".join(RANKED)
                raise Failure(f"{file}: nodes.{name} has {metric.value!r}; known are {known}")
    for number, pod in enumerate(read.pods):
        unknown = pod.use.keys() - set(_POD_SERIES)
        if unknown:
            known = ", ".join(_POD_SERIES)
            raise Failure(f"{file}: pods[{number}].use has {min(unknown)!r}; known are {known}")
        if pod.end is not None and pod.end <= pod.start:
            raise Failure(f"{file}: pods[{number}] ({pod.name}) ends before it starts")
    return History(
        start=read.start,
        end=read.end,
        nodes={
            name: series_of({metric.value: points for metric, points in node.series.items()})
            for name, node in read.nodes.items()
        },
        pods=[
            PodRecord(
                pod.name, pod.type, pod.node, pod.start, pod.end, series_of(pod.use), pod.gone, pod.ratio
            )
            for pod in read.pods
        ],
        speed={name: node.speed for name, node in read.nodes.items()},
        against={
            name: {metric.value: value for metric, value in node.against.items()}
            for name, node in read.nodes.items()
        },
    )


def series_of(points: Mapping[str, Points]) -> dict[str, TimeSeries]:
    """Return series of points, without the values that cannot be."""
    return {
        str(name): TimeSeries.of(each, zero_is_missing=name in NEVER_ZERO)
        for name, each in points.items()
        if each
    }


async def node_series(
    client: PrometheusClient,
    settings: InterferenceConfiguration,
    nodes: NodeNames,
    *,
    start: float,
    end: float,
    step: float,
) -> dict[str, Mapping[str, TimeSeries]]:
    """Return the series of each node by metric; ambiguous ones are left out.

    So is the MPKI of nodes that count misses of another level of cache than most: the two do not compare.

    Raises:
        PrometheusError: if there is no answer.
    """
    found: dict[str, dict[str, Points]] = {name: {} for name in nodes.names}
    for source in (each for each in sources(settings) if each.metric in RANKED):
        answer = await query_range(client, source.query, start=start, end=end, step=step)
        if source.metric is Metric.LLC_MPKI:
            levels = [series.labels.get(LEVEL_LABEL) for series in answer]
            commonest = Counter(levels).most_common(1)
            answer = tuple(each for each in answer if each.labels.get(LEVEL_LABEL) == commonest[0][0])
        for name, points in _by_node(source, nodes, answer).items():
            found[name][str(source.metric)] = points
    return {name: series_of(points) for name, points in found.items()}


async def node_measures(
    client: PrometheusClient, settings: InterferenceConfiguration, nodes: NodeNames
) -> dict[str, dict[str, float]]:
    """Return each node's totals that its values are divided by, by metric; empty without ``relative``.

    Raises:
        PrometheusError: if there is no answer.
    """
    found: dict[str, dict[str, float]] = {name: {} for name in nodes.names}
    measured = {metric.spec.reference: metric for metric in RANKED}
    for source in sources(settings) if settings.relative else ():
        metric = measured.get(source.metric)
        answer = await client.query(source.query) if metric else None
        for sample in answer.samples if answer else ():
            place = nodes.place(sample.labels.get(source.node_label, ""))
            if place is not None and sample.value > 0:
                found[nodes.names[place]][str(metric)] = sample.value * source.factor
    return found


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


_TIMEOUT = 120.0
_OTHER = re.compile("[^a-zA-Z0-9_]")
_HUMP = re.compile("([a-z0-9])([A-Z])")
_CONTAINERS = 'container!="",container!="POD"'
_PODS = "sum by (namespace, pod)"
Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class HistoryOptions:
    """The span to look back and the step between values, in seconds."""

    span: float
    step: float


@dataclass(frozen=True, slots=True)
class _Known:
    """A pod as kube-state-metrics knows it. ``address`` is its node's."""

    type: str
    node: str
    address: str
    start: float
    end: float | None
    gone: float | None


async def ask(url: str, settings: InterferenceConfiguration, asked: HistoryOptions) -> History:
    """Ask for everything, until now.

    Raises:
        PrometheusError: if there is no answer.
    """
    end = time.time()
    start = end - asked.span
    async with PrometheusClient(url, timeout=_TIMEOUT) as client:
        known = await _pods(client, settings.type_label, asked)
        use: dict[Key, dict[str, Points]] = {key: {} for key in known}
        for what, promql in use_queries(settings.window).items():
            answer = await query_range(client, promql, start=start, end=end, step=asked.step)
            for each in answer:
                if (key := pod_of(each.labels)) in use:
                    use[key][what] = list(each.points)
        names = _names(known.values())
        against = await node_measures(client, settings, names)
        nodes = await node_series(client, settings, names, start=start, end=end, step=asked.step)
        ratios = await client.query(f"max by (node) ({NODE_NORMALIZATION_RATIO.name})")
        divided_by = await _quota_ratios(client, asked)
    pods = [_record(key, pod, use[key], divided_by.get(key)) for key, pod in sorted(known.items())]
    speed = {each.labels["node"]: each.value for each in ratios.samples if "node" in each.labels}
    return History(start, end, nodes, pods, speed, against)


def use_queries(window: float) -> Mapping[str, str]:
    """Return the PromQL for the usage of pods, as means over a window in seconds."""
    of = f"[{window:.0f}s]"

    def events(name: str) -> str:
        return f'{_PODS} (rate(container_perf_events_total{{{_CONTAINERS},event="{name}"}}{of}))'

    def rate(name: str) -> str:
        return f"rate(container_cpu_{name}_total{{{_CONTAINERS}}}{of})"

    cpu, share = rate("usage_seconds"), f"{rate('cfs_throttled_periods')} / {rate('cfs_periods')}"
    return {
        "cpu": f"{_PODS} ({cpu})",
        "memory": f"{_PODS} (container_memory_working_set_bytes{{{_CONTAINERS}}})",
        "memoryBandwidth": f"{_PODS} (rate(container_memory_bandwidth_bytes{{{_CONTAINERS}}}{of}))",
        "llc": f"{_PODS} (container_llc_occupancy_bytes{{{_CONTAINERS}}})",
        "cpi": f"{events('cycles')} / {events('instructions')}",
        # each container by the CPU time that it uses
        "throttled": f"{_PODS} ({cpu} * ignoring (cpu) ({share})) / {_PODS} ({cpu})",
    }


def exported_label(key: str) -> str:
    """Return the name under which kube-state-metrics exports a label of pods."""
    return "label_" + _HUMP.sub(r"\1_\2", _OTHER.sub("_", key)).lower()


async def _pods(client: PrometheusClient, type_label: str, asked: HistoryOptions) -> dict[Key, _Known]:
    """Return the pods that have a type and a node, by namespace and name."""
    label, over = exported_label(type_label), f"[{asked.span:.0f}s]"

    async def values(promql: str) -> dict[Key, float]:
        return {pod_of(each.labels): each.value for each in (await client.query(promql)).samples}

    types = await client.query(f'last_over_time(kube_pod_labels{{{label}!=""}}{over})')
    homes = await client.query(f'last_over_time(kube_pod_info{{node!=""}}{over})')
    last = await client.query(
        f'max_over_time(timestamp(kube_pod_info{{node!=""}}){over[:-1]}:{asked.step:.0f}s])'
    )
    started = await values(f"last_over_time(kube_pod_start_time{over})")
    stopped = await values(f"last_over_time(kube_pod_completion_time{over})")
    succeeded = await values(f'max_over_time(kube_pod_status_phase{{phase="Succeeded"}}{over}) == 1')
    ended = {key: at for key, at in stopped.items() if key in succeeded}
    unseen = last.at - 2 * asked.step
    stopped = {pod_of(each.labels): each.value for each in last.samples if each.value < unseen} | stopped
    nodes = {
        pod_of(each.labels): (each.labels["node"], each.labels.get("host_ip", "")) for each in homes.samples
    }
    return {
        key: _Known(each.labels[label], *nodes[key], started[key], ended.get(key), stopped.get(key))
        for each in types.samples
        if (key := pod_of(each.labels)) in nodes and key in started
    }


async def _quota_ratios(client: PrometheusClient, asked: HistoryOptions) -> dict[Key, float]:
    """Return the ratios that divided the quotas of pods, 1 for those not divided."""
    found: dict[Key, float] = {}
    answer = await client.query(f"max_over_time({CONTAINER_RATIO.name}[{asked.span:.0f}s])")
    for each in answer.samples:
        key = pod_of(each.labels)
        found[key] = max(each.value, found.get(key, 1.0))
    return found


def _names(pods: Iterable[_Known]) -> NodeNames:
    addresses = {pod.node: pod.address for pod in pods}
    return NodeNames(
        NodeIdentity(name, (addresses[name],) if addresses[name] else ()) for name in sorted(addresses)
    )


def pod_of(labels: Mapping[str, str]) -> Key:
    """Return the pod that a series is about, even where the scrape puts the exporter's own pod first."""
    namespace, pod = (labels.get(f"exported_{name}", labels.get(name, "")) for name in ("namespace", "pod"))
    return namespace, pod


def _record(key: Key, pod: _Known, use: Mapping[str, Points], ratio: float | None) -> PodRecord:
    end = pod.end if pod.end is not None and pod.end > pod.start else None
    return PodRecord("/".join(key), pod.type, pod.node, pod.start, end, series_of(use), pod.gone, ratio)
