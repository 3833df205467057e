"""What a metric is, and how rows of the table are written."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class MetricType(Enum):
    """How a metric behaves, as Prometheus names it."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """One row of the reference. ``labels`` are the names of its labels; ``buckets`` those of a histogram.

    ``tallied``: a counter whose totals are kept elsewhere (in the kernel, by a writer) and set as they stand.
    """

    name: str
    type: MetricType
    meaning: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    exported_by: str = "manager"
    tallied: bool = False


MANAGER, AGENT, SCHEDULER, COMPUTE = "manager", "agent", "scheduler", "compute"
ALL = f"{MANAGER}, {AGENT}, {SCHEDULER}"
SERVING = f"{MANAGER}, {SCHEDULER}"


def counter(name: str, meaning: str, *labels: str, by: str = MANAGER) -> Metric:
    """Return a row of a counter that programs count up."""
    return Metric(name, MetricType.COUNTER, meaning, labels, exported_by=by)


def tally(name: str, meaning: str, *labels: str, by: str = MANAGER) -> Metric:
    """Return a row of a counter whose totals are kept elsewhere."""
    return Metric(name, MetricType.COUNTER, meaning, labels, exported_by=by, tallied=True)


def gauge(name: str, meaning: str, *labels: str, by: str = MANAGER) -> Metric:
    """Return a row of a gauge."""
    return Metric(name, MetricType.GAUGE, meaning, labels, exported_by=by)
