"""What a ledger keeps of each guest of a host.

A guest that shares CPUs has no pins. ``withheld`` are threads beside its own that nobody else may get;
``emulator`` is the CPU of its emulator threads, if it has one of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeAlias

import msgspec

from corewise.topology import CPUSet


class GuestState(StrEnum):
    """``claiming``: its CPUs are chosen, and Placement has been or is about to be asked for them."""

    CLAIMING = "claiming"
    HELD = "held"


class CellRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One NUMA node of a guest: where it lies, and the host CPU of each guest CPU that is pinned."""

    node: int
    pins: Mapping[int, int] = {}
    memory_mb: int = 0


class GuestRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One guest. ``resources`` is what it holds of the host's provider."""

    state: GuestState
    resources: Mapping[str, int]
    vcpus: int
    flavor: str = ""
    cpu_policy: str = "shared"
    thread_policy: str = ""
    cells: tuple[CellRecord, ...] = ()
    emulator: int | None = None
    withheld: tuple[int, ...] = ()

    @property
    def pinned(self) -> CPUSet:
        """The host CPUs that its own CPUs and its emulator threads run on alone."""
        own = {cpu for cell in self.cells for cpu in cell.pins.values()}
        return CPUSet.of(own if self.emulator is None else {*own, self.emulator})

    @property
    def held(self) -> CPUSet:
        """All host CPUs that nobody else may get."""
        return self.pinned | CPUSet.of(self.withheld)


Guests: TypeAlias = Mapping[str, GuestRecord]
"""Guest's UUID -> its record, in the order in which they came."""


class HostRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All guests of one host."""

    name: str
    guests: Mapping[str, GuestRecord] = {}
