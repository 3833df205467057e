"""Where a guest's domain may run: its pinned CPUs on their own host CPUs, the others on those they share."""

from __future__ import annotations

from corewise.compute.hosts import ComputeHost
from corewise.openstack.libvirt.tuning import CPUTuning
from corewise.pinning import GuestPins
from corewise.policy.guests import EmulatorThreads, GuestCPUs
from corewise.topology import CPUSet


def tuning_of(guest: GuestCPUs, pins: GuestPins, host: ComputeHost) -> CPUTuning:
    """Return the tuning of a guest on a host.

    CPUs that float within a NUMA node of the guest share the shared CPUs of its host node. Emulator threads
    run on a CPU of their own, or on the host's set for them, or where the guest's own CPUs are.
    """
    shared = host.settings.shared
    vcpus = dict.fromkeys(range(guest.vcpus), shared)
    for node, cell in zip(guest.nodes, pins.cells, strict=True):
        near = shared & host.machine.numa_nodes[cell.number]
        vcpus |= dict.fromkeys(node.cpus, near)
        vcpus |= {own: CPUSet.of((cpu,)) for own, cpu in cell.pins.items()}
    cells = {index: cell.number for index, cell in enumerate(pins.cells)}
    return CPUTuning(vcpus, _emulator(guest, pins, host), cells)


def _emulator(guest: GuestCPUs, pins: GuestPins, host: ComputeHost) -> CPUSet:
    if pins.emulator is not None:
        return CPUSet.of((pins.emulator,))
    if guest.emulator is EmulatorThreads.SHARE and host.settings.emulator:
        return host.settings.emulator
    return pins.cpus or host.settings.shared
