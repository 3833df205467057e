"""The Grafana dashboards: each file here describes one; tools/generate.py writes its JSON.

A panel is a ``stat`` (its latest value), a ``graph`` or a ``table``; ``measured: true`` stands for one graph
of each metric that the agent measures, by corewise.config.interference.metrics. ``queries`` are PromQL by
legend. In them ``$N`` is ``node=~"$node"``, the chosen nodes, ``$W`` the interval of rates, ``$USABLE`` the
share of the theoretical memory bandwidth that programs get. A value is red from ``bad`` on; where that is
negative, below its amount. A row is 24 wide.

Two replicas, or an agent and its successor, may export the same series for a moment: queries take
``max by (node)`` before they add up. Grafana's own types (grafana-foundation-sdk, made from Grafana's schema)
build the JSON, so it has no field that Grafana does not know.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import yaml
from grafana_foundation_sdk.builders import common, prometheus, stat, table, timeseries
from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import common as style
from grafana_foundation_sdk.models import dashboard as models
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from corewise.config.interference.metrics import METRICS, USABLE_SHARE

FOLDER = Path(__file__).parent
GRAFANA_UNITS = {"none", "percentunit", "s", "bytes", "Bps", "cpm"}
"""All other units are words, which follow the value."""
_SOURCE = models.DataSourceRef(type_val="prometheus", uid="${datasource}")


class Panel(msgspec.Struct, forbid_unknown_fields=True):
    """One panel; its title is the value of its kind."""

    about: str = ""
    queries: dict[str, str] = {}
    stat: str = ""
    graph: str = ""
    table: str = ""
    measured: bool = False
    columns: tuple[str, ...] = ()
    unit: str = "none"
    bad: float | None = None
    width: int = 0
    stacked: bool = False


class Row(msgspec.Struct, forbid_unknown_fields=True):
    """A heading, and the panels below it from left to right."""

    row: str
    panels: tuple[Panel, ...]


class Dashboard(msgspec.Struct, forbid_unknown_fields=True):
    """A dashboard and its question; ``nodes`` is the metric whose nodes can be chosen, empty if none can."""

    title: str
    question: str
    rows: tuple[Row, ...]
    nodes: str = ""


def dashboards() -> dict[str, Dashboard]:
    """Return the dashboards by name, as their files describe them."""
    return {
        path.stem: msgspec.convert(yaml.safe_load(path.read_text(encoding="utf-8")), Dashboard)
        for path in sorted(FOLDER.glob("*.yaml"))
    }


def dashboard_json(name: str, described: Dashboard) -> str:
    """Return a dashboard as Grafana imports it, and as its sidecar takes it from a ConfigMap."""
    links = build.DashboardLink("corewise").type(models.DashboardLinkType.DASHBOARDS).tags(["corewise"])
    made = build.Dashboard(f"corewise: {described.title}").uid(f"corewise-{name}").tags(["corewise"])
    made.description(described.question).timezone("browser").refresh("30s").time("now-1h", "now")
    made.tooltip(models.DashboardCursorSync.CROSSHAIR).link(links.as_dropdown(True).keep_time(True))
    made.with_variable(build.DatasourceVariable("datasource").label("Prometheus").type("prometheus"))
    if described.nodes:
        nodes = build.QueryVariable("node").label("Node").datasource(_SOURCE)
        nodes.query(f"label_values({described.nodes}, node)").multi(True).include_all(True).all_value(".*")
        nodes.refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
        made.with_variable(nodes.sort(models.VariableSort.ALPHABETICAL_ASC))
    for row in described.rows:
        made.with_row(build.Row(row.row))
        for panel in row.panels:
            for each in _measured() if panel.measured else (panel,):
                made.with_panel(_panel(each))
    document = json.loads(json.dumps(made.build(), cls=JSONEncoder))
    for number, each in enumerate(document["panels"], start=1):
        each["id"] = number
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _panel(described: Panel) -> Any:
    if described.stat:
        made = _stat(described)
    elif described.graph:
        made = _graph(described)
    else:
        shown = {"include": {"names": list(described.columns)}}
        made = (
            table.Panel()
            .height(8)
            .with_transformation(models.DataTransformerConfig("filterFieldsByName", options=shown))
        )
    made.title(described.stat or described.graph or described.table).description(described.about)
    made.span(described.width or (4 if described.stat else 8)).datasource(_SOURCE)
    made.unit(described.unit if described.unit in GRAFANA_UNITS else f"suffix: {described.unit}")
    if described.bad is not None:
        below, above = ("green", "red") if described.bad > 0 else ("red", "green")
        steps = [models.Threshold(None, below), models.Threshold(abs(described.bad), above)]
        made.thresholds(build.ThresholdsConfig().mode(models.ThresholdsMode.ABSOLUTE).steps(steps))
    for letter, (legend, promql) in zip("ABCDEF", described.queries.items(), strict=False):
        query = prometheus.Dataquery().ref_id(letter).expr(_expression(promql)).legend_format(legend)
        made.with_target(query.instant().format(PromQueryFormat.TABLE) if described.table else query)
    return made


def _stat(described: Panel) -> Any:
    made = stat.Panel().graph_mode(style.BigValueGraphMode.AREA).min(0).height(4)
    if any("{{" in legend for legend in described.queries):
        made.text_mode(style.BigValueTextMode.VALUE_AND_NAME)
    return made.reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))


def _graph(described: Panel) -> Any:
    made = timeseries.Panel().min(0).height(8).fill_opacity(30 if described.stacked else 5)
    tooltip = common.VizTooltipOptions().mode(style.TooltipDisplayMode.MULTI)
    made.tooltip(tooltip.sort(style.SortOrder.DESCENDING))
    if described.stacked:
        made.stacking(common.StackingConfig().mode(style.StackingMode.NORMAL).group("A"))
    if described.bad is not None:
        dashed = common.GraphThresholdsStyleConfig().mode(style.GraphThresholdsStyleMode.DASHED)
        made.thresholds_style(dashed)
    return made


def _measured() -> Iterator[Panel]:
    """Yield a graph of each metric that the agent measures, over the chosen nodes."""
    exported = "|".join(each.name for spec in METRICS.values() for each in spec.exports)
    for spec in METRICS.values():
        if (shown := spec.panel) is not None:
            query = (shown.by_part or spec.panel_query).replace("$window", "$W").replace("$node", "node")
            query = re.sub(rf"\b({exported})\b", r"\1{$N}", query)
            yield Panel(
                graph=shown.title, about=shown.description, unit=shown.unit, queries={shown.legend: query}
            )


def _expression(promql: str) -> str:
    values = {"$N": 'node=~"$node"', "$W": "$__rate_interval", "$USABLE": str(USABLE_SHARE)}
    for name, value in values.items():
        promql = promql.replace(name, value)
    return promql
