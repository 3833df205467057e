"""The configuration in force, the engine that it makes, and what is observed by it.

A new configuration takes effect between two decisions, as a whole: plugins, what pods placed lately weigh,
what nodes' memory can move, and what Prometheus is asked. What was observed before stays until it is too old.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import numpy as np

from corewise.config.interference import InterferenceConfiguration, LatencyModel
from corewise.config.interference.reading import unplaceable_message
from corewise.engine import (
    AllocationScore,
    AmplifiedCPU,
    Cluster,
    CPUPlacement,
    Engine,
    Estimates,
    Interference,
    Measured,
    Weighted,
)
from corewise.engine.objects import SchedulableNode
from corewise.engine.pressure import maximum_ages, pressure_of
from corewise.interference import unplaceable
from corewise.kube.clock import Clock
from corewise.scheduler.configuration import SchedulerConfiguration
from corewise.scheduler.observing.asking import Observation
from corewise.scheduler.observing.curves import CurveKeeper
from corewise.scheduler.observing.node_names import HOST_NAME, NodeIdentity
from corewise.scheduler.observing.observer import Observer, refresh_interval
from corewise.scheduler.observing.sources import sources
from corewise.service.logs import fields
from corewise.vocabulary.reasons import Reason

log = logging.getLogger(__name__)


class InForce:
    """What holds now. ``observer`` is None where there is no Prometheus."""

    def __init__(
        self,
        cluster: Cluster,
        clock: Clock,
        configuration: SchedulerConfiguration,
        engine: Callable[[SchedulerConfiguration, Interference | None], Engine],
    ) -> None:
        """``engine`` puts the plugins together; that for interference is None if it is not configured."""
        self._cluster = cluster
        self._clock = clock
        self._engine_of = engine
        self._curves = CurveKeeper()
        self._unplaceable: frozenset[str] = frozenset()
        self.observer: Observer | None = None
        self.configuration = configuration
        self.engine = Engine()
        self._put(configuration)

    def apply(self, configuration: SchedulerConfiguration) -> None:
        """Put a configuration into force, unless it is."""
        if configuration != self.configuration:
            self._put(configuration)

    def _put(self, configuration: SchedulerConfiguration) -> None:
        self.configuration = configuration
        settings = configuration.interference
        plugin = Interference(settings, self.now) if settings else None
        self.engine = self._engine_of(configuration, plugin)
        self._cluster.estimate(estimates_of(plugin, self.now))
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
        self.measure(observation.measured())

    def measure(self, measured: Measured) -> None:
        """Let decisions be made by what was measured from now on."""
        settings = self.configuration.interference
        if settings is None:
            return
        self._cluster.measure(measured)
        if settings.latency_model is LatencyModel.CURVE:
            self._cluster.measure(self._with_curves(measured, settings))
        self._tell_unplaceable(settings)

    def now(self) -> float:
        """Return the Unix time."""
        return self._clock.now().timestamp()

    def _with_curves(self, measured: Measured, settings: InterferenceConfiguration) -> Measured:
        """Return the same with the latency curves learned, an idle latency that is measured being kept."""
        snapshot = self._cluster.snapshot()
        pressure, _ = pressure_of(snapshot, maximum_ages(settings), self.now())
        rows = np.array([snapshot.index.get(name, -1) for name in measured.names], dtype=np.intp)
        here = pressure.rows(rows)
        idle, slope = self._curves.observed(measured.names, here)
        idle = np.where(np.isnan(here.memorylatency_idle), idle, here.memorylatency_idle)
        at = np.full(len(measured.names), self.now())
        learned = {"memorylatency_idle": (idle, at), "memorylatency_slope": (slope, at)}
        return replace(measured, columns={**measured.columns, **learned})

    def _tell_unplaceable(self, settings: InterferenceConfiguration) -> None:
        """Say which profiles no node can take, once as long as it stays so."""
        snapshot = self._cluster.snapshot()
        pressure, _ = pressure_of(snapshot, maximum_ages(settings), self.now())
        capacity = pressure.memorybandwidth_capacity[snapshot.present]
        found = {each.name: each for each in unplaceable(settings, capacity)}
        for name in found.keys() - self._unplaceable:
            message = unplaceable_message(found[name].needed, found[name].largest)
            where = f"line {found[name].line}"
            log.warning(message, extra=fields(reason=Reason.PROFILE_UNPLACEABLE, profile=name, at=where))
        self._unplaceable = frozenset(found)


def engine_of(configuration: SchedulerConfiguration, plugin: Interference | None) -> Engine:
    """Return the engine that answers kube-scheduler, with interference if there is a plugin for it."""
    allocation = Weighted(AllocationScore(configuration.scoring))
    engine = Engine((AmplifiedCPU(),), (allocation,), (CPUPlacement(),))
    return engine if plugin is None else with_interference(engine, plugin)


def with_interference(engine: Engine, plugin: Interference) -> Engine:
    """Return an engine that asks the plugin too, last, and counts it as much as it counts allocation."""
    return Engine(
        filters=(*engine.filters, plugin),
        scores=(*engine.scores, Weighted(plugin, prepares=plugin)),
        reserves=(*engine.reserves, plugin),
        tells=(*engine.tells, plugin),
    )


def estimates_of(plugin: Interference | None, now: Callable[[], float]) -> Estimates:
    """Return what is known of pods and nodes by a plugin's configuration."""
    if plugin is None:
        return Estimates()
    settings = plugin.configuration
    return Estimates(plugin.profile_of, settings.counterweight, now, settings.capacity_by_rule)


def identities(nodes: Iterable[SchedulableNode]) -> Iterator[NodeIdentity]:
    """Yield the nodes, by their names and what else they are called."""
    for node in nodes:
        host = node.metadata.labels.get(HOST_NAME)
        aliases = [each.address for each in node.status.addresses or () if each.address]
        yield NodeIdentity(node.metadata.name, tuple(dict.fromkeys([*([host] if host else []), *aliases])))
