"""Operational errors: what can go wrong between a program and the world, in every package the same.

An operational error owns its message, its hint, the exit code of a command that it ends, and whether trying
again can help. A verdict is a value, and a bug is any other exception.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from corewise.vocabulary.exit_codes import ExitCode

if TYPE_CHECKING:
    from corewise.vocabulary.reasons import Reason

E = TypeVar("E", bound=BaseException)
UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What msgspec raises for a text that is not the wanted JSON: wrong, not UTF-8, or nested too deep."""


def unreadable_text(error: Exception) -> str:
    """Return the fault in a text that raised one of UNREADABLE."""
    if isinstance(error, RecursionError):
        return "nested too deep"
    return "it is empty or breaks off" if str(error) == "Input data was truncated" else str(error)


class OperationalError(Exception):
    """Base of the errors of every package; ``str()`` is the message alone.

    ``hint`` is the next thing for a person to try. ``retryable``: the same may succeed later; whether it may
    be *repeated* without harm is known to the caller alone. ``reason`` stands before the message in what a
    command prints.
    """

    retryable = False
    default_hint = ""
    exit_code = ExitCode.CONNECTION
    reason: Reason | None = None

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint or self.default_hint

    @property
    def log_text(self) -> str:
        """For a line of a log: the message, and the hint if only a person can help."""
        return self.message if self.retryable or not self.hint else f"{self.message}; {self.hint}"


def first_error(group: BaseExceptionGroup[BaseException], *kinds: type[E]) -> E | None:
    """Return the first error of these kinds in the group, however deep, or None."""
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            if found := first_error(error, *kinds):
                return found
        elif isinstance(error, kinds):
            return error
    return None
