"""ClusterColocationProfile (config.koordinator.sh/v1alpha1): what it says, and what is wrong with it.

The fields are Koordinator's, so that profiles that users have go on working. Every field of the spec is
read, and one that is unknown is an error: a misspelled ``qosClas`` would leave pods online without a word.

An absent selector selects everything, as Koordinator has it; a profile without any selector gets a warning.

**Two profiles for one pod.** Profiles are applied in the order of their names, so that of two which set one
thing differently the later one counts. :func:`conflicts` finds such pairs. A conflict is certain if one
selects every pod that the other does: then the setting of one of them never counts, or an exception hangs on
the names, and the newer profile is refused. Elsewhere some pod may have the labels of both: a warning.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from corewise.config.decoding import MOST_PROBLEMS, Decoder, Parsed, Place, Problem, Severity, either, shown
from corewise.config.json_text import Located, Members, TextReading, path_text
from corewise.config.node_configs import read_label_selector
from corewise.config.pod_patch import read_pod_patch
from corewise.config.yaml_text import read_objects
from corewise.vocabulary.names import PRIORITY_CLASS, QOS_CLASS, QOS_LEVEL, SUB_PRIORITY
from corewise.vocabulary.selectors import (
    AllowedValues,
    LabelSelector,
    SelectorIndex,
    are_disjoint,
    is_implied,
    label_key_fault,
    label_value_fault,
    object_name_fault,
)

KIND = "ClusterColocationProfile"
SKIP_RESOURCES = "config.koordinator.sh/skip-update-resources"
CONTROLLER_MANAGED = "config.koordinator.sh/controller-managed"
CONTROLLER_LABELS = frozenset(
    {
        "batch.kubernetes.io/controller-uid",
        "controller-revision-hash",
        "controller-uid",
        "pod-template-hash",
    }
)
"""Labels that Kubernetes' controllers set on their pods; they replace pods that have another value."""
LONGEST_NAME = 200
"""The name of the profile's webhook is made of it, and has at most 253 characters."""
_PERCENT = re.compile(r"(100|[1-9]?[0-9])%")
_INT32 = 2**31 - 1
_ALL_PODS = 100
MOST_COMPARED = 100_000
"""How many pairs of profiles of one file are compared."""
_FIELD_OF_LABEL = {QOS_CLASS: "qosClass", SUB_PRIORITY: "koordinatorPriority"}
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
        """Check if it selects a pod, by the pod's labels and those of its namespace."""
        return self.namespaces.matches(namespace) and self.pods.matches(pod)

    def settings(self) -> dict[str, ProfileSetting]:
        """Return its settings for a pod, by path: two profiles must not set these differently."""
        found = [
            *(
                ProfileSetting(("metadata", "labels", key), value, ("labels", key))
                for key, value in self.labels.items()
            ),
            *(
                ProfileSetting(("metadata", "annotations", key), value, ("annotations", key))
                for key, value in self.annotations.items()
            ),
            *(
                ProfileSetting(("metadata", "labels", key), value, (_FIELD_OF_LABEL[key],))
                for key, value in self.class_labels.items()
            ),
            *(
                ProfileSetting(("spec", key), value, (key,))
                for key, value in (
                    ("schedulerName", self.scheduler),
                    ("priorityClassName", self.priority_class),
                )
                if value
            ),
            *(ProfileSetting(path, value, ("patch", *path)) for path, value in _leaves(self.patch or {}, ())),
        ]
        return {path_text(each.path): each for each in found}

    def labels_left(self) -> dict[str, str | None]:
        """Return the labels that it may change, with their values; None where the pod decides the value."""
        changed: dict[str, str | None] = {**self.labels}
        changed |= dict.fromkeys([*self.label_key_mapping.values(), *self.label_suffixes])
        changed |= self.class_labels
        for path, value in _leaves(self.patch or {}, ()):
            if path[:-1] == ("metadata", "labels"):
                changed[path[-1]] = value if isinstance(value, str) else None
        return changed


@dataclass(frozen=True, slots=True)
class ProfileSetting:
    """A value that a profile sets at a path of a pod, and the field of its own spec that says so."""

    path: tuple[str, ...]
    value: object
    field: tuple[str, ...]


def _leaves(document: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], object]]:
    for key, value in document.items():
        here = (*path, key)
        if isinstance(value, Mapping):
            yield from _leaves(value, here)
        else:
            yield here, value


@dataclass(frozen=True, slots=True)
class ProfileContradiction:
    """Two profiles that may select one pod and set one thing differently; the second one counts.

    ``settings`` are theirs, by name. ``is_certain``: one of them is applied to every pod that the other is.
    """

    first: str
    second: str
    path: str
    settings: Mapping[str, ProfileSetting]
    is_certain: bool

    def said_of(self, profile: str) -> str:
        """Say it as a problem of one of the two."""
        return f"{path_text(('spec', *self.settings[profile].field))}: {self}"

    def __str__(self) -> str:
        first, second = (
            "null" if (value := self.settings[each].value) is None else value
            for each in (self.first, self.second)
        )
        values = f"set {self.path} differently, to {first} and {second}"
        if self.is_certain:
            return (
                f"profiles {self.first} and {self.second} {values}, and one selects every pod that the other "
                "does: set it in one of them, or make the selectors exclude each other, with NotIn or "
                "DoesNotExist"
            )
        return (
            f"profiles {self.first} and {self.second} may select the same pod and {values}: {self.second} "
            "counts, since profiles are applied in the order of their names. Make the selectors exclude each "
            "other"
        )


def conflicts(profiles: Iterable[ColocationProfile]) -> list[ProfileContradiction]:
    """Return the contradictions between profiles that may select the same pods, in the order of names."""
    compared = ComparedProfiles()
    found: list[ProfileContradiction] = []
    for profile in sorted(profiles, key=lambda each: each.name):
        found += compared.conflicts_of(profile)
        compared.add(profile)
    return sorted(found, key=lambda each: (each.first, each.second))


@dataclass(frozen=True, slots=True)
class _Facts:
    """The facts of a profile for a comparison; ``left`` are the pods that it selects, as it leaves them.

    A selector is what it allows each label to be; None is one that selects nothing.
    """

    profile: ColocationProfile
    settings: Mapping[str, ProfileSetting]
    changed: Mapping[str, str | None]
    namespaces: Mapping[str, AllowedValues] | None
    pods: Mapping[str, AllowedValues] | None
    left: Mapping[str, AllowedValues] | None

    @classmethod
    def of(cls, profile: ColocationProfile) -> _Facts:
        changed = profile.labels_left()
        allowed = (_allowed(each) for each in (profile.namespaces, profile.pods, _left_by(profile, changed)))
        return cls(profile, profile.settings(), changed, *allowed)


def _allowed(selector: LabelSelector) -> Mapping[str, AllowedValues] | None:
    allowed = selector.allowed()
    return None if selector.selects_nothing or any(each.is_nothing for each in allowed.values()) else allowed


class ComparedProfiles:
    """Profiles of different names, arranged so that one is compared only with those it may contradict.

    ``compared`` counts the pairs that were.
    """

    def __init__(self) -> None:
        self.compared = 0
        self._facts: dict[str, _Facts] = {}
        self._pods: SelectorIndex[str] = SelectorIndex()
        self._left: SelectorIndex[str] = SelectorIndex()

    def add(self, profile: ColocationProfile) -> None:
        facts = self._facts[profile.name] = _Facts.of(profile)
        self._pods.add(profile.name, profile.pods)
        self._left.add(profile.name, _left_by(profile, facts.changed))

    def remove(self, name: str) -> None:
        """Forget a profile, if it was added."""
        facts = self._facts.pop(name, None)
        if facts is not None:
            self._pods.remove(name, facts.profile.pods)
            self._left.remove(name, _left_by(facts.profile, facts.changed))

    def conflicts_of(self, profile: ColocationProfile) -> Iterator[ProfileContradiction]:
        """Yield the settings in which a profile differs from others, in the order of their names."""
        name, facts = profile.name, _Facts.of(profile)
        before = set() if facts.pods is None else set(self._left.overlapping(facts.pods))
        after = set() if facts.left is None else set(self._pods.overlapping(facts.left))
        before, after = {each for each in before if each < name}, {each for each in after if each > name}
        self.compared += len(before) + len(after)
        for each in sorted(before | after):
            pair = (self._facts[each], facts) if each < name else (facts, self._facts[each])
            yield from _conflicts_between(*pair)


def _conflicts_between(first: _Facts, second: _Facts) -> Iterator[ProfileContradiction]:
    ours, theirs = first.settings, second.settings
    different = [path for path in ours.keys() & theirs.keys() if ours[path].value != theirs[path].value]
    if not different or not _may_meet(first.namespaces, second.namespaces):
        return
    if not _may_meet(first.left, second.pods):
        return
    are_certain = _is_certain(first, second)
    names = first.profile.name, second.profile.name
    for path in sorted(different):
        pair = {names[0]: ours[path], names[1]: theirs[path]}
        is_certain = are_certain and not any(isinstance(each.value, list) for each in pair.values())
        yield ProfileContradiction(*names, path, pair, is_certain)


def _may_meet(ours: Mapping[str, AllowedValues] | None, theirs: Mapping[str, AllowedValues] | None) -> bool:
    return ours is not None and theirs is not None and not are_disjoint(ours, theirs)


def _implies(ours: Mapping[str, AllowedValues] | None, theirs: Mapping[str, AllowedValues] | None) -> bool:
    return ours is None or (theirs is not None and is_implied(ours, theirs))


def _left_by(profile: ColocationProfile, changed: Mapping[str, str | None]) -> LabelSelector:
    """Return the known labels of pods that a profile has changed: the next one selects by them."""
    kept = tuple(each for each in profile.pods.requirements if each.key not in changed)
    known = LabelSelector.of_labels({key: value for key, value in changed.items() if value is not None})
    return LabelSelector(kept + known.requirements, profile.pods.selects_nothing)


def _is_certain(first: _Facts, second: _Facts) -> bool:
    """Say whether both are applied to every pod that one of them selects."""
    return (
        min(first.profile.probability, second.profile.probability) == _ALL_PODS
        and not any(each.key in first.changed for each in second.profile.pods.requirements)
        and any(
            _implies(one.namespaces, other.namespaces) and _implies(one.pods, other.pods)
            for one, other in ((first, second), (second, first))
        )
    )


def profiles_in(text: str) -> list[Parsed[ColocationProfile]]:
    """Read the profiles of a file: YAML or JSON, several documents, or a List. Other objects are passed over.

    Of a pair that sets one thing differently the problem is at the one that stands later in the file.
    """
    readings = [each for each in read_objects(text) if _kind(each) == KIND]
    found = [parse_profile(each) for each in readings]
    order = {each.value.name: at for at, each in enumerate(found) if each.value}
    compared = ComparedProfiles()
    kept: dict[Severity, list[ProfileContradiction]] = {each: [] for each in Severity}
    left = Counter[Severity]()
    for name, at in sorted(order.items()):
        profile = found[at].value
        if profile is None:
            continue
        if compared.compared > MOST_COMPARED:
            message = f"profiles from {name} on, by name, are not compared with the others: too many select "
            message += "by different labels. Check them in several files"
            _add_problem(found, at, Problem(Severity.WARNING, *_position(readings[at]), "", message))
            break
        for conflict in compared.conflicts_of(profile):
            severity = Severity.ERROR if conflict.is_certain else Severity.WARNING
            if len(kept[severity]) < MOST_PROBLEMS:
                kept[severity].append(conflict)
            else:
                left[severity] += 1
        compared.add(profile)
    for severity, of_severity in kept.items():
        for conflict in sorted(of_severity, key=lambda each: (each.first, each.second)):
            name = max(conflict.first, conflict.second, key=lambda each: order[each])
            at, field = order[name], ("spec", *conflict.settings[name].field)
            line, column = _position(readings[at], *field)
            _add_problem(found, at, Problem(severity, line, column, path_text(field), str(conflict)))
    for severity, count in left.items():
        message = f"and {count:,} more settings in which two profiles differ, not listed here"
        _add_problem(found, -1, Problem(severity, *_position(readings[-1]), "", message))
    return found


def _position(reading: TextReading, *path: str) -> tuple[int, int]:
    root = Place.of(reading.root or Located(None, 0), ())
    return reading.positions.at(_at(root, *path).offset)


def _add_problem(found: list[Parsed[ColocationProfile]], at: int, problem: Problem) -> None:
    found[at] = replace(found[at], problems=(*found[at].problems, problem))


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
                decoder.warn(place, f"corewise does not honor this {member.removesuffix('s')}: {consequence}")
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
        label_key_mapping=_texts(decoder, spec["labelKeysMapping"], _check_new_label),
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
    """Return the place below; an empty one, at the last that is there, if it is absent."""
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


def _check_new_label(decoder: Decoder, place: Place, _key: str, new_key: str) -> None:
    _check_key(decoder, place, new_key)
    _check_not_of_controllers(decoder, place, new_key)


def _check_not_of_controllers(decoder: Decoder, place: Place, key: str) -> None:
    if key in CONTROLLER_LABELS:
        decoder.error(
            place,
            f"{key} belongs to the pod's controller, which would endlessly replace pods with another value",
        )


def _check_label(decoder: Decoder, place: Place, key: str, value: str) -> None:
    fault = label_value_fault(value)
    _check_not_of_controllers(decoder, place, key)
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
        elif key in CONTROLLER_LABELS:
            _check_not_of_controllers(decoder, place, key)
        elif label_value_fault(suffix) and (fault := label_value_fault("a" + suffix)):
            decoder.error(place, f"no label value can end with {shown(suffix)}: {fault}")
        else:
            decoder.warn(place, "pods whose controller selects them by this label keep its value")

    return _texts(decoder, place, check)


def _name(decoder: Decoder, place: Place, fault_of: Callable[[str], str | None]) -> str:
    """Read the name of an object; the empty one is none."""
    name = either(decoder.text(place), "")
    if name and (fault := fault_of(name)):
        decoder.error(place, f"{shown(name)} cannot be a name: {fault}")
    return name


def _scheduler_fault(name: str) -> str | None:
    """Return the fault in a scheduler's name, if there is one: its Events name it as their reporter."""
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
