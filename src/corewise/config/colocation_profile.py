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
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import combinations
from typing import Any

from corewise.config.decoding import Decoder, Parsed, Place, Problem, Severity, either, shown
from corewise.config.json_text import Located, Members, TextReading, path_text
from corewise.config.node_configs import read_label_selector
from corewise.config.pod_patch import read_pod_patch
from corewise.config.yaml_text import read_objects
from corewise.vocabulary.names import PRIORITY_CLASS, QOS_CLASS, QOS_LEVEL, SUB_PRIORITY
from corewise.vocabulary.selectors import (
    LabelSelector,
    label_key_fault,
    label_value_fault,
    object_name_fault,
)

KIND = "ClusterColocationProfile"
SKIP_RESOURCES = "config.koordinator.sh/skip-update-resources"
CONTROLLER_MANAGED = "config.koordinator.sh/controller-managed"
LONGEST_NAME = 200
"""The name of the profile's webhook is made of it, and has at most 253 characters."""
_PERCENT = re.compile(r"(100|[1-9]?[0-9])%")
_INT32 = 2**31 - 1
_LEVEL = re.compile(r"-?[0-9]+|LC|HLS|LS|BE")
_WHOLE = re.compile(r"-?[0-9]+")
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


class KoordinatorPriorityClass(StrEnum):
    """The values of the label ``koordinator.sh/priority-class``."""

    PROD = "koord-prod"
    MID = "koord-mid"
    BATCH = "koord-batch"
    FREE = "koord-free"


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
    labels = _texts(decoder, spec["labels"], _check_label)
    before = decoder.error_count
    patch = read_pod_patch(decoder, spec["patch"])
    if decoder.error_count == before:
        _check_patched(decoder, spec["patch"])
    return ColocationProfile(
        name=name,
        namespaces=namespaces,
        pods=pods,
        labels=labels,
        annotations=_texts(decoder, spec["annotations"], _check_annotation),
        label_key_mapping=_texts(decoder, spec["labelKeysMapping"], _check_new_key),
        annotation_key_mapping=_texts(decoder, spec["annotationKeysMapping"], _check_new_key),
        label_suffixes=_suffixes(decoder, spec["labelSuffixes"], labels),
        qos_class=decoder.choice(spec["qosClass"], ProfileQoS),
        priority_class=_name(decoder, spec["priorityClassName"], object_name_fault),
        sub_priority=decoder.whole(spec["koordinatorPriority"], -_INT32 - 1, _INT32),
        scheduler=_name(decoder, spec["schedulerName"], _scheduler_fault),
        patch=patch,
        probability=_probability(decoder, spec["probability"]),
    )


def _check_patched(decoder: Decoder, patch: Place) -> None:
    """Check in the patch what is checked in the fields of a profile, too."""
    _texts(decoder, _at(patch, "metadata", "labels"), _check_label)
    _texts(decoder, _at(patch, "metadata", "annotations"), _check_annotation)
    _name(decoder, _at(patch, "spec", "priorityClassName"), object_name_fault)
    _name(decoder, _at(patch, "spec", "schedulerName"), _scheduler_fault)
    for each in ("priority", "preemptionPolicy"):
        if not (place := _at(patch, "spec", each)).is_empty:
            decoder.error(place, "the API server takes it from the PriorityClass: set priorityClassName")


def _at(place: Place, *path: str) -> Place:
    """Return the place below; an empty one if it is absent."""
    for step in path:
        members = place.value if isinstance(place.value, Members) else ()
        below = next((each.value for each in members if each.key == step), Located(None, place.offset))
        place = Place.of(below, (*place.path, step))
    return place


def _texts(
    decoder: Decoder, place: Place, check: Callable[[Decoder, Place, str, str], None]
) -> dict[str, str]:
    """Read a map of texts whose keys are those of labels or annotations."""
    found = {}
    for key, value in decoder.entries(place):
        name = str(key.path[-1])
        _check_key(decoder, key, name)
        text = decoder.text(value)
        if text is not None:
            found[name] = text
            check(decoder, value, name, text)
    return found


def _check_key(decoder: Decoder, place: Place, key: str) -> None:
    fault = label_key_fault(key)
    if fault:
        decoder.error(place, f"not a key of labels or annotations: {fault}")


def _check_new_key(decoder: Decoder, place: Place, _key: str, new_key: str) -> None:
    _check_key(decoder, place, new_key)


def _check_label(decoder: Decoder, place: Place, key: str, value: str) -> None:
    fault = label_value_fault(value)
    if fault:
        decoder.error(place, f"not a label value: {fault}")
    elif key == QOS_CLASS:
        decoder.choice(place, ProfileQoS)
    elif key == PRIORITY_CLASS:
        decoder.choice(place, KoordinatorPriorityClass)
    elif key == SUB_PRIORITY and not _WHOLE.fullmatch(value):
        decoder.error(place, f"{shown(value)} is not a priority: write a whole number in quotes")


def _check_annotation(decoder: Decoder, place: Place, key: str, value: str) -> None:
    if key == QOS_LEVEL and not _LEVEL.fullmatch(value):
        decoder.error(
            place, f"{shown(value)} is not a level: write a whole number in quotes, LC, HLS, LS or BE"
        )


def _suffixes(decoder: Decoder, place: Place, labels: Mapping[str, str]) -> dict[str, str]:
    """Read the suffixes; one that fits no value, or not the one that the profile sets, is an error."""

    def check(decoder: Decoder, place: Place, key: str, suffix: str) -> None:
        if key in labels:
            _check_label(decoder, place, key, labels[key] + suffix)
        elif label_value_fault(suffix) and (fault := label_value_fault("a" + suffix)):
            decoder.error(place, f"no label value can end with {shown(suffix)}: {fault}")

    return _texts(decoder, place, check)


def _name(decoder: Decoder, place: Place, fault_of: Callable[[str], str | None]) -> str:
    """Read the name of an object; the empty one is none."""
    name = either(decoder.text(place), "")
    if name and (fault := fault_of(name)):
        decoder.error(place, f"{shown(name)} cannot be a name: {fault}")
    return name


def _scheduler_fault(name: str) -> str | None:
    """Say what is wrong with a scheduler's name, if anything is: its Events name it as their reporter."""
    if label_key_fault(name) is None:
        return None
    return (
        "the name of a scheduler has at most 63 letters, digits, - _ or . with a letter or digit at both ends"
    )


def _probability(decoder: Decoder, place: Place) -> int:
    """Read ``"30%"`` or 30, both percent, as Koordinator counts them."""
    if not isinstance(place.value, str):
        return either(decoder.whole(place, 0, 100), 100)
    if not _PERCENT.fullmatch(place.value):
        decoder.error(place, f'{shown(place.value)} is not a percentage: write "0%" to "100%", or 0 to 100')
        return 100
    return int(place.value.removesuffix("%"))
