"""The active configuration, the engine that it makes, and the loops that keep both up to date.

A new configuration takes effect between two decisions, as a whole: plugins, what pods placed lately weigh,
what nodes' memory can move, and what Prometheus is asked. What was measured before counts until it is too
old. Every replica follows the scheduler's file and Prometheus, so that one which takes over is up to date.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from corewise.config.interference.metrics import Metric
from corewise.config.interference.model import InterferenceConfiguration, LatencyModel
from corewise.config.interference.reading import unplaceable_message
from corewise.engine import Cluster, Engine, Estimates, Interference, Measured, assemble, interference_alone
from corewise.engine.interference import pressure_of
from corewise.interference.filtering import unplaceable
from corewise.kube.clock import Clock
from corewise.prometheus.client import PrometheusClient
from corewise.prometheus.exposition import Exposition
from corewise.scheduler.configuration import ConfigurationFile, SchedulerConfiguration
from corewise.scheduler.decisions import Decisions
from corewise.scheduler.observing.observer import LatencyCurves, Observer, refresh_interval
from corewise.scheduler.observing.readings import HOST_NAME, NodeIdentity, NodeNames, Observation, vet
from corewise.scheduler.observing.sources import sources
from corewise.scheduler.options import PROMETHEUS_MISSING, SchedulerOptions
from corewise.scheduler.plugins import load_plugins
from corewise.scheduler.state import ClusterState
from corewise.service.logs import fields
from corewise.service.program import Heartbeats
from corewise.vocabulary import metrics
from corewise.vocabulary.reasons import Reason
from corewise.workload.nodes import Node

log = logging.getLogger(__name__)

_BEAT_LIMIT = 120.0
_OBSERVER, _FILE = "prometheus", "configuration-file"
_LEARNED = frozenset({Metric.MEMORY_BANDWIDTH, Metric.MEMORY_LATENCY})
"""The series that latency curves are learned from."""


class ActiveConfig:
    """The active configuration and its engine. ``observer`` is None where there is no Prometheus."""

    def __init__(
        self,
        cluster: Cluster,
        clock: Clock,
        configuration: SchedulerConfiguration,
        assemble: Callable[..., Engine],
    ) -> None:
        """``assemble`` is that of :mod:`corewise.engine`, with what this program wants of it."""
        self._cluster = cluster
        self._clock = clock
        self._assemble = assemble
        self._curves = LatencyCurves()
        self._unplaceable: frozenset[str] = frozenset()
        self.observer: Observer | None = None
        self.configuration = configuration
        self.engine = assemble()
        self.profiled = interference_alone(None)
        """It decides about interference alone, for pods with a stake: the rest is kube-scheduler's."""
        self._activate(configuration)

    def apply(self, configuration: SchedulerConfiguration) -> None:
        """Apply a configuration, unless it is active already."""
        if configuration != self.configuration:
            self._activate(configuration)

    def _activate(self, configuration: SchedulerConfiguration) -> None:
        self.configuration = configuration
        settings = configuration.interference
        plugin = Interference(settings, self.now) if settings else None
        self.engine = self._assemble(configuration.scoring, interference=plugin)
        self.profiled = interference_alone(plugin)
        self._cluster.estimate(plugin.estimates() if plugin else Estimates())
        self._unplaceable = frozenset()
        self.observe_by(self.observer)

    def observe_by(self, observer: Observer | None) -> None:
        """Have an observer ask for what the configuration reads."""
        self.observer = observer
        settings = self.configuration.interference
        if observer is not None:
            asked = sources(settings) if settings else ()
            observer.ask_for(asked, refresh_interval(settings.window) if settings else observer.interval)

    def take(self, observation: Observation) -> None:
        """Let decisions be made by an observation from now on."""
        self.measure(observation.measured(), is_new=_LEARNED.isdisjoint(observation.failures))

    def measure(self, measured: Measured, *, is_new: bool = True) -> None:
        """Let decisions be made by what was measured from now on; latency curves learn what is new."""
        settings = self.configuration.interference
        if settings is None:
            return
        self._cluster.measure(measured)
        if settings.latency_model is LatencyModel.CURVE:
            self._cluster.measure(self._with_curves(measured, settings, is_new=is_new))
        self._warn_of_unplaceable(settings)

    def now(self) -> float:
        """Return the Unix time."""
        return self._clock.now().timestamp()

    def _with_curves(
        self, measured: Measured, settings: InterferenceConfiguration, *, is_new: bool
    ) -> Measured:
        """Return the same with the latency curves learned, an idle latency that is measured being kept."""
        snapshot = self._cluster.snapshot()
        pressure, _ = pressure_of(snapshot, settings.maximum_ages, self.now())
        rows = np.array([snapshot.index.get(name, -1) for name in measured.names], dtype=np.intp)
        here = pressure.rows(rows)
        idle, slope = self._curves.observed(measured.names, here, is_new=is_new)
        idle = np.where(np.isnan(here.memorylatency_idle), idle, here.memorylatency_idle)
        at = np.full(len(measured.names), self.now())
        learned = {"memorylatency_idle": (idle, at), "memorylatency_slope": (slope, at)}
        return replace(measured, columns={**measured.columns, **learned})

    def _warn_of_unplaceable(self, settings: InterferenceConfiguration) -> None:
        """Say which profiles no node can take, once as long as it stays so."""
        snapshot = self._cluster.snapshot()
        pressure, _ = pressure_of(snapshot, settings.maximum_ages, self.now())
        capacity = pressure.memorybandwidth_capacity[snapshot.present]
        found = {each.name: each for each in unplaceable(settings, capacity)}
        for name in found.keys() - self._unplaceable:
            message = unplaceable_message(found[name].needed, found[name].largest)
            where = f"line {found[name].line}"
            log.warning(message, extra=fields(reason=Reason.PROFILE_UNPLACEABLE, profile=name, at=where))
        self._unplaceable = frozenset(found)


def identities(nodes: Iterable[Node]) -> Iterator[NodeIdentity]:
    """Yield the nodes, by their names and what else they are called."""
    for node in nodes:
        host = node.metadata.labels.get(HOST_NAME)
        aliases = [each.address for each in node.status.addresses if each.address]
        yield NodeIdentity(node.metadata.name, tuple(dict.fromkeys([*([host] if host else []), *aliases])))


class ConfigReloader:
    """The loops that keep the active configuration and the measurements up to date."""

    def __init__(
        self,
        options: SchedulerOptions,
        state: ClusterState,
        decisions: Decisions,
        *,
        exposition: Exposition,
        heartbeats: Heartbeats,
        clock: Clock,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        """``on_change`` is called when another configuration has become active."""
        self._state = state
        self._decisions = decisions
        self._metrics = exposition
        self._heartbeats = heartbeats
        self._clock = clock
        self._on_change = on_change
        self.active = ActiveConfig(
            state.counted.cluster, clock, options.configuration, partial(assemble, plugins=load_plugins())
        )
        self._client = PrometheusClient(options.prometheus) if options.prometheus else None
        self._observer = None if self._client is None else self._observing(self._client)
        self._file = None
        if path := options.configuration_file:
            self._file = ConfigurationFile(path, self._apply, self._vet, options.configuration)

    @property
    def is_valid(self) -> bool:
        """Whether what the file holds is active, without errors."""
        return self._file is None or self._file.is_valid

    def loops(self) -> Iterator[tuple[str, Callable[[], Coroutine[Any, Any, None]]]]:
        """Yield the loops to run."""
        if self._observer is not None:
            yield _OBSERVER, self._observe
        if self._file is not None:
            yield _FILE, self._follow

    def expire(self) -> int:
        """Forget counterweights that weigh nothing any more; return how many there are left."""
        return self._state.counted.cluster.expire(self.active.now())

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
        observer = Observer(client, self._nodes, self.active.take, self._metrics, self._clock)
        self.active.observe_by(observer)
        return observer

    async def _observe(self) -> None:
        """Ask Prometheus until canceled, once the nodes are known."""
        await self._state.caches.listed(self._clock)
        if self._observer is not None:
            await self._observer.run(lambda: self._heartbeats.beat(_OBSERVER, _BEAT_LIMIT))

    async def _follow(self) -> None:
        """Apply the file whenever it changes, until canceled."""
        await self._state.caches.listed(self._clock)
        if self._file is not None:
            await self._file.follow(self._clock, lambda: self._heartbeats.beat(_FILE, _BEAT_LIMIT))

    def _apply(self, configuration: SchedulerConfiguration) -> None:
        self._decisions.keep(configuration.remembered_decisions)
        self.active.apply(configuration)
        self._on_change()

    async def _vet(self, configuration: SchedulerConfiguration) -> list[str]:
        """Ask what a configuration would have asked, and say what is wrong with its queries.

        A configuration that needs Prometheus is wrong without one: with it, the scheduler would not start.
        """
        settings = configuration.interference
        if settings is None:
            return []
        if self._client is None:
            return [PROMETHEUS_MISSING]
        return await vet(self._client, sources(settings), NodeNames(self._nodes()), self.active.now)

    def _nodes(self) -> Iterator[NodeIdentity]:
        return identities(self._state.nodes.items.values())
