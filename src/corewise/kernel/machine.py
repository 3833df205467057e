"""The machine below a root directory, read in one go: its CPU facts, its topology, its memory.

Source: the kernel's Documentation/ABI/testing/sysfs-devices-system-cpu and -node.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from corewise.kernel.cpu_facts import ObservedCPU, read_cpu_facts
from corewise.kernel.cpu_topology import read_arrangement
from corewise.kernel.errors import KernelError
from corewise.kernel.host_files import HostFiles
from corewise.kernel.memory import read_memory_total, read_numa_memory
from corewise.topology import Host


@dataclass(frozen=True, slots=True)
class MachineReading:
    """What a machine is, and what of it could not be read. Two readings are equal if the machine is."""

    cpu: ObservedCPU
    host: Host
    problems: tuple[KernelError, ...] = field(default=(), compare=False)


def read_machine(root: str | Path = "/") -> MachineReading:
    """Read a machine. Nothing below ``root`` makes it raise; a host without CPUs means that nothing is."""
    files = HostFiles(root)
    arrangement = read_arrangement(files)
    host = Host(
        topology=arrangement.topology,
        offline=arrangement.offline,
        memory=read_numa_memory(files),
        memory_total=read_memory_total(files),
        caches=arrangement.caches,
        kinds=arrangement.kinds,
    )
    cpu = read_cpu_facts(files, host.topology)
    return MachineReading(cpu, host, tuple(files.problems))
