"""The configuration of interference-aware scheduling, as values in base units.

Amounts are whole bytes/s, bytes and milli-CPU; durations and latencies seconds; tolerances and utilizations
shares of one. Affinities are whole numbers from 0 (no impact) to 100 (very heavy impact on the run time).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from types import MappingProxyType
from typing import TypeAlias

from corewise.config.interference.amounts import Unit
from corewise.config.interference.metrics import (
    DEFAULT_RANKINGS,
    DIVISORS,
    RANKED,
    Metric,
    Preset,
    Ranking,
    Template,
)
from corewise.vocabulary.selectors import LabelSelector

DEFAULT = "default"
"""The name of the profile of all pods that have no other."""

LINEAR_BEST = 10.0
"""What the first position is worth with ``points: linear``."""


class Decay(StrEnum):
    """The way a counterweight loses its weight until it expires."""

    STEP = "step"
    LINEAR = "linear"


class LatencyModel(StrEnum):
    """The latency that ranks nodes: as measured, or by their learned curve with the pods just placed."""

    MEASURED = "measured"
    CURVE = "curve"


class WhileAway(StrEnum):
    """What becomes of pods that kube-scheduler asks about while no replica answers."""

    SCHEDULE = "schedule"
    WAIT = "wait"


AffinityPoints: TypeAlias = Mapping[Metric, int]
"""How heavily each metric weighs on a type of workload; every metric has its value."""


def equal_affinity(value: int = 50) -> AffinityPoints:
    """Return the same affinity to every metric."""
    return MappingProxyType(dict.fromkeys(RANKED, value))


@dataclass(frozen=True, slots=True)
class Profile:
    """The average use of a pod of a type: bytes/s, bytes, milli-CPU, bytes. 0: nothing worth counting."""

    memory_bandwidth: int = 0
    memory: int = 0
    cpu: int = 0
    llc: int = 0


@dataclass(frozen=True, slots=True)
class WorkloadProfile:
    """One entry of ``profiles``: pods whose type label has its name, or that its selector selects."""

    name: str
    profile: Profile
    affinity: AffinityPoints
    selector: LabelSelector | None = None
    line: int = 0
    column: int = 0


BANDWIDTH_PER_CORE = 500_000_000
"""Bytes/s for each CPU requested by a pod without a profile, unless configured.

Times the overprovisioning of 2 it is 1 GB/s. Servers of the last ten years can use more for each hardware
thread: 70 % of 4 channels of DDR4-2400 for 32 threads (Xeon E5-2682 v4) is 1.7 GB/s, of 12 channels of
DDR5-4800 for 192 threads (EPYC 9654) as much. So by this guess alone, an idle node is not too small for a pod
that requests all of its physical CPUs.
"""


@dataclass(frozen=True, slots=True)
class DefaultProfile:
    """The profile of pods of no known type; None is taken from the pod's requests.

    Without ``memory_bandwidth`` it is ``bandwidth_per_core`` for each CPU requested, batch CPUs included.
    """

    bandwidth_per_core: int = BANDWIDTH_PER_CORE
    memory_bandwidth: int | None = None
    memory: int | None = None
    cpu: int | None = None
    llc: int = 0
    affinity: AffinityPoints = field(default_factory=equal_affinity)
    line: int = 0


@dataclass(frozen=True, slots=True)
class CounterweightSettings:
    """The time a pod counts as not yet measured, in seconds, and how its weight goes until then."""

    expiry: float = 360.0
    decay: Decay = Decay.LINEAR


@dataclass(frozen=True, slots=True)
class CapacityRule:
    """The memory bandwidth, in bytes/s, of the nodes that a selector selects."""

    selector: LabelSelector
    memory_bandwidth: int
    line: int = 0


@dataclass(frozen=True, slots=True)
class SeriesSettings:
    """The configuration of one series; None is what the preset has. ``maximum_age`` is in seconds."""

    query: str | None = None
    node_label: str | None = None
    unit: Unit | None = None
    maximum_age: float | None = None
    line: int = 0


@dataclass(frozen=True, slots=True)
class MetricsSettings:
    """The sources of values: a preset, what is written over it, and how each metric is ranked.

    ``node_label`` and ``maximum_age`` hold for every series that does not state its own.
    """

    preset: Preset | None = Preset.COREWISE
    node_label: str | None = None
    maximum_age: float | None = None
    series: Mapping[Metric, SeriesSettings] = field(default_factory=dict)
    rankings: Mapping[Metric, Ranking] = field(default_factory=lambda: DEFAULT_RANKINGS)

    def template(self, metric: Metric) -> Template | None:
        """Return the query that is written for a metric, else the preset's; None if there is neither."""
        own = self.series.get(metric, SeriesSettings()).query
        if own:
            return Template(own, "")
        return metric.spec.queries.get(self.preset) if self.preset else None


@dataclass(frozen=True, slots=True)
class InterferenceConfiguration:
    """The whole section. ``points`` are those of the first positions; None is linear.

    ``missing_passes``: a node passes the filter where a value is missing. ``ask_above``: a type without
    affinities is at stake if one of its pods moves more bytes/s than this, whatever cache it takes.
    """

    overprovisioning: Fraction = Fraction(2)
    points: tuple[float, ...] | None = (10.0, 5.0, 1.0)
    window: float = 300.0
    counterweight: CounterweightSettings = CounterweightSettings()
    missing_passes: bool = True
    type_label: str = "app"
    metrics: MetricsSettings = field(default_factory=MetricsSettings)
    capacity: tuple[CapacityRule, ...] = ()
    default: DefaultProfile = DefaultProfile()
    profiles: Mapping[str, WorkloadProfile] = field(default_factory=dict)
    relative: bool = False
    latency_model: LatencyModel = LatencyModel.MEASURED
    ask_above: int = 1_000_000_000
    while_away: WhileAway = WhileAway.SCHEDULE

    at_stake: tuple[WorkloadProfile, ...] = field(init=False, repr=False, compare=False)
    """The types of pods that kube-scheduler asks about: contention slows them, or they cause it."""
    _selecting: tuple[WorkloadProfile, ...] = field(init=False, repr=False, compare=False)
    """The types whose pods a selector selects. All others are found by name, however many they are."""

    def __post_init__(self) -> None:
        every = self.profiles.values()
        at_stake = (
            each
            for each in every
            if any(each.affinity.values()) or each.profile.memory_bandwidth > self.ask_above
        )
        object.__setattr__(self, "at_stake", tuple(at_stake))
        object.__setattr__(self, "_selecting", tuple(each for each in every if each.selector))

    def types_of(self, labels: Mapping[str, str]) -> tuple[WorkloadProfile, ...]:
        """Return the types that a pod with these labels is of, in the order of the configuration."""
        found = {each.name for each in self._selecting if each.selector and each.selector.matches(labels)}
        named = labels.get(self.type_label, "")
        if named in self.profiles:
            found.add(named)
        return tuple(self.profiles[name] for name in self.profiles if name in found) if found else ()

    @property
    def predicted(self) -> frozenset[Metric]:
        """The metrics that nodes are ranked by as predicted, and not as measured."""
        by_curve = self.latency_model is LatencyModel.CURVE
        return frozenset({Metric.MEMORY_LATENCY}) if by_curve else frozenset()

    @property
    def counts_neighbors(self) -> bool:
        """Whether pods take cache that others mind losing: then the score reads the sizes of caches."""
        takes = self.default.llc > 0 or any(each.profile.llc for each in self.profiles.values())
        cache = Metric.LLC_OCCUPANCY, Metric.LLC_MPKI
        return takes and any(each.affinity[metric] for each in self.profiles.values() for metric in cache)

    @property
    def unread(self) -> frozenset[Metric]:
        """The metrics that no decision reads."""
        if self.relative:
            return frozenset()
        read = {metric.spec.reference for metric in self.predicted}
        return DIVISORS - read - ({Metric.LLC_CAPACITY} if self.counts_neighbors else set())

    def maximum_age(self, metric: Metric) -> float:
        """Return the age in seconds up to which a value counts; by default the window's length."""
        own = self.metrics.series.get(metric, SeriesSettings()).maximum_age
        general = self.window if self.metrics.maximum_age is None else self.metrics.maximum_age
        return general if own is None else own

    @property
    def maximum_ages(self) -> Mapping[str, float]:
        """The maximum ages by column of a pressure."""
        return {metric.column: self.maximum_age(metric) for metric in Metric}

    def stated_bandwidths(self) -> Iterator[tuple[str, int, Fraction]]:
        """Yield each profile that states its bandwidth: name, line, and what the filter demands for it."""
        for workload in self.profiles.values():
            needed = self.overprovisioning * workload.profile.memory_bandwidth
            yield workload.name, workload.line, needed
        if self.default.memory_bandwidth is not None:
            yield DEFAULT, self.default.line, self.overprovisioning * self.default.memory_bandwidth

    def capacity_by_rule(self, labels: Mapping[str, str]) -> int | None:
        """Return the memory bandwidth that the first rule for a node gives it, in bytes/s."""
        found = (rule for rule in self.capacity if rule.selector.matches(labels))
        return next((rule.memory_bandwidth for rule in found), None)
