"""The Prometheus of ``corewise scheduler`` in a local cluster: the memory of simulated nodes.

It answers the queries of one configuration and no others, as a Prometheus would: averages over the
configuration's window, of what nodes' memory did every few seconds. It begins when corewise is turned on;
what was before that counts as it was found then. So pods that are placed show little by little, in real time,
and counterweights stand for them until they do.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

import numpy as np
from aiohttp import web

from corewise.config.interference.model import InterferenceConfiguration
from corewise.engine.table import Measures
from corewise.scheduler.observing.sources import sources
from corewise_lab.control_plane import running
from corewise_lab.node_memory import MemoryState, series

EVERY = 5.0
"""Seconds between two looks at the nodes."""
_BAD_REQUEST = 400


class MetricsHistory:
    """Measurements of the nodes, and averages of them. ``now`` is Unix time."""

    def __init__(
        self, window: float, states: Callable[[], Mapping[str, MemoryState]], now: Callable[[], float]
    ) -> None:
        self._window = window
        self._states = states
        self._now = now
        self._looks: deque[tuple[float, Mapping[str, Measures]]] = deque()
        self.nodes: tuple[str, ...] = ()

    def look(self) -> None:
        """Record the state of the nodes, and forget samples older than the window."""
        states, now = self._states(), self._now()
        self.nodes = tuple(states)
        self._looks.append((now, series(states.values())))
        while len(self._looks) > 1 and self._looks[1][0] <= now - self._window:
            self._looks.popleft()

    def averages(self, column: str) -> Mapping[str, float]:
        """Return the average over the window of each node; a value holds until the next look."""
        now = self._now()
        begins = np.maximum([at for at, _ in self._looks], now - self._window)
        begins[0] = now - self._window
        shares = np.diff(np.append(begins, now)) / self._window
        found = shares @ np.stack([columns[column] for _, columns in self._looks])
        return dict(zip(self.nodes, found.tolist(), strict=True))


@asynccontextmanager
async def metrics_server(
    settings: InterferenceConfiguration,
    states: Callable[[], Mapping[str, MemoryState]],
    *,
    every: float = EVERY,
    port: int = 0,
) -> AsyncIterator[str]:
    """Serve on loopback beside the block; yields the URL for ``--prometheus``."""
    history = MetricsHistory(settings.window, states, time.time)
    asked = sources(settings)
    values = {each.query: each for each in asked}
    sampled = {each.last_samples: each for each in asked if each.last_samples}

    async def look() -> None:
        while True:
            await asyncio.sleep(every)
            history.look()

    async def answer(request: web.Request) -> web.Response:
        query, now = str((await request.post())["query"]), time.time()
        if query in values:
            source = values[query]
            found = {
                node: value / source.factor for node, value in history.averages(source.metric.column).items()
            }
        elif query in sampled:
            source, found = sampled[query], dict.fromkeys(history.nodes, now)
        else:
            error = "the local cluster answers only the queries of its scheduler's configuration"
            body = {"status": "error", "errorType": "bad_data", "error": error}
            return web.json_response(body, status=_BAD_REQUEST)
        result = [
            {"metric": {source.node_label: node}, "value": [now, repr(value)]}
            for node, value in found.items()
        ]
        return web.json_response({"status": "success", "data": {"resultType": "vector", "result": result}})

    history.look()
    application = web.Application()
    application.router.add_post("/api/v1/query", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", port).start()
        async with running(look):
            yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
