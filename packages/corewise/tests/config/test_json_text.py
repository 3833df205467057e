"""The JSON reader agrees with the standard library on good JSON, and names every fault of bad JSON."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from corewise.config.json_text import BROKEN, DEEPEST, Items, Located, Members, path_text, read_json


def plain(located: Located) -> object:
    """Return the value that the standard library would return."""
    match located.value:
        case Members() as members:
            return {member.key: plain(member.value) for member in members}
        case Items() as items:
            return [plain(item) for item in items]
        case value:
            return value


def faults(text: str) -> list[tuple[int, int, str, str]]:
    return [(fault.line, fault.column, fault.path, fault.message) for fault in read_json(text).faults]


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.decimals(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda each: st.lists(each, max_size=4) | st.dictionaries(st.text(), each, max_size=4),
    max_leaves=10,
)


def written(value: object) -> str:
    """Write JSON with numbers exactly as Decimal prints them."""
    match value:
        case Decimal():
            return str(value)
        case dict():
            return "{" + ",".join(f"{json.dumps(k)}:{written(v)}" for k, v in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(written, value)) + "]"
        case _:
            return json.dumps(value)


@given(values)
def test_good_json_matches_standard_library_with_exact_numbers(value: object) -> None:
    text = written(value)
    reading = read_json(text)
    assert not reading.faults
    assert reading.root is not None
    assert plain(reading.root) == json.loads(text, parse_float=Decimal, parse_int=Decimal)


def test_positions_are_lines_and_columns_of_characters() -> None:
    reading = read_json('{\n\t"é": [1,\n 22]}')
    assert reading.root is not None
    assert isinstance(reading.root.value, Members)
    (member,) = reading.root.value
    assert reading.positions.at(member.offset) == (2, 2)
    assert reading.positions.at(member.value.offset) == (2, 7)
    assert isinstance(member.value.value, Items)
    assert [reading.positions.at(item.offset) for item in member.value.value] == [(2, 8), (3, 2)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", [(1, 1, "", "there is no JSON here")]),
        (" \n ", [(2, 2, "", "there is no JSON here")]),
        ('{"a": NaN}', [(1, 7, "a", "NaN is not a JSON number")]),
        ('{"a": -Infinity}', [(1, 7, "a", "-Infinity is not a JSON number")]),
        ('{"a": 1,2}', [(1, 7, "a", "1,2 is not a JSON number: write a point, not a comma, as in 1.2")]),
        ('{"a": .5}', [(1, 7, "a", "'.5' is not a JSON number")]),
        ('{"a": 01}', [(1, 7, "a", "'01' is not a JSON number")]),
        ('{"a": +1}', [(1, 7, "a", "'+1' is not a JSON number")]),
        ('{"a": 1.}', [(1, 7, "a", "'1.' is not a JSON number")]),
        ('{"a": 1e99999999999999999999}', [(1, 7, "a", "is out of range")]),
        ('{"a": True}', [(1, 7, "a", "write true")]),
        ('{"a": yes}', [(1, 7, "a", "'yes' is not JSON: write strings in double quotes")]),
        ('{"a": }', [(1, 7, "a", "a value is expected, found '}'")]),
        ('{"a" 1}', [(1, 6, "a", "':' is expected after the key, found '1'")]),
        ("{'a': 1}", [(1, 2, "", "a key in double quotes is expected")]),
        ("{a: 1}", [(1, 2, "", "a key in double quotes is expected, found 'a'")]),
        ('{"a": 1,}', [(1, 8, "", "no ',' is allowed before '}'")]),
        ('{"a": [1,]}', [(1, 9, "a", "no ',' is allowed before ']'")]),
        ('{"a": 1 "b": 2}', [(1, 9, "", "',' is missing before a string")]),
        ("[1 2]", [(1, 4, "", "',' or ']' is expected, found '2'")]),
        ('{"a": 1,\n "a": 2}', [(2, 2, "a", "the key is given twice, first 1 line above")]),
        ('{"a": [', [(1, 8, "a", "']' is missing: '[' on the same line is not closed")]),
        ('{"a": "b', [(1, 7, "a", "the string is not closed")]),
        ('{"a": "b\n"}', [(1, 7, "a", "the string is not closed")]),
        ('{"a": "b\tc"}', [(1, 9, "a", "write \\t")]),
        ('{"a": "\\x"}', [(1, 8, "a", "a backslash is written \\\\")]),
        ('{"a": "\\u12"}', [(1, 8, "a", "\\u needs four hexadecimal digits")]),
        ('{"a": "\\ud800"}', [(1, 8, "a", "half of a surrogate pair")]),
        ('{"a": "\ud800"}', [(1, 8, "a", "may not stand in a string")]),
        ("{} {}", [(1, 4, "", "nothing may follow the end of the JSON value, found '{'")]),
        ("{}\N{NO-BREAK SPACE}", [(1, 3, "", "nothing may follow")]),
        ("[" * (DEEPEST + 1), [(1, DEEPEST + 1, "[0]" * DEEPEST, "nested deeper than 32 levels")]),
    ],
)  # fmt: skip
def test_fault_is_reported_with_place_and_fix(text: str, expected: list[tuple[int, int, str, str]]) -> None:
    found = faults(text)
    assert [fault[:3] for fault in found] == [fault[:3] for fault in expected]
    for fault, (*_, part) in zip(found, expected, strict=True):
        assert part in fault[3]


def test_reading_continues_after_a_fault_where_safe() -> None:
    text = '{"a": NaN, "b": 1,5, "c": [True,], "d": {"e": .5}, "f": 7}'
    reading = read_json(text)
    assert [fault.path for fault in reading.faults] == ["a", "b", "c[0]", "c", "d.e"]
    assert reading.complete
    assert reading.root is not None
    read = plain(reading.root)
    assert isinstance(read, dict)
    assert read["f"] == 7
    assert read["a"] is BROKEN


def test_values_read_before_giving_up_still_count() -> None:
    reading = read_json('{"a": 1, "b": {"c": 2 oops}, "d": 3}')
    assert not reading.complete
    assert reading.root is not None
    assert plain(reading.root) == {"a": 1, "b": {"c": 2}}
    assert len(reading.faults) == 1


def test_text_full_of_faults_is_abandoned_after_some() -> None:
    reading = read_json("[" + ",".join(["NaN"] * 1000) + "]")
    assert not reading.complete
    assert 1 < len(reading.faults) < 50


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ((), ""),
        (("ratioModel", "Xeon", "baseRatio"), 'ratioModel["Xeon"].baseRatio'),
        (("nodeConfigs", 0, "enable"), "nodeConfigs[0].enable"),
        (("a/b",), '["a/b"]'),
        (("x", 'say "hi" \\'), 'x["say \\"hi\\" \\\\"]'),
    ],
)
def test_path_is_printed_so_it_can_be_followed(path: tuple[str | int, ...], text: str) -> None:
    assert path_text(path) == text


@given(st.text() | st.text(alphabet='{}[]",:\\u0019aeE.-+ \n\ttrulsn', max_size=30))
@example('"\\ud800\\u')
@example('{"a":1,2')
@example('"' + "\\" * 3)
def test_any_text_is_readable_with_faults_inside_it(text: str) -> None:
    reading = read_json(text)
    lines = text.split("\n")
    for fault in reading.faults:
        assert 1 <= fault.line <= len(lines)
        assert 1 <= fault.column <= len(lines[fault.line - 1]) + 1
        assert fault.message
    if not reading.faults:
        json.loads(text)
