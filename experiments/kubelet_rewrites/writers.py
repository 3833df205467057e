"""Who writes files below the mounts of cgroups: fanotify(7) names the process of each write.

A process may end before its name is read: then only its number is known. Where the kernel offers no
fanotify, as without CAP_SYS_ADMIN, no writer is known.

Source: fanotify(7), include/uapi/linux/fanotify.h.
"""

from __future__ import annotations

import ctypes
import os
import select
import struct
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self

_CLOEXEC, _NONBLOCK = 0x1, 0x2
_ADD, _FILESYSTEM = 0x1, 0x100
_MODIFY = 0x2
_AT_FDCWD = -100
_EVENT = struct.Struct("=IBBHqii")
_LARGE = 1 << 16
_STEP_MS = 200


@dataclass(frozen=True, slots=True)
class FileWrite:
    """A write of another process to a file; ``when`` by time.monotonic."""

    when: float
    path: str
    process: str


class Writers(Protocol):
    """Something that may know who wrote a file."""

    known: bool

    def last(self, path: str) -> FileWrite | None: ...


class NoWriters:
    """Knows no writer."""

    known = False

    def last(self, path: str) -> FileWrite | None:
        """Return None."""
        del path
        return None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class FanotifyWriters:
    """Listens in a thread of its own, since short-lived processes must be named at once."""

    known = True

    def __init__(self, mounts: Iterable[Path]) -> None:
        """Begin to listen.

        Raises:
            OSError: if the kernel refuses.
        """
        libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = libc.fanotify_init(_CLOEXEC | _NONBLOCK, os.O_RDONLY | os.O_CLOEXEC)
        if self._descriptor < 0:
            raise OSError(ctypes.get_errno(), "fanotify_init")
        for mount in set(mounts):
            path = os.fsencode(mount)
            mask = ctypes.c_uint64(_MODIFY)
            if libc.fanotify_mark(self._descriptor, _ADD | _FILESYSTEM, mask, _AT_FDCWD, path):
                code = ctypes.get_errno()
                os.close(self._descriptor)
                raise OSError(code, "fanotify_mark")
        self._writes: dict[str, FileWrite] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def last(self, path: str) -> FileWrite | None:
        """Return the last write of another process to a file."""
        return self._writes.get(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        os.close(self._descriptor)

    def _listen(self) -> None:
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        while not self._ended.is_set():
            if poll.poll(_STEP_MS):
                # a file that may not be opened for reading is an error here, and none of ours
                with suppress(OSError):
                    self._take(os.read(self._descriptor, _LARGE))

    def _take(self, events: bytes) -> None:
        now = time.monotonic()
        at = 0
        while at < len(events):
            length, _, _, _, _, file, pid = _EVENT.unpack_from(events, at)
            at += length
            if file < 0:
                continue
            try:
                if pid != os.getpid():
                    process = _name(pid)
                    path = os.readlink(f"/proc/self/fd/{file}")  # noqa: PTH115
                    self._writes[path] = FileWrite(now, path, process)
            finally:
                os.close(file)


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return f"process {pid}, which has ended"


def writers_below(mounts: Iterable[Path]) -> FanotifyWriters | NoWriters:
    """Return an object that names the writers of files below these mounts."""
    try:
        return FanotifyWriters(mounts)
    except OSError:
        return NoWriters()
