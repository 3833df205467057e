"""Every metric of corewise: one table, from which the programs register them and docs/reference.md is made.

Names follow Prometheus' rules: a base unit in the name, ``_total`` on counters. CPU amounts are in cores and
say whether they are raw or amplified. Ratios are exported as the decimal number they are.
"""

from __future__ import annotations

from corewise.vocabulary.metrics import agent, compute, interference, manager, scheduler, service, suppression
from corewise.vocabulary.metrics.table import Metric

METRICS: tuple[Metric, ...] = (
    *manager.ROWS,
    *service.ROWS,
    *agent.ROWS,
    *suppression.ROWS,
    *scheduler.ROWS,
    *interference.ROWS,
    *compute.ROWS,
)


def exported_by(program: str) -> tuple[Metric, ...]:
    """Return the rows that a program exports."""
    return tuple(metric for metric in METRICS if program in metric.exported_by.split(", "))
