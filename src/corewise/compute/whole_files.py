"""Files that are whole at every moment: written beside, synced, and put in the place of the one before."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

MODE = 0o640


def put(path: Path, text: bytes, *, keep: Path | None = None) -> None:
    """Have a file hold this; ``keep`` is the name that its former content goes on under.

    Raises:
        OSError: if it cannot be; the file then holds what it held before.
    """
    following = path.with_name(f"{path.name}.next")
    try:
        _write_synced(following, text)
        if keep is not None and path.exists():
            keep.unlink(missing_ok=True)
            keep.hardlink_to(path)
        following.replace(path)
        _sync_directory(path.parent)
    except OSError:
        with suppress(OSError):
            following.unlink(missing_ok=True)
        raise


def _write_synced(path: Path, text: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, MODE)
    with os.fdopen(descriptor, "wb") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
