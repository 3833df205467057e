"""Memory bandwidth, latency and cache of one node, beside what all nodes have, as Prometheus last said.

The queries, and whose value counts how long, are those of the scheduler and of ``corewise check metrics``;
texts are in the units in which these print them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from corewise.config.interference.metrics import Preset
from corewise.config.interference.model import InterferenceConfiguration, MetricsSettings
from corewise.kube.cache import Cache
from corewise.kube.clock import Clock
from corewise.prometheus.client import PrometheusClient
from corewise.scheduler.active_config import identities
from corewise.scheduler.observing.observer import refresh_interval
from corewise.scheduler.observing.readings import NodeNames, Observation, Reading, complaint, observe
from corewise.scheduler.observing.sources import Source, sources
from corewise.workload.nodes import Node

NOT_ASKED: dict[str, Any] = {
    "source": "",
    "remarks": ["No Prometheus is asked: start the page with corewise web --prometheus URL."],
    "measures": [],
}
_SHARES = (0.0, 0.25, 0.5, 0.75, 0.95, 1.0)


class InterferenceViews:
    """The last values from Prometheus."""

    def __init__(self, client: PrometheusClient, preset: Preset, nodes: Cache[Node], clock: Clock) -> None:
        configuration = InterferenceConfiguration(metrics=MetricsSettings(preset))
        self._asked = tuple(each for each in sources(configuration) if each.metric.spec.page)
        self._interval = refresh_interval(configuration.window)
        self._client, self._nodes, self._clock = client, nodes, clock
        self._latest = Observation(0.0)

    async def run(self, on_change: Callable[[], None]) -> None:
        """Ask again and again; ``on_change`` is called after each answer."""
        while True:
            nodes = NodeNames(identities(self._nodes.items.values()))
            self._latest = await observe(self._client, self._asked, nodes, self._now, self._latest)
            on_change()
            await self._clock.sleep(self._interval)

    def record(self, name: str) -> dict[str, Any]:
        """Return the node's values, and the quantiles of all nodes that have a value that is not too old."""
        found = self._latest
        if name not in found.names:
            return {
                "source": "",
                "remarks": ["Prometheus has not been asked about this node yet."],
                "measures": [],
            }
        place = found.names.index(name)
        wrong = [str(failure) for failure in found.failures.values()]
        wrong += [
            text
            for each in found.sources
            if each.metric not in found.failures and (text := complaint(each, found.readings[each.metric]))
        ]
        now = self._now()
        measures = [_measure(each, found.readings[each.metric], place, now) for each in found.sources]
        return {
            "source": self._client.label,
            "remarks": [*dict.fromkeys(wrong)],
            "measures": [each for each in measures if each["nodes"]],
        }

    def _now(self) -> float:
        return self._clock.now().timestamp()


def _measure(source: Source, reading: Reading, place: int, now: float) -> dict[str, Any]:
    fresh = ~np.isnan(reading.values) & (reading.sampled + source.maximum_age >= now)
    level = reading.levels[place]
    alike = fresh & (np.isnan(reading.levels) if np.isnan(level) else reading.levels == level)
    text = source.metric.spec.kind.text
    values = reading.values[alike]
    value = float(reading.values[place]) if fresh[place] else None
    quantiles = np.quantile(values, _SHARES) if len(values) else ()
    return {
        "name": source.metric.spec.page + ("" if np.isnan(level) else f", level {level:.0f}"),
        "value": value,
        "text": "-" if value is None else text(value),
        "nodes": len(values),
        "quantiles": [
            {"share": share, "value": float(each), "text": text(float(each))}
            for share, each in zip(_SHARES, quantiles, strict=bool(len(values)))
        ],
    }
