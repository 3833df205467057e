"""What each CPU of a host is used for, and by whom."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from corewise.compute.hosts import ComputeHost
from corewise.topology import CPUSet


class Use(StrEnum):
    """How a CPU is used."""

    FREE = "dedicated, free"
    SHARED = "shared"
    BOTH = "shared, may be pinned"
    HOST = "host"
    PINNED = "pinned"
    EMULATOR = "emulator threads"
    WITHHELD = "kept empty"


@dataclass(frozen=True, slots=True)
class CPUUse:
    """One CPU; ``guest_cpu`` is the guest's CPU that runs there alone."""

    cpu: int
    node: int | None
    use: Use
    guest: str = ""
    guest_cpu: int | None = None


def cpu_uses(host: ComputeHost) -> Iterator[CPUUse]:
    """Yield what every CPU is used for, online or dedicated, ascending. Of rivals the first guest counts."""
    node_of = {thread.cpu: thread.numa_node for thread in host.machine.topology.threads}
    held = dict(_held(host))
    every = host.machine.topology.cpus | host.settings.dedicated | CPUSet.of(held)
    for cpu in every:
        node = node_of.get(cpu, host.machine.offline.get(cpu))
        use, guest, guest_cpu = held.get(cpu) or (_idle(cpu, host), "", None)
        yield CPUUse(cpu, node, use, guest, guest_cpu)


def _held(host: ComputeHost) -> Iterator[tuple[int, tuple[Use, str, int | None]]]:
    """Yield what guests hold, later guests first: the first is to have the last word."""
    for uuid, guest in reversed(list(host.guests().items())):
        pins = guest.pins
        for cpu in pins.withheld:
            yield cpu, (Use.WITHHELD, uuid, None)
        if pins.emulator is not None:
            yield pins.emulator, (Use.EMULATOR, uuid, None)
        for cell in pins.cells:
            for own, cpu in cell.pins.items():
                yield cpu, (Use.PINNED, uuid, own)


def _idle(cpu: int, host: ComputeHost) -> Use:
    """Return what a CPU is for that no guest holds; on a legacy host the same may be shared and pinned."""
    settings = host.settings
    if cpu in settings.pinnable:
        return Use.BOTH if cpu in settings.shared else Use.FREE
    return Use.SHARED if cpu in settings.shared else Use.HOST
