"""The nodes as they will be once the pods just placed are measured: what filter and score work on.

*Counterweights* are what those pods are expected to use, by their profiles:

    weight(age) = 1 until expiry                      decay: step
                = 1 - age / expiry, never below 0     decay: linear, which complements a sliding average
    column      = sum over a node's pods of weight x profile

A counterweight starts when the placement is known, and the earliest time reported counts: a later report (the
pod's PodScheduled time after a restart, the watch after the bind verb) does not start it again. It goes
when the pod ends, or the node. Sums are made from the records each time, so rounding errors cannot add up:
nothing becomes negative, and what is gone is gone.

The *outlook* is both together. It depends on no pod, so one serves all pods until a counterweight changes:

    free bandwidth = capacity - used - counterweight
    free memory    = available - counterweight
    LLC occupancy  = occupancy + counterweight
    CPU            = utilization + counterweight / cores
    latency        = as measured; with ``latencyModel: curve`` by the node's curve at used + counterweight

With ``relative: true`` bandwidth and LLC occupancy are shares of the node's capacity, and latency is the
ratio to the node's own idle value. A metric whose reference no node states stays absolute: nodes are never
compared by different measures. Nor are misses of different levels of cache: MPKI is compared among nodes that
count the same one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from corewise.config.interference.metrics import RANKED, Metric, Order
from corewise.config.interference.model import (
    CounterweightSettings,
    Decay,
    InterferenceConfiguration,
    LatencyModel,
    Profile,
)
from corewise.interference.latency import predicted_latency
from corewise.interference.pressure import Flags, Pressure, Values
from corewise.quantities import MILLI

_FIRST_ROOM = 64
_NOWHERE = -1


@dataclass(frozen=True, slots=True, eq=False)
class Weights:
    """Columns over nodes: bytes/s, bytes, milli-CPU, bytes."""

    memory_bandwidth: Values
    memory: Values
    cpu: Values
    llc: Values

    @classmethod
    def none(cls, size: int) -> Weights:
        return cls(*np.zeros((4, size)))


@dataclass(slots=True)
class Counterweights:
    """The pods placed recently, by the caller's key (their UID) and the row of their node.

    ``version`` changes when a pod comes or goes. Not changed by time: ``at`` is asked with it.
    """

    settings: CounterweightSettings = field(default_factory=CounterweightSettings)
    version: int = 0
    _slots: dict[str, int] = field(default_factory=dict)
    _free: list[int] = field(default_factory=list)
    _rows: NDArray[np.intp] = field(default_factory=lambda: np.full(_FIRST_ROOM, _NOWHERE, dtype=np.intp))
    _times: Values = field(default_factory=lambda: np.zeros(_FIRST_ROOM))
    _amounts: NDArray[np.float64] = field(default_factory=lambda: np.zeros((4, _FIRST_ROOM)))

    def __len__(self) -> int:
        return len(self._slots)

    def __contains__(self, pod: str) -> bool:
        return pod in self._slots

    def put(self, pod: str, row: int, profile: Profile, placed_at: float) -> None:
        """Count a pod on a node since a time in seconds; of two times on one node the earlier stays."""
        slot = self._slots.get(pod)
        if slot is None:
            slot = self._slots[pod] = self._take_slot()
            self._times[slot] = placed_at
        elif self._rows[slot] == row:
            self._times[slot] = min(placed_at, self._times[slot])
        else:
            self._times[slot] = placed_at
        self._rows[slot] = row
        self._amounts[:, slot] = profile.memory_bandwidth, profile.memory, profile.cpu, profile.llc
        self.version += 1

    def remove(self, pod: str) -> None:
        """Count a pod no more: it has ended, or was not bound after all."""
        slot = self._slots.pop(pod, None)
        if slot is not None:
            self._rows[slot] = _NOWHERE
            self._free.append(slot)
            self.version += 1

    def remove_node(self, row: int) -> None:
        """Forget the pods of a node that is gone, before another takes its row."""
        gone = set(np.flatnonzero(self._rows == row).tolist())
        for pod in [pod for pod, slot in self._slots.items() if slot in gone]:
            self.remove(pod)

    def expire(self, now: float) -> None:
        """Forget the pods whose weight is 0 from now on."""
        old = set(np.flatnonzero(now - self._times >= self.settings.expiry).tolist())
        for pod in [pod for pod, slot in self._slots.items() if slot in old]:
            self.remove(pod)

    def at(self, now: float, size: int) -> Weights:
        """Return the counterweights of the first ``size`` nodes at a time."""
        if not self._slots:
            return Weights.none(size)
        weights = shares(now - self._times, self.settings)
        counted = np.flatnonzero((self._rows >= 0) & (self._rows < size) & (weights > 0))
        rows, weights = self._rows[counted], weights[counted]
        sums = (np.bincount(rows, each[counted] * weights, minlength=size) for each in self._amounts)
        return Weights(*(each.astype(np.float64) for each in sums))

    def _take_slot(self) -> int:
        if self._free:
            return self._free.pop()
        slot = len(self._slots)
        if slot == len(self._rows):
            self._rows = np.pad(self._rows, (0, slot), constant_values=_NOWHERE)
            self._times = np.pad(self._times, (0, slot))
            self._amounts = np.pad(self._amounts, ((0, 0), (0, slot)))
        return slot


def shares(ages: Values, settings: CounterweightSettings) -> Values:
    """Return the weight of pods of these ages, in seconds, 0..1; a time to come is age 0."""
    alive = ages < settings.expiry
    if settings.decay is Decay.STEP or not settings.expiry:
        return alive.astype(np.float64)
    return np.clip(1 - ages / settings.expiry, 0.0, 1.0)


@dataclass(frozen=True, slots=True, eq=False)
class Outlook:
    """Columns over nodes; ``values`` are what each metric ranks by, in the metric's own unit.

    ``best_high`` is the same turned so that more is better. ``relative`` names the metrics that are relative.
    ``levels``: where nodes count misses of different levels of cache, those of each level; else empty.
    ``neighbors``: how much the pods there mind losing cache (neighbors.py).
    """

    pressure: Pressure
    weights: Weights
    free_bandwidth: Values
    free_memory: Values
    values: Mapping[Metric, Values]
    best_high: Mapping[Metric, Values]
    relative: frozenset[Metric]
    levels: tuple[Flags, ...]
    neighbors: Values

    @property
    def size(self) -> int:
        return len(self.free_memory)

    def ranked_together(self, metric: Metric, among: Flags) -> Iterator[Values]:
        """Yield the values that rank nodes, NaN for all that are not ranked: a column for each ranking."""
        apart = metric is Metric.LLC_MPKI and self.levels
        for each in [among & level for level in self.levels] if apart else [among]:
            yield np.where(each, self.best_high[metric], np.nan)


def outlook(
    pressure: Pressure,
    weights: Weights,
    config: InterferenceConfiguration,
    neighbors: Values | None = None,
) -> Outlook:
    """Return the outlook of nodes by a cleaned pressure and the counterweights of the moment.

    ``neighbors``: how much the pods there mind losing cache, nothing if None.
    """
    free = pressure.memorybandwidth_capacity - pressure.memorybandwidth_used - weights.memory_bandwidth
    descending = {metric for metric in RANKED if config.metrics.rankings[metric].order is Order.DESCENDING}

    def worse(metric: Metric, more: Values) -> Values:
        """Return a counterweight with the sign that makes a node worse."""
        return -more if metric in descending else more

    # A node that states no cores is missing once it has a counterweight.
    cpu = np.where(weights.cpu > 0, weights.cpu / MILLI / pressure.cpu_cores, 0.0)
    values: dict[Metric, Values] = {metric: getattr(pressure, metric.column) for metric in RANKED} | {
        Metric.MEMORY_BANDWIDTH: free,
        Metric.LLC_OCCUPANCY: pressure.llc_occupancy + worse(Metric.LLC_OCCUPANCY, weights.llc),
        Metric.CPU: pressure.cpu + worse(Metric.CPU, cpu),
    }
    if config.latency_model is LatencyModel.CURVE:
        values[Metric.MEMORY_LATENCY] = predicted_latency(pressure, weights.memory_bandwidth)
    relative = set()
    for metric in RANKED if config.relative else ():
        reference = metric.spec.reference
        if reference and not np.isnan(divisor := getattr(pressure, reference.column)).all():
            values[metric] = values[metric] / divisor
            relative.add(metric)
    return Outlook(
        pressure=pressure,
        weights=weights,
        free_bandwidth=free,
        free_memory=pressure.memory_available - weights.memory,
        values=values,
        best_high={metric: column if metric in descending else -column for metric, column in values.items()},
        relative=frozenset(relative),
        levels=_levels(pressure),
        neighbors=np.zeros(pressure.size) if neighbors is None else neighbors,
    )


def _levels(pressure: Pressure) -> tuple[Flags, ...]:
    level = np.where(np.isnan(pressure.llc_mpki_level), 0.0, pressure.llc_mpki_level)
    found = np.unique(level[~np.isnan(pressure.llc_mpki)])
    return tuple(level == each for each in found) if len(found) > 1 else ()
