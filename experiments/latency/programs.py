"""The programs in C: how they are compiled and calibrated, and the file they share with the experiment."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

_SOURCES = Path(__file__).parent
_HEADER = np.dtype([*((name, "<u4") for name in ("count", "taken", "ready", "generator")), ("start", "<u8")])
_CALIBRATION_SECONDS = 0.5
REQUEST = np.dtype([(name, "<u8") for name in ("due", "begun", "done")])
"""One request in the shared file; all times in nanoseconds."""

Times = npt.NDArray[np.void]
"""An array of :data:`REQUEST`."""


@dataclass(frozen=True, slots=True)
class Programs:
    """The compiled programs."""

    service: Path
    antagonist: Path


def build(directory: Path, *options: str) -> Programs:
    """Compile both programs, with more options of the compiler.

    Raises:
        SystemExit: without a C compiler, or if it refuses the sources.
    """
    built = {name: directory / name for name in ("service", "antagonist")}
    for name, path in built.items():
        command = ["cc", "-O2", "-pthread", *options, "-o", str(path), str(_SOURCES / f"{name}.c")]
        try:
            subprocess.run(command, check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            message = f"{name}.c cannot be compiled ({error}); the command was: {' '.join(command)}"
            raise SystemExit(message) from error
    return Programs(**built)


def calibrate(programs: Programs, work: str) -> float:
    """Return the nanoseconds of CPU time that one round of a kind of work takes alone."""
    command = [str(programs.service), "calibrate", work, str(_CALIBRATION_SECONDS)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def arrivals(seed: int, seconds: float, rate: float) -> npt.NDArray[np.uint64]:
    """Return due times in nanoseconds: Poisson, ``rate`` a second on average, and one at the very end."""
    rng = np.random.default_rng(seed)
    gaps = rng.exponential(1e9 / rate, size=int(seconds * rate * 1.5) + 50)
    due = np.cumsum(gaps)
    return np.append(due[due < seconds * 1e9], seconds * 1e9).astype(np.uint64)


def square_wave(
    seed: int, seconds: float, rates: tuple[float, float], turn: float, begins: float
) -> npt.NDArray[np.uint64]:
    """Return due times as :func:`arrivals` does, at the lower and the higher rate by turns.

    A turn takes ``turn`` seconds; the first is of the lower rate, and ends so long after ``begins``.
    """
    low, high = rates
    due = arrivals(seed, seconds, high)
    number = np.maximum(0, (due / 1e9 - begins) // turn)
    kept: npt.NDArray[np.bool_] = (number % 2 == 1) | (
        np.random.default_rng([seed, 1]).random(len(due)) < low / high
    )
    kept[-1] = True
    shaped: npt.NDArray[np.uint64] = due[kept]
    return shaped


def write_requests(path: Path, due: npt.NDArray[np.uint64]) -> None:
    """Write the shared file: no request has been sent."""
    times = np.zeros(len(due), REQUEST)
    times["due"] = due
    path.write_bytes(np.array((len(due), 0, 0, 0, 0), _HEADER).tobytes() + times.tobytes())


def write_start(path: Path, start: int) -> None:
    """Let the generator begin at a time of CLOCK_MONOTONIC in nanoseconds."""
    with path.open("r+b") as file:
        file.seek(_HEADER.itemsize - 8)
        file.write(np.uint64(start).tobytes())


def read_requests(path: Path) -> Times:
    """Return the records of all requests."""
    return np.frombuffer(path.read_bytes(), REQUEST, offset=_HEADER.itemsize)


def read_header(path: Path) -> tuple[int, int]:
    """Return the number of threads that are ready, and the generator's process id."""
    with path.open("rb") as file:
        header = np.frombuffer(file.read(_HEADER.itemsize), _HEADER)[0]
    return int(header["ready"]), int(header["generator"])
