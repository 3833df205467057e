"""What a reason code is explained by."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ReasonText:
    """One row of the reference. ``fix`` is empty where nothing is to be done."""

    meaning: str
    fix: str = ""
    warning: bool = False


def warning(meaning: str, fix: str) -> ReasonText:
    """Explain a code that becomes a Warning Event."""
    return ReasonText(meaning, fix, warning=True)
