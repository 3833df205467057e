"""The NUMA nodes of a host that runs guests: its dedicated and shared CPUs, core by core, and its memory.

Sets of CPUs stand beside their masks (bit n is CPU n), which the choice of CPUs computes with: of a core the
threads that are dedicated and free are one ``and``, how many they are one count of bits.

The kernel does not tell which core an offline CPU belongs to, so a dedicated one that is offline (CPUs that
power management has turned off) counts as a core of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from corewise.topology import CPUSet, Host

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
    legacy hosts, where nothing says which is which. ``memory_mb`` is None where the kernel does not tell.
    """

    number: int
    cores: tuple[CPUSet, ...]
    dedicated: CPUSet = _NO_CPUS
    shared: CPUSet = _NO_CPUS
    memory_mb: int | None = None

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
        """How many dedicated threads the largest core has."""
        return max((mask.bit_count() for mask in self.core_masks), default=0)

    @cached_property
    def shared_only(self) -> CPUSet:
        """The CPUs that a guest with dedicated CPUs may share: on a legacy host there are none."""
        return self.shared - self.dedicated


def host_cells(host: Host, dedicated: CPUSet, shared: CPUSet) -> tuple[HostCell, ...]:
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
