"""Each query of dashboards, rules and alerts finds data in a Prometheus that scrapes all programs at work.

A panel's or a recording rule's query has to return a number. An alert's returns nothing while all is well:
each selector in it has to find series.
"""

from __future__ import annotations

from pathlib import Path

from monitoring.promql import Selector, parse
from monitoring.test_monitoring import EXPRESSIONS, RULE_FILES
from monitoring.working_cluster import answers
from prometheus_binary import needs_prometheus

pytestmark = needs_prometheus

ALERTS = {name: text for name, text in EXPRESSIONS.items() if "-alerts: " in name}


def selected(selector: Selector) -> str:
    matchers = ",".join(f'{label}{operator}"{value}"' for label, operator, value in selector.matchers)
    return f"{selector.metric}{{{matchers}}}".replace("$node", ".*")


def evaluated(promql: str) -> str:
    """Return the query as Grafana sends it for all nodes."""
    return promql.replace("$__rate_interval", "30s").replace("$node", ".*").replace("[5m]", "[30s]")


QUERIES = {
    **{name: [evaluated(text)] for name, text in EXPRESSIONS.items() if name not in ALERTS},
    **{name: [selected(each) for each in parse(text).selectors] for name, text in ALERTS.items()},
}


def test_every_query_finds_data_from_running_programs(tmp_path: Path) -> None:
    asked = sorted({query for queries in QUERIES.values() for query in queries})
    found = answers(tmp_path, RULE_FILES, asked)
    missing = [f"{name}: {each}" for name, queries in QUERIES.items() for each in queries if not found[each]]
    assert not missing, "\n".join(missing)
