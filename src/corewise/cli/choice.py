"""One of some words, as an option or an argument: what a shell completes, and what a misspelt word meant."""

from __future__ import annotations

import difflib
from typing import Any

import click

_MANY_CHOICES = 12


class Choice(click.Choice[str]):
    """A misspelt one is answered with the nearest; a long list of all is then left out."""

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        by_lower = {each.lower(): each for each in self.choices}
        near = difflib.get_close_matches(str(value).lower(), by_lower, n=2, cutoff=0.7)
        if not near:
            return super().get_invalid_choice_message(value, ctx)
        listed = len(self.choices) <= _MANY_CHOICES
        said = super().get_invalid_choice_message(value, ctx) if listed else f"{value!r} is unknown."
        return f"{said} Did you mean {' or '.join(repr(by_lower[each]) for each in near)}?"
