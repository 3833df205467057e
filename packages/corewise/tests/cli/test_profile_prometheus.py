"""``corewise profile`` against a real Prometheus, which has kept two days of a cluster."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from corewise.cli import corewise
from corewise.cli.profile_history import HistoryOptions, ask, exported_label, pod_of
from corewise.config.interference.metrics import Metric
from corewise.config.interference.model import InterferenceConfiguration
from corewise.config.interference.reading import parse_interference
from corewise.interference.history import THROTTLED, History, PodRecord, TimeSeries
from corewise.vocabulary.metrics import CONTAINER_RATIO, NODE_NORMALIZATION_RATIO
from interference.simulated_history import HOURS, STEP, USE, Planted, planted_history
from prometheus.fake_prometheus import fake_prometheus
from prometheus_binary import PROMTOOL, PrometheusServer, needs_prometheus, needs_promtool, running

PLANTED = {
    Metric.MEMORY_BANDWIDTH: 70,
    Metric.MEMORY_LATENCY: 20,
    Metric.LLC_OCCUPANCY: 0,
    Metric.CPU: 40,
}
WITHIN = 15
"""Points: half the runs of the other tests, and rates over five minutes."""

CPUS = 32.0
SPAN = HOURS * 3600


def shifted(history: History, by: float) -> History:
    """The same history at another time."""
    return History(
        history.start + by,
        history.end + by,
        {name: {m: _later(s, by) for m, s in node.items()} for name, node in history.nodes.items()},
        [
            replace(
                pod,
                start=pod.start + by,
                end=None if pod.end is None else pod.end + by,
                use={what: _later(series, by) for what, series in pod.use.items()},
            )
            for pod in history.pods
        ],
    )


def _later(series: TimeSeries, by: float) -> TimeSeries:
    return TimeSeries(series.times + by, series.values)


def gauge(name: str, labels: str, series: TimeSeries, every: int = 2) -> Iterator[str]:
    for at, value in zip(series.times[::every].tolist(), series.values[::every].tolist(), strict=True):
        yield f"{name}{{{labels}}} {value!r} {at:.3f}"


def counter(name: str, labels: str, series: TimeSeries, factor: float = 1.0) -> Iterator[str]:
    """Samples of a counter that grows by the values."""
    total = np.concatenate([[0.0], np.cumsum(series.values * STEP * factor)[:-1]])
    yield from gauge(name, labels, TimeSeries(series.times, total))


def openmetrics(history: History) -> Iterator[str]:
    """The history as agents, cAdvisor and kube-state-metrics would have exported it."""
    families: dict[str, list[str]] = {}

    def put(lines: Iterator[str] | list[str]) -> None:
        for line in lines:
            families.setdefault(line.partition("{")[0], []).append(line)

    for name, node in history.nodes.items():
        own = f'node="{name}"'
        put(counter("corewise_node_memory_traffic_bytes_total", own, node[Metric.MEMORY_BANDWIDTH]))
        put(counter("corewise_node_cpu_busy_seconds_total", own, node[Metric.CPU], CPUS))
        put(gauge("corewise_node_llc_occupancy_bytes", own, node[Metric.LLC_OCCUPANCY]))
        latency = node[Metric.MEMORY_LATENCY]
        put(gauge("corewise_node_memory_latency_seconds", f'{own},numa_node="0"', latency))
        cpus = TimeSeries(latency.times, np.full_like(latency.times, CPUS))
        put(gauge("corewise_node_cpus_online", own, cpus))
    for pod in history.pods:
        put(_of_pod(pod))
    for name, lines in families.items():
        yield f"# TYPE {name} unknown"
        yield from lines
    yield "# EOF"


def _of_pod(pod: PodRecord) -> Iterator[str]:
    namespace, name = pod.name.split("/")
    own = f'namespace="{namespace}",pod="{name}",uid="uid-{name}"'
    states: Mapping[str, tuple[str, float]] = {
        "kube_pod_labels": (f'{own},label_app="{pod.type}"', 1.0),
        "kube_pod_info": (f'{own},node="{pod.node}",host_ip="10.0.0.1"', 1.0),
        "kube_pod_start_time": (own, pod.start),
        "kube_pod_completion_time": (own, pod.end or 0.0),
        "kube_pod_status_phase": (f'{own},phase="Succeeded"', 1.0),
    }
    for metric, (labels, value) in states.items():
        yield f"{metric}{{{labels}}} {value!r} {pod.end or pod.start:.3f}"
    container = f'namespace="{namespace}",pod="{name}",container="main"'
    yield from counter("container_cpu_usage_seconds_total", container, pod.use["cpu"])
    yield from gauge("container_memory_working_set_bytes", container, pod.use["memory"])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrometheusServer]:
    folder = tmp_path_factory.mktemp("history")
    planted = planted_history(Planted({"sort": PLANTED}, runs=100, nodes=6))
    text = folder / "history.om"
    text.write_text("\n".join(openmetrics(shifted(planted, time.time() - SPAN - 600))) + "\n")
    backfill = [str(PROMTOOL), "tsdb", "create-blocks-from", "openmetrics", str(text), str(folder / "data")]
    subprocess.run(backfill, check=True, capture_output=True)
    with running(folder, [], every="60s") as found:
        yield found


@needs_prometheus
@needs_promtool
def test_profiles_and_affinities_are_recovered_from_prometheus_data(
    server: PrometheusServer, tmp_path: Path
) -> None:
    kept = tmp_path / "kept.json"
    arguments = ["--prometheus", server.url, "--range", "3d", "--save-history", str(kept), "-o", "yaml"]
    result = CliRunner().invoke(corewise, ["profile", *arguments])
    assert result.exit_code == 0, result.output
    parsed = parse_interference(result.stdout)
    assert parsed.value is not None
    found = parsed.value.profiles["sort"]
    missed = {metric: found.affinity[metric] - value for metric, value in PLANTED.items()}
    assert max(map(abs, missed.values())) <= WITHIN, missed
    assert found.affinity[Metric.LLC_MPKI] == 50, "no one exported it: the default"
    assert found.profile.cpu == pytest.approx(1000 * USE["cpu"], rel=0.05)
    assert found.profile.memory == pytest.approx(USE["memory"], rel=0.05)
    again = CliRunner().invoke(corewise, ["profile", "--history", str(kept), "-o", "yaml"])
    assert again.stdout.splitlines()[1:] == result.stdout.splitlines()[1:], "the file says the same"


@needs_prometheus
@needs_promtool
def test_unexported_label_leaves_no_pods(server: PrometheusServer, tmp_path: Path) -> None:
    config = tmp_path / "scheduler.yaml"
    config.write_text("interference: {typeLabel: example.com/kind}\n")
    result = CliRunner().invoke(corewise, ["profile", "--prometheus", server.url, "--config", str(config)])
    assert "no pods of any type" in str(result.exception)


async def test_pod_end_and_pod_removal_are_distinguished() -> None:
    now = time.time()
    seen = {"done": now, "killed": now, "vanished": now - 7200, "running": now, "untyped": now}

    def of(pod: str, **more: str) -> dict[str, str]:
        return {"namespace": "default", "pod": pod, **more}

    answers: dict[str, list[tuple[Mapping[str, str], float]]] = {
        "last_over_time(kube_pod_labels": [
            (of(pod, label_app="sort"), 1) for pod in seen if pod != "untyped"
        ],
        "last_over_time(kube_pod_info": [(of(pod, node="n1", host_ip="10.0.0.1"), 1) for pod in seen],
        "last_over_time(kube_pod_start_time": [(of(pod), now - 9000) for pod in seen],
        "last_over_time(kube_pod_completion_time": [(of("done"), now - 60), (of("killed"), now - 90)],
        "max_over_time(timestamp(kube_pod_info": [(of(pod), at) for pod, at in seen.items()],
        "max_over_time(kube_pod_status_phase": [(of("done"), 1)],
        "rate(container_cpu_cfs_throttled_periods_total": [(of("done"), 0.4)],
        "sum by (namespace, pod) (rate(container_cpu_usage": [(of("done"), 2.5), (of("untyped"), 1.0)],
        f"max_over_time({CONTAINER_RATIO.name}": [
            ({**of("done"), "container": "a"}, 1.2),
            ({**of("done"), "container": "ended"}, 1.0),
        ],
        f"max by (node) ({NODE_NORMALIZATION_RATIO.name})": [({"node": "n1"}, 1.5)],
        "cpu_busy": [({"node": "n1"}, 0.25), ({"node": "n2"}, 0.5)],
    }

    def answer(query: str) -> list[tuple[Mapping[str, str], float]]:
        return next((found for part, found in answers.items() if part in query), [])

    async with fake_prometheus(answer) as server:
        found = await ask(server.url, InterferenceConfiguration(), HistoryOptions(span=86_400, step=300))
    pods = {pod.name.removeprefix("default/"): pod for pod in found.pods}
    assert list(pods) == ["done", "killed", "running", "vanished"], "one without a type is left out"
    assert {pod.node for pod in found.pods} == {"n1"}
    ends = {name: pod.end for name, pod in pods.items()}
    assert ends == {"done": pytest.approx(now - 60), "killed": None, "running": None, "vanished": None}
    gone = {name: pod.gone for name, pod in pods.items()}
    assert gone == {
        "done": pytest.approx(now - 60),
        "killed": pytest.approx(now - 90),
        "running": None,
        "vanished": pytest.approx(now - 7200),
    }
    assert pods["done"].use["cpu"].values.tolist() == [2.5]
    assert pods["done"].use[THROTTLED].values.tolist() == [0.4]
    assert (pods["done"].ratio, pods["killed"].ratio) == (1.2, None)
    assert pods["killed"].use == {}
    assert found.speed == {"n1": 1.5}
    assert found.nodes.keys() == {"n1"}, "nodes without pods of a type are not in it"
    assert found.nodes["n1"]["cpu"].values.tolist() == [0.25]


def test_series_belongs_to_described_pod_not_the_exporter() -> None:
    assert pod_of({"namespace": "default", "pod": "sort-1"}) == ("default", "sort-1")
    scraped = {"namespace": "monitoring", "pod": "kube-state-metrics-0"}
    moved = {"exported_namespace": "default", "exported_pod": "sort-1"}
    assert pod_of(scraped | moved) == ("default", "sort-1")


@pytest.mark.parametrize(
    ("label", "exported"),
    [
        ("app", "label_app"),
        ("app.kubernetes.io/name", "label_app_kubernetes_io_name"),
        ("jobType", "label_job_type"),
    ],
)
def test_labels_are_named_as_kube_state_metrics_does(label: str, exported: str) -> None:
    assert exported_label(label) == exported
