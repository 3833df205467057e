"""What the manager reports: gauges from the last assessments of nodes, and Events about the configuration."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TypeAlias

from corewise.actions import EmitEvent
from corewise.amplification.amounts import CPU, ResourceList
from corewise.assessment.cluster import KEYS, ConfigurationReading, conflicts
from corewise.assessment.decision import NodeAssessment
from corewise.config.decoding import Problem
from corewise.kube.objects import ConfigMap, ObjectMeta
from corewise.prometheus.exposition import Exposition
from corewise.quantities import Ratio, RatioError
from corewise.vocabulary import metrics
from corewise.vocabulary.names import NORMALIZATION_RATIO
from corewise.vocabulary.reasons import Reason

Series: TypeAlias = dict[tuple[str, ...], float]


def publish(assessments: Mapping[str, NodeAssessment], exposition: Exposition) -> None:
    """Set the gauges about nodes from their last assessments."""
    nodes = assessments.values()
    raw = {name: each.status.raw.allocatable for name, each in assessments.items()}
    shown = {name: each.node.amounts.allocatable for name, each in assessments.items()}
    exposition.set(metrics.NODES_ASSESSED, len(assessments))
    exposition.set(metrics.NODES_PENDING, sum(node.pending for node in nodes))
    exposition.set(metrics.NODES_HELD_BACK, sum(bool(node.held_back) for node in nodes))
    exposition.replace(
        metrics.NODE_PROBLEM,
        {
            (name, problem.reason.value): 1.0
            for name, each in assessments.items()
            for problem in each.problems
        },
    )
    exposition.replace(metrics.NODE_NORMALIZATION_RATIO, _normalization(assessments))
    exposition.replace(
        metrics.NODE_AMPLIFICATION_RATIO,
        {
            (name, resource): ratio.hundredths / 100
            for name, assessment in assessments.items()
            for resource, ratio in assessment.effective.items()
        },
    )
    exposition.replace(metrics.NODE_RAW_CPU, _cpus(raw))
    exposition.replace(metrics.NODE_AMPLIFIED_CPU, _cpus(shown))


def _normalization(assessments: Mapping[str, NodeAssessment]) -> Series:
    series: Series = {}
    for name, assessment in assessments.items():
        # The annotation is anybody's to write; an unreadable one has no series.
        with suppress(RatioError):
            ratio = Ratio.parse(assessment.node.annotations.get(NORMALIZATION_RATIO, ""))
            series[name,] = ratio.hundredths / 100
    return series


def _cpus(nodes: Mapping[str, ResourceList]) -> Series:
    return {(name,): amounts[CPU].milli / 1000 for name, amounts in nodes.items() if CPU in amounts}


def events_about(
    reading: ConfigurationReading,
    config_map: ConfigMap | None,
    nodes: Iterable[tuple[str, Mapping[str, str]]],
    *,
    was_bad: bool,
) -> tuple[EmitEvent, ...]:
    """Return the Events on the ConfigMap: what is wrong with it, or that it is good again."""
    if config_map is None:
        return ()
    meta = config_map.metadata
    messages: list[tuple[Reason, str]] = []
    for key in reading.bad_keys:
        stays = "entries without errors are applied, nodes that others may be meant for stay as they are"
        messages.append((Reason.CONFIG_INVALID, f"{key}: {_summary(reading.errors(key))}; {stays}"))
    for key, problems in conflicts(reading.configuration, nodes).items():
        if key not in reading.bad_keys:
            messages.append((Reason.CONFLICTING_NODE_CONFIGS, f"{key}: {_summary(problems)}"))
    if was_bad and not reading.bad_keys:
        messages.append((Reason.CONFIG_APPLIED, Reason.CONFIG_APPLIED.meaning))
    return tuple(_event("ConfigMap", meta, reason, message) for reason, message in messages)


def event_about_koordinator(webhook: str, meta: ObjectMeta | None) -> tuple[EmitEvent, ...]:
    """Return the Event on Koordinator's webhook configuration, if it is in the way."""
    if not webhook or meta is None:
        return ()
    reason = Reason.KOORDINATOR_WEBHOOK_PRESENT
    message = f"webhook {webhook}: {reason.meaning} {reason.fix}"
    return (_event("MutatingWebhookConfiguration", meta, reason, message),)


def validity(reading: ConfigurationReading) -> dict[tuple[str, ...], float]:
    """Return the series of the metric about the keys of the ConfigMap: 1 is good."""
    return {(key,): float(key not in reading.bad_keys) for key in KEYS}


def _event(kind: str, meta: ObjectMeta, reason: Reason, message: str) -> EmitEvent:
    return EmitEvent(kind, meta.namespace, meta.name, meta.uid, reason, message, reason.warning)


def _summary(problems: Iterable[Problem], limit: int = 3) -> str:
    """Return the first problems in one line, and how many more there are."""
    problems = tuple(problems)
    more = f"; and {len(problems) - limit} more" if len(problems) > limit else ""
    return "; ".join(map(str, problems[:limit])) + more
