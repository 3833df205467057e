"""Every metric of the table is exposed in the form Prometheus reads."""

from prometheus_client.parser import text_string_to_metric_families

from corewise.prometheus.exposition import Exposition
from corewise.vocabulary import metrics
from corewise.vocabulary.metrics import LEADER, METRICS, WEBHOOK_SECONDS, MetricType


def test_table_names_every_metric_once_by_the_rules() -> None:
    names = [metric.name for metric in METRICS]
    assert len(set(names)) == len(names)
    for metric in METRICS:
        assert metric.name.startswith("corewise_")
        assert metric.name.endswith("_total") == (metric.type is MetricType.COUNTER)
        assert metric.meaning.endswith(".")


def test_every_table_metric_is_exposed_and_parses() -> None:
    exposition = Exposition(METRICS)
    families = {family.name for family in text_string_to_metric_families(exposition.text().decode())}
    assert families == {metric.name.removesuffix("_total") for metric in METRICS}


def test_counters_histograms_and_gauges_keep_values_by_label() -> None:
    exposition = Exposition(METRICS)
    exposition.count(metrics.WRITES, "PatchNode", "ok", by=2)
    exposition.count(metrics.HEARTBEATS_QUIETED)
    exposition.observe(WEBHOOK_SECONDS, 0.0003, "node-status")
    exposition.set(LEADER, 1)
    exposition.set(metrics.NODE_PROBLEM, 1, "n1", "UnknownCPUModel")
    assert exposition.value(metrics.WRITES, "PatchNode", "ok") == 2
    assert exposition.value(metrics.HEARTBEATS_QUIETED) == 1
    assert exposition.value(WEBHOOK_SECONDS, "node-status") == 1
    assert exposition.value(LEADER) == 1
    assert 'corewise_node_problem{node="n1",reason="UnknownCPUModel"} 1.0' in exposition.text().decode()


def test_replacing_a_gauge_drops_series_of_departed_nodes() -> None:
    exposition = Exposition(METRICS)
    exposition.replace(metrics.NODE_NORMALIZATION_RATIO, {("n1",): 1.2, ("n2",): 1.0})
    exposition.replace(metrics.NODE_NORMALIZATION_RATIO, {("n2",): 1.5})
    assert exposition.value(metrics.NODE_NORMALIZATION_RATIO, "n1") == 0
    assert 'node="n1"' not in exposition.text().decode()
    assert exposition.value(metrics.NODE_NORMALIZATION_RATIO, "n2") == 1.5


def test_label_values_are_escaped() -> None:
    exposition = Exposition(METRICS)
    exposition.set(metrics.NODE_RAW_CPU, 4, 'a"b\\c\nd')
    (sample,) = [
        sample
        for family in text_string_to_metric_families(exposition.text().decode())
        for sample in family.samples
        if sample.name == metrics.NODE_RAW_CPU.name
    ]
    assert sample.labels == {"node": 'a"b\\c\nd'}


def test_node_program_labels_every_series_with_node_once() -> None:
    exposition = Exposition(METRICS, node="n1")
    exposition.count(metrics.NRI_REQUESTS, "CreateContainer", "answered")
    exposition.observe(metrics.AGENT_LOOP_SECONDS, 0.1, "quotas")
    exposition.set(metrics.NODE_CPUS_ONLINE, 8, "n1")
    samples = [
        sample
        for family in text_string_to_metric_families(exposition.text().decode())
        for sample in family.samples
    ]
    assert {sample.labels["node"] for sample in samples} == {"n1"}
    assert exposition.value(metrics.NRI_REQUESTS, "CreateContainer", "answered") == 1
    assert exposition.value(metrics.AGENT_LOOP_SECONDS, "quotas") == 1
    assert metrics.RATIO_UNREADABLE.name in {sample.name for sample in samples}
