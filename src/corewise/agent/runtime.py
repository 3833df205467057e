"""Joins the agent to the container runtime: the NRI plugin with our handler, told apart in the metrics.

The plugin and protobuf are imported only where a runtime is to be asked.
"""

from __future__ import annotations

from pathlib import Path
from typing import Never

from corewise.agent.hook import RuntimeHook
from corewise.nri.messages import RequestOutcome
from corewise.prometheus.exposition import Exposition
from corewise.vocabulary.metrics.agent import NRI_CONNECTED, NRI_REQUESTS


class CountingObserver:
    """Counts the runtime's requests, and says whether it asks us."""

    def __init__(self, metrics: Exposition) -> None:
        self._metrics = metrics

    def request(self, method: str, outcome: RequestOutcome) -> None:
        """Count a request."""
        self._metrics.count(NRI_REQUESTS, method, outcome)

    def synchronized(self, *, now: bool) -> None:
        """Note whether the runtime asks us."""
        self._metrics.set(NRI_CONNECTED, int(now))


async def serve_runtime(socket: Path, hook: RuntimeHook, metrics: Exposition) -> Never:
    """Be the plugin of the runtime that listens on a socket, until cancelled."""
    from corewise.nri.plugin import Plugin, PluginOptions  # noqa: PLC0415 - protobuf only where it is needed

    plugin = Plugin(hook, PluginOptions(socket=str(socket)), observer=CountingObserver(metrics))
    await plugin.run()
