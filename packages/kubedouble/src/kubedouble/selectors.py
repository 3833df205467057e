"""Label and field selectors: those of requests, and the ``metav1.LabelSelector`` of stored objects.

Grammar and messages: k8s.io/apimachinery/pkg/labels (``a=b,c!=d,e in (x,y),f notin (z),g,!h,i>1``) and
pkg/fields (``=``, ``==``, ``!=`` only). Each kind lists the fields by which it can be selected; every kind
has ``metadata.name``, and ``metadata.namespace`` if it is namespaced.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from kubedouble.errors import StatusError, bad_request
from kubedouble.resources import ResourceInfo

Labels = Mapping[str, str]
Requirement = Callable[[Labels], bool]

FIELDS: Mapping[str, frozenset[str]] = {
    "pods": frozenset({
        "spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName",
        "spec.hostNetwork", "status.phase", "status.podIP", "status.nominatedNodeName",
    }),
    "nodes": frozenset({"spec.unschedulable"}),
    "namespaces": frozenset({"status.phase"}),
    "secrets": frozenset({"type"}),
    "services": frozenset({"spec.clusterIP", "spec.type"}),
    "events": frozenset({
        "involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid",
        "involvedObject.apiVersion", "involvedObject.resourceVersion", "involvedObject.fieldPath", "reason",
        "type", "reportingComponent", "source",
    }),
}  # fmt: skip
"""Storage key -> the fields by which its objects can be selected."""

_BOOLEAN_FIELDS = {"spec.unschedulable", "spec.hostNetwork"}
_KEY = r"[A-Za-z0-9]([-A-Za-z0-9_./]*[A-Za-z0-9])?"
_VALUE = r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?"
_SET = re.compile(rf"(?P<key>{_KEY})\s+(?P<operator>in|notin)\s*\((?P<values>[^()]*)\)")
_EQUAL = re.compile(rf"(?P<key>{_KEY})\s*(?P<operator>==|=|!=)\s*(?P<value>{_VALUE})")
_ORDER = re.compile(rf"(?P<key>{_KEY})\s*(?P<operator>[<>])\s*(?P<value>-?[0-9]{{1,19}})(?![0-9])")
_EXISTS = re.compile(rf"(?P<absent>!?)\s*(?P<key>{_KEY})")


@dataclass(frozen=True, slots=True)
class Selection:
    """The objects of a kind that a request is about: by label, by field.

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
            if not satisfies(labels, self.labels):
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
    value: Any = obj
    for step in _path(storage, name):
        value = value.get(step) if isinstance(value, Mapping) else None
    if name in _BOOLEAN_FIELDS:
        return "true" if value else "false"
    return "" if value is None else str(value)


@lru_cache(maxsize=256)
def _path(storage: str, name: str) -> tuple[str, ...]:
    return ("source", "component") if (storage, name) == ("events", "source") else tuple(name.split("."))


def label_selector(selector: Mapping[str, Any] | None) -> tuple[Requirement, ...]:
    """Return the requirements of a stored ``metav1.LabelSelector``; an empty one selects everything.

    Validation has checked its operators.
    """
    parts = selector or {}
    labels = parts.get("matchLabels") or {}
    requirements = [_membership(key, {value}, wanted=True) for key, value in labels.items()]
    for term in parts.get("matchExpressions") or ():
        key, operator, values = term["key"], term["operator"], set(term.get("values") or ())
        if operator in {"In", "NotIn"}:
            requirements.append(_membership(key, values, wanted=operator == "In"))
        else:
            requirements.append(_presence(key, wanted=operator == "Exists"))
    return tuple(requirements)


def satisfies(labels: Labels, requirements: Iterable[Requirement]) -> bool:
    """Whether labels meet all requirements."""
    return all(requirement(labels) for requirement in requirements)


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
        return _presence(match["key"], wanted=not match["absent"]), match.end()
    raise _malformed(text, rest)


def _membership(key: str, values: set[str], *, wanted: bool) -> Requirement:
    if wanted:
        return lambda labels: key in labels and labels[key] in values
    return lambda labels: key not in labels or labels[key] not in values


def _presence(key: str, *, wanted: bool) -> Requirement:
    return lambda labels: (key in labels) is wanted


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
    if stored not in FIELDS.get(resource.storage_key, frozenset()):
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
