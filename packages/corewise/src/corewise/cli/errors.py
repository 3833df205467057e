"""Failures of commands; the exit code of each is one of ``vocabulary.exit_codes``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from corewise.cli.same_cluster import for_same_cluster
from corewise.vocabulary.exit_codes import ExitCode

if TYPE_CHECKING:
    from corewise.vocabulary.errors import OperationalError

__all__ = ["ExitCode", "Failure"]


class Failure(Exception):  # noqa: N818 - it is what the user sees, and is named so
    """The command stops here: ``message`` names the object, ``hint`` the next thing to try."""

    def __init__(self, message: str, *, hint: str = "", exit_code: int = ExitCode.BAD_INPUT) -> None:
        super().__init__(message)
        self.hint = for_same_cluster(hint)
        self.exit_code = int(exit_code)

    @classmethod
    def of(cls, error: OperationalError) -> Failure:
        """Return the failure for an operational error: ``<reason code>: <message>``, if it has a reason."""
        if error.reason is None:
            return cls(error.message, hint=error.hint, exit_code=error.exit_code)
        hint = error.hint or error.reason.fix
        return cls(f"{error.reason}: {error.message}", hint=hint, exit_code=error.exit_code)

    def __str__(self) -> str:
        message = super().__str__()
        return f"{message}\n  {self.hint}" if self.hint else message
