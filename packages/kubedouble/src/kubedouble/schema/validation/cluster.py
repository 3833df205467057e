"""ConfigMaps, Secrets, Services, Nodes, Events and Leases.

An Event made as core ``v1`` without eventTime is validated by the old, lax rules; one with eventTime by those
of events.k8s.io, and what was written through events.k8s.io cannot change.

Source: k8s.io/kubernetes/pkg/apis/{core,coordination}/validation.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from typing import Any

from kubedouble.errors import Faults
from kubedouble.schema.rules import (
    NOT_NEGATIVE,
    Object,
    amount,
    config_key,
    dns_label,
    is_label_value,
    port,
    qualified_name,
)

_LARGEST = 1024 * 1024
_SEALED = "field is immutable when `immutable` is set"


def config_map(faults: Faults, obj: Object, old: Object | None) -> None:
    """Report the faults of a ConfigMap."""
    data, binary = obj.get("data") or {}, obj.get("binaryData") or {}
    for key in data:
        config_key(faults, f"data[{key}]", key)
        if key in binary:
            faults.invalid(f"data[{key}]", key, "duplicate of key present in binaryData")
    for key in binary:
        config_key(faults, f"binaryData[{key}]", key)
    size = sum(len(value.encode()) for value in data.values()) + _decoded_size(binary)
    if size > _LARGEST:
        faults.too_long("", _LARGEST)
    _sealed(faults, obj, old, ("data", "binaryData"))


def secret(faults: Faults, obj: Object, old: Object | None) -> None:
    """Report the faults of a Secret."""
    data = obj.get("data") or {}
    for key in data:
        config_key(faults, f"data[{key}]", key)
    if _decoded_size(data) > _LARGEST:
        faults.too_long("data", _LARGEST)
    if old is not None:
        faults.immutable("type", obj.get("type", ""), old.get("type", ""))
    _sealed(faults, obj, old, ("data",))


def _sealed(faults: Faults, obj: Object, old: Object | None, fields: tuple[str, ...]) -> None:
    if old is None or not old.get("immutable"):
        return
    if not obj.get("immutable"):
        faults.forbidden("immutable", _SEALED)
    for field in fields:
        if (obj.get(field) or {}) != (old.get(field) or {}):
            faults.forbidden(field, _SEALED)


def _decoded_size(data: Mapping[str, str]) -> int:
    return sum(len(base64.b64decode(text)) for text in data.values())


def service(faults: Faults, obj: Object, old: Object | None) -> None:
    """Report the faults of a Service."""
    spec = obj.get("spec") or {}
    ports = spec.get("ports") or ()
    if not ports and spec.get("type") != "ExternalName" and spec.get("clusterIP") != "None":
        faults.required("spec.ports")
    names: list[str] = []
    numbers: list[dict[str, Any]] = []
    for at, each in enumerate(ports):
        field, name = f"spec.ports[{at}]", each.get("name", "")
        if not name and len(ports) > 1:
            faults.required(f"{field}.name")
        elif name:
            dns_label(faults, f"{field}.name", name)
            faults.unique(f"{field}.name", name, names)
        number = each.get("port", 0)
        port(faults, f"{field}.port", number)
        faults.unique(field, {"port": number, "protocol": each.get("protocol", "TCP")}, numbers)
    before = (old or {}).get("spec") or {}
    address = before.get("clusterIP")
    if address and spec.get("type") != "ExternalName" and spec.get("clusterIP") != address:
        faults.invalid("spec.clusterIPs[0]", spec.get("clusterIP", ""), "may not change once set")


def node(faults: Faults, obj: Object, old: Object | None) -> None:
    """Report the faults of a node, and of its changes."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    before = (old or {}).get("status") or {}
    _taints(faults, spec.get("taints") or ())
    for kind in ("capacity", "allocatable"):
        if status.get(kind) is not before.get(kind):
            for name, text in (status.get(kind) or {}).items():
                amount(faults, f"status.{kind}.{name}", name, text)
    before = (old or {}).get("spec") or {}
    for name, word in (("podCIDRs", "podCIDR"), ("providerID", "providerID")):
        if before.get(name) and spec.get(name) != before[name]:
            faults.forbidden(f"spec.{name}", f'node updates may not change {word} except from "" to valid')


def _taints(faults: Faults, listed: Iterable[Object]) -> None:
    seen: set[tuple[str, str]] = set()
    for at, taint in enumerate(listed):
        field = f"spec.taints[{at}]"
        key, effect = taint.get("key", ""), taint.get("effect", "")
        qualified_name(faults, f"{field}.key", key)
        if not is_label_value(taint.get("value", "")):
            faults.invalid(
                f"{field}.value", taint["value"], "a valid label must be an empty string or a name"
            )
        if not effect:
            faults.required(f"{field}.effect")
        if (key, effect) in seen:
            faults.duplicate(field, taint)
        seen.add((key, effect))


_NEW_API = "events.k8s.io/v1"
_LONGEST, _LONGEST_NOTE = 128, 1024
_TYPES = ("Normal", "Warning")
_UNSAYABLE = (
    "involvedObject", "reason", "message", "source", "firstTimestamp", "lastTimestamp", "count", "type",
    "eventTime", "action", "related", "reportingComponent", "reportingInstance",
)  # fmt: skip


def event(faults: Faults, obj: Object, old: Object | None, api_version: str) -> None:
    """Report the faults of an Event in its stored, core form."""
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
    """Report the faults of a Lease."""
    spec = obj.get("spec") or {}
    duration, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if duration is not None and duration <= 0:
        faults.invalid("spec.leaseDurationSeconds", duration, "must be greater than 0")
    if transitions is not None and transitions < 0:
        faults.invalid("spec.leaseTransitions", transitions, NOT_NEGATIVE)
