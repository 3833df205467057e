"""The helper in C, ``chase.c``, which ``hatch_build.py`` compiles where the package is built.

Where there was no compiler, or the processor is neither x86-64 nor arm64, there is no library beside this
file, and nothing else is missing.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

from corewise.kernel.absence import Absent
from corewise.vocabulary.reasons import Reason

LIBRARY = Path(__file__).with_name("chase.so")


class Chase:
    """The compiled helper. ``lines``: how many reads a round is."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._chase = library.corewise_chase
        self._chase.argtypes = (ctypes.c_uint32, ctypes.POINTER(ctypes.c_uint64))
        self._chase.restype = ctypes.c_int
        library.corewise_chase_lines.restype = ctypes.c_uint32
        self.lines = int(library.corewise_chase_lines())

    def run(self, rounds: int) -> list[int]:
        """Return the nanoseconds of each round, on the CPU that this thread runs on. Other threads go on.

        Raises:
            OSError: if there is no memory for it.
        """
        times = (ctypes.c_uint64 * rounds)()
        code = self._chase(rounds, times)
        if code:
            raise OSError(code, os.strerror(code))
        return list(times)


def load_chase(path: Path = LIBRARY) -> Chase | Absent:
    """Load the helper, if it was built for this machine."""
    if not path.exists():
        return Absent(Reason.LATENCY_PROBE_NOT_BUILT, f"there is no {path.name} beside the package's modules")
    try:
        return Chase(ctypes.CDLL(str(path)))
    except (OSError, AttributeError) as error:
        return Absent(Reason.LATENCY_PROBE_NOT_BUILT, f"{path.name} is not for this machine: {error}")
