"""What happened, for the off-line analysis: pods by type, their use, and the pressure on their nodes. Pure.

A history holds series of time (seconds) and value: of each node its pressures, of each pod what it used and,
where it was counted, its cycles per instruction. Out of it come *runs*, the samples of the analysis:

- of a pod with cycles per instruction, one run for each ``episode`` of its life after the warm-up; its pace
  is the mean there;
- of a Job's pod without, its whole life; its pace is how long that took, in seconds.

Paces of one type compare: more is slower. Where the speeds of nodes are known, durations are multiplied by
them. A run's pressure is the mean on its node over its time, less what the pod itself contributed, where that
is known. Where every node states what a metric is set against (its bandwidth, cache or idle latency), it is
the share of that, so that unlike nodes compare.

Values that cannot be are missing: not finite, negative, and zero of what exporters print as zero where they
do not support it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from corewise.interference.analysis_fit import Numbers

CPI = "cpi"
NEVER_ZERO = frozenset({"memorybandwidth", "memorylatency", "llc_occupancy", "memoryBandwidth", "llc", CPI})
NEAR = 600.0
OWN_PART = {"memorybandwidth": "memoryBandwidth", "llc_occupancy": "llc"}
"""Pressures that a pod's own use is a part of, in the same unit."""


@dataclass(frozen=True, slots=True)
class Series:
    """Values over time, in order, without those that are missing."""

    times: Numbers
    values: Numbers

    @classmethod
    def of(cls, points: Sequence[tuple[float, float]], *, zero_is_missing: bool = False) -> Series:
        """Return the points that can be, in the order of time."""
        pairs = np.array(points, dtype=np.float64).reshape(-1, 2)
        values = pairs[:, 1]
        there = np.isfinite(pairs).all(axis=1) & (values >= 0)
        if zero_is_missing:
            there &= values > 0
        kept = pairs[there]
        kept = kept[np.argsort(kept[:, 0], kind="stable")]
        return cls(kept[:, 0], kept[:, 1])

    def within(self, start: float, end: float) -> Numbers:
        """Return the values from ``start`` on and before ``end``."""
        first, last = np.searchsorted(self.times, (start, end))
        found: Numbers = self.values[first:last]
        return found

    def mean(self, start: float, end: float) -> float | None:
        """Return the mean over a time; where there is no value, the next within ``NEAR`` seconds, or None."""
        values = self.within(start, end)
        if len(values):
            return float(values.mean())
        after = self.within(end, start + NEAR)
        return float(after[0]) if len(after) else None


@dataclass(frozen=True, slots=True)
class PodRecord:
    """A pod. ``end`` is when it finished its work; None of one that ran on, or failed, or was evicted.

    ``gone`` is when it ran no longer, for whatever reason, if that is not ``end``.
    """

    name: str
    type: str
    node: str
    start: float
    end: float | None
    use: Mapping[str, Series] = field(default_factory=dict)
    gone: float | None = None

    @property
    def until(self) -> float | None:
        """When it ran no longer; None of one that still does."""
        return self.end if self.gone is None else self.gone


@dataclass(frozen=True, slots=True)
class History:
    """Pods and pressures from ``start`` to ``end``.

    ``speed``: how fast a node is, 1 if unknown. ``against``: what values are a share of, by node and metric.
    """

    start: float
    end: float
    nodes: Mapping[str, Mapping[str, Series]]
    pods: Sequence[PodRecord]
    speed: Mapping[str, float] = field(default_factory=dict)
    against: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def comparable(self) -> History:
        """Return the same, in which no metric is a share on some nodes and absolute on others."""
        absolute = {
            metric
            for name, series in self.nodes.items()
            for metric in series
            if metric not in self.against.get(name, {})
        }
        against = {
            name: {metric: value for metric, value in each.items() if metric not in absolute}
            for name, each in self.against.items()
        }
        return replace(self, against=against)

    def measure(self, node: str, metric: str) -> float:
        """Return what a node's values are to be divided by."""
        return self.against.get(node, {}).get(metric, 1.0)


@dataclass(frozen=True, slots=True)
class Run:
    """One sample. ``pressure`` by metric; a metric that is missing is not in it."""

    pod: str
    node: str
    pace: float
    pressure: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Slicing:
    """How histories are cut, in seconds: warm-up, episodes of pods that run on, what values average."""

    warm_up: float = 300.0
    episode: float = 1800.0
    window: float = 300.0


def runs_by_cpi(history: History, pods: Sequence[PodRecord], slicing: Slicing) -> list[Run]:
    """Return a run for each episode of the pods whose cycles per instruction were counted."""
    runs = []
    for pod in pods:
        counted = pod.use.get(CPI)
        for start, end in _episodes(history, pod, slicing) if counted else ():
            pace = counted.mean(start, end) if counted else None
            if pace is not None:
                runs.append(Run(pod.name, pod.node, pace, _pressure(history, pod, start, end)))
    return runs


def runs_by_duration(history: History, pods: Sequence[PodRecord]) -> list[Run]:
    """Return a run for each pod that began in the time of the history and finished its work."""
    return [
        Run(pod.name, pod.node, pace, _pressure(history, pod, pod.start, pod.end))
        for pod in pods
        if pod.end is not None
        and pod.start >= history.start
        and (pace := (pod.end - pod.start) * history.speed.get(pod.node, 1.0)) > 0
    ]


def use_after_warm_up(pod: PodRecord, what: str, slicing: Slicing) -> Numbers:
    """Return what a pod used, each value one of its series, after its warm-up."""
    series = pod.use.get(what)
    if series is None:
        return np.empty(0)
    return series.within(pod.start + slicing.warm_up, np.inf if pod.end is None else pod.end)


def _episodes(history: History, pod: PodRecord, slicing: Slicing) -> Iterator[tuple[float, float]]:
    """Yield the whole episodes of a pod's life; what is left over at its end is not one."""
    start = max(history.start, pod.start + slicing.warm_up)
    end = history.end if pod.end is None else pod.end
    for number in range(max(0, int((end - start) // slicing.episode))):
        yield start + number * slicing.episode, start + (number + 1) * slicing.episode


def _pressure(history: History, pod: PodRecord, start: float, end: float) -> dict[str, float]:
    found = {}
    for metric, series in history.nodes.get(pod.node, {}).items():
        mean = series.mean(start, end)
        if mean is None:
            continue
        own = pod.use.get(OWN_PART.get(metric, ""))
        theirs = max(0.0, mean - ((own.mean(start, end) if own else None) or 0.0))
        found[metric] = theirs / history.measure(pod.node, metric)
    return found
