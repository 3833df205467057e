"""Range queries to a Prometheus server: the values of an expression over a time, step by step.

A server returns at most 11,000 values a series, so a long time is asked for piece by piece.
Source: https://prometheus.io/docs/prometheus/latest/querying/api/#range-queries
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from corewise.prometheus.client import Matrix, PrometheusClient
from corewise.prometheus.errors import AnswerError

PIECE = 500
"""Steps asked for at once: answers stay small where there are thousands of series."""

_PATH = "api/v1/query_range"


@dataclass(frozen=True, slots=True)
class RangeSeries:
    """One series: its labels, and times (Unix seconds) with values, which may be NaN or infinite."""

    labels: Mapping[str, str]
    points: tuple[tuple[float, float], ...]


async def query_range(
    client: PrometheusClient, promql: str, *, start: float, end: float, step: float
) -> tuple[RangeSeries, ...]:
    """Evaluate an expression at ``start``, ``start + step`` and so on up to ``end``.

    Raises:
        PrometheusError: if there is no answer, or none of numbers.
    """
    found: dict[tuple[tuple[str, str], ...], list[tuple[float, float]]] = {}
    count = int((end - start) // step) + 1
    for first in range(0, count, PIECE):
        last = min(first + PIECE, count) - 1
        form = {
            "query": promql,
            "start": f"{start + first * step:.3f}",
            "end": f"{start + last * step:.3f}",
            "step": f"{step:g}",
        }
        for series in await _piece(client, form):
            found.setdefault(tuple(sorted(series.labels.items())), []).extend(series.points)
    return tuple(RangeSeries(dict(labels), tuple(points)) for labels, points in found.items())


async def _piece(client: PrometheusClient, form: Mapping[str, str]) -> list[RangeSeries]:
    body = await client.ask(_PATH, form)
    if not isinstance(body.data, Matrix):
        raise AnswerError("the answer to a range query has no ranges")
    try:
        return [
            RangeSeries(each.metric, tuple((at, float(text)) for at, text in each.values))
            for each in body.data.result
        ]
    except ValueError as error:
        raise AnswerError(f"a value is no number: {error}") from error
