"""ClusterColocationProfile (config.koordinator.sh/v1alpha1): what it says, and what is wrong with it.

The fields are Koordinator's, so that profiles that users have go on working. Every field of the spec is
read, and one that is unknown is an error: a misspelt ``qosClas`` would leave pods online without a word.

An absent selector selects everything, as Koordinator has it; a profile without any selector gets a warning.

**Two profiles for one pod.** Profiles are applied in the order of their names, so that of two which set one
thing differently the later one counts. :func:`conflicts` finds such pairs, unless their selectors certainly
exclude each other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from enum import StrEnum
from itertools import combinations
from typing import Any

from corewise.config.decoding import Decoder, Parsed, Place, Problem, Severity, either, shown
from corewise.config.json_text import Items, Members, TextReading, Value, path_text
from corewise.config.node_configs import read_label_selector
from corewise.config.yaml_text import read_objects
from corewise.vocabulary.names import QOS_CLASS, SUB_PRIORITY
from corewise.vocabulary.selectors import LabelSelector, label_key_fault, label_value_fault

KIND = "ClusterColocationProfile"
SKIP_RESOURCES = "config.koordinator.sh/skip-update-resources"
CONTROLLER_MANAGED = "config.koordinator.sh/controller-managed"
LONGEST_NAME = 200
"""The name of the profile's webhook is made of it, and has at most 253 characters."""
_PERCENT = re.compile(r"(100|[1-9]?[0-9])%")
_INT32 = 2**31 - 1
_SPEC = (
    "namespaceSelector",
    "selector",
    "labels",
    "annotations",
    "labelKeysMapping",
    "annotationKeysMapping",
    "labelSuffixes",
    "qosClass",
    "priorityClassName",
    "koordinatorPriority",
    "schedulerName",
    "patch",
    "probability",
)


class ProfileQoS(StrEnum):
    """The QoS classes that a profile may give."""

    LSE = "LSE"
    LSR = "LSR"
    LS = "LS"
    BE = "BE"
    SYSTEM = "SYSTEM"


@dataclass(frozen=True, slots=True)
class ColocationProfile:
    """One profile: which pods of which namespaces, and what it sets on them.

    ``key_mapping``: the value under a key is copied to another key. ``probability`` is in percent.
    """

    name: str
    namespaces: LabelSelector
    pods: LabelSelector
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    label_key_mapping: Mapping[str, str] = field(default_factory=dict)
    annotation_key_mapping: Mapping[str, str] = field(default_factory=dict)
    label_suffixes: Mapping[str, str] = field(default_factory=dict)
    qos_class: ProfileQoS | None = None
    priority_class: str = ""
    sub_priority: int | None = None
    scheduler: str = ""
    patch: Mapping[str, Any] | None = None
    probability: int = 100

    @property
    def class_labels(self) -> dict[str, str]:
        """The labels of ``qosClass`` and ``koordinatorPriority``, which count over ``labels``."""
        labels = {} if self.qos_class is None else {QOS_CLASS: self.qos_class.value}
        return labels if self.sub_priority is None else {**labels, SUB_PRIORITY: str(self.sub_priority)}

    def selects(self, namespace: Mapping[str, str], pod: Mapping[str, str]) -> bool:
        """Say whether it selects a pod, by its labels and those of its namespace."""
        return self.namespaces.matches(namespace) and self.pods.matches(pod)

    def settings(self) -> dict[str, object]:
        """Return what it sets, by path: what two profiles must not set differently."""
        document: dict[str, Any] = {
            "metadata": {"labels": {**self.labels, **self.class_labels}, "annotations": self.annotations},
            "spec": {
                key: value
                for key, value in (
                    ("priorityClassName", self.priority_class),
                    ("schedulerName", self.scheduler),
                )
                if value
            },
        }
        return {**dict(_leaves(document, ())), **dict(_leaves(self.patch or {}, ()))}


def _leaves(document: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[tuple[str, object]]:
    for key, value in document.items():
        here = (*path, key)
        if isinstance(value, Mapping):
            yield from _leaves(value, here)
        else:
            yield path_text(here), value


@dataclass(frozen=True, slots=True)
class ProfileOverlap:
    """Two profiles that may select one pod, and set one thing differently. The second one counts."""

    first: str
    second: str
    path: str
    values: tuple[object, object]

    def __str__(self) -> str:
        first, second = self.values
        return (
            f"profiles {self.first} and {self.second} may select the same pod and set {self.path} "
            f"differently, to {first} and {second}: {self.second} counts, since profiles are applied in the "
            "order of their names. Make the selectors exclude each other"
        )


def conflicts(profiles: Iterable[ColocationProfile]) -> list[ProfileOverlap]:
    """Return what profiles set differently on pods that two of them may select, in the order of names."""
    return [
        ProfileOverlap(first.name, second.name, path, (ours[path], theirs[path]))
        for first, second in combinations(sorted(profiles, key=lambda each: each.name), 2)
        if not (first.namespaces.excludes(second.namespaces) or first.pods.excludes(second.pods))
        for ours, theirs in [(first.settings(), second.settings())]
        for path in ours.keys() & theirs.keys()
        if ours[path] != theirs[path]
    ]


def profiles_in(text: str) -> list[Parsed[ColocationProfile]]:
    """Read the profiles of a file: YAML or JSON, several documents, or a List. Other objects are passed over.

    Pairs that set one thing differently are warnings at the second profile.
    """
    readings = [each for each in read_objects(text) if _kind(each) == KIND]
    found = [parse_profile(each) for each in readings]
    good = [each.value for each in found if each.value is not None]
    for conflict in conflicts(good):
        at = next(i for i, each in enumerate(found) if each.value and each.value.name == conflict.second)
        root = readings[at].root
        line, column = readings[at].positions.at(root.offset if root else 0)
        problem = Problem(Severity.WARNING, line, column, "", str(conflict))
        found[at] = replace(found[at], problems=(*found[at].problems, problem))
    return found


def _kind(reading: TextReading) -> str:
    members = reading.root.value if reading.root and isinstance(reading.root.value, Members) else ()
    return next((str(each.value.value) for each in members if each.key == "kind"), "")


def parse_profile(reading: TextReading) -> Parsed[ColocationProfile]:
    """Read a whole object of the API."""
    decoder = Decoder(reading, strict=True)
    root = decoder.fields(decoder.root, ("apiVersion", "kind", "metadata", "spec", "status"))
    metadata = {str(key.path[-1]): value for key, value in decoder.entries(root["metadata"])}
    name = metadata.get("name")
    profile = _read_spec(decoder, root["spec"], either(decoder.text(name) if name else None, ""))
    if len(profile.name) > LONGEST_NAME and name:
        decoder.error(name, f"must have at most {LONGEST_NAME} characters")
    for member, key, consequence in (
        ("annotations", SKIP_RESOURCES, "cpu and memory of offline pods are replaced all the same"),
        ("labels", CONTROLLER_MANAGED, "pods that exist already are not changed"),
    ):
        for place, _ in decoder.entries(metadata.get(member, Place(None, (), 0))):
            if place.path[-1] == key:
                decoder.warn(
                    place, f"corewise does not honour this {member.removesuffix('s')}: {consequence}"
                )
    return decoder.finish(profile)


def _read_spec(decoder: Decoder, place: Place, name: str) -> ColocationProfile:
    spec = decoder.fields(place, _SPEC)
    before = decoder.error_count
    namespaces, pods = (
        read_label_selector(decoder, spec[each]) for each in ("namespaceSelector", "selector")
    )
    if decoder.error_count == before and not namespaces.requirements and not pods.requirements:
        decoder.warn(
            place, "selects every pod of the cluster, except in kube-system and in the manager's namespace"
        )
    return ColocationProfile(
        name=name,
        namespaces=namespaces,
        pods=pods,
        labels=_texts(decoder, spec["labels"], are_labels=True),
        annotations=_texts(decoder, spec["annotations"]),
        label_key_mapping=_mapping(decoder, spec["labelKeysMapping"]),
        annotation_key_mapping=_mapping(decoder, spec["annotationKeysMapping"]),
        label_suffixes=_texts(decoder, spec["labelSuffixes"]),
        qos_class=decoder.choice(spec["qosClass"], ProfileQoS),
        priority_class=either(decoder.text(spec["priorityClassName"]), ""),
        sub_priority=decoder.whole(spec["koordinatorPriority"], -_INT32 - 1, _INT32),
        scheduler=either(decoder.text(spec["schedulerName"]), ""),
        patch=_patch(decoder, spec["patch"]),
        probability=_probability(decoder, spec["probability"]),
    )


def _texts(decoder: Decoder, place: Place, *, are_labels: bool = False) -> dict[str, str]:
    """Read a map of texts whose keys are those of labels or annotations."""
    found = {}
    for key, value in decoder.entries(place):
        _check_key(decoder, key, str(key.path[-1]))
        text = decoder.text(value)
        fault = label_value_fault(text) if text is not None and are_labels else None
        if fault:
            decoder.error(value, f"not a label value: {fault}")
        if text is not None:
            found[str(key.path[-1])] = text
    return found


def _mapping(decoder: Decoder, place: Place) -> dict[str, str]:
    """Read which key's value is copied to which other key."""
    found = _texts(decoder, place)
    for _, value in decoder.entries(place):
        if isinstance(value.value, str):
            _check_key(decoder, value, value.value)
    return found


def _check_key(decoder: Decoder, place: Place, key: str) -> None:
    fault = label_key_fault(key)
    if fault:
        decoder.error(place, f"not a key of labels or annotations: {fault}")


def _patch(decoder: Decoder, place: Place) -> Mapping[str, Any] | None:
    """Read the strategic merge patch; what it means to a pod the API server checks with each pod."""
    if place.is_empty:
        return None
    if not isinstance(place.value, Members):
        decoder.error(place, f"must be an object {{...}}, a part of a pod, not {shown(place.value)}")
        return None
    patch: dict[str, Any] = _plain(place.value)
    known = ("apiVersion", "kind", "metadata", "spec")
    for key, _ in decoder.entries(place):
        if key.path[-1] not in known:
            decoder.error(key, "a pod has no such field: a patch changes metadata or spec")
    return patch


def _plain(value: Value) -> Any:
    """Return what JSON has: numbers without a fraction are whole."""
    match value:
        case Members():
            return {member.key: _plain(member.value.value) for member in value}
        case Items():
            return [_plain(item.value) for item in value]
        case Decimal():
            return int(value) if value == value.to_integral_value() else float(value)
        case _:
            return value


def _probability(decoder: Decoder, place: Place) -> int:
    """Read ``"30%"`` or 30, both percent, as Koordinator counts them."""
    if not isinstance(place.value, str):
        return either(decoder.whole(place, 0, 100), 100)
    if not _PERCENT.fullmatch(place.value):
        decoder.error(place, f'{shown(place.value)} is not a percentage: write "0%" to "100%", or 0 to 100')
        return 100
    return int(place.value.removesuffix("%"))
