"""What a profile makes of a pod, and which profiles contradict each other."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from operator import and_, le
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corewise.colocation.offline import offline_mark
from corewise.colocation.profiles import (
    PriorityOfClass,
    ProfileNotApplicableError,
    with_labels_kept,
    with_profile,
)
from corewise.config.colocation_profile import ColocationProfile, conflicts, parse_profile
from corewise.config.json_text import read_json
from corewise.vocabulary.names import QOS_CLASS, SUB_PRIORITY
from corewise.vocabulary.selectors import LabelSelector, Operator, Requirement

PRIORITIES = {"batch": PriorityOfClass(5500, "Never"), "online": PriorityOfClass(9000)}


def profile(name: str = "p", **spec: Any) -> ColocationProfile:
    parsed = parse_profile(read_json(json.dumps({"metadata": {"name": name}, "spec": spec})))
    assert parsed.value, parsed.problems
    return parsed.value


def applied(pod: Mapping[str, Any], **spec: Any) -> Mapping[str, Any]:
    return with_profile(pod, profile(**spec), PRIORITIES)


def pod(labels: Mapping[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"labels": dict(labels or {})}, "spec": spec}


@pytest.mark.parametrize(
    ("before", "spec", "after"),
    [
        ({}, {"labels": {"a": "1"}}, {"a": "1"}),
        ({"a": "0"}, {"labels": {"a": "1"}}, {"a": "1"}),
        ({"a": "1"}, {"labelKeysMapping": {"a": "b", "missing": "c"}}, {"a": "1", "b": "1"}),
        ({}, {"labels": {"a": "1"}, "labelKeysMapping": {"a": "b"}}, {"a": "1", "b": "1"}),
        ({"a": "1"}, {"labelSuffixes": {"a": "-x", "missing": "-y"}}, {"a": "1-x"}),
        ({}, {"labels": {"a": "1"}, "labelSuffixes": {"a": "-x"}}, {"a": "1-x"}),
        ({}, {"qosClass": "BE", "labels": {QOS_CLASS: "LS"}}, {QOS_CLASS: "BE"}),
        ({}, {"koordinatorPriority": -5}, {SUB_PRIORITY: "-5"}),
        ({"a": "1"}, {"labels": {"a": "2"}, "patch": {"metadata": {"labels": {"a": "3"}}}}, {"a": "3"}),
        ({"a": "1"}, {"patch": {"metadata": {"labels": {"a": None}}}}, {}),
    ],
)
def test_labels_are_set_in_koordinators_order(
    before: dict[str, str], spec: dict[str, Any], after: dict[str, str]
) -> None:
    assert applied(pod(before), **spec)["metadata"]["labels"] == after


OWN = {"app": "web", "team": "x", "pod-template-hash": "5"}


@pytest.mark.parametrize(
    ("spec", "selected", "after", "kept"),
    [
        ({"labelSuffixes": {"app": "-b"}}, {"app"}, OWN, ["app"]),
        ({"labelSuffixes": {"app": "-b", "team": "-b"}}, {"app"}, {**OWN, "team": "x-b"}, ["app"]),
        ({"labels": {"app": "batch", "new": "1"}}, {"app"}, {**OWN, "new": "1"}, ["app"]),
        ({"labels": {"app": "web"}}, {"app"}, OWN, []),
        ({"labelKeysMapping": {"team": "app"}}, {"app"}, OWN, ["app"]),
        ({"patch": {"metadata": {"labels": {"app": None}}}}, {"app"}, OWN, ["app"]),
        ({"labels": {"app": "a", "team": "b", "new": "1"}}, None, {**OWN, "new": "1"}, ["app", "team"]),
        ({"patch": {"metadata": {"labels": {"pod-template-hash": None}}}}, (), OWN, ["pod-template-hash"]),
        ({"labels": {"app": "batch"}}, (), {**OWN, "app": "batch"}, []),
    ],
)
def test_label_the_controller_selects_by_keeps_its_value(
    spec: dict[str, Any], selected: Collection[str] | None, after: dict[str, str], kept: list[str]
) -> None:
    """Of a controller whose selector is unknown, that is every label the pod had."""
    before = pod(OWN)
    changed, found = with_labels_kept(before, applied(before, **spec), selected)
    assert (changed["metadata"]["labels"], found) == (after, kept)


def test_a_patch_merges_lists_by_their_keys() -> None:
    before = pod(containers=[{"name": "a", "image": "x"}, {"name": "b", "image": "y"}])
    patch = {"spec": {"containers": [{"name": "b", "tty": True}], "tolerations": [{"operator": "Exists"}]}}
    after = applied(before, patch=patch)["spec"]
    assert {each["name"]: each for each in after["containers"]} == {
        "a": {"name": "a", "image": "x"},
        "b": {"name": "b", "image": "y", "tty": True},
    }
    assert after["tolerations"] == [{"operator": "Exists"}]


PATCHED = {"patch": {"spec": {"priorityClassName": "batch"}}}
AS_WRITTEN = {"priorityClassName": "online", "priority": 9000, "preemptionPolicy": "PreemptLowerPriority"}
AS_BATCH = {"priorityClassName": "batch", "priority": 5500, "preemptionPolicy": "Never"}


@pytest.mark.parametrize(
    ("before", "spec", "after"),
    [
        ({}, {"priorityClassName": "batch"}, AS_BATCH),
        (AS_WRITTEN, {"priorityClassName": "batch"}, AS_BATCH),
        (AS_WRITTEN, PATCHED, AS_BATCH),
        ({}, {"priorityClassName": "online", **PATCHED}, AS_BATCH),
        (AS_WRITTEN, {"patch": {"spec": {"priorityClassName": None}}}, {}),
        (AS_WRITTEN, {"patch": {"spec": {"hostNetwork": True}}}, {**AS_WRITTEN, "hostNetwork": True}),
    ],
)
def test_priority_follows_the_class_the_profile_leaves(
    before: dict[str, Any], spec: dict[str, Any], after: dict[str, Any]
) -> None:
    """So a class that a patch sets makes a pod offline; without a class the API server has a default."""
    changed = applied(pod(**before), **spec)
    assert changed["spec"] == after
    assert bool(offline_mark(changed)) is (after.get("priority") == 5500)


@pytest.mark.parametrize(
    "spec", [{"priorityClassName": "other"}, {"patch": {"spec": {"priorityClassName": "other"}}}]
)
def test_a_priority_class_that_is_missing_is_named(spec: dict[str, Any]) -> None:
    with pytest.raises(ProfileNotApplicableError, match="there is no PriorityClass other"):
        applied(pod(), **spec)


def test_ill_fitting_patch_is_not_a_bug() -> None:
    with pytest.raises(ProfileNotApplicableError, match="its patch does not fit the pod"):
        applied(pod(containers=[{"name": "a"}]), patch={"spec": {"$patch": "other"}})


A, AB = {"matchLabels": {"x": "a"}}, {"matchLabels": {"x": "a", "y": "b"}}
NOT_B = {"matchLabels": {"x": "a"}, "matchExpressions": [{"key": "y", "operator": "NotIn", "values": ["b"]}]}
OF_TEAM = {"matchLabels": {"team": "t"}}
BE, LS = {"qosClass": "BE"}, {"qosClass": "LS"}
QOS = f'metadata.labels["{QOS_CLASS}"]'


@pytest.mark.parametrize(
    ("first", "second", "found"),
    [
        ({"selector": A, **BE}, {"selector": A, **LS}, [(QOS, True)]),
        ({"selector": A, **BE}, {"selector": AB, **LS}, [(QOS, True)]),
        ({"selector": AB, **BE}, {"selector": A, **LS}, [(QOS, True)]),
        ({**BE}, {"selector": A, "labels": {QOS_CLASS: "LS"}}, [(QOS, True)]),
        ({"selector": A, **BE}, {"selector": {"matchLabels": {"y": "b"}}, **LS}, [(QOS, False)]),
        ({"selector": AB, **BE}, {"selector": NOT_B, **LS}, []),
        ({"selector": A, **BE}, {"selector": A, **BE}, []),
        ({"selector": A, **BE}, {"selector": A, "schedulerName": "s"}, []),
        # of namespaces and pods, each selects more than the other in one
        (
            {"selector": A, "namespaceSelector": OF_TEAM, **BE},
            {"selector": A, **LS},
            [(QOS, True)],
        ),
        ({"selector": A, "namespaceSelector": OF_TEAM, **BE}, {"selector": AB, **LS}, [(QOS, False)]),
        # a part of the pods; lists that may merge
        ({"selector": A, **BE, "probability": 50}, {"selector": A, **LS}, [(QOS, False)]),
        (
            {"patch": {"spec": {"containers": [{"name": "c", "tty": True}]}}},
            {"patch": {"spec": {"containers": [{"name": "c", "stdin": True}]}}},
            [("spec.containers", False)],
        ),
        # the second one selects by what the first one leaves
        ({"selector": A, "labels": {"x": "other"}, **BE}, {"selector": A, **LS}, []),
        (
            {"selector": A, "labels": {"x": "c"}, **BE},
            {"selector": {"matchLabels": {"x": "c"}}, **LS},
            [(QOS, False)],
        ),
        (
            {"selector": A, "labelSuffixes": {"x": "-c"}, **BE},
            {"selector": {"matchLabels": {"x": "a-c"}}, **LS},
            [(QOS, False)],
        ),
        (
            {"schedulerName": "one"},
            {"patch": {"spec": {"schedulerName": "two"}}},
            [("spec.schedulerName", True)],
        ),
        (
            {"labels": {"l": "1"}},
            {"patch": {"metadata": {"labels": {"l": None}}}},
            [("metadata.labels.l", True)],
        ),
    ],
)
def test_conflicts_of_two_profiles_are_found_by_path(
    first: dict[str, Any], second: dict[str, Any], found: list[tuple[str, bool]]
) -> None:
    both = conflicts([profile("b", **second), profile("a", **first)])
    assert [(each.path, each.is_certain) for each in both] == found
    assert all((each.first, each.second) == ("a", "b") for each in both)


REQUIREMENTS = st.builds(
    Requirement,
    st.sampled_from(["a", "b"]),
    st.sampled_from(list(Operator)),
    st.frozensets(st.sampled_from(["1", "2"]), min_size=1),
)
SELECTORS = st.builds(
    LabelSelector, st.lists(REQUIREMENTS, max_size=3).map(tuple), st.sampled_from([False, False, False, True])
)


ALL_LABELS = [
    {key: value for key, value in (("a", a), ("b", b)) if value is not None}
    for a in (None, "1", "2", "3")
    for b in (None, "1", "2", "3")
]
"""All that two labels can be to requirements that name the values 1 and 2: 3 is every other value."""


@settings(max_examples=500, deadline=None)
@given(SELECTORS, SELECTORS)
def test_selector_exclusion_and_implication_match_trying_all_labels(
    first: LabelSelector, second: LabelSelector
) -> None:
    ours, theirs = ([each.matches(labels) for labels in ALL_LABELS] for each in (first, second))
    assert first.excludes(second) is not any(map(and_, ours, theirs))
    assert first.implies(second) is all(map(le, ours, theirs))
