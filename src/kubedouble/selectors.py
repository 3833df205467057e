"""Label and field selectors, as list, watch and deletecollection take them.

Grammar and messages: k8s.io/apimachinery/pkg/labels (``a=b,c!=d,e in (x,y),f notin (z),g,!h,i>1``) and
pkg/fields (``=``, ``==``, ``!=`` only). Which fields a kind can be selected by is the kind's own list; every
kind has ``metadata.name``, and ``metadata.namespace`` if it is namespaced.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kubedouble.errors import StatusError, bad_request
from kubedouble.resources import ResourceInfo

Labels = Mapping[str, str]
Requirement = Callable[[Labels], bool]

_EVENT_FIELDS = {
    f"involvedObject.{name}": ("involvedObject", name)
    for name in ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
}
FIELDS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "pods": {
        "spec.nodeName": ("spec", "nodeName"),
        "spec.restartPolicy": ("spec", "restartPolicy"),
        "spec.schedulerName": ("spec", "schedulerName"),
        "spec.serviceAccountName": ("spec", "serviceAccountName"),
        "spec.hostNetwork": ("spec", "hostNetwork"),
        "status.phase": ("status", "phase"),
        "status.podIP": ("status", "podIP"),
        "status.nominatedNodeName": ("status", "nominatedNodeName"),
    },
    "nodes": {"spec.unschedulable": ("spec", "unschedulable")},
    "namespaces": {"status.phase": ("status", "phase")},
    "secrets": {"type": ("type",)},
    "services": {"spec.clusterIP": ("spec", "clusterIP"), "spec.type": ("spec", "type")},
    "events": {
        **_EVENT_FIELDS,
        "reason": ("reason",),
        "type": ("type",),
        "reportingComponent": ("reportingComponent",),
        "source": ("source", "component"),
    },
}
"""Storage key -> selectable field -> where it stands in the stored object."""

_BOOLEAN_FIELDS = {"spec.unschedulable", "spec.hostNetwork"}
_KEY = r"[A-Za-z0-9]([-A-Za-z0-9_./]*[A-Za-z0-9])?"
_VALUE = r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?"
_SET = re.compile(rf"(?P<key>{_KEY})\s+(?P<operator>in|notin)\s*\((?P<values>[^()]*)\)")
_EQUAL = re.compile(rf"(?P<key>{_KEY})\s*(?P<operator>==|=|!=)\s*(?P<value>{_VALUE})")
_ORDER = re.compile(rf"(?P<key>{_KEY})\s*(?P<operator>[<>])\s*(?P<value>-?[0-9]+)")
_EXISTS = re.compile(rf"(?P<absent>!?)\s*(?P<key>{_KEY})")


@dataclass(frozen=True, slots=True)
class Selection:
    """Which objects of a kind a request is about: by label, by field.

    ``fields`` holds the fields that must equal a value, for the store's indexes and for authorization.
    """

    labels: tuple[Requirement, ...] = ()
    fields: Mapping[str, str] | None = None
    unequal: tuple[tuple[str, str], ...] = ()
    storage: str = ""

    @property
    def everything(self) -> bool:
        return not (self.labels or self.fields or self.unequal)

    def matches(self, obj: Mapping[str, Any]) -> bool:
        """Whether a stored object is selected."""
        if self.labels:
            labels = obj["metadata"].get("labels") or {}
            if not all(requirement(labels) for requirement in self.labels):
                return False
        if self.fields and any(field_value(self.storage, obj, k) != v for k, v in self.fields.items()):
            return False
        return not any(field_value(self.storage, obj, name) == value for name, value in self.unequal)


def parse(resource: ResourceInfo, label_selector: str, field_selector: str) -> Selection:
    """Read the two selectors of a request.

    Raises:
        StatusError: 400, if one is malformed, or a field is not selectable for the kind.
    """
    equal: dict[str, str] = {}
    unequal: list[tuple[str, str]] = []
    for name, operator, value in _field_terms(field_selector):
        stored_name = _check_field(resource, name)
        if operator == "!=":
            unequal.append((stored_name, value))
        elif equal.setdefault(stored_name, value) != value:
            unequal.append((stored_name, equal[stored_name]))
    labels = tuple(parse_labels(label_selector))
    return Selection(labels, equal, tuple(unequal), resource.storage_key)


def field_value(storage: str, obj: Mapping[str, Any], name: str) -> str:
    """Return a selectable field of a stored object as text; what is absent is empty."""
    path = FIELDS.get(storage, {}).get(name) or tuple(name.split("."))
    value: Any = obj
    for step in path:
        value = value.get(step) if isinstance(value, Mapping) else None
    if name in _BOOLEAN_FIELDS:
        return "true" if value else "false"
    return "" if value is None else str(value)


def parse_labels(text: str) -> list[Requirement]:
    """Read a label selector into requirements that must all hold."""
    requirements = []
    rest = text.strip()
    while rest:
        requirement, end = _label_term(rest, text)
        requirements.append(requirement)
        rest = rest[end:].lstrip()
        if rest and not rest.startswith(","):
            raise _malformed(text, rest)
        rest = rest[1:].lstrip()
    return requirements


def _label_term(rest: str, text: str) -> tuple[Requirement, int]:
    if match := _SET.match(rest):
        values = {value.strip() for value in match["values"].split(",")}
        return _membership(match["key"], values, wanted=match["operator"] == "in"), match.end()
    if match := _EQUAL.match(rest):
        return _membership(match["key"], {match["value"]}, wanted=match["operator"] != "!="), match.end()
    if match := _ORDER.match(rest):
        return _order(match["key"], match["operator"], int(match["value"])), match.end()
    if match := _EXISTS.match(rest):
        key, absent = match["key"], bool(match["absent"])
        return (lambda labels: (key in labels) is not absent), match.end()
    raise _malformed(text, rest)


def _membership(key: str, values: set[str], *, wanted: bool) -> Requirement:
    if wanted:
        return lambda labels: key in labels and labels[key] in values
    return lambda labels: key not in labels or labels[key] not in values


def _order(key: str, operator: str, bound: int) -> Requirement:
    def holds(labels: Labels) -> bool:
        try:
            value = int(labels.get(key, ""))
        except ValueError:
            return False
        return value > bound if operator == ">" else value < bound

    return holds


def _field_terms(text: str) -> list[tuple[str, str, str]]:
    terms = []
    for term in re.split(r"(?<!\\),", text):
        if not term:
            continue
        match = re.fullmatch(r"(?P<name>[^=!]+)(?P<operator>==|!=|=)(?P<value>.*)", term, re.DOTALL)
        if match is None:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{term}'")
        value = re.sub(r"\\([\\,=])", r"\1", match["value"])
        terms.append((match["name"], match["operator"], value))
    return terms


def _check_field(resource: ResourceInfo, name: str) -> str:
    if name == "metadata.name" or (name == "metadata.namespace" and resource.namespaced):
        return name
    stored = name
    if resource.storage:  # events.k8s.io calls the regarded object "regarding"
        stored = re.sub(r"^regarding\.", "involvedObject.", name)
        stored = {"reportingController": "reportingComponent"}.get(stored, stored)
    if stored not in FIELDS.get(resource.storage_key, {}):
        raise bad_request(
            f'field label not supported: "{name}"' if resource.custom else _unknown(resource, name)
        )
    return stored


def _unknown(resource: ResourceInfo, name: str) -> str:
    where = f'"{resource.api_version}, Resource={resource.plural}"'
    return (
        f'Unable to find {where} that match label selector "", field selector "{name}": '
        f"field label not supported: {name}"
    )


def _malformed(text: str, rest: str) -> StatusError:
    return bad_request(f"unable to parse requirement: found '{rest.partition(',')[0]}' in selector '{text}'")
