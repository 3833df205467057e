"""Which queries a configuration asks: those of its preset, and what is written over them.

A query that is written replaces the preset's completely, its selector of raw samples too: the age of such a
value is that of the answer. What no decision reads is not asked.
"""

from __future__ import annotations

from dataclasses import dataclass

from corewise.config.interference.metrics import Metric
from corewise.config.interference.model import InterferenceConfiguration, SeriesSettings

NODE_LABEL = "node"
_STEPS = 20


@dataclass(frozen=True, slots=True)
class Source:
    """Where one series comes from.

    ``query`` gives values, times ``factor`` in base units; ``last_samples``, if there is one, the Unix time
    of the last raw sample of each node. ``samples`` selects raw series; ``origin``: where the query stands,
    or where another may be written in its place.
    """

    metric: Metric
    query: str
    node_label: str
    maximum_age: float
    factor: float = 1.0
    samples: str = ""
    last_samples: str = ""
    origin: str = ""


def sources(configuration: InterferenceConfiguration) -> tuple[Source, ...]:
    """Return the series to query."""
    found = (_source(metric, configuration) for metric in Metric if metric not in configuration.unread)
    return tuple(source for source in found if source is not None)


def _source(metric: Metric, configuration: InterferenceConfiguration) -> Source | None:
    settings = configuration.metrics
    own = settings.series.get(metric, SeriesSettings())
    template = settings.template(metric)
    if template is None:
        return None
    field = f"interference.metrics.{metric}"
    label = own.node_label or settings.node_label or NODE_LABEL
    return Source(
        metric=metric,
        query=_filled(template.query, configuration.window, label),
        node_label=label,
        maximum_age=configuration.maximum_age(metric),
        factor=own.unit.factor if own.unit else 1.0,
        samples=template.samples,
        last_samples=_filled(_last(template.samples), configuration.window, label)
        if template.samples
        else "",
        origin=f"line {own.line}: {field}" if own.query else f"{field} (preset {settings.preset})",
    )


def _last(samples: str) -> str:
    """Return the query for the time of the last raw sample, also of a target that has gone away since."""
    now = f"max by ($node) (timestamp({samples}))"
    return f"{now} or max by ($node) (max_over_time(timestamp({samples})[$window:$step]))"


def _filled(query: str, window: float, label: str) -> str:
    step = max(1, round(window / _STEPS))
    return query.replace("$window", f"{round(window)}s").replace("$node", label).replace("$step", f"{step}s")
