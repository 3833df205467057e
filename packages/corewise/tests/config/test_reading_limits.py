"""What a large or hostile configuration costs: work is counted, and grows no faster than the text."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewise.config import colocation_profile, decoding
from corewise.config.colocation_profile import ColocationProfile, conflicts, parse_profile, profiles_in
from corewise.config.configuration import (
    LARGEST_AMPLIFICATION_RATIO,
    node_config_conflicts,
    parse_normalization,
)
from corewise.config.decoding import MOST_PROBLEMS, Severity
from corewise.config.json_text import LARGEST_EXPONENT, LONGEST_NUMBER, read_json
from corewise.config.key_texts import read_contents
from corewise.config.node_configs import MOST_COMPARED, MOST_ENTRIES
from corewise.config.yaml_text import read_yaml
from corewise.service.reader import MOST_AT_ONCE
from corewise.views.config_check import check_contents
from corewise.vocabulary.names import NORMALIZATION_KEY
from corewise.vocabulary.selectors import AllowedValues, LabelSelector, Operator, Requirement

KEYS, VALUES = st.sampled_from("abc"), st.frozensets(st.sampled_from("xyz"), min_size=1, max_size=2)
REQUIREMENTS = st.one_of(
    st.builds(Requirement, KEYS, st.sampled_from([Operator.IN, Operator.NOT_IN]), VALUES),
    st.builds(Requirement, KEYS, st.sampled_from([Operator.EXISTS, Operator.DOES_NOT_EXIST])),
)
SELECTORS = st.builds(LabelSelector, st.lists(REQUIREMENTS, max_size=3).map(tuple))
LABELS = st.dictionaries(KEYS, st.sampled_from("xyz"))


def calls(work: Callable[[], object]) -> int:
    """Return the number of functions called, of Python and of C."""
    count = 0

    def profiler(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    before = sys.getprofile()
    sys.setprofile(profiler)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def entries(count: int, selector: Callable[[int], object]) -> str:
    return json.dumps({"nodeConfigs": [{"nodeSelector": selector(place)} for place in range(count)]})


def labeled(place: int) -> object:
    return {"matchLabels": {"team": "a", "pool": f"p{place}"}}


def not_in(place: int) -> object:
    return {"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": [f"z{place}"]}]}


def unknown_keys(count: int) -> str:
    return json.dumps({f"enabl{place}": True for place in range(count)}, indent=1)


def with_bad_models(count: int) -> str:
    return json.dumps({"ratioModel": {f"m{place}": {"baseRatio": 0} for place in range(count)}})


def profiles(count: int, label: str = "app: a{}") -> str:
    return "---\n".join(
        f"kind: ClusterColocationProfile\nmetadata: {{name: p{place:05}}}\n"
        f"spec: {{selector: {{matchLabels: {{{label.format(place)}}}}}, labels: {{team: t{place}}}}}\n"
        for place in range(count)
    )


def checked(text: str) -> object:
    return check_contents(read_contents(text, NORMALIZATION_KEY), None, LARGEST_AMPLIFICATION_RATIO)


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (parse_normalization, lambda count: entries(count, labeled)),
        (parse_normalization, unknown_keys),
        (parse_normalization, with_bad_models),
        (checked, unknown_keys),
        (profiles_in, profiles),
    ],
)
def test_twice_the_text_is_twice_the_work(read: Callable[[str], object], text: Callable[[int], str]) -> None:
    read(text(1))
    small, large = (calls(lambda count=count: read(text(count))) for count in (400, 800))  # type: ignore[misc]
    assert large < 2.2 * small


@pytest.mark.parametrize("selector", [labeled, not_in, lambda _: {"matchLabels": {"a": "b"}}])
def test_few_selectors_are_compared(
    selector: Callable[[int], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    compared = 0
    is_within = AllowedValues.is_within

    def counted(one: AllowedValues, other: AllowedValues) -> bool:
        nonlocal compared
        compared += 1
        return is_within(one, other)

    monkeypatch.setattr(AllowedValues, "is_within", counted)
    parse_normalization(entries(MOST_ENTRIES, selector))
    assert compared <= MOST_COMPARED
    if selector is labeled:
        assert compared <= 2 * MOST_ENTRIES


def test_too_many_compared_selectors_are_reported_once() -> None:
    (problem,) = parse_normalization(entries(MOST_ENTRIES, not_in)).problems
    assert problem.severity is Severity.WARNING
    assert "not checked whether this entry and the following are ever used" in problem.message


def test_too_many_entries_fail_and_first_are_read() -> None:
    parsed = parse_normalization(entries(MOST_ENTRIES + 1, labeled))
    (problem,) = parsed.problems
    assert str(problem) == "line 1, column 17: nodeConfigs: has 1,001 entries: the first 1,000 are read"
    assert parsed.value is None
    assert parsed.rest is not None
    assert len(parsed.rest.node_configs) == MOST_ENTRIES
    assert parsed.rest.is_undecided({"pool": "none"})


def test_some_of_many_problems_are_listed_others_counted() -> None:
    parsed = parse_normalization('{"ratioModel": {"m": {"baseRatio": 9}},' + unknown_keys(3070)[1:])
    assert len(parsed.warnings) == MOST_PROBLEMS + 1
    assert parsed.warnings[-1].message == "and 2,970 more warnings, not listed here"
    assert [each.path for each in parsed.errors] == ["ratioModel.m.baseRatio"]


def test_nearest_words_are_looked_up_for_few_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_up: list[str] = []
    nearest_words = decoding.nearest_words

    def counted(word: str, *arguments: Any) -> list[str]:
        looked_up.append(word)
        return nearest_words(word, *arguments)

    monkeypatch.setattr(decoding, "nearest_words", counted)
    patch = {"spec": {f"contain{place}": 1 for place in range(1000)}}
    parsed = parse_profile(read_json(json.dumps({"metadata": {"name": "p"}, "spec": {"patch": patch}})))
    parse_normalization(unknown_keys(1000))
    parse_normalization(entries(100, labeled))
    assert len(looked_up) <= 4 * MOST_PROBLEMS
    assert len(parsed.errors) == MOST_PROBLEMS + 1


def test_problem_path_is_shorter_than_the_text() -> None:
    text = json.dumps({"ratioModel": {"m" * 100_000: {f"k{place}": 1 for place in range(200)}}})
    assert sum(len(each.path) for each in parse_normalization(text).problems) < 60_000


@pytest.mark.parametrize("text", [entries(80, not_in), unknown_keys(250), '{"a":' + "[" * 4000, '"' * 4000])
def test_reading_in_the_event_loop_is_little_work(text: str) -> None:
    assert len(text) > 0.9 * MOST_AT_ONCE or not text.endswith("}")
    assert calls(lambda: parse_normalization(text[:MOST_AT_ONCE])) < 100_000


def test_profiles_for_different_pods_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[object] = []

    def counted(*pair: object) -> tuple[()]:
        compared.append(pair)
        return ()

    monkeypatch.setattr(colocation_profile, "_conflicts_between", counted)
    assert len(profiles_in(profiles(1000))) == 1000
    assert not compared


def test_of_many_conflicts_of_profiles_some_are_listed() -> None:
    found = profiles_in(profiles(60, "a{}: x"))
    warnings = [problem for each in found for problem in each.warnings]
    assert len(warnings) == MOST_PROBLEMS + 1
    assert warnings[-1].message == "and 1,670 more settings in which two profiles differ, not listed here"


def test_too_many_compared_profiles_are_reported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(colocation_profile, "MOST_COMPARED", 10)
    found = profiles_in(profiles(60, "a{}: x"))
    messages = [problem.message for each in found for problem in each.problems]
    (said,) = (each for each in messages if "compared" in each)
    assert said.startswith("profiles from p00006 on, by name, are not compared with the others")
    assert len(messages) == 16


@pytest.mark.parametrize("read", [read_json, read_yaml])
def test_a_number_is_bounded_in_length_and_exponent(read: Callable[[str], Any]) -> None:
    for good in ("9" * LONGEST_NUMBER, f"1e{LARGEST_EXPONENT}", f"1E-{LARGEST_EXPONENT}", "0e999999999"):
        assert not read(good).faults
    for bad in (
        "9" * (LONGEST_NUMBER + 1),
        f"1e{LARGEST_EXPONENT + 1}",
        "-1.5E-999999999",
        "1e" + "9" * 5000,
    ):
        (fault,) = read(bad).faults
        assert "is out of range" in fault.message


@given(st.lists(SELECTORS, max_size=6), st.lists(LABELS, max_size=4))
def test_entries_are_found_as_if_each_was_asked(selectors: list[LabelSelector], nodes: list[Any]) -> None:
    parsed = parse_normalization(entries(len(selectors), lambda place: selectors[place].document))
    assert parsed.value is not None
    for labels in nodes:
        matching = [place for place, each in enumerate(selectors) if each.matches(labels)]
        assert [each.index for each in parsed.value.matching(labels)] == matching
    never_used = [
        f"nodeConfigs[{place}]: is never used: nodeConfigs[{first}] comes"
        for place, each in enumerate(selectors)
        for first in [next((at for at in range(place) if each.implies(selectors[at])), None)]
        if first is not None
    ]
    assert [str(each).partition(": ")[2].partition(" first")[0] for each in parsed.problems] == never_used


@given(st.lists(st.tuples(SELECTORS, SELECTORS, LABELS), max_size=5))
def test_conflicts_are_those_of_comparing_all_pairs(drawn: list[Any]) -> None:
    given_profiles = [
        ColocationProfile(f"p{place}", namespaces, pods, labels=labels)
        for place, (namespaces, pods, labels) in enumerate(drawn)
    ]
    expected = []
    for first, second in combinations(given_profiles, 2):
        kept = tuple(each for each in first.pods.requirements if each.key not in first.labels)
        left = LabelSelector(kept + LabelSelector.of_labels(first.labels).requirements)
        if not first.namespaces.excludes(second.namespaces) and not left.excludes(second.pods):
            shared = sorted(first.labels.keys() & second.labels.keys())
            differing = [each for each in shared if first.labels[each] != second.labels[each]]
            expected += [(first.name, second.name, f"metadata.labels.{each}") for each in differing]
    assert [(each.first, each.second, each.path) for each in conflicts(given_profiles)] == expected


def test_entries_selecting_one_node_are_listed_within_limit() -> None:
    parsed = parse_normalization(entries(300, lambda place: {} if not place else not_in(place)))
    assert parsed.value is not None
    problems = node_config_conflicts(parsed.value, [("n1", {}), ("n2", {"zone": "z5"})])
    assert len(problems) == MOST_PROBLEMS + 1
    assert "more errors or more: other entries select common nodes" in problems[-1].message
