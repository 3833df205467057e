"""The last hour of each node's offline work and of all together, kept by the server from what it sees.

It is empty at the server's start, unless Prometheus knows a node's hour before that. A point is kept every
15 s, of each node that reports, 28 bytes in seven columns; after an hour the oldest makes room. That is less
than 8 KiB for each node. CPU is in milli-CPU, raw but for ``batchCPUNormalizedMilli``.
"""

from __future__ import annotations

import json
import math
from array import array
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from corewise.kube.clock import Clock, rfc3339
from corewise.prometheus.client import PrometheusClient, PrometheusError, query_range
from corewise.quantities import MILLI
from corewise.views.offline_reports import SUPPRESSING
from corewise.views.offline_table import TopRow
from corewise.vocabulary import metrics

EVERY = 15
KEPT = 3600
POINTS = KEPT // EVERY
_NONE = -1
AMOUNTS = (
    "onlineCPUMilli",
    "offlineCPUMilli",
    "offeredCPUMilli",
    "quotaCPUMilli",
    "batchCPUNormalizedMilli",
    "nodesSuppressing",
)


_QUERIES: Mapping[str, str] = {
    "onlineCPUMilli": f'sum({metrics.OVERSUBSCRIPTION_USED_CPU.name}{{node=$node,work="online"}})',
    "offlineCPUMilli": f'sum({metrics.OVERSUBSCRIPTION_USED_CPU.name}{{node=$node,work="offline"}})',
    "offeredCPUMilli": f"sum({metrics.OVERSUBSCRIPTION_OFFERED_CPU.name}{{node=$node}})",
    "quotaCPUMilli": f"sum({metrics.SUPPRESSION_QUOTA.name}{{node=$node}})",
}
_RETRY = 60.0
"""Seconds until a node's past is asked for again, after Prometheus did not answer."""
_MOST_REMEMBERED = 64
"""Nodes whose past is kept: 70 KiB each."""
Past = tuple[tuple[int, Mapping[str, int]], ...]
"""Unix times of points, and their amounts by column."""


class Series:
    """The points of one node, or of all: Unix times, and a column for each amount, -1 where there is none.

    ``typecode`` is that of amounts: four bytes hold those of a node, the sum of a large cluster needs eight.
    Whoever writes a pod or a report may state more: that counts as the most that fits.
    """

    def __init__(self, typecode: str = "i") -> None:
        self.times = array("I")
        self.columns = tuple(array(typecode) for _ in AMOUNTS)
        self._most = (1 << (8 * array(typecode).itemsize - 1)) - 1

    def add(self, at: int, amounts: Iterable[int | None]) -> None:
        """Keep a point; the oldest makes room."""
        self.times.append(at)
        for column, amount in zip(self.columns, amounts, strict=True):
            column.append(_NONE if amount is None else min(max(amount, 0), self._most))
        if len(self.times) > POINTS:
            del self.times[0]
            for column in self.columns:
                del column[0]


class OfflineHistory:
    """The series of nodes, by name, and of all of them."""

    def __init__(self, started: datetime) -> None:
        self._started = started
        self._nodes: dict[str, Series] = {}
        self._total = Series("q")

    def take(
        self, rows: Iterable[TopRow], total: TopRow, requested: Mapping[str, int], now: datetime
    ) -> None:
        """Keep a point of each row; ``requested``: the batch CPU that pods on each node request."""
        at, suppressing = int(now.timestamp()), 0
        kept = {}
        for row in rows:
            here = int(row.details.state == SUPPRESSING)
            suppressing += here
            kept[row.name] = series = self._nodes.get(row.name) or Series()
            series.add(at, _amounts(row, requested.get(row.name, 0), here))
        self._nodes = kept
        self._total.add(at, _amounts(total, sum(requested.values()), suppressing))

    def record(self, node: str = "", before: Past = (), why_not: str = "") -> dict[str, Any]:
        """Return the history of a node, or of all; a node that reports nothing has no points.

        ``before``: points from Prometheus, which are older than all that were seen; ``why_not``: why it has
        none, if that is known.
        """
        series = (self._nodes.get(node) or Series()) if node else self._total
        source = "the points that this server has seen since it started"
        if before:
            source = f"Prometheus; from {rfc3339(self._started)} on, {source}"
        return {
            "source": f"{source} ({why_not})" if why_not else source,
            "since": rfc3339(self._started),
            "everySeconds": EVERY,
            "keptSeconds": KEPT,
            "times": [*(at for at, _ in before), *series.times],
            **{
                name: [
                    *(amounts.get(name) for _, amounts in before),
                    *(None if each == _NONE else each for each in column),
                ]
                for name, column in zip(AMOUNTS, series.columns, strict=True)
            },
        }


class PastHours:
    """Each node's hour before a moment, as its agent exported it and Prometheus kept it.

    It is read once, when a user first opens the node, because the past does not change.
    """

    def __init__(self, client: PrometheusClient, clock: Clock, until: datetime) -> None:
        self._client, self._clock, self._until = client, clock, until.timestamp()
        self._kept: dict[str, tuple[float, Past, str]] = {}

    async def of(self, node: str) -> tuple[Past, str]:
        """Return a node's points of the last hour, and the reason why there are none, if it is known."""
        kept, monotonic = self._kept.get(node), self._clock.monotonic()
        if kept is None or (kept[2] and monotonic - kept[0] >= _RETRY):
            try:
                past, problem = await self._asked(node), ""
            except PrometheusError as error:
                past, problem = (), str(error)
            self._kept.pop(node, None)
            self._kept[node] = kept = monotonic, past, problem
            if len(self._kept) > _MOST_REMEMBERED:
                del self._kept[next(iter(self._kept))]
        first = self._clock.now().timestamp() - KEPT
        return tuple(point for point in kept[1] if point[0] >= first), kept[2]

    async def _asked(self, node: str) -> Past:
        points: dict[int, dict[str, int]] = {}
        label, start, end = json.dumps(node), self._until - KEPT, self._until - EVERY
        for column, query in _QUERIES.items():
            asked = query.replace("$node", label)
            for series in await query_range(self._client, asked, start=start, end=end, step=EVERY):
                for at, value in series.points:
                    if math.isfinite(value):
                        points.setdefault(int(at), {})[column] = round(value * MILLI)
        return tuple(sorted(points.items()))


def _amounts(row: TopRow, requested: int, suppressing: int) -> tuple[int | None, ...]:
    sums = row.sums
    return (sums.online, sums.offline, sums.offered, sums.quota, requested, suppressing)
