"""Reports of the manager: gauges about nodes, and Events about the configuration."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeAlias

from corewise.actions import EmitEvent
from corewise.amplification.amounts import CPU, ResourceList
from corewise.config.decoding import Problem
from corewise.kube.objects import ConfigMap, ObjectMeta
from corewise.prometheus.exposition import Exposition
from corewise.quantities import MILLI, Ratio, RatioError
from corewise.ratios.cluster import KEYS, ConfigurationReading, conflicts
from corewise.ratios.decision import NodeAssessment
from corewise.vocabulary import metrics
from corewise.vocabulary.names import NORMALIZATION_RATIO
from corewise.vocabulary.reasons import Reason

Series: TypeAlias = dict[tuple[str, ...], float]


@dataclass(frozen=True, slots=True)
class AssessedNode:
    """The part of a node's last assessment kept for metrics and logs: an assessment whole is 5 KiB and more.

    CPUs are None where the node states none, ``normalization`` where its annotation cannot be read.
    """

    pending: bool
    held_back: bool
    problems: tuple[tuple[Reason, str], ...]
    normalization: float | None
    amplification: tuple[tuple[str, float], ...]
    raw_cpus: float | None
    amplified_cpus: float | None


def report_on(assessment: NodeAssessment) -> AssessedNode:
    """Take from an assessment what is reported."""
    normalization = None
    with suppress(RatioError):  # the annotation is anybody's to write
        ratio = Ratio.parse(assessment.node.annotations.get(NORMALIZATION_RATIO, ""))
        normalization = ratio.hundredths / 100
    return AssessedNode(
        assessment.pending,
        bool(assessment.held_back),
        tuple((each.reason, each.about) for each in assessment.problems),
        normalization,
        tuple((resource, ratio.hundredths / 100) for resource, ratio in assessment.effective.items()),
        _cpus(assessment.status.raw.allocatable),
        _cpus(assessment.node.amounts.allocatable),
    )


def _cpus(amounts: ResourceList) -> float | None:
    return amounts[CPU].milli / MILLI if CPU in amounts else None


def publish(reports: Mapping[str, AssessedNode], exposition: Exposition) -> None:
    """Set the gauges about nodes."""
    exposition.set(metrics.NODES_ASSESSED, len(reports))
    exposition.set(metrics.NODES_PENDING, sum(each.pending for each in reports.values()))
    exposition.set(metrics.NODES_HELD_BACK, sum(each.held_back for each in reports.values()))
    problems: Series = {
        (name, reason.value): 1.0 for name, each in reports.items() for reason, _ in each.problems
    }
    exposition.replace(metrics.NODE_PROBLEM, problems)
    ratios: Series = {
        (name, resource): ratio for name, each in reports.items() for resource, ratio in each.amplification
    }
    exposition.replace(metrics.NODE_AMPLIFICATION_RATIO, ratios)
    for metric, values in (
        (metrics.NODE_NORMALIZATION_RATIO, ((name, each.normalization) for name, each in reports.items())),
        (metrics.NODE_RAW_CPU, ((name, each.raw_cpus) for name, each in reports.items())),
        (metrics.NODE_AMPLIFIED_CPU, ((name, each.amplified_cpus) for name, each in reports.items())),
    ):
        exposition.replace(metric, {(name,): value for name, value in values if value is not None})


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
        errors = _summary(reading.errors(key))
        messages.append((Reason.CONFIG_INVALID, f"{key}: {errors}; {reading.applied_instead(key)}"))
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
