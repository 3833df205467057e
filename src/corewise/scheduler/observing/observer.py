"""The loop that asks Prometheus: all queries of a refresh at once, an immutable observation out.

- A query that fails leaves the values that its series had; they grow old, and are missing once they are older
  than the series' maximum age. What is wrong is logged once as long as it stays so, and counted.
- Answers are read beside the event loop, in a thread: thousands of series must not keep a decision waiting.
- Each refresh looks at the nodes that there are then.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from corewise.kube.clock import Clock
from corewise.policy import metrics
from corewise.policy.interference import Series
from corewise.prometheus.client import Answer, PrometheusClient
from corewise.prometheus.errors import PrometheusError, QueryError
from corewise.prometheus.exposition import Exposition
from corewise.scheduler.engine import Measured
from corewise.scheduler.observing.node_names import NodeIdentity, NodeNames
from corewise.scheduler.observing.readings import Reading, State, read
from corewise.scheduler.observing.sources import Source
from corewise.service.logs import fields

log = logging.getLogger(__name__)

LONGEST_INTERVAL = 30.0
_SHORTEST_INTERVAL = 1.0
_SHARE_OF_WINDOW = 10
_AT_ONCE = 4
_OK, _FAILED = "ok", "failed"


def refresh_interval(window: float) -> float:
    """Return how often is asked: an average over a window changes by a tenth of it in that time."""
    return max(_SHORTEST_INTERVAL, min(LONGEST_INTERVAL, window / _SHARE_OF_WINDOW))


def _nothing_failed() -> Mapping[Series, PrometheusError]:
    return {}


@dataclass(frozen=True, slots=True)
class Observation:
    """What is known of the nodes ``names`` after a refresh at ``at`` (Unix time), by series."""

    at: float
    names: tuple[str, ...] = ()
    sources: tuple[Source, ...] = ()
    readings: Mapping[Series, Reading] = field(default_factory=dict)
    failures: Mapping[Series, PrometheusError] = field(default_factory=_nothing_failed)

    def measured(self) -> Measured:
        """Return it as the engine takes it."""
        columns = {
            each.column: (reading.values, reading.sampled)
            for each in self.sources
            if (reading := self.readings.get(each.series)) is not None
        }
        return Measured(self.names, columns)

    def states(self, now: float) -> Mapping[Series, Mapping[State, int]]:
        """Return for each series how many nodes have a usable value, and why others have none."""
        return {
            each.series: self.readings[each.series].states(now, each.maximum_age)
            for each in self.sources
            if each.series in self.readings
        }


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
        return await asyncio.to_thread(read, source, nodes, values, last, now())

    answers = await asyncio.gather(*(ask(each) for each in asked))
    readings: dict[Series, Reading] = {}
    failures: dict[Series, PrometheusError] = {}
    for source, answer in zip(asked, answers, strict=True):
        if isinstance(answer, PrometheusError):
            failures[source.series] = answer
            readings[source.series] = _kept(source, nodes, before)
        else:
            readings[source.series] = answer
    return Observation(now(), nodes.names, asked, readings, failures)


async def _answers(client: PrometheusClient, source: Source) -> tuple[Answer, Answer | None]:
    """Ask for the values, and for the times of the last samples, without which values are new."""
    values = await client.query(source.query)
    if not source.last_samples or not values.samples:
        return values, None
    return values, await client.query(source.last_samples)


def _kept(source: Source, nodes: NodeNames, before: Observation | None) -> Reading:
    reading = before.readings.get(source.series) if before else None
    if before is None or reading is None or source not in before.sources:
        return Reading.nothing(len(nodes))
    if before.names == nodes.names:
        return reading
    places = {name: place for place, name in enumerate(before.names)}
    return reading.rows(np.array([places.get(name, -1) for name in nodes.names], dtype=np.intp))


class Observer:
    """Asks again and again. ``nodes`` tells which nodes there are, ``publish`` is given each observation."""

    def __init__(
        self,
        client: PrometheusClient,
        nodes: Callable[[], Iterable[NodeIdentity]],
        publish: Callable[[Observation], None],
        exposition: Exposition,
        clock: Clock,
    ) -> None:
        self._client = client
        self._nodes = nodes
        self._publish = publish
        self._metrics = exposition
        self._clock = clock
        self._told: dict[Series, str] = {}
        self._series: tuple[Source, ...] = ()
        self._wake = asyncio.Event()
        self.interval = LONGEST_INTERVAL
        self.latest: Observation | None = None

    def ask_for(self, asked: tuple[Source, ...], interval: float) -> None:
        """Ask for these series from now on, the first time at once; what was known of others is forgotten."""
        self._series, self.interval = asked, interval
        if not asked:
            self.latest = None
        self._wake.set()

    async def run(self, beat: Callable[[], None]) -> None:
        """Refresh until cancelled; ``beat`` is called each time."""
        while True:
            beat()
            self._wake.clear()
            if self._series:
                await self.refresh()
            await self._rest()

    async def refresh(self) -> Observation:
        """Ask everything once, and publish what is known then."""
        started = self._clock.monotonic()
        asked = self._series
        found = await observe(self._client, asked, NodeNames(self._nodes()), self._now, self.latest)
        if asked is self._series:
            self.latest = found
            self._publish(found)
        self._count(found, self._clock.monotonic() - started)
        return found

    def export(self) -> None:
        """Set the gauges, as they are now."""
        latest, now = self.latest or Observation(0.0), self._now()
        states = latest.states(now)
        self._metrics.replace(
            metrics.INTERFERENCE_NODES,
            {(series, state): count for series, counts in states.items() for state, count in counts.items()},
        )
        ages = {
            (each.series.value,): latest.readings[each.series].oldest(now, each.maximum_age)
            for each in latest.sources
        }
        self._metrics.replace(
            metrics.INTERFERENCE_AGE, {labels: age for labels, age in ages.items() if age is not None}
        )
        self._metrics.replace(
            metrics.INTERFERENCE_UNMATCHED,
            {(series.value,): reading.unmatched for series, reading in latest.readings.items()},
        )

    async def _rest(self) -> None:
        woken = asyncio.create_task(self._wake.wait())
        pause = asyncio.create_task(self._clock.sleep(self.interval))
        try:
            await asyncio.wait((woken, pause), return_when=asyncio.FIRST_COMPLETED)
        finally:
            woken.cancel()
            pause.cancel()

    def _now(self) -> float:
        return self._clock.now().timestamp()

    def _count(self, found: Observation, seconds: float) -> None:
        self._metrics.observe(metrics.INTERFERENCE_REFRESH_SECONDS, seconds)
        for each in found.sources:
            failure = found.failures.get(each.series)
            self._metrics.count(metrics.INTERFERENCE_QUERIES, each.series, _FAILED if failure else _OK)
            self._tell(each, failure, found.readings[each.series])
        if len(found.failures) < len(found.sources):
            self._metrics.set(metrics.INTERFERENCE_LAST_REFRESH, found.at)

    def _tell(self, source: Source, failure: PrometheusError | None, reading: Reading) -> None:
        """Log what is wrong with a series, once as long as it stays so."""
        wrong = f"{failure}" if failure else complaint(source, reading)
        if wrong == self._told.get(source.series, ""):
            return
        self._told[source.series] = wrong
        if wrong:
            hint = failure.hint if failure else "see: corewise check metrics"
            log.warning(wrong, extra=fields(series=source.series, at=source.origin, hint=hint))
        else:
            log.info("the series is there again", extra=fields(series=source.series))


async def vet(
    client: PrometheusClient, asked: tuple[Source, ...], nodes: NodeNames, now: Callable[[], float]
) -> list[str]:
    """Say what is wrong with the queries of a configuration themselves, before it is put into force.

    A query that is refused, that names no node, or that names one several times, is a mistake of whoever
    wrote it. That Prometheus does not answer, or has no such series yet, is not.
    """
    found = await observe(client, asked, nodes, now)
    wrong = []
    for each in asked:
        failure, reading = found.failures.get(each.series), found.readings[each.series]
        if isinstance(failure, QueryError):
            wrong.append(f"{each.origin}: {failure.message}")
        elif reading.returned and len(nodes) and (text := complaint(each, reading)):
            wrong.append(f"{each.origin}: {text}")
    return wrong


def complaint(source: Source, reading: Reading) -> str:
    """Say what is wrong with an answer as a whole, if anything is; not which nodes have no value."""
    if not reading.returned:
        return f"{source.series}: the query returns no series"
    if reading.unmatched == reading.returned:
        what = f'no series has a node of this cluster in its label "{source.node_label}"'
        return f"{source.series}: {what}: {dict(reading.examples[0])}"
    several = int(reading.ambiguous.sum())
    if several:
        what = f"several series of one node, on {several} nodes"
        return f"{source.series}: {what}: aggregate by ({source.node_label})"
    return ""
