"""The data: one line for each run, on one machine, and the file they stand in."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal

import msgspec

from corewise.normalization.mix import VERSION

_FORMAT: Literal["corewise.io/accuracy/v1"] = "corewise.io/accuracy/v1"


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """The CPU of a run. Family, number and stepping tell models apart whose names a hypervisor hides."""

    model: str
    vendor: str = ""
    family: int = 0
    number: int = 0
    stepping: int = 0
    microcode: str = ""
    hypervisor: bool = False
    hyper_threading: bool = False
    turbo: bool = False
    cpus: int
    kernel: str = ""

    @property
    def name(self) -> str:
        """The CPU model with its settings: what two machines have in common whose CPUs count as the same."""
        numbers = (
            f" (family {self.family}, model {self.number}, stepping {self.stepping})" if self.family else ""
        )
        settings = ", ".join([*["HT"] * self.hyper_threading, *["turbo"] * self.turbo])
        return f"{self.model}{numbers}" + (f", {settings} on" if settings else "")


class Series(msgspec.Struct, frozen=True):
    """One program: its version, and passes of one CPU in 1000 seconds, by repetition."""

    version: str
    rates: tuple[int, ...]


class MeasuredRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run with all CPUs busy. ``skipped`` says why a program was not measured.

    ``disturbed`` counts samples that were taken again, since the workers had lost CPU time.
    """

    format: Literal["corewise.io/accuracy/v1"] = _FORMAT
    mix: int = VERSION
    taken: str
    machine: Machine
    python: str
    zlib: str
    seconds: float
    kernels: Mapping[str, tuple[int, ...]]
    programs: Mapping[str, Series]
    skipped: Mapping[str, str] = {}
    disturbed: int = 0


def read_runs(paths: Iterable[Path]) -> list[MeasuredRun]:
    """Return the runs in files, one a line.

    Raises:
        SystemExit: if one cannot be read.
    """
    found: list[MeasuredRun] = []
    for path in paths:
        try:
            found += [msgspec.json.decode(line, type=MeasuredRun) for line in path.read_bytes().splitlines()]
        except (OSError, ValueError) as error:
            raise SystemExit(f"{path} cannot be read as runs: {error}") from error
    return found


def add_run(path: Path, run: MeasuredRun) -> None:
    """Append a run to a file."""
    with path.open("ab") as file:
        file.write(msgspec.json.encode(run) + b"\n")


def cpu_numbers(cpuinfo: str) -> Mapping[str, str]:
    """Return the fields of the first CPU of /proc/cpuinfo."""
    first = cpuinfo.split("\n\n", 1)[0]
    return dict(re.findall(r"^([^\t:]+?)\s*: ?(.*)$", first, re.MULTILINE))


def number_in(fields: Mapping[str, str], name: str) -> int:
    """Return a field as a number; 0 where it is absent, as on Arm."""
    text = fields.get(name, "")
    return int(text) if text.isdecimal() else 0
