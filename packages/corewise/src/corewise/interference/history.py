"""Records of the past: pods, their use, and the load of their nodes, for the analysis. Pure.

A history holds series of time (seconds) and value: the pressures of each node; of each pod its use and, where
counted, its cycles per instruction. From it come *runs*, the samples of the analysis:

- a pod with cycles per instruction gives one run per ``episode`` of its life after the warm-up; its pace is
  the mean there;
- a finished Job's pod without them gives one run, its whole life; its pace is the duration in seconds.

Paces of one type compare: more is slower. Where ratios are known, durations are multiplied by

    ratio of the node x (throttled / ratio of the quota + 1 - throttled)

since a CPU of that ratio does so much more work, but has less time for it in a scheduling period that ends by
a divided quota. A run's pressure is the mean on its node over its time, less the pod's own part where that is
known.
Where every node states a reference (its bandwidth, cache or idle latency), pressure is the share of it, so
that unlike nodes compare. Values that cannot be are missing: not finite, negative, and the zeros that
exporters print for what they do not support.

Bandwidth that is not counted by pod is estimated from what nodes use (:func:`bandwidth_shares`):

    used(node, t) = background(node) + sum over types of pods(type, node, t) x use(type)

fitted by least squares over all nodes and times, no use being negative; ``pods`` counts those that ran, by
the part of the window before ``t`` in which they did. Values closer than ``APART`` seconds repeat each other,
so one of them is taken. The fit can only separate types whose pods come and go independently: a type whose
spread (half of the 95 % interval) is above ``SURE`` of the use itself gets no estimate. Pods on a crowded
node use less than they would, so estimates are rather too low.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from corewise.config.interference.metrics import RANKED

Numbers = NDArray[np.float64]

CPI = "cpi"
THROTTLED = "throttled"
"""Of a pod's scheduling periods, the share in which its quota stopped it."""

NEVER_ZERO = frozenset(
    {*(metric.value for metric in RANKED if metric.spec.zero_is_missing), "memoryBandwidth", "llc", CPI}
)
NEAR = 600.0
OWN_PART = {"memorybandwidth": "memoryBandwidth", "llc_occupancy": "llc"}
"""Pressures that a pod's own use is a part of, in the same unit."""

APART = 600.0
SURE = 0.25
NORMAL_95 = 1.96

_RIDGE = 1e-6
"""Of a column's mean square: enough to invert inseparable columns, and too little to matter otherwise."""


@dataclass(frozen=True, slots=True)
class TimeSeries:
    """Values over time, in order, without those that are missing."""

    times: Numbers
    values: Numbers

    @classmethod
    def of(cls, points: Sequence[tuple[float, float]], *, zero_is_missing: bool = False) -> TimeSeries:
        """Return the valid points in the order of time."""
        pairs = np.array(points, dtype=np.float64).reshape(-1, 2)
        values = pairs[:, 1]
        valid = np.isfinite(pairs).all(axis=1) & (values >= 0)
        if zero_is_missing:
            valid &= values > 0
        kept = pairs[valid]
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
    """A pod. ``end`` is when it finished its work; None if it still runs, failed, or was evicted.

    ``gone`` is when it stopped running for whatever reason, if that is not ``end``. ``ratio`` is what its
    quota was divided by, 1 if it was not; None: its node's.
    """

    name: str
    type: str
    node: str
    start: float
    end: float | None
    use: Mapping[str, TimeSeries] = field(default_factory=dict)
    gone: float | None = None
    ratio: float | None = None

    @property
    def until(self) -> float | None:
        """The time it stopped running; None if it still runs."""
        return self.end if self.gone is None else self.gone


@dataclass(frozen=True, slots=True)
class History:
    """Pods and pressures from ``start`` to ``end``.

    ``speed``: how fast a node is, 1 if unknown. ``against``: what values are a share of, by node and metric.
    """

    start: float
    end: float
    nodes: Mapping[str, Mapping[str, TimeSeries]]
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

    def reference(self, node: str, metric: str) -> float:
        """Return the divisor of a node's values."""
        return self.against.get(node, {}).get(metric, 1.0)

    def pressure(self, pod: PodRecord, start: float, end: float) -> dict[str, float]:
        """Return the mean pressure on a pod's node by metric, without the pod's own part."""
        found = {}
        for metric, series in self.nodes.get(pod.node, {}).items():
            mean = series.mean(start, end)
            if mean is None:
                continue
            own = pod.use.get(OWN_PART.get(metric, ""))
            others = max(0.0, mean - ((own.mean(start, end) if own else None) or 0.0))
            found[metric] = others / self.reference(pod.node, metric)
        return found


@dataclass(frozen=True, slots=True)
class Run:
    """One sample. ``pressure`` by metric; a metric that is missing is not in it."""

    pod: str
    node: str
    pace: float
    pressure: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Slicing:
    """The slicing of histories, in seconds: warm-up, episodes of pods that run on, window of averages."""

    warm_up: float = 300.0
    episode: float = 1800.0
    window: float = 300.0


def runs_by_cpi(history: History, pods: Sequence[PodRecord], slicing: Slicing) -> list[Run]:
    """Return a run for each whole episode of the pods whose cycles per instruction were counted."""
    return [
        Run(pod.name, pod.node, pace, history.pressure(pod, start, end))
        for pod in pods
        if (counted := pod.use.get(CPI))
        for start, end in _episodes(history, pod, slicing)
        if (pace := counted.mean(start, end)) is not None
    ]


def _episodes(history: History, pod: PodRecord, slicing: Slicing) -> Iterator[tuple[float, float]]:
    start = max(history.start, pod.start + slicing.warm_up)
    end = history.end if pod.end is None else pod.end
    for number in range(max(0, int((end - start) // slicing.episode))):
        yield start + number * slicing.episode, start + (number + 1) * slicing.episode


def runs_by_duration(history: History, pods: Sequence[PodRecord]) -> list[Run]:
    """Return a run for each pod that started within the history and finished its work."""
    return [
        Run(pod.name, pod.node, pace, history.pressure(pod, pod.start, pod.end))
        for pod in pods
        if pod.end is not None
        and pod.start >= history.start
        and (pace := (pod.end - pod.start) * _gain(history, pod, pod.end)) > 0
    ]


def _gain(history: History, pod: PodRecord, end: float) -> float:
    """Return the work of a pod over its work in the same time on a node of ratio 1.00."""
    speed = history.speed.get(pod.node, 1.0)
    ratio = speed if pod.ratio is None else pod.ratio
    series = pod.use.get(THROTTLED)
    throttled = min(1.0, (series.mean(pod.start, end) if series else None) or 0.0)
    return speed * (throttled / ratio + 1 - throttled)


def use_after_warm_up(pod: PodRecord, what: str, slicing: Slicing) -> Numbers:
    """Return the values of one of a pod's series after its warm-up."""
    series = pod.use.get(what)
    if series is None:
        return np.empty(0)
    return series.within(pod.start + slicing.warm_up, np.inf if pod.end is None else pod.end)


@dataclass(frozen=True, slots=True)
class BandwidthShare:
    """Bytes per second of one pod, and half of their 95 % interval."""

    value: float
    spread: float


def bandwidth_shares(history: History, window: float) -> dict[str, BandwidthShare]:
    """Return the bandwidth of one pod of each type where it can be estimated; values average ``window`` s."""
    types = sorted({pod.type for pod in history.pods})
    by_node: dict[str, list[PodRecord]] = {}
    for pod in history.pods:
        by_node.setdefault(pod.node, []).append(pod)
    parts = [
        _less_background(node["memorybandwidth"], by_node.get(name, []), types, window)
        for name, node in history.nodes.items()
        if "memorybandwidth" in node
    ]
    if sum(len(used) for _, used in parts) <= len(types) or not types:
        return {}
    design = np.concatenate([counts for counts, _ in parts])
    uses, errors = least_squares(np.concatenate([used for _, used in parts]), design)
    found = {
        kind: BandwidthShare(float(use), NORMAL_95 * float(error))
        for kind, use, error in zip(types, uses, errors, strict=True)
    }
    return {kind: share for kind, share in found.items() if 0 < share.spread <= SURE * share.value}


def _less_background(
    series: TimeSeries, pods: Sequence[PodRecord], types: Sequence[str], window: float
) -> tuple[Numbers, Numbers]:
    """Return the pods of each type that ran, and the node's use, both less their means on the node."""
    taken: list[int] = []
    for index, at in enumerate(series.times.tolist()):
        if not taken or at - series.times[taken[-1]] >= APART:
            taken.append(index)
    times, values = series.times[taken], series.values[taken]
    counts = np.zeros((len(times), len(types)))
    for pod in pods:
        gone = np.inf if pod.until is None else pod.until
        overlap = np.minimum(times, gone) - np.maximum(times - window, pod.start)
        counts[:, types.index(pod.type)] += np.clip(overlap, 0.0, window) / window
    return counts - counts.mean(axis=0), values - values.mean()


def least_squares(target: Numbers, design: Numbers, *, free: int = 0) -> tuple[Numbers, Numbers]:
    """Return the solution and its standard errors; only the first ``free`` coefficients may be negative.

    The most negative of the others is set to 0, keeping its last error, and the rest solved again.
    """
    solution, errors = np.zeros(design.shape[1]), np.zeros(design.shape[1])
    kept = list(range(design.shape[1]))
    while kept:
        found, error = _solve(target, design[:, kept])
        errors[kept] = error
        if (found[free:] >= 0).all():
            solution[kept] = found
            break
        kept.pop(free + int(found[free:].argmin()))
    return solution, errors


def _solve(target: Numbers, design: Numbers) -> tuple[Numbers, Numbers]:
    count, width = design.shape
    squares = design.T @ design
    inverse = np.linalg.inv(squares + _RIDGE * np.diag(np.maximum(np.diag(squares), 1e-12)))
    found: Numbers = inverse @ design.T @ target
    residual = target - design @ found
    variance = float(residual @ residual) / max(1, count - width)
    errors: Numbers = np.sqrt(variance * np.diag(inverse))
    return found, errors
