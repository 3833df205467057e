"""What the kernel's scheduler lets root change by debugfs: its features, and files such as the slice.

All are of the whole machine, so an experiment puts them back. Kernels differ in what they have: 6.6 replaced
the scheduler, and with it the names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
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

_CHOSEN = re.compile(r"\((\w+)\)")
"""A file of choices shows them all, and the one that holds in brackets."""


def has(settings: Sequence[str], directory: Path = DIRECTORY) -> bool:
    """Return whether this kernel has all that settings name, whatever its value.

    Raises:
        SystemExit: without debugfs.
    """
    known = {each.removeprefix(_OFF) for each in _read(directory).split()}
    return all(
        (directory / each.partition("=")[0]).exists() if "=" in each else each.removeprefix(_OFF) in known
        for each in settings
    )


@contextmanager
def changed(settings: Sequence[str], directory: Path = DIRECTORY) -> Iterator[None]:
    """Change settings, and put them back at the end.

    A setting is a feature, with ``NO_`` to off, or a file and its content: ``base_slice_ns=700000``.

    Raises:
        SystemExit: without debugfs, or if the kernel refuses a setting.
    """
    with ExitStack() as stack:
        for each in settings:
            name, is_file, value = each.partition("=")
            before = _value(directory, name) if is_file else _feature(directory, each)
            stack.callback(_write, directory, name if is_file else _FEATURES, before)
            _write(directory, name if is_file else _FEATURES, value if is_file else each)
        yield


def multiply_slices(factor: int, directory: Path = DIRECTORY) -> dict[str, int]:
    """Multiply the scheduler's times, and return them; the kernel multiplies its own for up to 8 CPUs."""
    times = {}
    for name in _TIMES:
        file = directory / name
        if file.exists():
            times[name] = int(file.read_text()) * factor
            file.write_text(str(times[name]))
    return times


_FEATURES = "features"


def _feature(directory: Path, wanted: str) -> str:
    """Return a feature as it is: with ``NO_`` if it is off."""
    name = wanted.removeprefix(_OFF)
    return _OFF + name if _OFF + name in _read(directory).split() else name


def _value(directory: Path, name: str) -> str:
    text = _read(directory, name)
    chosen = _CHOSEN.search(text)
    return chosen[1] if chosen else text.strip()


def _read(directory: Path, name: str = _FEATURES) -> str:
    try:
        return (directory / name).read_text()
    except OSError as error:
        fix = f"mount -t debugfs debugfs {directory.parent}"
        raise SystemExit(f"the scheduler's {name} cannot be read ({error}); as root: {fix}") from error


def _write(directory: Path, name: str, value: str) -> None:
    try:
        (directory / name).write_text(value)
    except OSError as error:
        raise SystemExit(f"this kernel refuses {value} as the scheduler's {name}: {error}") from error
