"""Alerts, recording rules and the dashboards speak of what corewise exports, as it exports it.

| a query may | else |
|---|---|
| name metrics of vocabulary/metrics, and records of the rules | the panel is empty and no one notices |
| match and group by their labels, and those that a scrape adds | likewise |
| compare a label with values that the metric's meaning lists | likewise |
| rate counters, and only counters; average gauges over time, and only gauges | the figure is nonsense |
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from commands.test_documents import anchors
from corewise.vocabulary.metrics import AGENT, METRICS, ExportedMetric, MetricType
from corewise.vocabulary.reasons import Reason
from monitoring.promql import Query, Selector, parse
from prometheus_binary import PROMTOOL, needs_promtool

ROOT = Path(__file__).parents[2]
MONITORING = ROOT / "deploy" / "monitoring"
KUBELET = MONITORING / "kubelet"
RULE_FILES = sorted([*MONITORING.glob("*-alerts.yaml"), *MONITORING.glob("*-rules.yaml")])
DASHBOARDS = {path.stem: json.loads(path.read_text()) for path in sorted(MONITORING.glob("*dashboard.json"))}
CASES = sorted(Path(__file__).parent.glob("*_alerts_cases.yaml"))
BY_NAME = {metric.name: metric for metric in METRICS}
BY_SCRAPE = {"instance", "job"}
"""Labels of every series, by the scrape; agents add their node."""
OF_COUNTERS = {"rate", "increase", "irate", "resets"}
OF_GAUGES = {"avg_over_time", "changes", "last_over_time", "min_over_time"}
LABEL_VALUES = re.compile(r"label_values\((\w+), (\w+)\)")


def rules(path: Path) -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(path.read_text())["groups"] for rule in group["rules"]]


def panels(dashboard: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def expressions() -> Iterator[tuple[str, str]]:
    for path in RULE_FILES:
        for rule in rules(path):
            yield f"{path.stem}: {rule.get('alert') or rule['record']}", rule["expr"]
    for name, dashboard in DASHBOARDS.items():
        for panel in panels(dashboard):
            for target in panel["targets"]:
                yield f"{name}: {panel['title']}: {target['refId']}", target["expr"]


EXPRESSIONS = dict(expressions())
RECORDED = {rule["record"] for path in RULE_FILES for rule in rules(path) if "record" in rule}
each_dashboard = pytest.mark.parametrize("dashboard", DASHBOARDS.values(), ids=DASHBOARDS)
each_query = pytest.mark.parametrize("query", [parse(text) for text in EXPRESSIONS.values()], ids=EXPRESSIONS)


def metric_of(selector: Selector) -> ExportedMetric:
    name = selector.metric
    if name in BY_NAME:
        assert BY_NAME[name].type is not MetricType.HISTOGRAM, f"{name} has only _bucket, _sum and _count"
        return BY_NAME[name]
    base, _, part = name.rpartition("_")
    assert base in BY_NAME, f"corewise exports no {name}"
    assert BY_NAME[base].type is MetricType.HISTOGRAM, f"corewise exports no {name}"
    assert part in {"bucket", "sum", "count"}
    return BY_NAME[base]


def labels_of(metric: ExportedMetric) -> set[str]:
    return {*metric.labels, *(["node"] if AGENT in metric.exported_by.split(", ") else ())}


def exported(query: Query) -> Iterator[tuple[Selector, ExportedMetric]]:
    for selector in query.selectors:
        if selector.metric not in RECORDED:
            yield selector, metric_of(selector)


@each_query
def test_every_metric_is_exported_with_the_queried_labels(query: Query) -> None:
    assert query.selectors
    labels = set(BY_SCRAPE)
    for selector, metric in exported(query):
        own = {*labels_of(metric), *({"le"} if selector.metric.endswith("_bucket") else ())}
        assert {label for label, _, _ in selector.matchers} <= own | BY_SCRAPE
        labels |= own
    assert query.grouped <= labels


@each_query
def test_label_values_are_among_those_the_metric_lists(query: Query) -> None:
    for selector, metric in exported(query):
        for label, operator, value in selector.matchers:
            if label in metric.labels and operator in {"=", "!="}:
                known = value in set(Reason) or re.search(rf"\b{re.escape(value)}\b", metric.meaning)
                assert known, f"{metric.name}: {value}"


@each_query
def test_counters_are_rated_and_nothing_else_is(query: Query) -> None:
    for selector, metric in exported(query):
        counts = metric.type is not MetricType.GAUGE
        assert (selector.inside in OF_COUNTERS) == counts, selector.metric
        assert selector.ranged == (counts or selector.inside in OF_GAUGES), selector.metric


def alerts() -> Iterable[Mapping[str, Any]]:
    return [rule for path in RULE_FILES for rule in rules(path) if "alert" in rule]


@pytest.mark.parametrize("alert", alerts(), ids=lambda alert: alert["alert"])
def test_every_alert_has_a_description_and_runbook_link(alert: Mapping[str, Any]) -> None:
    assert alert["labels"]["severity"] in {"warning", "critical"}
    assert re.fullmatch("[1-9][0-9]*[mh]", alert["for"])
    assert {"summary", "description", "runbook_url"} == set(alert["annotations"])
    page, _, section = alert["annotations"]["runbook_url"].partition("#")
    assert section in anchors(ROOT / page)
    told = set(re.findall(r"corewise_[a-z_]+", " ".join(alert["annotations"].values())))
    assert told <= set(BY_NAME)
    used = set(re.findall(r"\$labels\.(\w+)", " ".join(alert["annotations"].values())))
    query = parse(alert["expr"])
    labels = BY_SCRAPE.union(*(labels_of(metric) for _, metric in exported(query)))
    kept = query.grouped if re.match(r"\s*\(?(min|max|sum|count)\b", alert["expr"]) else labels
    assert used <= kept


def test_alerts_have_names_of_their_own() -> None:
    names = [alert["alert"] for alert in alerts()]
    assert len(set(names)) == len(names) > 0


@each_dashboard
def test_panels_do_not_overlap_and_have_descriptions(dashboard: Mapping[str, Any]) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in dashboard["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not taken & cells, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells
    assert all(panel["description"] for panel in panels(dashboard))
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(ids)) == len(ids)


@each_dashboard
def test_every_panel_variable_comes_from_an_existing_series(
    dashboard: Mapping[str, Any],
) -> None:
    defined = {each["name"]: each for each in dashboard["templating"]["list"]}
    built_in = {"__rate_interval"}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(panels(dashboard))))
    assert used - built_in == set(defined)
    for variable in (each for each in defined.values() if each["type"] == "query"):
        match = LABEL_VALUES.fullmatch(variable["query"])
        assert match
        assert match[1] in BY_NAME
        assert match[2] in labels_of(BY_NAME[match[1]])


def promtool(*arguments: str) -> None:
    assert PROMTOOL
    done = subprocess.run([PROMTOOL, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@needs_promtool
@pytest.mark.parametrize("path", RULE_FILES, ids=lambda path: path.name)
def test_prometheus_takes_the_rule_files(path: Path) -> None:
    promtool("check", "rules", str(path))


@needs_promtool
def test_prometheus_takes_the_queries_of_the_dashboards(tmp_path: Path) -> None:
    queries = [text for name, text in EXPRESSIONS.items() if name.partition(":")[0] in DASHBOARDS]
    recorded = [
        {"record": f"query:{number}", "expr": text.replace("$__rate_interval", "5m")}
        for number, text in enumerate(queries)
    ]
    path = tmp_path / "rules.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": recorded}]}))
    promtool("check", "rules", str(path))


@needs_promtool
@pytest.mark.parametrize("cases", ["interference_cases.yaml", "autoscaling_cases.yaml"])
def test_recording_rules_combine_agent_measurements_into_one_series(cases: str) -> None:
    promtool("test", "rules", str(Path(__file__).parent / cases))


def test_kubelets_pressure_names_a_runbook() -> None:
    """Its series are kubelet's, so what is checked of corewise's does not apply to it."""
    recorded, alert = rules(KUBELET / "pressure.yaml")
    assert parse(recorded["expr"]).grouped <= {"namespace", "pod", "container"}
    assert [each.metric for each in parse(alert["expr"]).selectors] == [recorded["record"]]
    page, _, section = alert["annotations"]["runbook_url"].partition("#")
    assert section in anchors(ROOT / page)


@needs_promtool
def test_pressure_of_throttled_containers_raises_nothing() -> None:
    promtool("test", "rules", str(Path(__file__).parent / "kubelet_pressure_cases.yaml"))


@needs_promtool
@pytest.mark.parametrize("cases", CASES, ids=lambda path: path.name)
def test_alerts_fire_when_they_should_and_only_then(cases: Path) -> None:
    promtool("test", "rules", str(cases))


def test_every_alert_is_raised_in_a_case() -> None:
    raised: set[str] = set()
    for path in CASES:
        for case in yaml.safe_load(path.read_text())["tests"]:
            for expected in case.get("promql_expr_test", ()):
                for sample in expected["exp_samples"]:
                    raised |= set(re.findall(r'alertname="(\w+)"', sample["labels"]))
    assert raised == {alert["alert"] for alert in alerts()}


def test_every_metric_is_in_a_panel_or_alert() -> None:
    queries = [parse(text) for text in EXPRESSIONS.values()]
    used = {metric.name for query in queries for _, metric in exported(query)}
    assert used == BY_NAME.keys()
