"""The loop that asks Prometheus: all queries of a refresh at once, an immutable observation out.

- Where a query fails, its series keeps the values it had; they age, and are missing once they are older than
  the series' maximum age. A fault is logged once as long as it stays the same, and counted.
- Each refresh reads which nodes there are.
- Each node's latency curve is learned from one refresh after another (``latencyModel: curve``), but from none
  in which the query of the bandwidth or of the latency fails: the values that were kept are learned already.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

import numpy as np

from corewise.config.interference.metrics import Metric
from corewise.engine.table import Measures
from corewise.interference.latency import LatencyHistory
from corewise.interference.pressure import Pressure
from corewise.kube.clock import Clock, sleep_unless, to_beat
from corewise.prometheus.client import PrometheusClient, PrometheusError
from corewise.prometheus.exposition import Exposition
from corewise.scheduler.observing.readings import (
    NodeIdentity,
    NodeNames,
    Observation,
    Reading,
    complaint,
    observe,
)
from corewise.scheduler.observing.sources import Source
from corewise.service.logs import fields
from corewise.vocabulary import metrics

log = logging.getLogger(__name__)

LONGEST_INTERVAL = 30.0
_SHORTEST_INTERVAL = 1.0
_SHARE_OF_WINDOW = 10
_OK, _FAILED = "ok", "failed"


def refresh_interval(window: float) -> float:
    """Return the interval between queries: an average over a window changes by a tenth of it in that time."""
    return max(_SHORTEST_INTERVAL, min(LONGEST_INTERVAL, window / _SHARE_OF_WINDOW))


class Observer:
    """Refreshes again and again. ``nodes`` lists the nodes there are; ``publish`` takes each observation."""

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
        self._logged: dict[Metric, str] = {}
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
        """Refresh until canceled; ``beat`` is called each time."""
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
            (each.metric.value,): latest.readings[each.metric].oldest(now, each.maximum_age)
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
        await sleep_unless(self._wake, self._clock, to_beat(self._clock, self.interval))

    def _now(self) -> float:
        return self._clock.now().timestamp()

    def _count(self, found: Observation, seconds: float) -> None:
        self._metrics.observe(metrics.INTERFERENCE_REFRESH_SECONDS, seconds)
        for each in found.sources:
            failure = found.failures.get(each.metric)
            self._metrics.count(metrics.INTERFERENCE_QUERIES, each.metric, _FAILED if failure else _OK)
            self._log(each, failure, found.readings[each.metric])
        if len(found.failures) < len(found.sources):
            self._metrics.set(metrics.INTERFERENCE_LAST_REFRESH, found.at)

    def _log(self, source: Source, failure: PrometheusError | None, reading: Reading) -> None:
        """Log what is wrong with a series, once as long as it stays so."""
        wrong = f"{failure}" if failure else complaint(source, reading)
        if wrong == self._logged.get(source.metric, ""):
            return
        self._logged[source.metric] = wrong
        if wrong:
            hint = failure.hint if failure else "see: corewise check metrics"
            log.warning(wrong, extra=fields(series=source.metric, at=source.origin, hint=hint))
        else:
            log.info("the series is there again", extra=fields(series=source.metric))


Curves = tuple[Measures, Measures]


class LatencyCurves:
    """The latency history of the nodes there are; nodes that are gone are forgotten."""

    def __init__(self) -> None:
        self._names: tuple[str, ...] = ()
        self._history = LatencyHistory.empty(0)

    def observed(self, names: tuple[str, ...], pressure: Pressure, *, is_new: bool) -> Curves:
        """Learn from a cleaned pressure, if it is new; return idle latency and slope of each node."""
        if names != self._names:
            places = {name: place for place, name in enumerate(self._names)}
            self._history = self._history.rows(
                np.array([places.get(name, -1) for name in names], dtype=np.intp)
            )
            self._names = names
        if is_new:
            self._history = self._history.observed(pressure)
        return self._history.curves()
