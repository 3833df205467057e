"""Everything that can go wrong between a program and the kernel's files, each with path and errno.

::

    KernelError                 path, code (errno or 0), message, hint
    ├── UnsafeName              a pod UID, container ID or path that could lead out of the cgroup root
    ├── LayoutUnknown           no cpu controller, or no kubepods below the cgroup root (yet)
    ├── Missing                 ENOENT: never there, or gone
    │   └── Vanished            ENODEV: removed while it was open
    ├── Unreadable              EACCES, EIO and whatever else the kernel says
    ├── ReadOnly                EROFS, and EACCES or EPERM when opened for a write
    ├── Busy                    EBUSY, EAGAIN: the same may succeed later
    ├── Refused                 EINVAL and ERANGE: the kernel's rules forbid the value, here and now; and
    │                           EACCES and ENOSPC of a write to a file that could be opened (cpuset on v1)
    ├── Malformed               a content that is not what the kernel writes there
    └── JournalError            the journal cannot be used
        └── JournalHeld         another process holds it
"""
# ruff: noqa: N818 - these errors are named after what happened

from __future__ import annotations

import errno
import os

from corewise.vocabulary.errors import OperationalError
from corewise.vocabulary.exit_codes import ExitCode


class KernelError(OperationalError):
    """Base of all errors of this package; the message names path and errno."""

    exit_code = ExitCode.REFUSED

    def __init__(self, path: str, message: str, *, code: int = 0, hint: str = "") -> None:
        super().__init__(f"{path}: {message}", hint=hint)
        self.path = path
        self.code = code


class UnsafeName(KernelError):
    """A name that could lead out of the cgroup root; nothing was opened."""


class LayoutUnknown(KernelError):
    """The cgroups of kubelet were not found."""

    exit_code = ExitCode.BAD_INPUT
    default_hint = "check that kubelet runs here, and that --cgroup-root is the one it was started with"


class Missing(KernelError):
    """The cgroup or file does not exist."""


class Vanished(Missing):
    """The cgroup was removed while it was in use: its pod or container has ended."""


class Unreadable(KernelError):
    """The kernel did not let the file be read or written."""


class ReadOnly(KernelError):
    """The file cannot be written."""

    default_hint = "mount cgroupfs read-write into the agent's container, and run it as root"


class Busy(KernelError):
    """Not now; the same may succeed later."""


class ValueRefused(KernelError):
    """The value breaks one of the kernel's rules: a quota below 1000 us, more than the parent has."""


class Malformed(KernelError):
    """The content is not what the kernel writes there."""


class JournalError(KernelError):
    """The journal of writes cannot be used, so nothing may be written."""

    default_hint = "the journal's directory must be writable; see --state-dir"


class JournalHeld(JournalError):
    """Another process writes this journal."""

    default_hint = "stop the other agent first: one journal has one writer"


_READING: dict[int, type[KernelError]] = {
    errno.ENOENT: Missing,
    errno.ENODEV: Vanished,
    errno.ENOTDIR: UnsafeName,
    errno.ELOOP: UnsafeName,
    errno.EBUSY: Busy,
    errno.EAGAIN: Busy,
}
_WRITING: dict[int, type[KernelError]] = {
    **_READING,
    errno.EROFS: ReadOnly,
    errno.EACCES: ReadOnly,
    errno.EPERM: ReadOnly,
    errno.EINVAL: ValueRefused,
    errno.ERANGE: ValueRefused,
}
_TAKING: dict[int, type[KernelError]] = {**_WRITING, errno.EACCES: ValueRefused, errno.ENOSPC: ValueRefused}


def reading_error(path: str, error: OSError) -> KernelError:
    """Return the error that a failed open or read means."""
    return _error(_READING, path, error, "read")


def writing_error(path: str, error: OSError, *, value: str, opened: bool = False) -> KernelError:
    """Return the error that a failed write of ``value`` means; ``opened`` if not the open failed."""
    return _error(_TAKING if opened else _WRITING, path, error, f"write {value!r}")


def _error(kinds: dict[int, type[KernelError]], path: str, error: OSError, attempt: str) -> KernelError:
    code = error.errno or 0
    name = errno.errorcode.get(code, str(code))
    return kinds.get(code, Unreadable)(path, f"cannot {attempt}: {name} ({os.strerror(code)})", code=code)
