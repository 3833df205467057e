"""Prometheus asked once: every query of a configuration, and what the answers say of the nodes.

Answers are read beside the event loop, in a thread: thousands of series must not keep a decision waiting.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from corewise.config.interference import Series
from corewise.engine import Measured
from corewise.prometheus.client import Answer, PrometheusClient
from corewise.prometheus.errors import PrometheusError, QueryError
from corewise.scheduler.observing.node_names import NodeNames
from corewise.scheduler.observing.readings import Reading, State, read
from corewise.scheduler.observing.sources import Source

_AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class Observation:
    """What is known of the nodes ``names`` after a refresh at ``at`` (Unix time), by series."""

    at: float
    names: tuple[str, ...] = ()
    sources: tuple[Source, ...] = ()
    readings: Mapping[Series, Reading] = field(default_factory=dict)
    failures: Mapping[Series, PrometheusError] = field(default_factory=dict)

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
        return await client.aside(read, source, nodes, values, last, now())

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
