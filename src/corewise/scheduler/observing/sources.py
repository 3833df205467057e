"""Which queries a configuration asks for: those of its preset, and what is written over them.

Of a preset's query that is written anew nothing is left, its selector of raw samples neither: the age of
such a value is that of the answer. What a decision does not read is not asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from corewise.config.interference import (
    InterferenceConfiguration,
    LatencyModel,
    Preset,
    Series,
    SeriesSettings,
)
from corewise.engine.pressure import COLUMN_OF, maximum_ages
from corewise.scheduler.observing.presets import PRESETS, Template

NODE_LABEL = "node"
_FIELD = "interference.metrics"
_STEPS = 20
_ONLY_RELATIVE = frozenset({Series.LLC_CAPACITY, Series.MEMORY_LATENCY_IDLE})


@dataclass(frozen=True, slots=True)
class Source:
    """Where one series comes from.

    ``query`` gives values, times ``factor`` in base units; ``last_samples``, if there is one, the Unix time
    of the last raw sample of each node. ``samples`` selects raw series; ``origin``: where the query stands.
    """

    series: Series
    query: str
    node_label: str
    maximum_age: float
    factor: float = 1.0
    samples: str = ""
    last_samples: str = ""
    origin: str = ""

    @property
    def column(self) -> str:
        """The column of a pressure that it fills."""
        return COLUMN_OF[self.series]


def sources(configuration: InterferenceConfiguration) -> tuple[Source, ...]:
    """Return what is to be asked."""
    return tuple(_sources(configuration))


def _sources(configuration: InterferenceConfiguration) -> Iterator[Source]:
    settings = configuration.metrics
    templates = PRESETS[settings.preset] if settings.preset else {}
    ages = maximum_ages(configuration)
    for series in Series:
        own = settings.series.get(series, SeriesSettings())
        template = Template(own.query, "") if own.query else templates.get(series)
        if template is None or not _is_read(series, configuration):
            continue
        label = own.node_label or settings.node_label or NODE_LABEL
        fill = _Filling(configuration.window, label)
        yield Source(
            series=series,
            query=fill(template.query),
            node_label=label,
            maximum_age=ages[COLUMN_OF[series]],
            factor=own.unit.factor if own.unit else 1.0,
            samples=template.samples,
            last_samples=fill(_last(template.samples)) if template.samples else "",
            origin=_origin(series, own, settings.preset),
        )


def _origin(series: Series, own: SeriesSettings, preset: Preset | None) -> str:
    """Return where a query stands, or where another may be written in its place."""
    field = f"{_FIELD}.{series}"
    return f"line {own.line}: {field}" if own.query else f"{field} (preset {preset})"


def _is_read(series: Series, configuration: InterferenceConfiguration) -> bool:
    if series not in _ONLY_RELATIVE or configuration.relative:
        return True
    return series is Series.MEMORY_LATENCY_IDLE and configuration.latency_model is LatencyModel.CURVE


def _last(samples: str) -> str:
    """Return the query for the time of the last raw sample, also of a target that has gone away since."""
    now = f"max by ($node) (timestamp({samples}))"
    return f"{now} or max by ($node) (max_over_time(timestamp({samples})[$window:$step]))"


@dataclass(frozen=True, slots=True)
class _Filling:
    """Puts a window and a label in the place of their names."""

    window: float
    label: str

    def __call__(self, template: str) -> str:
        step = max(1, round(self.window / _STEPS))
        values = {"$window": f"{round(self.window)}s", "$node": self.label, "$step": f"{step}s"}
        for name, value in values.items():
            template = template.replace(name, value)
        return template
