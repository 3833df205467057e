"""What ``corewise profile`` asks Prometheus: which pods of which type ran where and when, and what they used.

=============================  ========================================================================
of pods, kube-state-metrics    kube_pod_labels (the type label must be in its allow list), kube_pod_info,
                               kube_pod_start_time, kube_pod_completion_time, kube_pod_status_phase
of pods, cAdvisor              CPU and memory; with resctrl bandwidth and LLC; with perf events
                               cycles per instruction
of nodes                       the metrics of the scheduler's configuration, by its preset or PromQL;
                               corewise manager: how fast they are (normalization ratio)
=============================  ========================================================================

Everything but the first row may be missing: without cycles per instruction Jobs are timed, and what pods
are not seen to use is left out of their profiles.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from corewise.cli.profile_file import Points, series_of
from corewise.cli.profile_node_queries import node_measures, node_series
from corewise.config.interference import InterferenceConfiguration
from corewise.interference.history import History, PodRecord
from corewise.prometheus.client import PrometheusClient, Sample
from corewise.prometheus.ranges import RangeSeries, query_range
from corewise.scheduler.observing.readings import NodeIdentity, NodeNames
from corewise.vocabulary.metrics.manager import NODE_NORMALIZATION_RATIO

_TIMEOUT = 120.0
_OTHER = re.compile("[^a-zA-Z0-9_]")
_HUMP = re.compile("([a-z0-9])([A-Z])")
_CONTAINERS = 'container!="",container!="POD"'
_PODS = "sum by (namespace, pod)"
Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Asked:
    """How far to look back, and how close values are, in seconds."""

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


async def ask(url: str, settings: InterferenceConfiguration, asked: Asked) -> History:
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
            for key, points in _by_pod(answer):
                if key in use:
                    use[key][what] = points
        names = _names(known.values())
        against = await node_measures(client, settings, names)
        nodes = await node_series(client, settings, names, start=start, end=end, step=asked.step)
        ratios = await client.query(f"max by (node) ({NODE_NORMALIZATION_RATIO.name})")
    pods = [_record(key, pod, use[key]) for key, pod in sorted(known.items())]
    speed = {each.labels["node"]: each.value for each in ratios.samples if "node" in each.labels}
    return History(start, end, nodes, pods, speed, against)


def use_queries(window: float) -> Mapping[str, str]:
    """Return the PromQL of what pods used, as means over a window in seconds."""
    of = f"[{window:.0f}s]"

    def events(name: str) -> str:
        return f'{_PODS} (rate(container_perf_events_total{{{_CONTAINERS},event="{name}"}}{of}))'

    return {
        "cpu": f"{_PODS} (rate(container_cpu_usage_seconds_total{{{_CONTAINERS}}}{of}))",
        "memory": f"{_PODS} (container_memory_working_set_bytes{{{_CONTAINERS}}})",
        "memoryBandwidth": f"{_PODS} (rate(container_memory_bandwidth_bytes{{{_CONTAINERS}}}{of}))",
        "llc": f"{_PODS} (container_llc_occupancy_bytes{{{_CONTAINERS}}})",
        "cpi": f"{events('cycles')} / {events('instructions')}",
    }


def exported_label(key: str) -> str:
    """Return the name under which kube-state-metrics exports a label of pods."""
    return "label_" + _HUMP.sub(r"\1_\2", _OTHER.sub("_", key)).lower()


async def _pods(client: PrometheusClient, type_label: str, asked: Asked) -> dict[Key, _Known]:
    """Return the pods that have a type and a node, by namespace and name."""
    label, over = exported_label(type_label), f"[{asked.span:.0f}s]"
    types = await client.query(f'last_over_time(kube_pod_labels{{{label}!=""}}{over})')
    homes = await client.query(f'last_over_time(kube_pod_info{{node!=""}}{over})')
    starts = await client.query(f"last_over_time(kube_pod_start_time{over})")
    ends = await client.query(f"last_over_time(kube_pod_completion_time{over})")
    last = await client.query(
        f'max_over_time(timestamp(kube_pod_info{{node!=""}}){over[:-1]}:{asked.step:.0f}s])'
    )
    done = await client.query(f'max_over_time(kube_pod_status_phase{{phase="Succeeded"}}{over}) == 1')
    nodes = {_key(each): (each.labels["node"], each.labels.get("host_ip", "")) for each in homes.samples}
    started = {_key(each): each.value for each in starts.samples}
    succeeded = {_key(each) for each in done.samples}
    stopped = {_key(each): each.value for each in ends.samples}
    ended = {key: at for key, at in stopped.items() if key in succeeded}
    unseen = last.at - 2 * asked.step
    stopped = {_key(each): each.value for each in last.samples if each.value < unseen} | stopped
    return {
        key: _Known(each.labels[label], *nodes[key], started[key], ended.get(key), stopped.get(key))
        for each in types.samples
        if (key := _key(each)) in nodes and key in started
    }


def _names(pods: Iterable[_Known]) -> NodeNames:
    addresses = {pod.node: pod.address for pod in pods}
    return NodeNames(
        NodeIdentity(name, (addresses[name],) if addresses[name] else ()) for name in sorted(addresses)
    )


def pod_of(labels: Mapping[str, str]) -> Key:
    """Return which pod a series is about, also where the scrape puts the exporter's own pod first."""
    namespace, pod = (labels.get(f"exported_{name}", labels.get(name, "")) for name in ("namespace", "pod"))
    return namespace, pod


def _key(sample: Sample | RangeSeries) -> Key:
    return pod_of(sample.labels)


def _by_pod(answer: Iterable[RangeSeries]) -> Iterable[tuple[Key, Points]]:
    return ((_key(each), list(each.points)) for each in answer)


def _record(key: Key, pod: _Known, use: Mapping[str, Points]) -> PodRecord:
    end = pod.end if pod.end is not None and pod.end > pod.start else None
    return PodRecord("/".join(key), pod.type, pod.node, pod.start, end, series_of(use), pod.gone)
