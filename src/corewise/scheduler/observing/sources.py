"""PromQL for exporters whose series are known. Every query returns one series a node, in base units.

``$node`` stands for the label that names the node, ``$window`` for the time that is averaged over.
``samples`` is a selector of the raw series: by it the age of a value is known, since a rate looks fresh as
long as its window reaches back to the last sample. What a preset cannot know is missing.

Where names, labels and units are from:

- corewise: :mod:`corewise.vocabulary.metrics`.
- pcm: pcm-sensor-server.cpp of Intel PCM. Counters are absolute, those of the machine carry
  aggregate="system"; DRAM traffic is in bytes, L3 occupancy in KiB.
- intel_rdt: plugins/inputs/intel_rdt of telegraf, served by its prometheus_client. Values are those of pqos:
  MB/s of 2**20 bytes, KB of 1024, already averaged over its interval; groups of cores have no label
  ``process``, and processes are counted in them. It tells no count of instructions, so there is no MPKI.
- cadvisor: lib/metrics/prometheus.go. id="/" is the whole machine, in resctrl the default group with all
  its monitoring groups. Memory bandwidth is a running total, though its type says gauge. Events of perf are
  those that cAdvisor was told to count, by the names that perf has for them.
- node_exporter: collector/perf_linux.go (``--collector.perf``), cpu_linux.go, meminfo_linux.go.

pcm and intel_rdt know neither the CPU's nor the memory's use: that is taken from node_exporter.

Which queries a configuration asks for: those of its preset, and what is written over them.

Of a preset's query that is written anew nothing is left, its selector of raw samples neither: the age of
such a value is that of the answer. What a decision does not read is not asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from corewise.config.interference import (
    COLUMN_OF,
    InterferenceConfiguration,
    LatencyModel,
    Preset,
    Series,
    SeriesSettings,
)
from corewise.vocabulary.metrics.interference import (
    NODE_CPU_BUSY,
    NODE_CPUS_ONLINE,
    NODE_INSTRUCTIONS,
    NODE_LLC_CAPACITY,
    NODE_LLC_MISSES,
    NODE_LLC_OCCUPANCY,
    NODE_MEMORY_AVAILABLE,
    NODE_MEMORY_BANDWIDTH_CAPACITY,
    NODE_MEMORY_LATENCY,
    NODE_MEMORY_TRAFFIC,
)

USABLE_SHARE = 0.7
"""Of the bandwidth that memory could move by its modules: beyond it latency rises steeply."""


@dataclass(frozen=True, slots=True)
class Template:
    """A query, and the selector of the raw series that it is made from."""

    query: str
    samples: str


def _rate(selector: str) -> Template:
    return Template(f"sum by ($node) (rate({selector}[$window]))", selector)


def _mean(selector: str, factor: int = 1) -> Template:
    scaled = f"{factor} * " if factor != 1 else ""
    return Template(f"{scaled}sum by ($node) (avg_over_time({selector}[$window]))", selector)


def _latest(selector: str) -> Template:
    return Template(f"max by ($node) ({selector})", selector)


def _mpki(misses: str, instructions: str) -> Template:
    above, below = _rate(misses).query, _rate(instructions).query
    return Template(f"1000 * {above} / {below}", misses)


_CAPACITY = NODE_MEMORY_BANDWIDTH_CAPACITY.name
_LATENCY = NODE_MEMORY_LATENCY.name
_COREWISE = {
    Series.MEMORY_BANDWIDTH: _rate(NODE_MEMORY_TRAFFIC.name),
    Series.MEMORY_BANDWIDTH_CAPACITY: Template(f"{USABLE_SHARE} * max by ($node) ({_CAPACITY})", _CAPACITY),
    Series.MEMORY_LATENCY: Template(f"avg by ($node) (avg_over_time({_LATENCY}[$window]))", _LATENCY),
    Series.MEMORY_LATENCY_IDLE: Template(
        f"min_over_time((avg by ($node) ({_LATENCY}))[1d:10m]) or avg by ($node) ({_LATENCY})", _LATENCY
    ),
    Series.LLC_OCCUPANCY: _mean(NODE_LLC_OCCUPANCY.name),
    Series.LLC_CAPACITY: _latest(NODE_LLC_CAPACITY.name),
    Series.LLC_MPKI: _mpki(NODE_LLC_MISSES.name, NODE_INSTRUCTIONS.name),
    Series.CPU: Template(
        f"{_rate(NODE_CPU_BUSY.name).query} / max by ($node) ({NODE_CPUS_ONLINE.name})", NODE_CPU_BUSY.name
    ),
    Series.CPU_CORES: _latest(NODE_CPUS_ONLINE.name),
    Series.MEMORY_AVAILABLE: _latest(NODE_MEMORY_AVAILABLE.name),
}

_CPU_SECONDS = "node_cpu_seconds_total"
_USE_BY_NODE_EXPORTER = {
    Series.CPU: Template(
        f'1 - sum by ($node) (rate({_CPU_SECONDS}{{mode=~"idle|iowait"}}[$window]))'
        f" / sum by ($node) (rate({_CPU_SECONDS}[$window]))",
        f'{_CPU_SECONDS}{{mode="idle"}}',
    ),
    Series.CPU_CORES: Template(
        f'count by ($node) ({_CPU_SECONDS}{{mode="idle"}})', f'{_CPU_SECONDS}{{mode="idle"}}'
    ),
    Series.MEMORY_AVAILABLE: _latest("node_memory_MemAvailable_bytes"),
}
_NODE_EXPORTER = {
    **_USE_BY_NODE_EXPORTER,
    Series.LLC_MPKI: _mpki("node_perf_cache_misses_total", "node_perf_instructions_total"),
}

_OF_THE_CORES = '{aggregate="system",source="core"}'
_OF_THE_REST = '{aggregate="system",source="uncore"}'
_PCM = {
    **_USE_BY_NODE_EXPORTER,
    Series.MEMORY_BANDWIDTH: Template(
        f"{_rate('DRAM_Reads' + _OF_THE_REST).query} + {_rate('DRAM_Writes' + _OF_THE_REST).query}",
        f"DRAM_Reads{_OF_THE_REST}",
    ),
    Series.LLC_OCCUPANCY: _mean(f"L3_Cache_Occupancy{_OF_THE_CORES}", 1024),
    Series.LLC_MPKI: _mpki(f"L3_Cache_Misses{_OF_THE_CORES}", f"Instructions_Retired_Any{_OF_THE_CORES}"),
}


def _pqos(name: str) -> str:
    """Return the selector of all cores; telegraf names the series so by its metric_version 2, and by 1."""
    return f'{{__name__=~"rdt_metric(_value)?",name="{name}",process=""}}'


_INTEL_RDT = {
    **_USE_BY_NODE_EXPORTER,
    Series.MEMORY_BANDWIDTH: _mean(_pqos("MBT"), 1 << 20),
    Series.LLC_OCCUPANCY: _mean(_pqos("LLC"), 1 << 10),
}

_MACHINE = '{id="/"}'
_USED_MEMORY = f"container_memory_working_set_bytes{_MACHINE}"
_CADVISOR = {
    Series.MEMORY_BANDWIDTH: _rate(f"container_memory_bandwidth_bytes{_MACHINE}"),
    Series.LLC_OCCUPANCY: _mean(f"container_llc_occupancy_bytes{_MACHINE}"),
    Series.LLC_MPKI: _mpki(
        'container_perf_events_total{id="/",event="cache-misses"}',
        'container_perf_events_total{id="/",event="instructions"}',
    ),
    Series.CPU: Template(
        f"{_rate(f'container_cpu_usage_seconds_total{_MACHINE}').query} / max by ($node) (machine_cpu_cores)",
        f"container_cpu_usage_seconds_total{_MACHINE}",
    ),
    Series.CPU_CORES: _latest("machine_cpu_cores"),
    Series.MEMORY_AVAILABLE: Template(
        f"max by ($node) (machine_memory_bytes) - max by ($node) ({_USED_MEMORY})", _USED_MEMORY
    ),
}

PRESETS: Mapping[Preset, Mapping[Series, Template]] = MappingProxyType(
    {
        Preset.COREWISE: _COREWISE,
        Preset.PCM: _PCM,
        Preset.INTEL_RDT: _INTEL_RDT,
        Preset.CADVISOR: _CADVISOR,
        Preset.NODE_EXPORTER: _NODE_EXPORTER,
    }
)


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
    ages = configuration.maximum_ages
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
