"""A choice of words, as an option or an argument: shells complete it, and a misspelled word gets a hint."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any

import click

from corewise.config.decoding import nearest_words


class Choice(click.Choice[str]):
    """A misspelled word is answered with the nearest; ``listed_at`` says where all are, if they are many."""

    def __init__(self, choices: Sequence[str], *, listed_at: str = "") -> None:
        super().__init__(choices)
        self._listed_at = listed_at

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        near = nearest_words(str(value), self.choices, closeness=0.7, most=2)
        said = super().get_invalid_choice_message(value, ctx)
        if self._listed_at:
            said = f"{value!r} is unknown; {self._listed_at} lists all."
        if not near:
            return said
        return f"{said} Did you mean {' or '.join(map(repr, near))}?"


def one_of(default: Enum) -> dict[str, Any]:
    """Return the arguments of an option whose words are the values of an enumeration."""
    words = [each.value for each in type(default)]
    return {"type": Choice(words), "default": default.value, "show_default": True}
