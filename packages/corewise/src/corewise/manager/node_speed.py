"""Watches how fast nodes are: marks slow ones, and reports configured ratios that are off. On the leader.

The scores stand on NodeResourceTopologies, where agents write them. The leader looks at all of them every ten
minutes; what a day's scores are worth is decided in :mod:`corewise.normalization.slow_nodes`, off the event
loop. A slow node gets the condition SlowCPU. All that follows comes from there: the assessment of the node
warns of it, with Event, metric and log, in every program and after a restart.

A ratio that is off is an Event on the ConfigMap, and a metric, however normalization is enabled on the nodes
that have it: by the cluster's strategy, an entry of ``nodeConfigs``, or a label. Nothing is corrected: ratios
are the user's.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from corewise.actions import EmitEvent, SetNodeCondition
from corewise.config.configuration import NormalizationConfig
from corewise.kube.clock import Clock, rfc3339
from corewise.kube.errors import KubeError, NotFound
from corewise.kube.objects import ObjectMeta
from corewise.manager.executor import Executor
from corewise.manager.reporting import Series
from corewise.manager.snapshot import Snapshot
from corewise.normalization.decision import RatioNode
from corewise.normalization.fleet import Fleet, ScoredNode
from corewise.normalization.measured_ratios import RatioKey, RatioOff, applied_ratios, ratios_off
from corewise.normalization.models import CheckedNode
from corewise.normalization.slow_nodes import ScoreHistory, SlowNodes
from corewise.prometheus.exposition import Exposition
from corewise.ratios.nodes import Annotations, facts_of, read_scores
from corewise.service.logs import fields
from corewise.service.reader import in_reader
from corewise.vocabulary import metrics
from corewise.vocabulary.names import NORMALIZATION_KEY, SLOW_CPU
from corewise.vocabulary.reasons import Reason
from corewise.workload.nodes import NodeCondition

log = logging.getLogger(__name__)

LOOK_EVERY = 600.0
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class _Look:
    """What one look found."""

    nodes: SlowNodes
    speeds: Mapping[str, float]
    off: tuple[RatioOff, ...]


class NodeSpeedWatch:
    """Looks at the scores of all nodes while it runs."""

    def __init__(self, snapshot: Snapshot, executor: Executor, clock: Clock) -> None:
        self._snapshot, self._executor, self._clock = snapshot, executor, clock
        self._history = ScoreHistory()
        self._speeds: Mapping[str, float] = {}
        self._off: tuple[RatioOff, ...] = ()

    async def run(self) -> None:
        """Look every ten minutes, until canceled."""
        try:
            while True:
                await self.look()
                await self._clock.sleep(LOOK_EVERY)
        finally:
            self._history, self._speeds, self._off = ScoreHistory(), {}, ()

    async def look(self) -> None:
        """Judge all nodes by the scores they have now, and write what has changed."""
        snapshot = self._snapshot
        nodes = snapshot.nodes.items.values()
        shown = {
            node.metadata.name: condition
            for node in nodes
            if (condition := node.status.condition(SLOW_CPU)) is not None
        }
        stated = [(node.metadata, snapshot.stated_of(node.metadata.name)) for node in nodes]
        config, now = snapshot.reading.configuration.normalization, self._clock.now()
        found = await in_reader(partial(self._judged, stated, frozenset(shown), config, now))
        self._speeds = found.speeds
        for action in conditions_to_write(found.nodes, shown, rfc3339(now)):
            await self._write(action)
        await self._report(found.off)

    def publish(self, exposition: Exposition) -> None:
        """Set the gauges about the speed of nodes and about ratios that are off."""
        speeds: Series = {(name,): speed for name, speed in self._speeds.items()}
        exposition.replace(metrics.NODE_SPEED, speeds)
        off: Series = {
            (each.model, each.field.value, each.entry): each.measured.hundredths / each.configured.hundredths
            for each in self._off
        }
        exposition.replace(metrics.MODEL_RATIO_OFF, off)

    def _judged(
        self,
        stated: Sequence[tuple[ObjectMeta, Annotations]],
        slow: frozenset[str],
        config: NormalizationConfig | None,
        now: datetime,
    ) -> _Look:
        read = read_scores((meta.name, annotations) for meta, annotations in stated)
        self._history.take([each for _, each in read if isinstance(each, ScoredNode)], now)
        off = configured_off(
            Fleet.of(read, now), ratio_nodes(stated), config, [each.key for each in self._off]
        )
        return _Look(self._history.judge(slow), self._history.relative_speeds(), off)

    async def _write(self, action: SetNodeCondition) -> None:
        """Write a condition; one that cannot be written is due again at the next look."""
        try:
            await self._executor.carry_out(action)
        except NotFound:
            log.debug("node is gone", extra=fields(node=action.name))
        except KubeError as error:
            extra = fields(node=action.name, condition=action.condition, error=error, hint=error.hint)
            log.warning("the condition cannot be written", extra=extra)

    async def _report(self, off: tuple[RatioOff, ...]) -> None:
        """Emit an Event on the ConfigMap if other ratios are off than before."""
        before, self._off = self._off, off
        config_map = self._snapshot.config_map
        if config_map is not None and {each.key for each in off} - {each.key for each in before}:
            await self._executor.carry_out(event_about_ratios(config_map.metadata, off))


def conditions_to_write(
    found: SlowNodes, shown: Mapping[str, NodeCondition], now: str
) -> Iterable[SetNodeCondition]:
    """Yield the conditions that nodes do not show yet, or show and should not; ``now`` is RFC 3339."""
    reason = Reason.NODE_SLOWER_THAN_PEERS
    for name, slow in found.slow.items():
        condition = shown.get(name)
        if condition is None or condition.message != slow.message:
            since = (condition and condition.since) or now
            yield SetNodeCondition(name, SLOW_CPU, slow.message, since, now, reason, slow.message)
    for name in shown.keys() - found.slow.keys() - found.unchanged:
        why = "its last scores are as those of its peers, or cannot be compared"
        yield SetNodeCondition(name, SLOW_CPU, "", now, now, reason, why)


def ratio_nodes(stated: Iterable[tuple[ObjectMeta, Annotations]]) -> dict[str, RatioNode]:
    """Return the parts of nodes that decide their ratios, by name.

    ``stated``: their metadata, and the annotations of their NodeResourceTopologies.
    """
    return {meta.name: CheckedNode(meta.name, meta.labels, facts_of(found)) for meta, found in stated}


def configured_off(
    fleet: Fleet,
    nodes: Mapping[str, RatioNode],
    config: NormalizationConfig | None,
    before: Collection[RatioKey] = (),
) -> tuple[RatioOff, ...]:
    """Return the ratios that are off on the nodes that have them; ``before``: those that were.

    ``nodes``: all nodes of the fleet, by name.
    """
    if config is None:
        return ()
    return ratios_off(applied_ratios(fleet, nodes, config), before)


def off_message(off: Iterable[RatioOff]) -> str:
    """Say in one line which ratios are off: the first ones, and how many more there are."""
    messages = [each.message for each in off]
    more = f"; and {len(messages) - _SHOWN} more" if len(messages) > _SHOWN else ""
    return f"{NORMALIZATION_KEY}: {'; '.join(messages[:_SHOWN])}{more}"


def event_about_ratios(meta: ObjectMeta, off: Iterable[RatioOff]) -> EmitEvent:
    """Return the Event on the ConfigMap about ratios that are off."""
    reason = Reason.MODEL_RATIO_OFF
    text = f"{off_message(off)}. {reason.fix}"
    return EmitEvent("ConfigMap", meta.namespace, meta.name, meta.uid, reason, text, reason.warning)
