"""Diagrams are drawn from text: arrows join facing sides, and what a line cannot be is an error."""

from __future__ import annotations

import re

import pytest

from tools.diagram import draw

TWO = 'box a 0 0 1 1 "A" "says <this>"\nbox b {place} 1 1 "B"\narrow a b "why"\n'


def line(svg: str) -> list[float]:
    found = re.search(r'<line x1="([\d.]+)" y1="([\d.]+)" x2="([\d.]+)" y2="([\d.]+)"', svg)
    assert found
    return [float(each) for each in found.groups()]


@pytest.mark.parametrize(("place", "level"), [("2 0", True), ("0 2", False)])
def test_arrow_is_horizontal_or_vertical_and_points_away(place: str, level: bool) -> None:
    x1, y1, x2, y2 = line(draw(TWO.format(place=place)))
    assert (y1 == y2, x1 == x2) == (level, not level)
    assert x1 < x2 or y1 < y2


def test_texts_are_escaped_and_picture_fits_its_content() -> None:
    svg = draw(TWO.format(place="2 0"))
    assert "says &lt;this&gt;" in svg
    width, height = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg).groups()  # type: ignore[union-attr]
    assert (float(width), float(height)) == (3 * 170 + 28, 74 + 28)


@pytest.mark.parametrize(
    ("text", "error"),
    [('circle a 0 0 1 1 "A"', "neither box"), (TWO.format(place="2 2"), "no straight line")],
)
def test_what_cannot_be_drawn_is_an_error(text: str, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        draw(text)
