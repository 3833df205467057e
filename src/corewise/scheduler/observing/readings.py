"""From an answer of Prometheus to one value for each node; and of the others, why they have none.

    fresh      a value that can be, not older than the series' maximum age
    stale      one that is older
    invalid    NaN, infinite, negative, larger than any machine has, or 0 where exporters print that for
               "not supported"
    ambiguous  several series of one node: nobody can say which counts
    absent     no series names the node

Times are those of this machine: Prometheus says how long ago, by its own clock, a sample was taken.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from corewise.config.interference import Series
from corewise.engine.table import Measures
from corewise.interference.pressure import ZERO_IS_MISSING
from corewise.prometheus.client import Answer, Sample
from corewise.scheduler.observing.node_names import NodeNames
from corewise.scheduler.observing.sources import Source

_EXAMPLES = 3
LARGEST: Mapping[Series, float] = {
    Series.MEMORY_BANDWIDTH: 1e14,
    Series.MEMORY_BANDWIDTH_CAPACITY: 1e14,
    Series.MEMORY_LATENCY: 1.0,
    Series.MEMORY_LATENCY_IDLE: 1.0,
    Series.LLC_OCCUPANCY: 1e13,
    Series.LLC_CAPACITY: 1e13,
    Series.LLC_MPKI: 1000.0,
    Series.CPU: 10.0,
    Series.CPU_CORES: 1e6,
    Series.MEMORY_AVAILABLE: 1e17,
}
"""Beyond these no machine is; Intel PCM prints 2**64 - 1 for occupancy that it could not read."""


class State(StrEnum):
    """Whether a node has a value of a series."""

    FRESH = "fresh"
    STALE = "stale"
    INVALID = "invalid"
    AMBIGUOUS = "ambiguous"
    ABSENT = "absent"


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """One series of all nodes. ``values`` is NaN where ``invalid``, ``ambiguous`` or absent.

    ``sampled``: Unix times by this machine's clock. ``unmatched`` series name no node; ``examples`` are the
    labels of some of them. ``returned``: how many series there were in all.
    """

    values: Measures
    sampled: Measures
    invalid: NDArray[np.bool_]
    ambiguous: NDArray[np.bool_]
    returned: int = 0
    unmatched: int = 0
    examples: tuple[Mapping[str, str], ...] = ()

    @classmethod
    def nothing(cls, size: int) -> Reading:
        """Return that of a series which nobody has."""
        no = np.zeros(size, dtype=np.bool_)
        return cls(np.full(size, np.nan), np.full(size, np.nan), no, no.copy())

    def rows(self, places: NDArray[np.intp]) -> Reading:
        """Return that of other nodes, by their places among these; a negative place is a new node."""
        if not len(self.values):
            return Reading.nothing(len(places))
        old, here = np.maximum(places, 0), places >= 0
        return Reading(
            np.where(here, self.values[old], np.nan),
            np.where(here, self.sampled[old], np.nan),
            here & self.invalid[old],
            here & self.ambiguous[old],
            self.returned,
            self.unmatched,
            self.examples,
        )

    def states(self, now: float, maximum_age: float) -> Mapping[State, int]:
        """Return how many nodes are in each state."""
        there = ~np.isnan(self.values)
        fresh = there & (self.sampled + maximum_age >= now)
        bad = self.invalid | self.ambiguous
        return {
            State.FRESH: int(fresh.sum()),
            State.STALE: int((there & ~fresh).sum()),
            State.INVALID: int((self.invalid & ~self.ambiguous).sum()),
            State.AMBIGUOUS: int(self.ambiguous.sum()),
            State.ABSENT: int((~there & ~bad).sum()),
        }

    def oldest(self, now: float, maximum_age: float) -> float | None:
        """Return the age of the oldest value that counts; None if there is none."""
        fresh = ~np.isnan(self.values) & (self.sampled + maximum_age >= now)
        return float(now - self.sampled[fresh].min()) if fresh.any() else None


def read(
    source: Source, nodes: NodeNames, values: Answer, last_samples: Answer | None, now: float
) -> Reading:
    """Read an answer that came at ``now``. ``last_samples``: when each node was last sampled, if known."""
    size = len(nodes)
    count = np.zeros(size, dtype=np.int64)
    found = np.full(size, np.nan)
    unmatched: list[Sample] = []
    for sample in values.samples:
        place = nodes.place(sample.labels.get(source.node_label, ""))
        if place is None:
            unmatched.append(sample)
        else:
            found[place] = sample.value * source.factor
            count[place] += 1
    ambiguous = count > 1
    sound = _sound(source, found)
    invalid = (count > 0) & ~sound
    return Reading(
        values=np.where(sound & ~ambiguous, found, np.nan),
        sampled=now - _ages(source, nodes, values, last_samples),
        invalid=invalid,
        ambiguous=ambiguous,
        returned=len(values.samples),
        unmatched=len(unmatched),
        examples=tuple(each.labels for each in unmatched[:_EXAMPLES]),
    )


def _sound(source: Source, values: Measures) -> NDArray[np.bool_]:
    """Return which values can be."""
    low = values > 0 if source.column in ZERO_IS_MISSING else values >= 0
    sound: NDArray[np.bool_] = low & (values <= LARGEST[source.series])
    return sound


def _ages(source: Source, nodes: NodeNames, values: Answer, last_samples: Answer | None) -> Measures:
    """Return how old each node's value was when the query was evaluated.

    Where the last sample was not found, though there is a value, it is as old as values can be that count.
    """
    if last_samples is None:
        return np.zeros(len(nodes))
    ages = np.full(len(nodes), source.maximum_age)
    for place, sampled in _placed(source, nodes, last_samples):
        ages[place] = max(0.0, values.at - sampled)
    return ages


def _placed(source: Source, nodes: NodeNames, answer: Answer) -> Iterator[tuple[int, float]]:
    for sample in answer.samples:
        place = nodes.place(sample.labels.get(source.node_label, ""))
        if place is not None and np.isfinite(sample.value):
            yield place, sample.value
