"""Counts of the tests that try every case within a bound: ``make explore EXHAUSTIVE=1`` prints them.

Such a test tries all cases of a small domain in ``make test``, and of the whole domain when
COREWISE_EXHAUSTIVE is set. What it tried goes to the file COREWISE_EXHAUSTIVE, one JSON line for each test.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

OUT: Final = os.environ.get("COREWISE_EXHAUSTIVE", "")
WHOLE: Final = bool(OUT)
"""Whether to try the whole domain."""


class Tried(msgspec.Struct, frozen=True):
    """What one test has tried.

    ``counts``: how many of what; ``seconds``: of CPU; ``history``: the one that shows a mutant.
    """

    domain: str
    counts: dict[str, int]
    seconds: float
    history: Sequence[str] = ()


class Stopwatch:
    """Reports what was tried since it was made, and the seconds of CPU that this process took for it."""

    def __init__(self, domain: str) -> None:
        self._domain, self._began = domain, time.process_time()

    def report(self, history: Sequence[str] = (), **counts: int) -> None:
        if OUT:
            tried = Tried(self._domain, counts, time.process_time() - self._began, history)
            with Path(OUT).open("ab") as file:
                file.write(msgspec.json.encode(tried) + b"\n")
