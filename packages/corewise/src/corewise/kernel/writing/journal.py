"""The journal of writes: an append-only file that survives the death of its writer.

- Every entry is in the file (one write(2)) before what it announces happens. Nothing is synced to disk:
  what write(2) has taken survives kill -9, and what a loss of power takes from the file it takes from the
  cgroups too, which are recreated at each boot. The boot's id at the head of a file tells: what a former boot
  held counts as released.
- A line that cannot be read, wherever it stands (half of one at the end after a kill), is skipped and
  reported as ``Damaged``; the next entry starts on a line of its own. Where a full disk takes a part of a
  write, that part is cut off again.
- A line of more than ``LONGEST_LINE`` bytes is damaged too. It is never read into memory as a whole.
- It is bounded: beyond ``limit`` bytes the file becomes ``journal.1``, in place of the one before, and a new
  one begins with everything that the entries leave held, whoever entered it. That file is complete before it
  takes the name ``journal``, so there is one at every moment.
- Whoever writes has the ``turn``: several writers and loops of one process do not mix their entries.
- A lock beside it belongs to the process that writes; it is free again however that process ends.
"""

from __future__ import annotations

import errno
import fcntl
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Protocol, Self

import msgspec

from corewise.kernel.errors import JournalError, JournalHeld
from corewise.kernel.writing.entries import Damaged, Entry, JournalLine, Opened, still_held

LIMIT = 4 << 20
"""Bytes in a file of the journal; two are kept. A change of ratio on 330 cgroups takes about 200 KB."""

LONGEST_LINE = 256 << 10
"""Bytes: an entry names a cgroup, of at most 4 KiB, and a few amounts."""

JOURNAL, FORMER, NEXT, LOCK = "journal", "journal.1", "journal.next", "lock"
_MODE = 0o640
_TRUNCATED = "Input data was truncated"
"""The msgspec error for a truncated document."""
_ENCODER = msgspec.json.Encoder()
_DECODER: msgspec.json.Decoder[Entry] = msgspec.json.Decoder(Entry)


class Log(Protocol):
    """The log in which the writer records its claims and writes."""

    @property
    def turn(self) -> AbstractContextManager[object]: ...

    @property
    def full(self) -> bool: ...

    def entries(self) -> Iterable[JournalLine]: ...

    def append(self, entries: Iterable[Entry]) -> None: ...

    def begin_anew(self) -> None: ...


class Journal:
    """The journal in a directory, held by this process until closed."""

    turn: AbstractContextManager[object]

    def __init__(
        self, directory: Path, lock: int, *, boot: str, now: Callable[[], float], limit: int
    ) -> None:
        self._directory = directory
        self._lock = lock
        self._boot = boot
        self._now = now
        self._limit = limit
        self.turn = threading.RLock()
        self._descriptor, self._size = self._opened()
        self.append([self._header()])

    @classmethod
    def open(cls, directory: Path, *, boot: str, now: Callable[[], float], limit: int = LIMIT) -> Journal:
        """Take the journal of a directory, which is made if need be.

        Raises:
            JournalHeld: if another process has it.
            JournalError: if the directory or file cannot be written.
        """
        try:
            directory.mkdir(parents=True, exist_ok=True)
            lock = _locked(directory / LOCK)
        except OSError as error:
            raise _journal_error(directory, error) from error
        try:
            return cls(directory, lock, boot=boot, now=now, limit=limit)
        except JournalError:
            os.close(lock)
            raise

    @property
    def full(self) -> bool:
        """Whether it is time to begin a new file."""
        return self._size >= self._limit

    def entries(self) -> Iterator[JournalLine]:
        """Yield the lines of the present file, oldest first. The last ``Opened`` is this process's."""
        return read_file(self._directory / JOURNAL)

    def damage(self) -> list[Damaged]:
        """Return the lines of the present file that are skipped."""
        return [line for line in self.entries() if isinstance(line, Damaged)]

    def append(self, entries: Iterable[Entry]) -> None:
        """Enter what is about to happen.

        Raises:
            JournalError: if it could not be entered whole; it must then not happen.
        """
        lines = b"".join(_ENCODER.encode(entry) + b"\n" for entry in entries)
        try:
            written = os.write(self._descriptor, lines)
        except OSError as error:
            raise _journal_error(self._directory / JOURNAL, error) from error
        if written < len(lines):
            with suppress(OSError):  # a full disk refuses a newline, and the next entry needs its own line
                os.ftruncate(self._descriptor, os.fstat(self._descriptor).st_size - written)
            raise _journal_error(self._directory / JOURNAL, OSError(errno.ENOSPC, "only a part was written"))
        self._size += written

    def begin_anew(self) -> None:
        """Begin a new file with all that the present one leaves held; that becomes the former.

        Raises:
            JournalError: if the new file cannot be written; the present one stays.
        """
        journal, former, following = (self._directory / name for name in (JOURNAL, FORMER, NEXT))
        held = still_held(self.entries())
        lines = b"".join(_ENCODER.encode(entry) + b"\n" for entry in [self._header(), *held])
        try:
            # A link, then a rename: a complete file has the name ``journal`` at every moment.
            following.write_bytes(lines)
            former.unlink(missing_ok=True)
            former.hardlink_to(journal)
            following.replace(journal)
        except OSError as error:
            raise _journal_error(journal, error) from error
        os.close(self._descriptor)
        self._descriptor, self._size = self._opened()

    def close(self) -> None:
        os.close(self._descriptor)
        os.close(self._lock)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _header(self) -> Opened:
        return Opened(self._now(), self._boot)

    def _opened(self) -> tuple[int, int]:
        path = self._directory / JOURNAL
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, _MODE)
            size = os.fstat(descriptor).st_size
            if size and os.pread(descriptor, 1, size - 1) != b"\n":
                size += os.write(descriptor, b"\n")
        except OSError as error:
            raise _journal_error(path, error) from error
        return descriptor, size


class MemoryLog:
    """A journal that is forgotten at the end: for a dry run."""

    full = False
    turn: AbstractContextManager[object]

    def __init__(self) -> None:
        self._entries: list[Entry] = []
        self.turn = threading.RLock()

    def entries(self) -> Iterable[Entry]:
        return tuple(self._entries)

    def append(self, entries: Iterable[Entry]) -> None:
        self._entries += entries

    def begin_anew(self) -> None:
        opened = [entry for entry in self._entries if isinstance(entry, Opened)]
        self._entries = [*opened[-1:], *still_held(self._entries)]


def read_file(path: Path) -> Iterator[JournalLine]:
    """Yield the lines of one file of a journal, without empty ones; an absent file has none.

    Raises:
        JournalError: if it cannot be read.
    """
    try:
        with path.open("rb") as file:
            for number, line in enumerate(_lines(file), 1):
                if line is None:
                    yield Damaged(path, number, f"longer than {LONGEST_LINE} bytes")
                elif line != b"\n":
                    yield _decoded(path, number, line)
    except FileNotFoundError:
        return
    except OSError as error:
        raise _journal_error(path, error) from error


def _lines(file: BinaryIO) -> Iterator[bytes | None]:
    """Yield the lines of a file, None for one that is too long."""
    while line := file.readline(LONGEST_LINE):
        if len(line) < LONGEST_LINE or line.endswith(b"\n"):
            yield line
            continue
        part = file.readline(LONGEST_LINE)
        while part and not part.endswith(b"\n"):
            part = file.readline(LONGEST_LINE)
        yield None


def read_history(directory: Path) -> Iterator[JournalLine]:
    """Yield all that a journal still has, oldest first; no lock is needed.

    Raises:
        JournalError: if a file cannot be read.
    """
    former, present = directory / FORMER, directory / JOURNAL
    one_and_the_same = False
    with suppress(OSError):
        one_and_the_same = former.samefile(present)
    if not one_and_the_same:
        yield from read_file(former)
    yield from read_file(present)


def damage_text(damaged: Sequence[Damaged]) -> str:
    """Return one sentence about damaged lines, of which there is at least one."""
    first = damaged[0]
    where = f"{first.file}, line {first.number}: {first.why}"
    if len(damaged) == 1:
        return f"1 line of the journal cannot be read and is skipped: {where}"
    return f"{len(damaged)} lines of the journal cannot be read and are skipped; the first is {where}"


def _decoded(path: Path, number: int, line: bytes) -> JournalLine:
    try:
        return _DECODER.decode(line.removesuffix(b"\n"))
    except UnicodeDecodeError:
        return Damaged(path, number, "not UTF-8")
    except RecursionError:
        return Damaged(path, number, "nested too deeply")
    except msgspec.DecodeError as error:
        why = str(error)
        cut_off = why == _TRUNCATED and not line.endswith(b"}\n")
        return Damaged(path, number, "cut off" if cut_off else why, cut_off)


def _locked(path: Path) -> int:
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _MODE)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        holder = os.pread(lock, 32, 0).decode("ascii", "replace").strip() or "unknown"
        os.close(lock)
        raise JournalHeld(str(path), f"held by process {holder}", code=errno.EWOULDBLOCK) from error
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
    return lock


def _journal_error(path: Path, error: OSError) -> JournalError:
    code = error.errno or 0
    name = errno.errorcode.get(code, str(code))
    return JournalError(str(path), f"cannot be used: {name} ({os.strerror(code)})", code=code)
