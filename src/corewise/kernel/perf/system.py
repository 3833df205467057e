"""perf_event_open(2) by ctypes: the C library has no function for it.

The number of the call differs between architectures. Where it is not known here, counting is not supported.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
from typing import Protocol

from corewise.kernel.absence import Absent
from corewise.kernel.perf.event import PerfEvent
from corewise.vocabulary.reasons import Reason

_NUMBERS = {"x86_64": 298, "aarch64": 241, "riscv64": 241, "ppc64le": 319, "s390x": 331}
_EVERY_PROCESS = -1
_CLOSE_ON_EXEC = 8

_NOT_PERMITTED = {errno.EACCES, errno.EPERM}
MISSING = frozenset({errno.ENOENT, errno.ENODEV, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS})
"""Errors that say: not counted here. Another CPU of the machine may count it."""


class Perf(Protocol):
    """The part of the kernel that counts. Every method may raise OSError."""

    def open(self, event: PerfEvent, cpu: int, leader: int = -1) -> int:
        """Count an event on a CPU, for all processes, in the leader's group; return its file descriptor."""

    def read(self, fd: int, size: int) -> bytes:
        """Return the reading of a leader's group."""

    def close(self, fd: int) -> None:
        """Stop counting."""


class KernelPerf:
    """The kernel that this process runs on."""

    def __init__(self) -> None:
        self._call = ctypes.CDLL(None, use_errno=True).syscall
        self._call.restype = ctypes.c_long
        self._number = _NUMBERS.get(platform.machine())

    def open(self, event: PerfEvent, cpu: int, leader: int = -1) -> int:
        if self._number is None:
            raise OSError(errno.ENOSYS, f"perf_event_open is not known on {platform.machine()}")
        attributes = ctypes.create_string_buffer(event.attributes())
        numbers = (_EVERY_PROCESS, cpu, leader, _CLOSE_ON_EXEC)
        fd = int(self._call(ctypes.c_long(self._number), attributes, *map(ctypes.c_long, numbers)))
        if fd < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        return fd

    def read(self, fd: int, size: int) -> bytes:
        return os.read(fd, size)

    def close(self, fd: int) -> None:
        os.close(fd)


def absence(error: OSError, what: str) -> Absent:
    """Return what a failed call says about counting."""
    code = error.errno or 0
    name = errno.errorcode.get(code, str(code))
    if code in _NOT_PERMITTED:
        reason = Reason.PERF_NOT_PERMITTED
    else:
        reason = Reason.PERF_EVENT_MISSING if code in MISSING else Reason.PERF_FAILED
    return Absent(reason, f"perf_event_open of {what}: {name} ({error.strerror})")
