"""Validating webhook on ConfigMaps: bad configuration is refused at the door, with every error and its place.

The ConfigMap is shared with Koordinator's other settings, so a key of ours that was bad before and has
not changed does not stop somebody from changing another key; it is warned about.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from corewise.assessment.cluster import (
    KEYS,
    ConfigurationReading,
    config_map_text,
    conflicts,
    read_configuration,
)
from corewise.config.configuration import Problem, Severity
from corewise.kube.admission import AdmissionRequest, OperationType
from corewise.kube.decoding import decode_object
from corewise.kube.objects import ConfigMap
from corewise.kube.resources import CONFIG_MAPS
from corewise.quantities import Ratio
from corewise.service.webhooks.answers import Answer, allowed, refused

Nodes = Iterable[tuple[str, Mapping[str, str]]]
_EMPTY = ConfigMap()


@dataclass(frozen=True, slots=True)
class ConfigMapWebhook:
    """Answers reviews of the one ConfigMap that configures corewise; others are let through unread."""

    namespace: str
    name: str
    largest: Ratio
    nodes: Callable[[], Nodes]

    async def review(self, request: AdmissionRequest) -> Answer:
        """Answer one review.

        Raises:
            DecodeError: if the objects are not ConfigMaps.
        """
        if (request.namespace, request.name) != (self.namespace, self.name):
            return allowed(request)
        if request.operation not in {OperationType.CREATE, OperationType.UPDATE}:
            return allowed(request)
        new = decode_object(CONFIG_MAPS, request.object, "object")
        updates = request.operation is OperationType.UPDATE
        old = decode_object(CONFIG_MAPS, request.old_object, "oldObject") if updates else _EMPTY
        reading = read_configuration(new, largest=self.largest)
        errors, warnings = self._sorted(reading, new, old)
        if errors:
            return refused(request, "\n".join(errors), code=422, reason="Invalid")
        return allowed(request, warnings=warnings)

    def _sorted(
        self, reading: ConfigurationReading, new: ConfigMap, old: ConfigMap
    ) -> tuple[list[str], list[str]]:
        errors: list[str] = []
        warnings: list[str] = []
        clashes = conflicts(reading.configuration, self.nodes())
        for key in KEYS:
            changed = config_map_text(new, key) != config_map_text(old, key)
            for problem in (*reading.problems.get(key, ()), *clashes.get(key, ())):
                fatal = changed and problem.severity is Severity.ERROR
                (errors if fatal else warnings).append(_told(key, problem))
        return errors, warnings


def _told(key: str, problem: Problem) -> str:
    return f"{key}: {problem}"
