"""Label selectors mean what they mean in the Kubernetes API."""

from __future__ import annotations

import pytest

from corewise.vocabulary.selectors import (
    NOTHING,
    LabelSelector,
    Operator,
    Requirement,
    label_key_fault,
    label_value_fault,
)

LABELS = {"zone": "a", "empty": "", "example.com/pool": "fast"}


def requirement(key: str, operator: Operator, *values: str) -> LabelSelector:
    return LabelSelector((Requirement(key, operator, frozenset(values)),))


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        (NOTHING, False),
        (LabelSelector(), True),
        (LabelSelector.of_labels({"zone": "a"}), True),
        (LabelSelector.of_labels({"zone": "a", "example.com/pool": "fast"}), True),
        (LabelSelector.of_labels({"zone": "a", "pool": "fast"}), False),
        (LabelSelector.of_labels({"empty": ""}), True),
        (LabelSelector.of_labels({"absent": ""}), False),
        (requirement("zone", Operator.IN, "b", "a"), True),
        (requirement("zone", Operator.IN, "b"), False),
        (requirement("absent", Operator.IN, "b"), False),
        (requirement("zone", Operator.NOT_IN, "b"), True),
        (requirement("zone", Operator.NOT_IN, "a", "b"), False),
        (requirement("absent", Operator.NOT_IN, "a"), True),
        (requirement("zone", Operator.EXISTS), True),
        (requirement("empty", Operator.EXISTS), True),
        (requirement("absent", Operator.EXISTS), False),
        (requirement("zone", Operator.DOES_NOT_EXIST), False),
        (requirement("absent", Operator.DOES_NOT_EXIST), True),
    ],
)
def test_a_selector_selects_as_the_api_does(selector: LabelSelector, matches: bool) -> None:
    assert selector.matches(LABELS) is matches


def test_all_requirements_must_hold() -> None:
    zone, pool = requirement("zone", Operator.EXISTS), requirement("pool", Operator.EXISTS)
    both = LabelSelector(zone.requirements + pool.requirements)
    assert zone.matches(LABELS)
    assert not both.matches(LABELS)
    assert both.matches({**LABELS, "pool": "x"})


@pytest.mark.parametrize("key", ["a", "A.b_c-9", "example.com/name", "x" * 63, "a.b/" + "y" * 63])
def test_good_label_keys_have_no_fault(key: str) -> None:
    assert label_key_fault(key) is None


@pytest.mark.parametrize(
    "key",
    [
        "",
        "-a",
        "a-",
        "a b",
        "x" * 64,
        "/a",
        "a/",
        "a/b/c",
        "Example.com/a",
        "a..b/c",
        "é",
        "a\n",
        "y" * 254 + "/a",
    ],
)
def test_bad_label_keys_have_one(key: str) -> None:
    assert label_key_fault(key)


def test_label_value_has_0_to_63_characters() -> None:
    assert label_value_fault("") is None
    assert label_value_fault("v" * 63) is None
    assert label_value_fault("v" * 64)
    assert label_value_fault("a b")
