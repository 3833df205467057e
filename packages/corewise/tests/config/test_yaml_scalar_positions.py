"""Each character of a text within YAML or JSON is found again in the file."""

from __future__ import annotations

import json

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from corewise.config.yaml_text import json_string, yaml_scalar


def scalar(source: str) -> yaml.ScalarNode:
    node = yaml.compose(source, Loader=yaml.CSafeLoader)
    assert isinstance(node, yaml.MappingNode)
    value = node.value[0][1]
    assert isinstance(value, yaml.ScalarNode)
    return value


def lines_and_columns(source: str, character: str) -> list[tuple[int, int]]:
    """Return where each occurrence of a character of the first key's value stands in the file."""
    node = scalar(source)
    places = yaml_scalar(source, node)
    found = [places[at] for at, each in enumerate(node.value) if each == character]
    return [(source.count("\n", 0, at) + 1, at - source.rfind("\n", 0, at)) for at in found]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("k: aXb\n", [(1, 5)]),
        ("k: a\n  b X\n", [(2, 5)]),
        ("k: 'it''s X'\n", [(1, 11)]),
        ("k: 'a\n\n  X'\n", [(3, 3)]),
        ('k: "\\n\\u00e9X"\n', [(1, 13)]),
        ('k: "a\\\n   \\  X"\n', [(2, 7)]),
        ('k: "a\n   b X"\n', [(2, 6)]),
        ("k: |\n  a\n    X\n", [(3, 5)]),
        ("k: |-  # comment\n\n  aX\n", [(3, 4)]),
        ("k: |2\n    X\n", [(2, 5)]),
        ("k: |+\n  X\n\n", [(2, 3)]),
        ("k: |\r\n  a\r\n  X\r\n", [(3, 3)]),
        ("k: >\n  a\n  X\n", [(3, 3)]),
        ("k: >-\n  a\n\n  b\n    X\n  c X\n", [(5, 5), (6, 5)]),
        ("k: |\n  X", [(2, 3)]),
    ],
)
def test_character_is_found_at_its_line_and_column(source: str, expected: list[tuple[int, int]]) -> None:
    assert lines_and_columns(source, "X") == expected


texts = st.text(
    alphabet=st.sampled_from(list("{}[]\":,'\\ \n\tab0é\N{GRINNING FACE}#-|>&*!%@`")), max_size=60
) | st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=30)
styles = st.sampled_from([None, "|", ">", "'", '"'])


@given(texts, styles, st.integers(10, 60), st.booleans())
@example("  a\nb\n", "|", 80, True)
@example("\n\n a b\n\n", ">", 10, True)
@example("a  \n  b   c\n", ">", 10, True)
def test_every_visible_character_is_at_its_reported_position(
    text: str, style: str | None, width: int, allow_unicode: bool
) -> None:
    source = yaml.dump({"key": text}, default_style=style, width=width, allow_unicode=allow_unicode)
    node = scalar(source)
    places = yaml_scalar(source, node)
    assert len(places) == len(node.value) + 1
    assert list(places) == sorted(places)
    start, end = node.start_mark.index, node.end_mark.index
    assert all(start <= at <= end for at in places)
    if len(set(places)) == 1:
        return
    for character, at in zip(node.value, places, strict=False):
        if not character.isspace():
            assert source[at] in {character, "\\"}


@given(st.text(st.characters(exclude_categories=["Cs"])), st.booleans(), st.text(max_size=5))
def test_every_json_string_character_is_at_reported_position(
    text: str, ascii_only: bool, before: str
) -> None:
    source = before + json.dumps(text, ensure_ascii=ascii_only)
    places = json_string(source, len(before), text)
    assert len(places) == len(text) + 1
    assert source[places[-1]] == '"'
    for character, at in zip(text, places, strict=False):
        assert source[at] in {character, "\\"}
