"""What steers decisions and is not in the API server: the scheduler's file, and what Prometheus knows.

Every replica follows both, so that one which takes over decides by what holds now.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from corewise.kube.clock import Clock
from corewise.prometheus.client import PrometheusClient
from corewise.prometheus.exposition import Exposition
from corewise.scheduler.configuration import SchedulerConfiguration
from corewise.scheduler.configuration_file import ConfigurationFile
from corewise.scheduler.decisions import Decisions
from corewise.scheduler.in_force import InForce, engine_of, identities
from corewise.scheduler.observing.asking import vet
from corewise.scheduler.observing.node_names import NodeIdentity, NodeNames
from corewise.scheduler.observing.observer import Observer
from corewise.scheduler.observing.sources import sources
from corewise.scheduler.options import SchedulerOptions
from corewise.scheduler.state import ClusterState
from corewise.service.supervision import Pulses
from corewise.vocabulary.metrics import interference as metrics

_BEAT_LIMIT = 120.0
_OBSERVER, _FILE = "prometheus", "configuration-file"


class Steering:
    """The configuration in force, and the loops that keep it and the measurements up to date."""

    def __init__(
        self,
        options: SchedulerOptions,
        state: ClusterState,
        decisions: Decisions,
        *,
        exposition: Exposition,
        pulses: Pulses,
        clock: Clock,
    ) -> None:
        self._state = state
        self._decisions = decisions
        self._metrics = exposition
        self._pulses = pulses
        self._clock = clock
        self.in_force = InForce(state.cluster, clock, options.configuration, engine_of)
        self._client = PrometheusClient(options.prometheus) if options.prometheus else None
        self._observer = None if self._client is None else self._observing(self._client)
        path = options.configuration_file
        self._file = ConfigurationFile(path, self._apply, self._vet) if path else None

    @property
    def is_valid(self) -> bool:
        """Whether what the file holds is in force, without fault."""
        return self._file is None or self._file.is_valid

    def loops(self) -> Iterator[tuple[str, Callable[[], Coroutine[Any, Any, None]]]]:
        """Yield what has to run."""
        if self._observer is not None:
            yield _OBSERVER, self._observe
        if self._file is not None:
            yield _FILE, self._follow

    def expire(self) -> int:
        """Forget counterweights that weigh nothing any more; return how many there are left."""
        return self._state.cluster.expire(self.in_force.now())

    def export(self) -> None:
        """Set the gauges, as they are now."""
        self._metrics.set(metrics.INTERFERENCE_CONFIG_VALID, int(self.is_valid))
        self._metrics.set(metrics.INTERFERENCE_COUNTERWEIGHTS, self.expire())
        if self._observer is not None:
            self._observer.export()

    async def close(self) -> None:
        """Close the connections to Prometheus."""
        if self._client is not None:
            await self._client.close()

    def _observing(self, client: PrometheusClient) -> Observer:
        observer = Observer(client, self._nodes, self.in_force.take, self._metrics, self._clock)
        self.in_force.observe_by(observer)
        return observer

    async def _observe(self) -> None:
        """Ask Prometheus until cancelled, once the nodes are known."""
        await self._state.synced()
        if self._observer is not None:
            await self._observer.run(lambda: self._pulses.beat(_OBSERVER, _BEAT_LIMIT))

    async def _follow(self) -> None:
        """Put the file into force whenever it changes, until cancelled."""
        await self._state.synced()
        if self._file is not None:
            await self._file.follow(self._clock, lambda: self._pulses.beat(_FILE, _BEAT_LIMIT))

    def _apply(self, configuration: SchedulerConfiguration) -> None:
        self._decisions.keep(configuration.remembered_decisions)
        self.in_force.apply(configuration)

    async def _vet(self, configuration: SchedulerConfiguration) -> list[str]:
        """Ask what a configuration would have asked, and say what is wrong with its queries."""
        settings = configuration.interference
        if self._client is None or settings is None:
            return []
        return await vet(self._client, sources(settings), NodeNames(self._nodes()), self.in_force.now)

    def _nodes(self) -> Iterator[NodeIdentity]:
        return identities(self._state.nodes.items.values())
