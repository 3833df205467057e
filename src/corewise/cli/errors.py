"""What a command says when it cannot do its work, and with which exit code.

0 is success. 1 is a verdict that scripts ask for (``config check`` found errors). 2 is a wrong call, as click
has it. 3 and above are failures of the world: the kind of failure picks the code. 8 and above are those of
``corewise compute``.
"""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes of every command."""

    VERDICT = 1
    USAGE = 2
    CONNECTION = 3
    NOT_FOUND = 4
    BAD_INPUT = 5
    REFUSED = 6
    OUTPUT = 7
    UNAUTHORIZED = 8
    CONFLICT = 9
    LEDGER = 10


class Failure(Exception):  # noqa: N818 - it is what the user sees, and is named so
    """The command stops here: ``message`` names the object, ``hint`` the next thing to try."""

    def __init__(self, message: str, *, hint: str = "", exit_code: int = ExitCode.BAD_INPUT) -> None:
        super().__init__(message)
        self.hint = hint
        self.exit_code = int(exit_code)

    def __str__(self) -> str:
        message = super().__str__()
        return f"{message}\n  {self.hint}" if self.hint else message
