"""What the kernel's scheduler lets root change by debugfs: its features, and how long a thread may run.

The files are of the whole machine, so an experiment puts features back. Kernels differ in what they have: 6.6
replaced the scheduler, and with it the names.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

DIRECTORY = Path("/sys/kernel/debug/sched")
_OFF = "NO_"
_TIMES = (
    "base_slice_ns",
    "latency_ns",
    "min_granularity_ns",
    "idle_min_granularity_ns",
    "wakeup_granularity_ns",
)
"""The first is of Linux 6.6 and later, the others of kernels before that."""


def has(features: Sequence[str], directory: Path = DIRECTORY) -> bool:
    """Return whether this kernel has features of these names, on or off.

    Raises:
        SystemExit: without debugfs.
    """
    known = {each.removeprefix(_OFF) for each in _read(directory).split()}
    return known >= {each.removeprefix(_OFF) for each in features}


@contextmanager
def changed(features: Sequence[str], directory: Path = DIRECTORY) -> Iterator[None]:
    """Set features, those with ``NO_`` to off, and put them back at the end.

    Raises:
        SystemExit: without debugfs, or if the kernel has no feature of that name.
    """
    before = set(_read(directory).split()) if features else set()
    try:
        for each in features:
            _write(directory, each)
        yield
    finally:
        for each in features:
            opposite = each.removeprefix(_OFF) if each.startswith(_OFF) else _OFF + each
            if opposite in before:
                _write(directory, opposite)


def multiply_slices(factor: int, directory: Path = DIRECTORY) -> dict[str, int]:
    """Multiply the scheduler's times, and return them; the kernel multiplies its own for up to 8 CPUs."""
    times = {}
    for name in _TIMES:
        file = directory / name
        if file.exists():
            times[name] = int(file.read_text()) * factor
            file.write_text(str(times[name]))
    return times


def _read(directory: Path) -> str:
    try:
        return (directory / "features").read_text()
    except OSError as error:
        fix = f"mount -t debugfs debugfs {directory.parent}"
        raise SystemExit(f"scheduler features cannot be read ({error}); as root: {fix}") from error


def _write(directory: Path, feature: str) -> None:
    try:
        (directory / "features").write_text(feature)
    except OSError as error:
        raise SystemExit(f"this kernel refuses the scheduler feature {feature}: {error}") from error
