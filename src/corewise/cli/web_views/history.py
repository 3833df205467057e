"""The last hour of each node's offline work and of all together, kept by the server from what it sees.

It is empty at the server's start. A point is kept every 15 s, of each node that reports, 28 bytes in seven
columns; after an hour the oldest makes room. That is less than 8 KiB for each node. CPU is in milli-CPU, raw
but for ``batchCPUNormalizedMilli``.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from corewise.cli.offline_reports import SUPPRESSING
from corewise.cli.top_view import TopRow
from corewise.kube.clock import rfc3339

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


class Series:
    """The points of one node, or of all: Unix times, and a column for each amount, -1 where there is none.

    ``typecode`` is that of amounts: four bytes hold those of a node, the sum of a large cluster needs eight.
    """

    def __init__(self, typecode: str = "i") -> None:
        self.times = array("I")
        self.columns = tuple(array(typecode) for _ in AMOUNTS)

    def add(self, at: int, amounts: Iterable[int | None]) -> None:
        """Keep a point; the oldest makes room."""
        self.times.append(at)
        for column, amount in zip(self.columns, amounts, strict=True):
            column.append(_NONE if amount is None else amount)
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

    def record(self, node: str = "") -> dict[str, Any]:
        """Return what is known of a node, or of all; a node that reports nothing has no points."""
        series = (self._nodes.get(node) or Series()) if node else self._total
        return {
            "source": "the points that this server has seen since it started",
            "since": rfc3339(self._started),
            "everySeconds": EVERY,
            "keptSeconds": KEPT,
            "times": list(series.times),
            **{
                name: [None if each == _NONE else each for each in column]
                for name, column in zip(AMOUNTS, series.columns, strict=True)
            },
        }


def _amounts(row: TopRow, requested: int, suppressing: int) -> tuple[int | None, ...]:
    sums = row.sums
    return (sums.online, sums.offline, sums.offered, sums.quota, requested, suppressing)
