"""Exit codes: one rule for every command, whichever system an error comes from.

0 is success, 1 a verdict that scripts ask for, 2 a wrong call, as click has it. From 3 on the kind of failure
picks the code: no answer is 3; an HTTP answer is 8 for 401 and 403, 4 for 404, 9 for a conflict with somebody
else's write (409), 3 for 429 and 5xx, and 6 for every other refusal.

Apart from :mod:`corewise.vocabulary.errors`, since ``corewise --help`` needs the codes and not msgspec.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Self


class ExitCode(IntEnum):
    """Exit codes of every command, each with what it means."""

    meaning: str

    def __new__(cls, code: int, meaning: str) -> Self:
        member = int.__new__(cls, code)
        member._value_ = code
        member.meaning = meaning
        return member

    VERDICT = 1, "the answer is no: `config check` found errors, `compute status` two guests on one CPU"
    USAGE = 2, "wrong call: unknown option or argument"
    CONNECTION = 3, "a server does not answer, or its answer cannot be understood"
    NOT_FOUND = 4, "the object does not exist"
    BAD_INPUT = 5, "a file cannot be read or understood"
    REFUSED = 6, "a server, the kernel or corewise itself refused"
    OUTPUT = 7, "stdout cannot be written, because there is no room"
    UNAUTHORIZED = 8, "a server does not accept the credentials (401), or does not allow the request (403)"
    CONFLICT = 9, "somebody else writes the same object, again and again"
    LEDGER = 10, "`compute`: the ledger is damaged, held by another process, or not writable"
