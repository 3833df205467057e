"""An answer to a review, and what it counts as."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from corewise.kube.admission import AdmissionRequest, Operation, allow, deny


class Outcome(StrEnum):
    """How a review ended, as the metric has it."""

    ALLOWED = "allowed"
    CHANGED = "changed"
    REFUSED = "refused"
    MALFORMED = "malformed"
    UNAVAILABLE = "unavailable"
    BUG = "bug"


class UnavailableError(Exception):
    """A review that cannot be answered now: with failurePolicy Ignore, as if nobody had been asked."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The body of the answer, and what it counts as."""

    body: bytes
    outcome: Outcome


Review: TypeAlias = Callable[[AdmissionRequest], Coroutine[None, None, Answer]]
"""A webhook. Raises ``DecodeError`` when the review's objects are not what they should be, and
``UnavailableError`` when it cannot tell."""


def allowed(
    request: AdmissionRequest, *, patch: Sequence[Operation] = (), warnings: Iterable[str] = ()
) -> Answer:
    """Return "yes", perhaps with changes."""
    outcome = Outcome.CHANGED if patch else Outcome.ALLOWED
    return Answer(allow(request, patch=patch, warnings=warnings), outcome)


def refused(request: AdmissionRequest, message: str, *, code: int, reason: str) -> Answer:
    """Return "no", and why."""
    return Answer(deny(request, message, code=code, reason=reason), Outcome.REFUSED)
