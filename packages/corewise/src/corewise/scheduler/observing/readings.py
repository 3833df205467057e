"""One refresh: every query of a configuration asked once, and what the answers say of each node.

A series belongs to the node that its label names, with a port or without: by the Node's name, its label
kubernetes.io/hostname, or an address of its status. A name that two nodes share belongs to neither.

    fresh      a valid value, not older than the series' maximum age
    stale      one that is older
    invalid    NaN, infinite, negative, larger than any machine has, or 0 where exporters print that for
               "not supported"
    ambiguous  several series of one node: it is unknown which counts
    absent     no series names the node

Times are by this machine's clock: Prometheus says how long ago, by its own clock, a sample was taken. Answers
are read in a thread, not on the event loop: thousands of series must not keep a decision waiting.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from corewise.config.interference.metrics import LEVEL_LABEL, Metric
from corewise.engine import Measured
from corewise.engine.table import Measures
from corewise.prometheus.client import PrometheusClient, PrometheusError, QueryError, QueryResult, Sample
from corewise.scheduler.observing.sources import Source

HOST_NAME = "kubernetes.io/hostname"
_LEVEL = re.compile(r"L([1-9])")
_PORT = re.compile(r"^\[?(?P<host>.*?)\]?(?::[0-9]{1,5})?$")


@dataclass(frozen=True, slots=True)
class NodeIdentity:
    """A node, and what else it is called."""

    name: str
    aliases: tuple[str, ...] = ()


class NodeNames:
    """The nodes that there are, in order."""

    def __init__(self, nodes: Iterable[NodeIdentity]) -> None:
        listed = tuple(nodes)
        self.names = tuple(each.name for each in listed)
        self._places: dict[str, int] = {}
        shared: set[str] = set()
        for place, node in enumerate(listed):
            for alias in node.aliases:
                if self._places.setdefault(alias, place) != place:
                    shared.add(alias)
        for alias in shared:
            del self._places[alias]
        self._places.update({name: place for place, name in enumerate(self.names)})

    def __len__(self) -> int:
        return len(self.names)

    def place(self, text: str) -> int | None:
        """Return the place of the node that a label's value names; None if it names none."""
        found = self._places.get(text)
        if found is None:
            match = _PORT.fullmatch(text)
            found = self._places.get(match["host"]) if match else None
        return found


_EXAMPLES = 3


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

    ``levels``: of which level of cache the values are, where series name one that is not the last.
    ``sampled``: Unix times by this machine's clock. ``unmatched`` series name no node; ``examples`` are the
    labels of some of them. ``returned``: how many series there were in all.
    """

    values: Measures
    sampled: Measures
    levels: Measures
    invalid: NDArray[np.bool_]
    ambiguous: NDArray[np.bool_]
    returned: int = 0
    unmatched: int = 0
    examples: tuple[Mapping[str, str], ...] = ()

    @classmethod
    def nothing(cls, size: int) -> Reading:
        """Return the reading of a series that no node has."""
        no, unknown = np.zeros(size, dtype=np.bool_), np.full(size, np.nan)
        return cls(unknown, unknown.copy(), unknown.copy(), no, no.copy())

    def rows(self, places: NDArray[np.intp]) -> Reading:
        """Return that of other nodes, by their places among these; a negative place is a new node."""
        if not len(self.values):
            return Reading.nothing(len(places))
        old, here = np.maximum(places, 0), places >= 0
        return Reading(
            np.where(here, self.values[old], np.nan),
            np.where(here, self.sampled[old], np.nan),
            np.where(here, self.levels[old], np.nan),
            here & self.invalid[old],
            here & self.ambiguous[old],
            self.returned,
            self.unmatched,
            self.examples,
        )

    def states(self, now: float, maximum_age: float) -> Mapping[State, int]:
        """Count the nodes in each state."""
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
    source: Source, nodes: NodeNames, values: QueryResult, last_samples: QueryResult | None, now: float
) -> Reading:
    """Read an answer that came at ``now``. ``last_samples``: when each node was last sampled, if known."""
    size = len(nodes)
    count = np.zeros(size, dtype=np.int64)
    found, levels = np.full((2, size), np.nan)
    unmatched: list[Sample] = []
    for sample in values.samples:
        place = nodes.place(sample.labels.get(source.node_label, ""))
        if place is None:
            unmatched.append(sample)
        else:
            found[place] = sample.value * source.factor
            count[place] += 1
            level = _LEVEL.fullmatch(sample.labels.get(LEVEL_LABEL, ""))
            levels[place] = float(level[1]) if level else np.nan
    ambiguous = count > 1
    sound = _sound(source, found)
    invalid = (count > 0) & ~sound
    return Reading(
        values=np.where(sound & ~ambiguous, found, np.nan),
        sampled=now - _ages(source, nodes, values, last_samples),
        levels=levels,
        invalid=invalid,
        ambiguous=ambiguous,
        returned=len(values.samples),
        unmatched=len(unmatched),
        examples=tuple(each.labels for each in unmatched[:_EXAMPLES]),
    )


def _sound(source: Source, values: Measures) -> NDArray[np.bool_]:
    """Return which values can be."""
    low = values > 0 if source.metric.spec.zero_is_missing else values >= 0
    sound: NDArray[np.bool_] = low & (values <= source.metric.spec.largest)
    return sound


def _ages(
    source: Source, nodes: NodeNames, values: QueryResult, last_samples: QueryResult | None
) -> Measures:
    """Return the age of each node's value when the query was evaluated.

    Where the last sample was not found, though there is a value, it is as old as values can be that count.
    """
    if last_samples is None:
        return np.zeros(len(nodes))
    ages = np.full(len(nodes), source.maximum_age)
    for place, sampled in _placed(source, nodes, last_samples):
        ages[place] = max(0.0, values.at - sampled)
    return ages


def _placed(source: Source, nodes: NodeNames, answer: QueryResult) -> Iterator[tuple[int, float]]:
    for sample in answer.samples:
        place = nodes.place(sample.labels.get(source.node_label, ""))
        if place is not None and np.isfinite(sample.value):
            yield place, sample.value


_AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class Observation:
    """The readings of the nodes ``names`` after a refresh at ``at`` (Unix time), by series."""

    at: float
    names: tuple[str, ...] = ()
    sources: tuple[Source, ...] = ()
    readings: Mapping[Metric, Reading] = field(default_factory=dict)
    failures: Mapping[Metric, PrometheusError] = field(default_factory=dict)

    def measured(self) -> Measured:
        """Return it as the engine takes it: where there is no value, there is no time of a sample."""
        columns = {
            each.metric.column: (reading.values, _known_times(reading))
            for each in self.sources
            if (reading := self.readings.get(each.metric)) is not None
        }
        misses = self.readings.get(Metric.LLC_MPKI)
        if misses is not None:
            columns["llc_mpki_level"] = misses.levels, _known_times(misses)
        return Measured(self.names, columns)

    def states(self, now: float) -> Mapping[Metric, Mapping[State, int]]:
        """Return for each series how many nodes have a usable value, and why others have none."""
        return {
            each.metric: self.readings[each.metric].states(now, each.maximum_age)
            for each in self.sources
            if each.metric in self.readings
        }


def _known_times(reading: Reading) -> Measures:
    return np.where(np.isnan(reading.values), np.nan, reading.sampled)


async def observe(
    client: PrometheusClient,
    asked: tuple[Source, ...],
    nodes: NodeNames,
    now: Callable[[], float],
    before: Observation | None = None,
) -> Observation:
    """Ask everything once. Where a query fails, what ``before`` has of the series stays."""
    slots = asyncio.Semaphore(_AT_ONCE)

    async def ask(source: Source) -> Reading | PrometheusError:
        async with slots:
            try:
                values, last = await _answers(client, source)
            except PrometheusError as error:
                return error
        return await client.aside(read, source, nodes, values, last, now())

    answers = await asyncio.gather(*(ask(each) for each in asked))
    readings: dict[Metric, Reading] = {}
    failures: dict[Metric, PrometheusError] = {}
    for source, answer in zip(asked, answers, strict=True):
        if isinstance(answer, PrometheusError):
            failures[source.metric] = answer
            readings[source.metric] = _kept(source, nodes, before)
        else:
            readings[source.metric] = answer
    return Observation(now(), nodes.names, asked, readings, failures)


async def _answers(client: PrometheusClient, source: Source) -> tuple[QueryResult, QueryResult | None]:
    """Ask for the values, and for the times of the last samples, without which values are new."""
    values = await client.query(source.query)
    if not source.last_samples or not values.samples:
        return values, None
    return values, await client.query(source.last_samples)


def _kept(source: Source, nodes: NodeNames, before: Observation | None) -> Reading:
    reading = before.readings.get(source.metric) if before else None
    if before is None or reading is None or source not in before.sources:
        return Reading.nothing(len(nodes))
    if before.names == nodes.names:
        return reading
    places = {name: place for place, name in enumerate(before.names)}
    return reading.rows(np.array([places.get(name, -1) for name in nodes.names], dtype=np.intp))


async def vet(
    client: PrometheusClient, asked: tuple[Source, ...], nodes: NodeNames, now: Callable[[], float]
) -> list[str]:
    """Return the mistakes in the queries of a configuration themselves, before it is applied.

    A query that is refused, that names no node, or that names one several times, is a mistake of whoever
    wrote it. That Prometheus does not answer, or has no such series yet, is not.
    """
    found = await observe(client, asked, nodes, now)
    wrong = []
    for each in asked:
        failure, reading = found.failures.get(each.metric), found.readings[each.metric]
        if isinstance(failure, QueryError):
            wrong.append(f"{each.origin}: {failure.message}")
        elif reading.returned and len(nodes) and (text := complaint(each, reading)):
            wrong.append(f"{each.origin}: {text}")
    return wrong


def complaint(source: Source, reading: Reading) -> str:
    """Return the fault of an answer as a whole, if there is one; not the nodes without a value."""
    if not reading.returned:
        return f"{source.metric}: the query returns no series"
    if reading.unmatched == reading.returned:
        what = f'no series has a node of this cluster in its label "{source.node_label}"'
        return f"{source.metric}: {what}: {dict(reading.examples[0])}"
    several = int(reading.ambiguous.sum())
    if several:
        what = f"several series of one node, on {several} nodes"
        return f"{source.metric}: {what}: aggregate by ({source.node_label})"
    return ""
