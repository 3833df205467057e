"""A journal whose disk may be full."""

from __future__ import annotations

import errno
from collections.abc import Iterable

from corewise.kernel.errors import JournalError
from corewise.kernel.writing.entries import Entry
from corewise.kernel.writing.journal import MemoryLog


class FullLog(MemoryLog):
    """``room`` counts the calls that still find room; None: all do."""

    def __init__(self) -> None:
        super().__init__()
        self.room: int | None = None

    def append(self, entries: Iterable[Entry]) -> None:
        if self.room is not None:
            if not self.room:
                raise JournalError("/var/lib/corewise/journal", "cannot be used: ENOSPC", code=errno.ENOSPC)
            self.room -= 1
        super().append(entries)
