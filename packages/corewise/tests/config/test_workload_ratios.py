"""Workload ratios: read from the configuration, written to a Node's annotation, and read back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewise.config.configuration import RatioField, parse_normalization
from corewise.config.workload_ratios import (
    QuotaRatio,
    WorkloadRatio,
    WorkloadRatiosError,
    first_matching,
    print_workload_ratios,
    quota_ratio,
    read_workload_ratios,
)
from corewise.quantities import ONE, Ratio
from corewise.vocabulary.names import NORMALIZATION_RATIO, WORKLOAD_RATIOS
from corewise.vocabulary.selectors import LabelSelector, Operator, Requirement

VECTOR = {
    "name": "vector",
    "podSelector": {"matchLabels": {"app": "encoder"}},
    "ratioModel": {"Xeon": {"baseRatio": 1.2, "turboEnabledRatio": 1.25}},
}
SELECTOR = '{"matchExpressions":[{"key":"app","operator":"In","values":["encoder"]}]}'
STATED = f'[{{"name":"vector","selector":{SELECTOR},"ratio":"1.20"}}]'


def text(*workloads: Any, **more: Any) -> str:
    return json.dumps({"ratioModel": {"Xeon": {"baseRatio": 1.5}}, "workloadRatios": [*workloads], **more})


def test_entry_states_ratios_for_the_pods_it_selects() -> None:
    parsed = parse_normalization(text(VECTOR))
    assert parsed.value is not None
    assert not parsed.problems
    (workload,) = parsed.value.cluster.workloads
    assert (workload.name, workload.ratio_model["Xeon"]) == (
        "vector",
        {RatioField.BASE: Ratio(120), RatioField.TURBO: Ratio(125)},
    )
    assert workload.selector.matches({"app": "encoder"})
    assert not workload.selector.matches({"app": "web"})


@pytest.mark.parametrize(
    ("own", "names"), [({}, ["vector"]), ({"workloadRatios": []}, []), ({"workloadRatios": None}, ["vector"])]
)
def test_list_of_nodeconfigs_entry_replaces_the_clusters(own: Any, names: list[str]) -> None:
    entry = {"nodeSelector": {"matchLabels": {"pool": "a"}}, **own}
    config = parse_normalization(text(VECTOR, nodeConfigs=[entry])).value
    assert config is not None
    assert [each.name for each in config.strategy_for({"pool": "a"})[0].workloads] == names
    assert [each.name for each in config.strategy_for({})[0].workloads] == ["vector"]


def test_entry_without_name_is_called_by_its_place() -> None:
    config = parse_normalization(text(VECTOR, {**VECTOR, "name": None})).value
    assert config is not None
    assert [each.name for each in config.cluster.workloads] == ["vector", "workloadRatios[1]"]


ERRORS: list[tuple[Any, str]] = [
    (
        {"ratioModel": {"Xeon": {"baseRatio": 0.99}}},
        "outside 1.00..5.00: a pod never gets more time than its limit",
    ),
    ({"ratioModel": {"Xeon": {"baseRatio": 5.01}}}, "5.01 is outside 1.00..5.00"),
    ({"ratioModel": {"Xeon": {"baseRatio": "1.2"}}}, "write the number without quotes"),
    ({"podSelector": {"matchLabels": {"a": 1}}}, "must be a string in double quotes"),
    ({"podSelector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}}, '"Is" is not an operator'),
    ({"podSelector": {"matchLabels": {f"k{n}": "v" * 60 for n in range(40)}}}, "at most 2,000 are allowed"),
    ({"name": "n" * 64}, "has 64 characters: at most 63 are allowed"),
    ({"name": 5}, "must be a string in double quotes"),
]


@pytest.mark.parametrize(("wrong", "said"), ERRORS, ids=[said for _, said in ERRORS])
def test_wrong_entry_is_an_error_at_its_place(wrong: Any, said: str) -> None:
    parsed = parse_normalization(text({**VECTOR, **wrong}))
    assert parsed.value is None
    (error,) = parsed.errors
    assert error.path.startswith("workloadRatios[0]")
    assert said in error.message
    assert parsed.rest is not None
    assert parsed.rest.cluster.is_unreadable, "what is said of the nodes has errors: they stay as they are"


def test_too_many_entries_are_an_error() -> None:
    (error,) = parse_normalization(text(*[VECTOR] * 17)).errors
    assert error.message == "has 17 entries: at most 16 are allowed"


def test_entry_without_selector_selects_no_pod() -> None:
    parsed = parse_normalization(text({**VECTOR, "podSelector": None}))
    assert parsed.value is not None
    assert parsed.value.cluster.workloads == ()
    (warning,) = parsed.warnings
    assert warning.message == "no podSelector, so the entry selects no pod: {} selects all"


@pytest.mark.parametrize(
    ("stated", "path", "said"),
    [
        (None, "", "no ratioModel, so the entry has no effect"),
        ({}, ".ratioModel", "is empty, so the entry has no effect"),
        ({"Xeon": {}}, '.ratioModel["Xeon"]', "is empty, so the entry has no effect on this model"),
    ],
)
def test_entry_without_ratios_has_no_effect(stated: Any, path: str, said: str) -> None:
    (warning,) = parse_normalization(text({**VECTOR, "ratioModel": stated})).warnings
    assert (warning.path, warning.message) == (f"workloadRatios[0]{path}", said)


def test_model_in_another_spelling_is_a_warning() -> None:
    (warning,) = parse_normalization(text({**VECTOR, "ratioModel": {"xeon": {"baseRatio": 1.2}}})).warnings
    assert warning.path == "workloadRatios[0].ratioModel.xeon"
    assert warning.message.endswith('has no entry for this model: did you mean "Xeon"?')


LABELS = st.dictionaries(st.sampled_from("abc"), st.sampled_from("xyz"), max_size=3)
REQUIREMENTS = st.builds(
    Requirement,
    st.sampled_from("abc"),
    st.sampled_from([Operator.IN, Operator.NOT_IN]),
    st.frozensets(st.sampled_from("xyz"), min_size=1),
) | st.builds(
    Requirement, st.sampled_from("abc"), st.sampled_from([Operator.EXISTS, Operator.DOES_NOT_EXIST])
)
RATIOS = st.builds(
    WorkloadRatio,
    st.text(max_size=5),
    st.builds(LabelSelector, st.lists(REQUIREMENTS, max_size=3).map(tuple)),
    st.integers(100, 500).map(Ratio),
)


@given(st.lists(RATIOS, max_size=4), LABELS)
def test_annotation_reads_back_as_written(ratios: list[WorkloadRatio], labels: dict[str, str]) -> None:
    again = read_workload_ratios(print_workload_ratios(ratios))
    assert again == tuple(ratios)
    assert first_matching(again, labels) == next(
        (each for each in ratios if each.selector.matches(labels)), None
    )


BAD = [
    ("", "it is empty or breaks off"),
    ("{}", "Expected `array`"),
    ("[{}]", "missing required field `name`"),
    (STATED.replace("1.20", "0.99"), '"vector": 0.99 is outside 1.00..5.00'),
    (STATED.replace("1.20", "5.01"), '"vector": 5.01 is outside 1.00..5.00'),
    (STATED.replace("1.20", "fast"), "'fast' is not a ratio"),
    (STATED.replace('"In"', '"Is"'), "Invalid enum value 'Is'"),
]


@pytest.mark.parametrize(("stated", "said"), BAD, ids=[said for _, said in BAD])
def test_unreadable_annotation_is_an_error_naming_it(stated: str, said: str) -> None:
    with pytest.raises(WorkloadRatiosError) as error:
        read_workload_ratios(stated)
    assert str(error.value).startswith(f"annotation {WORKLOAD_RATIOS}: ")
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("labels", "annotations", "expected"),
    [
        ({"app": "encoder"}, {NORMALIZATION_RATIO: "1.50", WORKLOAD_RATIOS: STATED}, (120, 150, "vector")),
        ({"app": "web"}, {NORMALIZATION_RATIO: "1.50", WORKLOAD_RATIOS: STATED}, (150, 150, None)),
        ({"app": "encoder"}, {NORMALIZATION_RATIO: "1.00", WORKLOAD_RATIOS: STATED}, (120, 100, "vector")),
        ({"app": "encoder"}, {WORKLOAD_RATIOS: STATED}, (100, 100, None)),
        ({"app": "encoder"}, {NORMALIZATION_RATIO: "1.50", WORKLOAD_RATIOS: "{"}, (150, 150, None)),
        ({"app": "encoder"}, {NORMALIZATION_RATIO: "?", WORKLOAD_RATIOS: STATED}, (100, 100, None)),
        ({"app": "web"}, {NORMALIZATION_RATIO: "5.01"}, (100, 100, None)),
    ],
)
def test_quota_ratio_is_the_workloads_else_the_nodes(
    labels: dict[str, str], annotations: dict[str, str], expected: tuple[int, int, str | None]
) -> None:
    ratio, node, workload = expected
    assert quota_ratio(labels, annotations) == QuotaRatio(Ratio(ratio), Ratio(node), workload)


def test_first_selecting_entry_counts() -> None:
    every = LabelSelector()
    entries = [
        WorkloadRatio("a", LabelSelector.of_labels({"app": "x"}), Ratio(200)),
        WorkloadRatio("b", every, ONE),
    ]
    assert first_matching(entries, {"app": "x"}) == entries[0]
    assert first_matching(entries, {}) == entries[1]
    assert first_matching(entries[:1], {}) is None
