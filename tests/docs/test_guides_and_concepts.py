"""Every page of concepts has a picture; every guide says what it is for, and ends with how to undo it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
GUIDES = sorted((DOCS / "guides").glob("*.md"))
CONCEPTS = sorted((DOCS / "concepts").glob("*.md"))
UNDONE = re.compile(r"\b(?:undo|take it all back)\b", re.IGNORECASE)


def name(page: Path) -> str:
    return page.stem


@pytest.mark.parametrize("page", CONCEPTS, ids=name)
def test_concept_page_has_a_picture(page: Path) -> None:
    pictures = re.findall(r"^!\[[^\]]+\]\((.*)\)$", page.read_text(), re.MULTILINE)
    assert pictures
    assert all((page.parent / each).exists() for each in pictures)


@pytest.mark.parametrize("page", GUIDES, ids=name)
def test_guide_states_purpose_and_how_to_undo(page: Path) -> None:
    text = page.read_text()
    begin = re.sub(r"^# .*\n+", "", text)
    assert re.match(r"[A-Za-z`\[*]", begin), "a sentence says what the page is for"
    assert UNDONE.search(re.findall(r"^## (.*)$", text, re.MULTILINE)[-1])
