"""That a machine does not tell something: an answer, with the reason why, and no error."""

from __future__ import annotations

from dataclasses import dataclass

from corewise.vocabulary.reasons import Reason


@dataclass(frozen=True, slots=True)
class Absent:
    """There is no value. ``why`` is for the log: path, errno, what the kernel wrote."""

    reason: Reason
    why: str
