"""What a profile makes of a pod, and which profiles contradict each other."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewise.colocation.offline import offline_mark
from corewise.colocation.profiles import PriorityOfClass, ProfileNotApplicableError, with_profile
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
def test_the_priority_is_that_of_the_class_which_the_profile_leaves(
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


def test_a_patch_that_does_not_fit_is_no_bug() -> None:
    with pytest.raises(ProfileNotApplicableError, match="its patch does not fit the pod"):
        applied(pod(containers=[{"name": "a"}]), patch={"spec": {"containers": [{"image": "no name"}]}})


def test_what_two_profiles_set_differently_is_found_by_path() -> None:
    found = conflicts(
        [
            profile("b", selector={"matchLabels": {"x": "1"}}, schedulerName="two", labels={"a/b": "1"}),
            profile("a", patch={"spec": {"schedulerName": "one"}, "metadata": {"labels": {"a/b": "1"}}}),
            profile("c", selector={"matchLabels": {"x": "2"}}, patch={"spec": {"schedulerName": "three"}}),
        ]
    )
    assert [(each.first, each.second, each.path, each.values) for each in found] == [
        ("a", "b", "spec.schedulerName", ("one", "two")),
        ("a", "c", "spec.schedulerName", ("one", "three")),
    ]


REQUIREMENTS = st.builds(
    Requirement,
    st.sampled_from(["a", "b"]),
    st.sampled_from(list(Operator)),
    st.frozensets(st.sampled_from(["1", "2"]), min_size=1),
)
SELECTORS = st.lists(REQUIREMENTS, max_size=2).map(lambda each: LabelSelector(tuple(each)))
LABELS = st.dictionaries(st.sampled_from(["a", "b"]), st.sampled_from(["1", "2", "3"]))


@given(SELECTORS, SELECTORS, LABELS)
def test_selectors_that_exclude_each_other_select_nothing_together(
    first: LabelSelector, second: LabelSelector, labels: dict[str, str]
) -> None:
    assert first.excludes(second) == second.excludes(first)
    assert not (first.excludes(second) and first.matches(labels) and second.matches(labels))


def test_different_values_of_one_label_exclude_each_other() -> None:
    one, two = (LabelSelector.of_labels({"app": each}) for each in ("one", "two"))
    anything = LabelSelector((Requirement("app", Operator.EXISTS),))
    not_one = LabelSelector((Requirement("app", Operator.NOT_IN, frozenset({"one"})),))
    either = LabelSelector((Requirement("app", Operator.IN, frozenset({"one", "two"})),))
    assert one.excludes(two)
    assert one.excludes(not_one)
    assert not either.excludes(not_one)
    assert not one.excludes(anything)
    assert anything.excludes(LabelSelector((Requirement("app", Operator.DOES_NOT_EXIST),)))
