"""The table of interference metrics: everything that differs between them, one row each.

Nodes are ranked by the metrics that have a ``ranking``. Of the others, ``cpu_cores`` is for counterweights,
and available memory and the capacity of memory bandwidth are for the filter. To add a metric: a member of
:class:`Metric` and its row here; a column of that name in :class:`corewise.interference.pressure.Pressure`;
and, if corewise's own agent is to measure it, an exported metric (:mod:`corewise.vocabulary.metrics`) and a
row of the agent's collector.

Queries are PromQL that returns one series a node, in base units. ``$node`` stands for the label that names
the node, ``$window`` for the time that is averaged over. ``samples`` selects the raw series: by it the age of
a value is known, since a rate looks fresh as long as its window reaches back to the last sample. A metric
that a preset does not know is missing. Where the exporters' names, labels and units are from:

- corewise: :mod:`corewise.vocabulary.metrics`.
- pcm: pcm-sensor-server.cpp of Intel PCM. Counters are absolute, those of the machine carry
  aggregate="system"; DRAM traffic is in bytes, L3 occupancy in KiB.
- intel_rdt: plugins/inputs/intel_rdt of telegraf, served by its prometheus_client. Values are those of pqos:
  MB/s of 2**20 bytes, KB of 1024, already averaged over its interval; groups of cores have no label
  ``process``, and processes are counted in them. It does not count instructions, so there is no MPKI.
- cadvisor: lib/metrics/prometheus.go. id="/" is the whole machine, in resctrl the default group with all
  its monitoring groups. Memory bandwidth is a running total, though its type says gauge. Events of perf are
  those that cAdvisor is configured to count, by perf's own names.
- node_exporter: collector/perf_linux.go (``--collector.perf``), cpu_linux.go, meminfo_linux.go.

pcm and intel_rdt know neither the CPU's nor the memory's use: that is taken from node_exporter.

Misses are those of one level of cache, which a series names in its label ``level`` (L2; none, or LL: the last
level). Which one perf's general event counts depends on the processor, which node_exporter names
(node_cpu_info, ``--collector.cpu.info``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from types import MappingProxyType

from corewise.config.interference.amounts import BANDWIDTH, BYTES, LATENCY_UNITS, bytes_text
from corewise.quantities import MILLI
from corewise.vocabulary import metrics
from corewise.vocabulary.metrics import ExportedMetric

LEVEL_LABEL = "level"
USABLE_SHARE = 0.7
"""Of the bandwidth that memory could move by its modules: beyond it latency rises steeply."""


class Metric(StrEnum):
    """A metric queried from Prometheus, by its name in the configuration.

    ``memorybandwidth`` is the bandwidth in use; nodes are ranked by what is free.
    """

    MEMORY_BANDWIDTH = "memorybandwidth"
    MEMORY_LATENCY = "memorylatency"
    LLC_OCCUPANCY = "llc_occupancy"
    LLC_MPKI = "llc_mpki"
    CPU = "cpu"
    MEMORY_BANDWIDTH_CAPACITY = "memorybandwidth_capacity"
    MEMORY_AVAILABLE = "memory_available"
    CPU_CORES = "cpu_cores"
    LLC_CAPACITY = "llc_capacity"
    MEMORY_LATENCY_IDLE = "memorylatency_idle"

    @property
    def column(self) -> str:
        """The column of a pressure that it fills."""
        return "memorybandwidth_used" if self is Metric.MEMORY_BANDWIDTH else self.value

    @property
    def spec(self) -> MetricSpec:
        """Its row."""
        return METRICS[self]


class Preset(StrEnum):
    """Exporters whose series are known."""

    COREWISE = "corewise"
    PCM = "pcm"
    INTEL_RDT = "intel_rdt"
    CADVISOR = "cadvisor"
    NODE_EXPORTER = "node_exporter"


class Order(StrEnum):
    """Which values are best."""

    ASCENDING = "ascending"
    DESCENDING = "descending"


@dataclass(frozen=True, slots=True)
class Ranking:
    """Which values are best, and how far, as a share of it, others may be from a group's best."""

    order: Order
    tolerance: float = 0.01


@dataclass(frozen=True, slots=True)
class Template:
    """A query, and the selector of the raw series that it is made from."""

    query: str
    samples: str


@dataclass(frozen=True, slots=True)
class ValueKind:
    """A kind of value: its base unit, the units in which a series may come, and how it is printed."""

    base: str
    units: Mapping[str, Fraction]
    text: Callable[[float], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """The display of a metric that the agent exports: a Grafana panel, and a recording rule of five minutes.

    ``query`` is over all nodes, with ``$window``: that of corewise's own preset if empty. ``by_part`` shows
    more in the panel than one series a node.
    """

    title: str
    description: str
    unit: str
    record: str
    query: str = ""
    by_part: str = ""
    legend: str = "{{node}}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSpec:
    """One metric. All values are in base units.

    ``largest``: no machine has more; Intel PCM prints 2**64 - 1 for occupancy that it could not read.
    ``plausible``: what lies outside is rather a wrong unit than such a machine. ``exports``: what corewise's
    agent exports of it; empty if it does not measure it on its own. ``zero_is_missing``: exporters print 0
    for "not supported". ``ranking``: the default; None if nodes are not ranked by it. ``title`` heads its
    columns then, and ``suffix`` follows a value. ``reference``: what it is divided by with ``relative:
    true``, and ``relative`` says what the quotient is. ``page``: its name on the web page of a node, which
    does not show it if empty.
    """

    kind: ValueKind
    largest: float
    plausible: tuple[float, float, str]
    queries: Mapping[Preset, Template]
    exports: tuple[ExportedMetric, ...] = ()
    panel: Panel | None = None
    zero_is_missing: bool = False
    ranking: Ranking | None = None
    title: str = ""
    suffix: str = ""
    reference: Metric | None = None
    relative: str = ""
    page: str = ""

    @property
    def panel_query(self) -> str:
        """The query of its panel and its recording rule."""
        return (self.panel.query if self.panel else "") or self.queries[Preset.COREWISE].query

    def text(self, value: float, *, relative: bool = False) -> str:
        """Return a value by which nodes are ranked, as people read it."""
        if relative:
            return f"{value:.4g} {self.relative}"
        return f"{self.kind.text(value)} {self.suffix}".rstrip()


def _rate(selector: str) -> Template:
    return Template(f"sum by ($node) (rate({selector}[$window]))", selector)


def _mean(selector: str, factor: int = 1) -> Template:
    scaled = f"{factor} * " if factor != 1 else ""
    return Template(f"{scaled}sum by ($node) (avg_over_time({selector}[$window]))", selector)


def _latest(selector: str) -> Template:
    return Template(f"max by ($node) ({selector})", selector)


def _greatest(selector: str) -> str:
    """Return the query of a mean, of which a second target adds nothing, as while an agent is replaced."""
    return f"max by ($node) (avg_over_time({selector}[$window]))"


def _mpki(misses: str, instructions: str) -> Template:
    return Template(f"1000 * {_rate(misses).query} / {_rate(instructions).query}", misses)


def _mpki_by_level(misses: str, instructions: str) -> Template:
    """Return the query for misses whose label names the level of the cache."""
    by_level = f"1000 * sum by ($node, {LEVEL_LABEL}) (rate({misses}[$window]))"
    return Template(f"{by_level} / on ($node) group_left () {_rate(instructions).query}", misses)


def _mpki_by_vendor(misses: str, instructions: str) -> Template:
    """Return the query for perf's event cache-misses: of AMD's processors it counts the second level."""
    query = _mpki(misses, instructions).query
    vendor = "* on ($node) group_left (vendor) max by ($node, vendor) (node_cpu_info)"
    second = f'label_replace({query} {vendor}, "{LEVEL_LABEL}", "L2", "vendor", "AuthenticAMD|HygonGenuine")'
    return Template(f"{second} or on ($node) {query}", misses)


def _pqos(name: str) -> str:
    """Return the selector of all cores; telegraf names the series so by its metric_version 2, and by 1."""
    return f'{{__name__=~"rdt_metric(_value)?",name="{name}",process=""}}'


def _with_node_exporter(query: Template, **others: Template) -> Mapping[Preset, Template]:
    """Return the queries of the presets that take a metric from node_exporter, and of the others."""
    presets = (Preset.PCM, Preset.INTEL_RDT, Preset.NODE_EXPORTER)
    return {**dict.fromkeys(presets, query), **{Preset(name): each for name, each in others.items()}}


_ONE = Fraction(1)
_BANDWIDTH = ValueKind("bytes/s", BANDWIDTH.units, lambda value: bytes_text(value, "/s"))
_SECONDS = ValueKind("seconds", LATENCY_UNITS, lambda value: f"{value * 1e9:.4g} ns")
_BYTES = ValueKind("bytes", BYTES.units, bytes_text)
_MPKI = ValueKind(
    "misses per 1000 instructions",
    {"mpki": _ONE, "misses/instruction": Fraction(1000)},
    lambda value: f"{value:.4g} MPKI",
)
_RATIO = ValueKind("a ratio, 0..1", {"ratio": _ONE, "%": Fraction(1, 100)}, lambda value: f"{value:.1%}")
_CORES = ValueKind("CPUs", {"cores": _ONE, "milli": Fraction(1, MILLI)}, lambda value: f"{value:.4g}")

_LOWEST = Ranking(Order.ASCENDING)
_CAPACITY = metrics.NODE_MEMORY_BANDWIDTH_CAPACITY.name
_LATENCY = metrics.NODE_MEMORY_LATENCY.name
_BUSY, _ONLINE = metrics.NODE_CPU_BUSY.name, metrics.NODE_CPUS_ONLINE.name
_CPU_SECONDS = "node_cpu_seconds_total"
_IDLE_CPUS = f'{_CPU_SECONDS}{{mode="idle"}}'
_PCM_CORES = '{aggregate="system",source="core"}'
_PCM_UNCORE = '{aggregate="system",source="uncore"}'
_MACHINE = '{id="/"}'
_CONTAINER_CPU = f"container_cpu_usage_seconds_total{_MACHINE}"
_WORKING_SET = f"container_memory_working_set_bytes{_MACHINE}"

METRICS: Mapping[Metric, MetricSpec] = MappingProxyType(
    {
        Metric.MEMORY_BANDWIDTH: MetricSpec(
            kind=_BANDWIDTH,
            largest=1e14,
            plausible=(1e6, 2e12, "1 MB/s to 2 TB/s"),
            zero_is_missing=True,
            ranking=Ranking(Order.DESCENDING),
            title="BANDWIDTH",
            suffix="free",
            reference=Metric.MEMORY_BANDWIDTH_CAPACITY,
            relative="share free",
            page="Memory bandwidth in use",
            panel=Panel(
                title="Used memory bandwidth",
                description="Bytes moved between CPUs and memory, reads and writes.",
                unit="Bps",
                record="node:corewise_memory_bandwidth_bytes_per_second:rate5m",
            ),
            exports=(metrics.NODE_MEMORY_TRAFFIC,),
            queries={
                Preset.COREWISE: _rate(metrics.NODE_MEMORY_TRAFFIC.name),
                Preset.PCM: Template(
                    f"{_rate('DRAM_Reads' + _PCM_UNCORE).query} + {_rate('DRAM_Writes' + _PCM_UNCORE).query}",
                    f"DRAM_Reads{_PCM_UNCORE}",
                ),
                Preset.INTEL_RDT: _mean(_pqos("MBT"), 1 << 20),
                Preset.CADVISOR: _rate(f"container_memory_bandwidth_bytes{_MACHINE}"),
            },
        ),
        Metric.MEMORY_LATENCY: MetricSpec(
            kind=_SECONDS,
            largest=1.0,
            plausible=(2e-8, 5e-6, "20 ns to 5 µs"),
            zero_is_missing=True,
            ranking=Ranking(Order.ASCENDING, 0.02),
            title="LATENCY",
            reference=Metric.MEMORY_LATENCY_IDLE,
            relative="times idle",
            page="Memory latency",
            panel=Panel(
                title="Memory latency",
                description=(
                    "Median of the last probe, by NUMA node. "
                    "It grows with the bandwidth in use, steeply near its end."
                ),
                unit="s",
                record="node:corewise_memory_latency_seconds:avg5m",
                by_part=f"max by (node, numa_node) ({_LATENCY})",
                legend="{{node}} NUMA {{numa_node}}",
            ),
            exports=(metrics.NODE_MEMORY_LATENCY,),
            queries={
                Preset.COREWISE: Template(f"avg by ($node) (avg_over_time({_LATENCY}[$window]))", _LATENCY)
            },
        ),
        Metric.LLC_OCCUPANCY: MetricSpec(
            kind=_BYTES,
            largest=1e13,
            plausible=(65536, 17e9, "64 KiB to 16 GiB"),
            zero_is_missing=True,
            ranking=_LOWEST,
            title="OCCUPANCY",
            reference=Metric.LLC_CAPACITY,
            relative="share in use",
            page="Last-level cache in use",
            panel=Panel(
                title="Last-level cache in use",
                description="By resctrl.",
                unit="bytes",
                record="node:corewise_llc_occupancy_bytes:avg5m",
                query=_greatest(metrics.NODE_LLC_OCCUPANCY.name),
            ),
            exports=(metrics.NODE_LLC_OCCUPANCY,),
            queries={
                Preset.COREWISE: _mean(metrics.NODE_LLC_OCCUPANCY.name),
                Preset.PCM: _mean(f"L3_Cache_Occupancy{_PCM_CORES}", 1024),
                Preset.INTEL_RDT: _mean(_pqos("LLC"), 1 << 10),
                Preset.CADVISOR: _mean(f"container_llc_occupancy_bytes{_MACHINE}"),
            },
        ),
        Metric.LLC_MPKI: MetricSpec(
            kind=_MPKI,
            largest=1000.0,
            plausible=(0.0, 300.0, "0 to 300"),
            ranking=_LOWEST,
            title="MPKI",
            page="Cache misses",
            panel=Panel(
                title="Misses per 1000 instructions",
                description=(
                    "Of the cache that the label level names: LL is the last level. "
                    "Nodes with different levels are not compared."
                ),
                unit="none",
                record="node:corewise_llc_mpki:ratio_rate5m",
            ),
            exports=(metrics.NODE_INSTRUCTIONS, metrics.NODE_LLC_MISSES),
            queries={
                Preset.COREWISE: _mpki_by_level(metrics.NODE_LLC_MISSES.name, metrics.NODE_INSTRUCTIONS.name),
                Preset.PCM: _mpki(f"L3_Cache_Misses{_PCM_CORES}", f"Instructions_Retired_Any{_PCM_CORES}"),
                Preset.CADVISOR: _mpki_by_vendor(
                    'container_perf_events_total{id="/",event="cache-misses"}',
                    'container_perf_events_total{id="/",event="instructions"}',
                ),
                Preset.NODE_EXPORTER: _mpki_by_vendor(
                    "node_perf_cache_misses_total", "node_perf_instructions_total"
                ),
            },
        ),
        Metric.CPU: MetricSpec(
            kind=_RATIO,
            largest=10.0,
            plausible=(0.0, 1.05, "0 to 1, a share of all CPUs"),
            ranking=_LOWEST,
            title="CPU",
            suffix="in use",
            panel=Panel(
                title="CPU utilization",
                description="CPU time used over the CPUs online, raw.",
                unit="percentunit",
                record="node:corewise_cpu_utilization:ratio_rate5m",
            ),
            exports=(metrics.NODE_CPU_BUSY, metrics.NODE_CPUS_ONLINE),
            queries=_with_node_exporter(
                Template(
                    f'1 - sum by ($node) (rate({_CPU_SECONDS}{{mode=~"idle|iowait"}}[$window]))'
                    f" / sum by ($node) (rate({_CPU_SECONDS}[$window]))",
                    _IDLE_CPUS,
                ),
                corewise=Template(f"{_rate(_BUSY).query} / max by ($node) ({_ONLINE})", _BUSY),
                cadvisor=Template(
                    f"{_rate(_CONTAINER_CPU).query} / max by ($node) (machine_cpu_cores)", _CONTAINER_CPU
                ),
            ),
        ),
        Metric.MEMORY_BANDWIDTH_CAPACITY: MetricSpec(
            kind=_BANDWIDTH,
            largest=1e14,
            plausible=(5e9, 5e12, "5 GB/s to 5 TB/s"),
            zero_is_missing=True,
            exports=(metrics.NODE_MEMORY_BANDWIDTH_CAPACITY,),
            queries={
                Preset.COREWISE: Template(f"{USABLE_SHARE} * max by ($node) ({_CAPACITY})", _CAPACITY),
            },
        ),
        Metric.MEMORY_AVAILABLE: MetricSpec(
            kind=_BYTES,
            largest=1e17,
            plausible=(1 << 20, 1 << 47, "1 MiB to 128 TiB"),
            panel=Panel(
                title="Available memory",
                description="MemAvailable of the node.",
                unit="bytes",
                record="node:corewise_memory_available_bytes:avg5m",
                query=_greatest(metrics.NODE_MEMORY_AVAILABLE.name),
            ),
            exports=(metrics.NODE_MEMORY_AVAILABLE,),
            queries=_with_node_exporter(
                _latest("node_memory_MemAvailable_bytes"),
                corewise=_latest(metrics.NODE_MEMORY_AVAILABLE.name),
                cadvisor=Template(
                    f"max by ($node) (machine_memory_bytes) - max by ($node) ({_WORKING_SET})", _WORKING_SET
                ),
            ),
        ),
        Metric.CPU_CORES: MetricSpec(
            kind=_CORES,
            largest=1e6,
            plausible=(1.0, 4096.0, "1 to 4096"),
            zero_is_missing=True,
            queries=_with_node_exporter(
                Template(f"count by ($node) ({_IDLE_CPUS})", _IDLE_CPUS),
                corewise=_latest(_ONLINE),
                cadvisor=_latest("machine_cpu_cores"),
            ),
        ),
        Metric.LLC_CAPACITY: MetricSpec(
            kind=_BYTES,
            largest=1e13,
            plausible=(262144, 17e9, "256 KiB to 16 GiB"),
            zero_is_missing=True,
            exports=(metrics.NODE_LLC_CAPACITY,),
            queries={Preset.COREWISE: _latest(metrics.NODE_LLC_CAPACITY.name)},
        ),
        Metric.MEMORY_LATENCY_IDLE: MetricSpec(
            kind=_SECONDS,
            largest=1.0,
            plausible=(2e-8, 1e-6, "20 ns to 1 µs"),
            zero_is_missing=True,
            queries={
                Preset.COREWISE: Template(
                    f"min_over_time((avg by ($node) ({_LATENCY}))[1d:10m]) or avg by ($node) ({_LATENCY})",
                    _LATENCY,
                )
            },
        ),
    }
)

DEFAULT_RANKINGS: Mapping[Metric, Ranking] = MappingProxyType(
    {metric: spec.ranking for metric, spec in METRICS.items() if spec.ranking is not None}
)
RANKED: tuple[Metric, ...] = tuple(DEFAULT_RANKINGS)
"""The metrics that nodes are ranked by."""
DIVISORS: frozenset[Metric] = frozenset(
    spec.reference for spec in METRICS.values() if spec.reference is not None
) - {Metric.MEMORY_BANDWIDTH_CAPACITY}
"""What values are divided by with ``relative: true``; the filter reads the capacity of bandwidth anyway."""
