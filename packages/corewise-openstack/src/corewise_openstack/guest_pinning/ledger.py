"""The NUMA nodes of a host that runs guests, and which guest holds which CPUs and how much memory of each.

A ledger is a value. ``pin`` and ``unpin`` return another one, completely or not at all: a guest whose CPUs
are not all dedicated and free is refused. Guests that already run are facts, which cannot be refused:
``found`` takes them as they are, and ``conflicts`` has the CPUs that are held twice. So a ledger that is
folded again from a host's reports is the same ledger.

Each set of CPUs has a mask beside it (bit n is CPU n) for the choice of CPUs: the dedicated and free threads
of a core are one ``and``, their number one count of bits. The kernel does not say which core an offline CPU
belongs to, so a dedicated CPU that is offline (power management turns CPUs off) counts as a core of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property
from types import MappingProxyType

import msgspec

from corewise.pinning.ledger import ClaimConflict
from corewise.topology import CPUSet, Host
from corewise.vocabulary.findings import Finding
from corewise.vocabulary.reasons import Reason

_MIB = 1 << 20
_NO_CPUS = CPUSet()


def mask_of(cpus: Iterable[int]) -> int:
    """Return the mask of some CPUs."""
    mask = 0
    for cpu in cpus:
        mask |= 1 << cpu
    return mask


def cpus_of(mask: int) -> list[int]:
    """Return the CPUs of a mask in ascending order."""
    cpus = []
    while mask:
        lowest = mask & -mask
        cpus.append(lowest.bit_length() - 1)
        mask ^= lowest
    return cpus


@dataclass(frozen=True)
class HostCell:
    """One NUMA node of a host.

    ``cores``: its CPUs core by core (a core's siblings). ``dedicated`` and ``shared`` are disjoint, except on
    legacy hosts, where nothing says which is which. ``ratio``: how many guest CPUs may float over each shared
    CPU. ``memory_mb`` is None if unknown.
    """

    number: int
    cores: tuple[CPUSet, ...]
    dedicated: CPUSet = _NO_CPUS
    shared: CPUSet = _NO_CPUS
    memory_mb: int | None = None
    ratio: Decimal = Decimal(1)

    @cached_property
    def dedicated_mask(self) -> int:
        return mask_of(self.dedicated.cpus)

    @cached_property
    def core_masks(self) -> tuple[int, ...]:
        """The dedicated threads of each core that has one, cores and threads in ascending order."""
        masks = (mask_of(core.cpus) & self.dedicated_mask for core in self.cores)
        return tuple(sorted(filter(None, masks), key=lambda mask: mask & -mask))

    @cached_property
    def most_threads(self) -> int:
        """The number of dedicated threads on the largest core."""
        return max((mask.bit_count() for mask in self.core_masks), default=0)

    @cached_property
    def shared_only(self) -> CPUSet:
        """The CPUs that a guest with dedicated CPUs may share: on a legacy host there are none."""
        return self.shared - self.dedicated


def host_cells(
    host: Host, dedicated: CPUSet, shared: CPUSet, ratio: Decimal = Decimal(1)
) -> tuple[HostCell, ...]:
    """Return the NUMA nodes of a machine in ascending order. Dedicated CPUs may be offline, others not."""
    cells = []
    for number, online in host.numa_nodes.items():
        offline = host.offline_of(number) & dedicated
        cores = [core & online for core in host.topology.cores.values() if not core.isdisjoint(online)]
        cores += [CPUSet.of((cpu,)) for cpu in offline]
        cells.append(
            HostCell(
                number=number,
                cores=tuple(cores),
                dedicated=dedicated & (online | offline),
                shared=shared & online,
                memory_mb=_memory_mb(host, number),
                ratio=ratio,
            )
        )
    return tuple(cells)


def _memory_mb(host: Host, number: int) -> int | None:
    memory = host.memory.get(number)
    if memory is not None:
        return memory.usable // _MIB
    if len(host.numa_nodes) == 1 and host.memory_total is not None:
        return host.memory_total // _MIB
    return None


class CellPins(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One NUMA node of a guest: the host's node, and guest CPU -> host CPU of those that are dedicated.

    ``floating``: its guest CPUs that float over the shared CPUs of the host's node.
    """

    node: int
    pins: Mapping[int, int] = {}
    memory_mb: int = 0
    floating: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class GuestPins:
    """The CPUs of a guest on its host. Without ``cells`` it floats over all shared CPUs.

    ``cells`` are in the order of the guest's NUMA nodes. ``emulator``: the CPU of its own that the emulator's
    threads run on. ``withheld``: threads beside its own that no other guest may get.
    """

    cells: tuple[CellPins, ...] = ()
    emulator: int | None = None
    withheld: CPUSet = _NO_CPUS

    @property
    def cpus(self) -> CPUSet:
        """The host CPUs of its dedicated guest CPUs."""
        return CPUSet.of(cpu for cell in self.cells for cpu in cell.pins.values())

    @property
    def held_mask(self) -> int:
        """All CPUs that no other guest may get, as a mask."""
        mask = mask_of(self.withheld.cpus)
        for cell in self.cells:
            for cpu in cell.pins.values():
                mask |= 1 << cpu
        return mask if self.emulator is None else mask | 1 << self.emulator

    @property
    def held(self) -> CPUSet:
        """All CPUs that no other guest may get."""
        return CPUSet.of(cpus_of(self.held_mask))

    @property
    def is_consistent(self) -> bool:
        """Whether it names no CPU twice."""
        named = [cpu for cell in self.cells for cpu in cell.pins.values()]
        named += [*self.withheld.cpus, *([] if self.emulator is None else [self.emulator])]
        return len(set(named)) == len(named)


@dataclass(frozen=True)
class GuestLedger:
    """The host's NUMA nodes, and the guests on them.

    ``hyper_threading``: a core of the host has more than one thread online. ``legacy``: nothing says which
    CPUs are dedicated. ``guests`` maps a guest's uuid to where it lies, in the order they came.
    """

    cells: tuple[HostCell, ...]
    hyper_threading: bool
    legacy: bool = False
    guests: Mapping[str, GuestPins] = field(default_factory=lambda: MappingProxyType({}))

    def pin(self, guest: str, pins: GuestPins) -> GuestLedger | Finding:
        """Return the ledger with one more guest, or why that is refused."""
        if guest in self.guests:
            return Finding(Reason.GUEST_ALREADY_PINNED, f"guest {guest} is on the host already")
        wanted = pins.held_mask
        if wanted & self.taken or not pins.is_consistent:
            return self._taken_refusal(guest, pins)
        if wanted & ~self.dedicated_mask:
            unknown = CPUSet.of(cpus_of(wanted & ~self.dedicated_mask))
            return Finding(Reason.CPUS_UNKNOWN, f"CPUs {unknown} are not dedicated CPUs of the host")
        return self._with(guest, pins, self.taken | wanted)

    def unpin(self, guest: str) -> GuestLedger:
        """Return the ledger without a guest; itself if it has no such guest."""
        if guest not in self.guests:
            return self
        others = {name: pins for name, pins in self.guests.items() if name != guest}
        return replace(self, guests=MappingProxyType(others))

    def found(self, guest: str, pins: GuestPins) -> GuestLedger:
        """Return the ledger with a guest that already runs on the host, even if its CPUs are not free."""
        return self._with(guest, pins, self.taken | pins.held_mask)

    @cached_property
    def taken(self) -> int:
        """The CPUs that guests hold, as a mask."""
        mask = 0
        for pins in self.guests.values():
            mask |= pins.held_mask
        return mask

    @cached_property
    def dedicated_mask(self) -> int:
        """The dedicated CPUs of the host, as a mask."""
        mask = 0
        for cell in self.cells:
            mask |= cell.dedicated_mask
        return mask

    @cached_property
    def floating(self) -> Mapping[int, int]:
        """The number of CPUs of guests with NUMA nodes that float over each NUMA node of the host."""
        floating = dict.fromkeys((cell.number for cell in self.cells), 0)
        for pins in self.guests.values():
            for cell in pins.cells:
                floating[cell.node] = floating.get(cell.node, 0) + len(cell.floating)
        return MappingProxyType(floating)

    @cached_property
    def memory_used(self) -> Mapping[int, int]:
        """MiB that guests hold of each NUMA node."""
        used = dict.fromkeys((cell.number for cell in self.cells), 0)
        for pins in self.guests.values():
            for cell in pins.cells:
                used[cell.node] = used.get(cell.node, 0) + cell.memory_mb
        return MappingProxyType(used)

    @property
    def free(self) -> CPUSet:
        """The dedicated CPUs that no guest holds."""
        return CPUSet.of(cpus_of(self.dedicated_mask & ~self.taken))

    @cached_property
    def holder(self) -> Mapping[int, str]:
        """The first guest that holds each CPU."""
        holders: dict[int, str] = {}
        for guest, pins in self.guests.items():
            for cpu in cpus_of(pins.held_mask):
                holders.setdefault(cpu, guest)
        return MappingProxyType(holders)

    @cached_property
    def conflicts(self) -> tuple[ClaimConflict, ...]:
        """CPUs that several guests claim: each later guest, and the first that holds them."""
        found = []
        for guest, pins in self.guests.items():
            rivals: dict[str, set[int]] = {}
            for cpu in cpus_of(pins.held_mask):
                if self.holder[cpu] != guest:
                    rivals.setdefault(self.holder[cpu], set()).add(cpu)
            found += [ClaimConflict(guest, CPUSet.of(cpus), rival) for rival, cpus in rivals.items()]
        return tuple(found)

    def _with(self, guest: str, pins: GuestPins, taken: int) -> GuestLedger:
        after = replace(self, guests=MappingProxyType({**self.guests, guest: pins}))
        after.__dict__["taken"] = taken
        after.__dict__["dedicated_mask"] = self.dedicated_mask
        return after

    def _taken_refusal(self, guest: str, pins: GuestPins) -> Finding:
        twice = CPUSet.of(cpus_of(pins.held_mask & self.taken))
        if not twice:
            return Finding(Reason.CPUS_TAKEN, f"guest {guest} names a CPU twice")
        holders = sorted({self.holder[cpu] for cpu in twice})
        return Finding(Reason.CPUS_TAKEN, f"CPUs {twice} are held by {', '.join(holders)}")
