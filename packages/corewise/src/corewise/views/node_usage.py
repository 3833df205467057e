"""The raw CPU that runs on nodes, by the resource metrics API (metrics.k8s.io), for nodes without a report.

An agent's report is newer and has a history of its own. Where neither is there, the usage is unknown.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping

from corewise.kube.client import Client
from corewise.kube.clock import Clock
from corewise.manager.busy_nodes import cpu_usages

EVERY = 15.0
"""Seconds between two reads: metrics-server measures no more often."""
_KEPT = 20
"""Samples of each node: five minutes."""


class NodeUsages:
    """The last samples of every node in milli-CPU; ``on_change`` gets the name of each that has a new one.

    A sample is None where the node was not measured.
    """

    def __init__(self, client: Client, clock: Clock, on_change: Callable[[str], None]) -> None:
        self._client, self._clock, self._on_change = client, clock, on_change
        self._samples: dict[str, deque[int | None]] = {}

    def of(self, node: str) -> tuple[int | None, ...]:
        """Return a node's samples, oldest first."""
        return tuple(self._samples.get(node, ()))

    async def read(self) -> None:
        """Measure every node once."""
        self.take(await cpu_usages(self._client))

    def take(self, used: Mapping[str, int]) -> None:
        """Take one sample of each node; forget those that were not measured for five minutes."""
        for node in {**self._samples, **used}:
            samples = self._samples.setdefault(node, deque(maxlen=_KEPT))
            samples.append(used.get(node))
            if samples.count(None) == len(samples):
                del self._samples[node]
            self._on_change(node)

    async def run(self) -> None:
        """Read again and again, until canceled."""
        while True:
            await self.read()
            await self._clock.sleep(EVERY)
