"""Reading /proc and /sys of one machine below a root directory, where any file may be missing or wrong.

A missing file is an answer (None): the kernel does not have it. So is EAGAIN, which a driver that is switched
off gives. Everything else that goes wrong (no permission, a content that the kernel would not write) is also
None, and noted in ``problems``, so that one bad file costs one fact and no more.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from corewise.kernel.errors import Busy, KernelError, Malformed, Missing, reading_error
from corewise.topology import CPUSet, CPUSetError

T = TypeVar("T")

LONGEST_READ = 1 << 20
"""Far more than any file here has; a tree that somebody recorded may hold anything."""

BOOT_ID = "proc/sys/kernel/random/boot_id"
_NUMBER = re.compile(r"-?[0-9]{1,18}")
_SHOWN = 40
_CHUNK = 1 << 16


class HostFiles:
    """The files of one machine. Paths are relative to ``root`` ("sys/devices/system/cpu/online")."""

    def __init__(self, root: str | Path = "/") -> None:
        self._root = Path(root)
        self.problems: list[KernelError] = []

    def text(self, path: str, *, longest: int = LONGEST_READ) -> str | None:
        """Return a file's content without surrounding white space, its first ``longest`` bytes."""
        return self.parsed(path, str, longest=longest)

    def number(self, path: str) -> int | None:
        """Return the decimal number that a file holds."""
        return self.parsed(path, _number)

    def flag(self, path: str) -> bool | None:
        """Return whether a file holds 1 rather than 0."""
        return self.parsed(path, _flag)

    def cpus(self, path: str) -> CPUSet | None:
        """Return the CPU list that a file holds."""
        return self.parsed(path, CPUSet.parse)

    def numbered(self, path: str, prefix: str) -> list[int]:
        """Return N of every entry ``<prefix>N`` of a directory, ascending; none if it does not exist."""
        name = re.compile(re.escape(prefix) + "([0-9]{1,9})")
        return sorted(int(match[1]) for entry in self.entries(path) if (match := name.fullmatch(entry)))

    def entries(self, path: str) -> list[str]:
        """Return the names in a directory; none if it does not exist."""
        where = self._root / path
        try:
            return sorted(entry.name for entry in where.iterdir())
        except OSError as error:
            self._note(reading_error(str(where), error))
            return []

    def directories(self, path: str) -> list[str]:
        """Return the names of the directories in a directory; none if it does not exist."""
        where = self._root / path
        return [entry for entry in self.entries(path) if (where / entry).is_dir()]

    def content(self, path: str, *, longest: int = LONGEST_READ) -> bytes | None:
        """Return a file's first ``longest`` bytes as they are."""
        try:
            return _read(f"{self._root}/{path}", longest)
        except OSError as error:
            self._note(reading_error(str(self._root / path), error))
            return None

    def failed(self, path: str) -> bool:
        """Say whether a problem with this file was noted."""
        return any(problem.path == str(self._root / path) for problem in self.problems)

    def parsed(self, path: str, parse: Callable[[str], T], *, longest: int = LONGEST_READ) -> T | None:
        """Return a file's content as ``parse`` reads it; its ValueError means that the content is wrong."""
        content = self.content(path, longest=longest)
        if content is None:
            return None
        try:
            return parse(content.decode(errors="replace").strip())
        except CPUSetError as error:
            message = f"not a CPU list: {error}"
        except ValueError as error:
            message = str(error)
        self._note(Malformed(str(self._root / path), message))
        return None

    def _note(self, error: KernelError) -> None:
        if not isinstance(error, Missing | Busy) and not any(error.path == e.path for e in self.problems):
            self.problems.append(error)


def _read(path: str, longest: int) -> bytes:
    """Return a file's first bytes; with file objects of Python it took four times as long."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        content = b""
        while len(content) < longest and (more := os.read(descriptor, min(_CHUNK, longest - len(content)))):
            content += more
        return content
    finally:
        os.close(descriptor)


def _number(text: str) -> int:
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"{text[:_SHOWN]!r} is not a number")
    return int(text)


def _flag(text: str) -> bool:
    if text not in {"0", "1"}:
        raise ValueError(f"{text[:_SHOWN]!r} is neither 0 nor 1")
    return text == "1"


def read_boot_id(root: str | Path = "/") -> str:
    """Return the ID of this boot, as kubelet reports it, or "" if it cannot be read: random(4)."""
    return HostFiles(root).text(BOOT_ID) or ""
