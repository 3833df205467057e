"""Simulated machines, and how fast their CPUs are: a catalog of real CPU models with assumed speeds.

A machine is a value: how many CPUs of which model, how they are arranged, what the kubelet reserves. From it
follow the CPU facts, the raw capacity as the kubelet computes it, and the NUMA nodes. ``model`` is None where
the CPU is unknown (a dump of a real cluster without CPU facts): such a machine reports no facts, and the
model of its CPUs (:mod:`plant`) has no speed for it.

The unit is the *baseline CPU*: one hardware thread of an Intel Xeon E5-2682 v4 with hyper-threading on and
turbo off, all threads busy. A model states three numbers, and the speed of one of its CPUs follows:

    speed = core_speed x (turbo_gain if turbo) x (thread_share if hyper-threading)

``core_speed`` is one core running one thread at its base clock, ``turbo_gain`` what turbo adds with all
cores busy, ``thread_share`` what each of two busy threads of a core gets. In this *nominal* speed a thread's
sibling counts as busy always: that is what a request can rely on, and what measuring "all cores, both
threads" measures. A thread whose sibling idles has the whole core; the plant counts with both.

The figures are assumptions, of the size that public per-core integer throughput results have for these
models; they are not measurements. Nothing but the plant reads them: corewise sees a model's name and
settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from corewise.quantities import MILLI, Bytes, RawMilli
from corewise_lab.contention import Memory
from corewise_lab.machine_model import ThreadSpeeds


@dataclass(frozen=True, slots=True)
class CPUModel:
    """A CPU model as the kernel names it, and its assumed speeds."""

    name: str
    vendor: str
    architecture: str
    core_speed: float | None
    turbo_gain: float = 1.0
    thread_share: float = 1.0
    l3_mask: str = ""

    def speed(self, *, hyper_threading: bool, turbo: bool) -> float | None:
        """Return the compute of one of its CPUs, in baseline CPUs; None if unknown."""
        if self.core_speed is None:
            return None
        gain = self.turbo_gain if turbo else 1.0
        return self.core_speed * gain * (self.thread_share if hyper_threading else 1.0)

    def threads(self, *, hyper_threading: bool, turbo: bool) -> ThreadSpeeds | None:
        """Return the speeds of its threads, with idle and with busy siblings; None if unknown."""
        nominal = self.speed(hyper_threading=hyper_threading, turbo=turbo)
        lone = self.speed(hyper_threading=False, turbo=turbo)
        return None if nominal is None or lone is None else ThreadSpeeds(lone, nominal)


def _intel(name: str, core_speed: float, turbo_gain: float, thread_share: float, l3_mask: str) -> CPUModel:
    return CPUModel(name, "GenuineIntel", "amd64", core_speed, turbo_gain, thread_share, l3_mask)


def _amd(name: str, core_speed: float, turbo_gain: float, thread_share: float) -> CPUModel:
    return CPUModel(name, "AuthenticAMD", "amd64", core_speed, turbo_gain, thread_share, "ffff")


def _arm(name: str, core_speed: float) -> CPUModel:
    return CPUModel(name, "ARM", "arm64", core_speed)


CATALOG: Mapping[str, CPUModel] = MappingProxyType(
    {
        model.name: model
        for model in (
            _intel("Intel(R) Xeon(R) CPU E5-2682 v4 @ 2.50GHz", 1.613, 1.158, 0.620, "fffff"),
            _intel("Intel(R) Xeon(R) Platinum 8163 CPU @ 2.50GHz", 1.832, 1.079, 0.624, "7ff"),
            _intel("Intel(R) Xeon(R) Platinum 8269CY CPU @ 2.50GHz", 1.908, 1.276, 0.624, "7ff"),
            _intel("Intel(R) Xeon(R) Platinum 8369B CPU @ 2.70GHz", 2.391, 1.293, 0.628, "fff"),
            _intel("Intel(R) Xeon(R) Platinum 8375C CPU @ 2.90GHz", 2.478, 1.172, 0.628, "fff"),
            _intel("Intel(R) Xeon(R) Platinum 8475B", 2.714, 1.186, 0.631, "7fff"),
            _intel("Intel(R) Xeon(R) Platinum 8488C", 2.653, 1.244, 0.631, "7fff"),
            _amd("AMD EPYC 7763 64-Core Processor", 2.487, 1.247, 0.641),
            _amd("AMD EPYC 7R13 Processor", 2.512, 1.214, 0.641),
            _amd("AMD EPYC 9654 96-Core Processor", 2.941, 1.327, 0.643),
            _arm("Neoverse-N1", 2.034),
            _arm("Neoverse-N2", 2.462),
            _arm("Neoverse-V1", 2.613),
        )
    }
)
"""The models the local cluster knows, by the name that stands in the CPU facts."""


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
    """Bytes per second that all its memory can move; 0 if unknown."""
    llc: Bytes = NO_MEMORY
    """Last-level cache of all its sockets."""

    @property
    def speed(self) -> float | None:
        """Nominal compute of one CPU in baseline CPUs; None if the model is unknown."""
        if self.model is None:
            return None
        return self.model.speed(hyper_threading=self.hyper_threading, turbo=self.turbo)

    @property
    def threads(self) -> ThreadSpeeds | None:
        """The speeds of its hardware threads, with idle and with busy siblings; None if unknown."""
        if self.model is None:
            return None
        return self.model.threads(hyper_threading=self.hyper_threading, turbo=self.turbo)

    @property
    def memory_system(self) -> Memory | None:
        """The memory resources that containers contend for; None if unknown."""
        return Memory(float(self.memory_bandwidth), float(self.llc)) if self.memory_bandwidth else None

    @property
    def architecture(self) -> str:
        return self.model.architecture if self.model else self.labels.get("kubernetes.io/arch", "amd64")

    @property
    def raw_milli(self) -> RawMilli:
        return RawMilli(self.cpus * MILLI)

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
            "cpu": str(milli // MILLI) if milli % MILLI == 0 else f"{milli}m",
            "memory": f"{max(0, self.memory - self.reserved_memory) // KIBI}Ki",
            "ephemeral-storage": "94998384074",
        }

    def cpu_facts(self) -> dict[str, Any] | None:
        """Return the CPU facts as the agent reports them, or None if the CPU is unknown."""
        if self.model is None:
            return None
        facts: dict[str, Any] = {
            "cpuModel": self.model.name,
            "hyperThreadEnabled": self.hyper_threading,
            "turboEnabled": self.turbo,
            "vendorID": self.model.vendor,
        }
        return facts | ({"catL3CbmMask": self.model.l3_mask} if self.model.l3_mask else {})

    @property
    def numa_nodes(self) -> int:
        return max(1, min(self.cpus, self.sockets * self.numa_per_socket))
