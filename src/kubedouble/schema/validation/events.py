"""Events and Leases.

An Event made as core ``v1`` without eventTime is held to the old, lax rules; one with eventTime to those of
events.k8s.io, and what was said through events.k8s.io cannot be unsaid.

Source: k8s.io/kubernetes/pkg/apis/core/validation/events.go,
pkg/apis/coordination/validation/validation.go.
"""

from __future__ import annotations

from kubedouble.schema.validation.faults import NOT_NEGATIVE, Faults, Object
from kubedouble.schema.validation.names import qualified_name

_NEW_API = "events.k8s.io/v1"
_LONGEST, _LONGEST_NOTE = 128, 1024
_TYPES = ("Normal", "Warning")
_UNSAYABLE = (
    "involvedObject", "reason", "message", "source", "firstTimestamp", "lastTimestamp", "count", "type",
    "eventTime", "action", "related", "reportingComponent", "reportingInstance",
)  # fmt: skip


def event(faults: Faults, obj: Object, old: Object | None, api_version: str) -> None:
    """Note what is wrong with an Event in its stored, core form."""
    _about(faults, obj)
    if obj.get("eventTime") or api_version == _NEW_API:
        _complete(faults, obj)
    if api_version == _NEW_API:
        if old is None and not obj.get("eventTime"):
            faults.required("eventTime")
        if obj.get("type") not in _TYPES:
            faults.invalid("type", "", f"has invalid value: {obj.get('type', '')}")
        for field in _UNSAYABLE if old is not None else ():
            faults.immutable(field, obj.get(field), (old or {}).get(field))


def _about(faults: Faults, obj: Object) -> None:
    place = (obj.get("involvedObject") or {}).get("namespace", "")
    own = obj["metadata"].get("namespace", "")
    fits = own == place
    if not place:
        fits = own in ({"default", "kube-system"} if obj.get("eventTime") else {"", "default"})
    if not fits:
        faults.invalid("involvedObject.namespace", place, "does not match event.namespace")


def _complete(faults: Faults, obj: Object) -> None:
    reporter = obj.get("reportingComponent", "")
    if not reporter:
        faults.required("reportingController")
    else:
        qualified_name(faults, "reportingController", reporter)
    for field in ("reportingInstance", "action", "reason"):
        text = obj.get(field, "")
        if not text:
            faults.required(field)
        elif len(text) > _LONGEST:
            faults.invalid(field, "", f"can have at most {_LONGEST} characters")
    if len(obj.get("message", "")) > _LONGEST_NOTE:
        faults.invalid("message", "", f"can have at most {_LONGEST_NOTE} characters")


def lease(faults: Faults, obj: Object, _: Object | None) -> None:
    """Note what is wrong with a Lease."""
    spec = obj.get("spec") or {}
    duration, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if duration is not None and duration <= 0:
        faults.invalid("spec.leaseDurationSeconds", duration, "must be greater than 0")
    if transitions is not None and transitions < 0:
        faults.invalid("spec.leaseTransitions", transitions, NOT_NEGATIVE)
