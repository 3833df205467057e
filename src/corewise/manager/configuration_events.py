"""What the leader says about the configuration: Events on the ConfigMap or on Koordinator's webhook."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from corewise.actions import EmitEvent
from corewise.assessment.cluster import KEYS, ConfigurationReading, conflicts
from corewise.config.configuration import Problem
from corewise.kube.objects import ConfigMap, ObjectMeta
from corewise.vocabulary.reasons import Reason


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
        stays = "the last good configuration stays in force"
        messages.append((Reason.CONFIG_INVALID, f"{key}: {_summary(reading.errors(key))}; {stays}"))
    for key, problems in conflicts(reading.configuration, nodes).items():
        if key not in reading.bad_keys:
            messages.append((Reason.CONFLICTING_NODE_CONFIGS, f"{key}: {_summary(problems)}"))
    if was_bad and not reading.bad_keys:
        messages.append((Reason.CONFIG_APPLIED, Reason.CONFIG_APPLIED.text.meaning))
    return tuple(_event("ConfigMap", meta, reason, message) for reason, message in messages)


def event_about_koordinator(webhook: str, meta: ObjectMeta | None) -> tuple[EmitEvent, ...]:
    """Return the Event on Koordinator's webhook configuration, if there is one in the way."""
    if not webhook or meta is None:
        return ()
    text = Reason.KOORDINATOR_WEBHOOK_PRESENT.text
    message = f"webhook {webhook}: {text.meaning} {text.fix}"
    return (_event("MutatingWebhookConfiguration", meta, Reason.KOORDINATOR_WEBHOOK_PRESENT, message),)


def validity(reading: ConfigurationReading) -> dict[tuple[str, ...], float]:
    """Return the series of the metric that says which keys are good."""
    return {(key,): float(key not in reading.bad_keys) for key in KEYS}


def _event(kind: str, meta: ObjectMeta, reason: Reason, message: str) -> EmitEvent:
    return EmitEvent(kind, meta.namespace, meta.name, meta.uid, reason, message, reason.text.warning)


def _summary(problems: Iterable[Problem], limit: int = 3) -> str:
    """Return the first problems in one line, and how many more there are."""
    problems = tuple(problems)
    more = f"; and {len(problems) - limit} more" if len(problems) > limit else ""
    return "; ".join(map(str, problems[:limit])) + more
