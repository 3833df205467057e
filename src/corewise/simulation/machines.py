"""Simulated machines: how many CPUs of which model, how they are arranged, what the kubelet keeps back.

A machine is a value. What programs on it would read from /proc and /sys is derived here: the CPU facts, the
raw capacity as the kubelet computes it, and the NUMA nodes. ``model`` is None where nobody knows the CPU (a
dump of a real cluster without CPU facts): such a machine reports no facts, and the plant has no speed for
it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from corewise.quantities import Bytes, RawMilli
from corewise.simulation.contention import Memory
from corewise.simulation.cpu_models import CPUModel
from corewise.simulation.plant import Threads

KIBI = 1024
NO_CPU = RawMilli(0)
NO_MEMORY = Bytes(0)


@dataclass(frozen=True, slots=True)
class Machine:
    """One machine. ``cpus`` counts hardware threads, as the kernel does."""

    name: str
    model: CPUModel | None
    cpus: int
    memory: Bytes
    hyper_threading: bool = True
    turbo: bool = True
    sockets: int = 1
    numa_per_socket: int = 1
    reserved_cpu: RawMilli = NO_CPU
    reserved_memory: Bytes = NO_MEMORY
    max_pods: int = 110
    labels: Mapping[str, str] = field(default_factory=dict)
    other_resources: Mapping[str, str] = field(default_factory=dict)
    """Resources that corewise does not amplify (GPUs, devices), as they stand in capacity and allocatable."""
    memory_bandwidth: int = 0
    """Bytes per second that all its memory can move; 0 where nobody knows."""
    llc: Bytes = NO_MEMORY
    """Last-level cache of all its sockets."""

    @property
    def speed(self) -> float | None:
        """Nominal compute of one CPU in baseline CPUs; None if the model is unknown."""
        if self.model is None:
            return None
        return self.model.speed(hyper_threading=self.hyper_threading, turbo=self.turbo)

    @property
    def threads(self) -> Threads | None:
        """How fast its hardware threads are, with idle and with busy siblings; None if nobody knows."""
        if self.model is None:
            return None
        return self.model.threads(hyper_threading=self.hyper_threading, turbo=self.turbo)

    @property
    def memory_system(self) -> Memory | None:
        """What containers contend for in memory; None if nobody knows."""
        return Memory(float(self.memory_bandwidth), float(self.llc)) if self.memory_bandwidth else None

    @property
    def architecture(self) -> str:
        return self.model.architecture if self.model else self.labels.get("kubernetes.io/arch", "amd64")

    @property
    def raw_milli(self) -> RawMilli:
        return RawMilli(self.cpus * 1000)

    @property
    def allocatable_milli(self) -> RawMilli:
        """Raw CPU less what the kubelet keeps back."""
        return RawMilli(max(0, self.raw_milli - self.reserved_cpu))

    @property
    def capacity(self) -> dict[str, str]:
        """The node's raw capacity in the form the kubelet writes it."""
        return {
            "cpu": str(self.cpus),
            "memory": f"{self.memory // KIBI}Ki",
            "ephemeral-storage": "103079844Ki",
            "hugepages-1Gi": "0",
            "hugepages-2Mi": "0",
            "pods": str(self.max_pods),
            **self.other_resources,
        }

    @property
    def allocatable(self) -> dict[str, str]:
        """The node's raw allocatable: capacity less what is reserved."""
        milli = self.allocatable_milli
        return {
            **self.capacity,
            "cpu": str(milli // 1000) if milli % 1000 == 0 else f"{milli}m",
            "memory": f"{max(0, self.memory - self.reserved_memory) // KIBI}Ki",
            "ephemeral-storage": "94998384074",
        }

    def cpu_facts(self) -> dict[str, Any] | None:
        """Return the CPU facts as the agent reports them, or None if nobody knows the CPU."""
        if self.model is None:
            return None
        facts: dict[str, Any] = {
            "cpuModel": self.model.name,
            "hyperThreadEnabled": self.hyper_threading,
            "turboEnabled": self.turbo,
            "vendorID": self.model.vendor,
        }
        return facts | ({"catL3CbmMask": self.model.l3_mask} if self.model.l3_mask else {})

    def numa_nodes(self) -> list[tuple[int, int]]:
        """Return (CPUs, bytes of memory) of each NUMA node; what does not divide goes to the first ones."""
        count = max(1, min(self.cpus, self.sockets * self.numa_per_socket))
        cpus, more_cpus = divmod(self.cpus, count)
        memory = self.memory // count // KIBI * KIBI
        return [(cpus + (i < more_cpus), memory) for i in range(count)]
