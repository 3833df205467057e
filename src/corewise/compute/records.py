"""What a ledger keeps of each guest of a host.

A guest that shares all its CPUs has no pins. ``withheld`` are threads beside its own that nobody else may
get; ``emulator`` is the CPU of its emulator threads, if it has one of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeAlias

import msgspec

from corewise.pinning import CellPins, GuestPins
from corewise.policy.guests import CPUPolicy, GuestCPUs, ThreadPolicy
from corewise.topology import CPUSet
from corewise.tracking import HostedGuest


class GuestState(StrEnum):
    """``claiming``: its CPUs are chosen, and Placement has been or is about to be asked for them."""

    CLAIMING = "claiming"
    HELD = "held"


class CellRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One NUMA node of a guest: the host's node, and the host CPU of each guest CPU that is pinned."""

    node: int
    pins: Mapping[int, int] = {}
    memory_mb: int = 0


class GuestRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One guest. ``resources`` is what it holds of the host's provider, whose uuid is ``provider``."""

    state: GuestState
    resources: Mapping[str, int]
    vcpus: int
    flavor: str = ""
    provider: str = ""
    cpu_policy: CPUPolicy = CPUPolicy.SHARED
    thread_policy: ThreadPolicy | None = None
    cells: tuple[CellRecord, ...] = ()
    emulator: int | None = None
    withheld: tuple[int, ...] = ()

    @property
    def pins(self) -> GuestPins:
        """Where the guest lies."""
        cells = tuple(CellPins(cell.node, cell.pins, cell.memory_mb) for cell in self.cells)
        return GuestPins(cells, self.emulator, CPUSet.of(self.withheld))

    def hosted(self, uuid: str) -> HostedGuest:
        """Return the guest as its host shows it."""
        pins = self.pins
        emulator = CPUSet() if self.emulator is None else CPUSet.of((self.emulator,))
        return HostedGuest(uuid, "", pins.cpus, self.vcpus - len(pins.cpus), emulator, self.thread_policy)


Guests: TypeAlias = Mapping[str, GuestRecord]
"""Guest's UUID -> its record, in the order in which they came."""


class HostRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All guests of one host."""

    name: str
    guests: Mapping[str, GuestRecord] = {}


def record_of(
    guest: GuestCPUs, pins: GuestPins, resources: Mapping[str, int], *, flavor: str, provider: str = ""
) -> GuestRecord:
    """Return what a ledger keeps of a guest that is about to be claimed."""
    return GuestRecord(
        state=GuestState.CLAIMING,
        resources=dict(resources),
        vcpus=guest.vcpus,
        flavor=flavor,
        provider=provider,
        cpu_policy=guest.policy,
        thread_policy=guest.thread_policy,
        cells=tuple(CellRecord(cell.number, dict(cell.pins), cell.memory_mb) for cell in pins.cells),
        emulator=pins.emulator,
        withheld=tuple(pins.withheld),
    )
