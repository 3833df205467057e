"""YAML as configuration: exact numbers, positions, and faults where YAML means something no one meant."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corewise.config.decoding import Decoder
from corewise.config.json_text import Items, Located, Members
from corewise.config.yaml_text import (
    DEEPEST_OBJECT,
    LARGEST_TEXT,
    MOST_VALUES,
    LimitError,
    NotYAMLError,
    load_document,
    load_documents,
    read_texts,
    read_yaml,
)


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
        ("a: 010\n", "1:4 a: '010' is not a plain number"),
        ("a: 1:30\n", "1:4 a: '1:30' is not a plain number"),
        ("a: .nan\n", "1:4 a: '.nan' is not a plain number"),
        ("a: 0x1F\n", "1:4 a: '0x1F' is not a plain number"),
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


def test_anchors_are_read_where_used_self_reference_ends() -> None:
    assert not faults("a: &x [1]\nb: *x\n")
    assert faults("a: &x [*x]\n") == ["1:8 : *x is inside the value that it names"]
    assert faults("&x {a: {b: *x}}\n") == ["1:12 : *x is inside the value that it names"]


def test_an_empty_document_is_an_empty_value() -> None:
    for text in ("", "# nothing\n", "---\n"):
        reading = read_yaml(text)
        assert not reading.faults
        assert Decoder(reading).root.is_empty


@given(st.text(alphabet=st.sampled_from("ab:-[]{}&*!|>'\" \n\t#1.?,%@\\"), max_size=40))
def test_no_text_raises(text: str) -> None:
    read_yaml(text)


def test_too_deep_nesting_is_a_fault_without_recursion() -> None:
    assert faults("[" * 32 + "]" * 32) == []
    for depth in (33, 300_000):
        (fault,) = faults("[" * depth)
        assert fault == "1:33 : nested deeper than 32 levels"


def texts(text: str) -> list[Located]:
    return list(read_texts(text, {}))


READERS: list[Callable[[str], Any]] = [
    texts,
    load_documents,
    load_document,
    lambda text: load_document(text.encode()),
]
NESTED = {
    "lists": "[" * 100_000,
    "mappings": '{"a": ' * 100_000,
    "lists in block style": "- " * 100_000,
    "keys": "? " * 100_000,
    "closed lists": "[" * 100_000 + "]" * 100_000,
}


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("text", NESTED.values(), ids=NESTED)
def test_every_reader_refuses_objects_nested_too_deep(read: Callable[[str], Any], text: str) -> None:
    with pytest.raises(LimitError, match=f"nested deeper than {DEEPEST_OBJECT} levels"):
        read(text)


def laughs(lines: int, each: int) -> str:
    """Return lines that each state the line before ``each`` times: ``each ** lines`` values."""
    first = f"a0: &a0 [{', '.join(['x'] * each)}]\n"
    return first + "".join(
        f"a{line}: &a{line} [{', '.join([f'*a{line - 1}'] * each)}]\n" for line in range(1, lines)
    )


@pytest.mark.parametrize("read", READERS)
def test_aliases_count_as_what_they_stand_for(read: Callable[[str], Any]) -> None:
    with pytest.raises(LimitError, match=f"more than {MOST_VALUES} values"):
        read(laughs(lines=10, each=10))
    merged = "a: &a {x: 1, y: 2}\n" + "".join(f"b{each}: {{<<: *a}}\n" for each in range(3))
    read(merged + laughs(lines=3, each=10))


@pytest.mark.parametrize("read", READERS)
def test_aliases_are_as_deep_as_their_targets(read: Callable[[str], Any]) -> None:
    chain = "a0: &a0 [x]\n" + "".join(f"a{each}: &a{each} [*a{each - 1}]\n" for each in range(1, 200))
    with pytest.raises(LimitError, match="nested deeper"):
        read(chain)


@pytest.mark.parametrize("read", READERS)
def test_text_too_long_or_too_large_is_refused(read: Callable[[str], Any]) -> None:
    with pytest.raises(LimitError, match="longer than 8 MiB"):
        read(" " * (LARGEST_TEXT + 1))
    with pytest.raises(LimitError, match="more than 500000 values"):
        read("[" + "1," * MOST_VALUES + "]")


def test_half_of_a_surrogate_pair_is_not_yaml() -> None:
    assert faults("a: \ud800") == ["1:4 : not YAML: half of a surrogate pair stands alone"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: !!int x", "'x' is not a valid int"),
        ("a: !!int ''", "'' is not a valid int"),
        ("a: !!float ''", "'' is not a valid float"),
        ("a: !!bool maybe", "'maybe' is not a valid bool"),
        ("a: !!timestamp [1]", "expected a scalar node"),
        ("a: " + "9" * 5000, "is not a valid int"),
        ("a: 1" + ":1" * 100_000, "is not a valid int"),
        ("a: 0x_", "'0x_' is not a valid int"),
        ("? [1]\n: 2", "unhashable"),
        ("a: !ours 1", "!ours"),
    ],
)
def test_value_its_tag_does_not_allow_is_refused(text: str, told: str) -> None:
    with pytest.raises(NotYAMLError, match=told):
        load_document(text)


def test_times_stay_text_as_they_are_in_json() -> None:
    assert load_document("a: 2001-02-03\nb: 2001-99-99\nc: 2001-02-03T04:05:06Z") == {
        "a": "2001-02-03",
        "b": "2001-99-99",
        "c": "2001-02-03T04:05:06Z",
    }


YAML_PIECES = st.sampled_from(
    [
        *"ab:-[]{}&*!|>'\" \n\t#1.?,%@\\=",
        *("&a ", "*a ", "<<: ", "---\n", "...\n", "? ", "- ", "0x_", "1:1", "%TAG ", "\ud800", "\0", "\x85"),
        *("!!int ", "!!float ", "!!bool ", "!!binary ", "!!set ", "!!omap ", "!!pairs ", "!!timestamp "),
    ]
)


@given(st.lists(YAML_PIECES, max_size=25).map("".join))
def test_every_reader_returns_a_value_or_refuses_text(text: str) -> None:
    with suppress(NotYAMLError):
        load_document(text)
    with suppress(NotYAMLError):
        load_document(text.encode(errors="surrogatepass"))
    with suppress(NotYAMLError):
        load_documents(text)
    with suppress(NotYAMLError):
        texts(text)
