"""Findings: a reason code and a sentence for a person, wherever something is refused or unreadable."""

from __future__ import annotations

from dataclasses import dataclass

from corewise.vocabulary.reasons import Reason


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem, a warning or a refusal, as a value."""

    reason: Reason
    message: str
    about: str = ""
    """The field or resource that it is about; empty if it is about the whole object."""
    unresolvable: bool = False
    """No eviction or preemption helps."""
