"""Problems of the series that a configuration reads, and what to do: for ``corewise check metrics``.

The usual fault is the label that names the node. So where no series names one, the raw series are looked at,
and the label whose values do name nodes is reported.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from corewise.prometheus.client import PrometheusClient, PrometheusError
from corewise.scheduler.observing.readings import NodeNames, Observation, Reading, State
from corewise.scheduler.observing.sources import Source
from corewise.vocabulary.metrics import NODE_METRIC_SUPPORTED

_NAMED = 3
_RAW_SERIES = 5


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One series: how many nodes have which state, the least, middle and largest value, and what to do."""

    source: Source
    returned: int
    states: Mapping[State, int]
    spread: tuple[float, float, float] | None
    oldest: float | None
    to_fix: tuple[str, ...]

    @property
    def matched(self) -> int:
        """The number of nodes that a series names."""
        return sum(number for state, number in self.states.items() if state is not State.ABSENT)


async def diagnose(
    client: PrometheusClient, observation: Observation, nodes: NodeNames, now: float
) -> list[Diagnosis]:
    """Look at every series of an observation."""
    return [await _diagnosis(client, observation, source, nodes, now) for source in observation.sources]


async def _diagnosis(
    client: PrometheusClient, observation: Observation, source: Source, nodes: NodeNames, now: float
) -> Diagnosis:
    reading = observation.readings[source.metric]
    failure = observation.failures.get(source.metric)
    states = reading.states(now, source.maximum_age)
    if failure is not None:
        problems = [f"{failure.message} ({source.origin}): {failure.hint}"]
    elif reading.returned:
        raw = await _raw_labels(client, source) if reading.unmatched == reading.returned else []
        problems = list(_faults(source, reading, states, nodes, [*raw, *reading.examples]))
        problems += [each async for each in _absent(client, source, reading, nodes)]
    else:
        problems = [await _why_empty(client, source)]
    known = reading.values[~np.isnan(reading.values)]
    return Diagnosis(
        source=source,
        returned=reading.returned,
        states=states,
        spread=(float(known.min()), float(np.median(known)), float(known.max())) if len(known) else None,
        oldest=reading.oldest(now, source.maximum_age),
        to_fix=tuple(problems),
    )


async def _absent(
    client: PrometheusClient, source: Source, reading: Reading, nodes: NodeNames
) -> AsyncIterator[str]:
    """Yield which nodes no series names, if some are named; and the reason that the agent exports."""
    absent = np.isnan(reading.values) & ~reading.invalid & ~reading.ambiguous
    if not absent.any() or reading.unmatched == reading.returned:
        return
    named = _named(nodes, absent)
    yield f"{_nodes_have(int(absent.sum()))} no series ({named}): is the exporter running there?"
    try:
        said = await client.query(f'{NODE_METRIC_SUPPORTED.name}{{metric="{source.metric}"}} == 0')
    except PrometheusError:
        return
    reasons = Counter(
        each.labels.get("reason", "")
        for each in said.samples
        if (place := nodes.place(each.labels.get("node", ""))) is not None and absent[place]
    )
    for reason, number in reasons.most_common():
        yield f"the agent says on {number} of them: {reason}"


async def _raw_labels(client: PrometheusClient, source: Source) -> list[Mapping[str, str]]:
    """Return the labels of some of the raw series that a query is made from."""
    if not source.samples:
        return []
    try:
        found = await client.query(f"topk({_RAW_SERIES}, {source.samples})")
    except PrometheusError:
        return []
    return [each.labels for each in found.samples]


async def _why_empty(client: PrometheusClient, source: Source) -> str:
    if not source.samples:
        return f"the query ({source.origin}) returns no series: try it in Prometheus' web UI"
    if await _raw_labels(client, source):
        return (
            f"Prometheus has {source.samples}, but not twice within the window: "
            "scrape more often, or set a longer window"
        )
    return f"Prometheus has no {source.samples}: is the exporter running, and scraped?"


def _faults(
    source: Source,
    reading: Reading,
    states: Mapping[State, int],
    nodes: NodeNames,
    labels: list[Mapping[str, str]],
) -> Iterator[str]:
    if reading.unmatched == reading.returned:
        yield _unmatched(source, nodes, labels)
        return
    if reading.unmatched:
        examples = ", ".join(repr(each.get(source.node_label, "")) for each in reading.examples[:_NAMED])
        yield f"{reading.unmatched} series name no node of the cluster ({source.node_label}: {examples})"
    if states[State.AMBIGUOUS]:
        named = _named(nodes, reading.ambiguous)
        yield f"several series of one node ({named}): aggregate by ({source.node_label}), with sum or max"
    if states[State.INVALID]:
        named = _named(nodes, reading.invalid & ~reading.ambiguous)
        yield f"no usable value ({named}): 0, NaN or negative: exporters print these if they cannot measure"
    if states[State.STALE]:
        old = f"values older than {source.maximum_age:g} s"
        yield f"{_nodes_have(states[State.STALE])} {old}: still scraped?"
    yield from _implausible(source, reading)


def _unmatched(source: Source, nodes: NodeNames, labels: list[Mapping[str, str]]) -> str:
    naming = [label for each in labels for label, value in each.items() if nodes.place(value) is not None]
    if naming:
        return f'no series names a node in its label "{source.node_label}": set nodeLabel: {naming[0]}'
    if not any(labels):
        return f"the query's series have no label that could name a node: aggregate by ({source.node_label})"
    shown = dict(labels[0])
    return (
        f'no series names a node in its label "{source.node_label}", nor in another ({shown}): '
        "relabel the scrape so that one has the Node's name"
    )


def _implausible(source: Source, reading: Reading) -> Iterator[str]:
    low, high, text = source.metric.spec.plausible
    outside = ~np.isnan(reading.values) & ((reading.values < low) | (reading.values > high))
    number = int(outside.sum())
    if number:
        values = reading.values[outside]
        example = f"{float(values.min()):.3g}" + (f" to {float(values.max()):.3g}" if number > 1 else "")
        yield f"{_nodes_have(number)} values outside {text} ({example} in base units): is the unit right?"


def _nodes_have(number: int) -> str:
    return "1 node has" if number == 1 else f"{number} nodes have"


def _named(nodes: NodeNames, chosen: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> str:
    names = [nodes.names[place] for place in np.flatnonzero(chosen)]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
