"""One stored Event, two faces: core ``v1`` (as stored) and ``events.k8s.io/v1``, which renames its fields.

Source: k8s.io/kubernetes/pkg/apis/events/v1/conversion.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_CORE_TO_EVENTS = {
    "involvedObject": "regarding",
    "message": "note",
    "reportingComponent": "reportingController",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
}
_EVENTS_TO_CORE = {new: old for old, new in _CORE_TO_EVENTS.items()}


def to_events_v1(obj: Mapping[str, Any]) -> dict[str, Any]:
    """Return a core Event as one of events.k8s.io/v1."""
    renamed = {_CORE_TO_EVENTS.get(name, name): value for name, value in obj.items()}
    return {**renamed, "apiVersion": "events.k8s.io/v1", "kind": "Event"}


def to_core(obj: Mapping[str, Any]) -> dict[str, Any]:
    """Return an events.k8s.io/v1 Event as a core one."""
    renamed = {_EVENTS_TO_CORE.get(name, name): value for name, value in obj.items()}
    return {**renamed, "apiVersion": "v1", "kind": "Event"}
