"""YAML as configuration: exact numbers, positions, and faults where YAML means something nobody meant."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewise.policy.decoding import Decoder
from corewise.policy.json_tree import Items, Members
from corewise.policy.yaml_text import read_yaml


def faults(text: str) -> list[str]:
    return [f"{each.line}:{each.column} {each.path}: {each.message}" for each in read_yaml(text).faults]


def test_values_keep_their_kind_and_numbers_are_exact() -> None:
    root = read_yaml("a: 0.1\nb: 1e3\nc: 'x'\nd: [true, null, -2]\ne: 2024-01-01\nf: '5'\n").root
    assert root is not None
    assert isinstance(root.value, Members)
    values = {member.key: member.value.value for member in root.value}
    assert values["a"] == Decimal("0.1")
    assert values["b"] == Decimal(1000)
    assert (values["c"], values["e"], values["f"]) == ("x", "2024-01-01", "5")
    assert isinstance(values["d"], Items)
    assert [each.value for each in values["d"]] == [True, None, Decimal(-2)]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: 1\na: 2\n", "2:1 a: the key is given twice, first in line 1"),
        ("a: 010\n", "1:4 a: '010' is no plain number"),
        ("a: 1:30\n", "1:4 a: '1:30' is no plain number"),
        ("a: .nan\n", "1:4 a: '.nan' is no plain number"),
        ("a: 0x1F\n", "1:4 a: '0x1F' is no plain number"),
        ("b: &x {c: 1}\na:\n  <<: *x\n", "3:3 a: merge keys (<<) are not read here"),
        ("a: !!binary aGk=\n", ""),
        ("a: !ours 1\n", "1:4 a: the tag !ours is not used here"),
        ("? [a, b]\n: 1\n", "1:3 : a key must be text"),
        ("a: [1\n", "2:1 : not YAML: "),
        ("a: 1\n---\nb: 2\n", "2:1 : not YAML: "),
        ("a: \x07\n", "1:4 : not YAML: "),
    ],
)
def test_a_fault_says_where_it_is(text: str, told: str) -> None:
    found = faults(text)
    assert len(found) == (1 if told else 0)
    assert not told or found[0].startswith(told)


def test_an_anchor_is_read_where_it_is_used_and_one_that_contains_itself_ends() -> None:
    assert not faults("a: &x [1]\nb: *x\n")
    assert not faults("a: &x [*x]\n")


def test_an_empty_document_is_an_empty_value() -> None:
    for text in ("", "# nothing\n", "---\n"):
        reading = read_yaml(text)
        assert not reading.faults
        assert Decoder(reading).root.is_empty


@given(st.text(alphabet=st.sampled_from("ab:-[]{}&*!|>'\" \n\t#1.?,%@\\"), max_size=40))
def test_no_text_raises(text: str) -> None:
    read_yaml(text)


def test_what_is_nested_too_deep_is_a_fault_and_takes_no_stack() -> None:
    assert faults("[" * 32 + "]" * 32) == []
    for depth in (33, 300_000):
        (fault,) = faults("[" * depth)
        assert fault == "1:33 : nested deeper than 32 levels"
