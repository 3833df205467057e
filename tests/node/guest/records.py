"""What a guest tells its host: named records, one JSON line each. The guest observes; the host judges."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TypeVar

import msgspec

T = TypeVar("T")
PERIOD = 100_000_000
"""Of the bandwidth, in nanoseconds."""


class Shape(msgspec.Struct, frozen=True):
    """A machine as corewise reads it.

    ``threads`` and ``lscpu`` have CPU, core, socket and NUMA node, as corewise and as that command see them.
    """

    model: str
    vendor: str
    hyper_threading: bool
    turbo: bool
    offline: str
    cores: list[str]
    sockets: dict[int, str]
    caches: dict[int, str]
    numa_nodes: dict[int, str]
    memory: dict[int, int]
    memory_total: int
    problems: list[str]
    threads: list[tuple[int, int, int, int]]
    lscpu: list[tuple[int, int, int, int]]


class Mounted(msgspec.Struct, frozen=True):
    """Which version of cgroups serves the CPU, and where its controllers are mounted."""

    version: str
    hybrid: bool
    mounts: dict[str, str]


class Hybrid(msgspec.Struct, frozen=True):
    """Quotas of a pod and its two containers after each change of ratio, and what the writer counted."""

    quotas: list[list[int]]
    totals: dict[str, int]


class Names(msgspec.Struct, frozen=True):
    """The cgroups of a tree by their roles: as they were made, and as corewise names them."""

    driver: str
    made: dict[str, str]
    named: dict[str, str]


class Quotas(msgspec.Struct, frozen=True):
    """A tree after a call of the writer: the texts of its files by role, and the writer's report."""

    cpu_max: dict[str, str]
    burst: dict[str, int]
    written: int
    refused: int
    failed: dict[str, str]
    gone: list[str]


class Deaths(msgspec.Struct, frozen=True):
    """Where writers were killed, and what ``cpu.max`` of every role was after the next one had its turn."""

    points: list[str]
    outcomes: list[dict[str, str]]


class Settings(msgspec.Struct, frozen=True):
    """Files of a pod and its containers by role and name, and the report of the writer of settings."""

    shown: dict[str, str]
    written: int
    refused: int
    drifted: int
    problems: list[str]


class Pins(msgspec.Struct, frozen=True):
    """Where processes may run, what ``cpuset.cpus`` shows by role, and what the agent's cycle said."""

    allowed: dict[str, str]
    shown: dict[str, str]
    written: int
    problems: list[str]


class Spell(msgspec.Struct, frozen=True):
    """CPU time used in a while, how long that was on the monotonic clock (ns), and what the bandwidth did."""

    used: int
    lasted: int
    periods: int
    throttled: int

    @property
    def cpus(self) -> float:
        """The CPUs used."""
        return self.used / self.lasted

    @property
    def is_full(self) -> bool:
        """Whether the machine gave the quota in every period, and neither it nor its clock stood still."""
        due = self.lasted / PERIOD
        return self.periods - self.throttled <= 1 and abs(self.periods - due) <= max(1.0, 0.02 * due)


class Usage(msgspec.Struct, frozen=True):
    """The CPU use of a busy cgroup in some spells. A busy machine gives less than its quota, never more."""

    spells: list[Spell]

    @property
    def full(self) -> list[float]:
        """The CPUs used in the full spells, from the fewest to the most."""
        return sorted(spell.cpus for spell in self.spells if spell.is_full)

    @property
    def is_steady(self) -> bool:
        """Whether there are three full spells or more, and all of them lie within one percent."""
        return len(self.full) >= 3 and self.full[-1] - self.full[0] <= 0.01 * self.full[-1]


class Program(msgspec.Struct, frozen=True):
    """The end of the agent program and of ``corewise agent restore``: exit codes, and bugs in their log."""

    ended: int
    restored: int
    bugs: int


class _Record(msgspec.Struct, frozen=True):
    name: str
    value: msgspec.Raw
    uptime: float = 0.0


class Report:
    """The records that a guest writes."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def add(self, name: str, value: object) -> None:
        """Write a record; it is in the file when this returns."""
        record = _Record(name, msgspec.Raw(msgspec.json.encode(value)), round(time.monotonic(), 1))
        line = msgspec.json.encode(record)
        with self._path.open("ab") as lines:
            lines.write(line + b"\n")


class Observations:
    """The records that a guest has written, read on its host."""

    def __init__(self, path: Path) -> None:
        lines = path.read_bytes().splitlines()
        records = (msgspec.json.decode(line, type=_Record) for line in lines)
        self._records = {record.name: bytes(record.value) for record in records}

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self._records)

    def get(self, name: str, kind: type[T]) -> T:
        """Return a record."""
        assert name in self._records, f"the guest did not tell {name!r}, only {sorted(self._records)}"
        return msgspec.json.decode(self._records[name], type=kind)
