"""The CPUs promised to a guest of a compute host, in the words of OpenStack.

A dedicated guest CPU runs on one host CPU that no other guest uses; a shared one floats over the shared CPUs
of the host. A guest with dedicated CPUs always has NUMA nodes, one at least, since each of them must lie
within one of the host's; a guest that shares all its CPUs has nodes only if it asks for them.

Source: the flavor extra specs and image properties of Nova ("CPU topologies" in its administrator guide).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from corewise.topology import CPUSet

_NO_CPUS = CPUSet()


class CPUPolicy(StrEnum):
    """``hw:cpu_policy``: whose the host CPUs are that a guest runs on."""

    SHARED = "shared"
    DEDICATED = "dedicated"
    MIXED = "mixed"


class ThreadPolicy(StrEnum):
    """``hw:cpu_thread_policy``: how dedicated CPUs lie on the cores of a host with hyperthreads."""

    PREFER = "prefer"
    ISOLATE = "isolate"
    REQUIRE = "require"


class EmulatorThreads(StrEnum):
    """``hw:emulator_threads_policy``: on a CPU of their own, or on the shared CPUs of the host."""

    SHARE = "share"
    ISOLATE = "isolate"


@dataclass(frozen=True, slots=True)
class GuestNode:
    """One NUMA node of a guest: its guest CPUs, those of them that are dedicated, and its memory in MiB."""

    cpus: CPUSet
    dedicated: CPUSet = _NO_CPUS
    memory_mb: int = 0


@dataclass(frozen=True, slots=True)
class GuestCPUs:
    """The CPUs of a guest. ``nodes`` is empty for a guest whose CPUs float over the whole host.

    ``thread_policy`` is the effective one, whether it came as a policy or as a trait; None if neither did.
    ``realtime``: the guest CPUs that are to run with a realtime scheduling policy.
    """

    vcpus: int
    policy: CPUPolicy = CPUPolicy.SHARED
    thread_policy: ThreadPolicy | None = None
    emulator: EmulatorThreads | None = None
    nodes: tuple[GuestNode, ...] = ()
    realtime: CPUSet = _NO_CPUS

    @property
    def dedicated(self) -> int:
        """The number of guest CPUs that are dedicated."""
        return sum(len(node.dedicated) for node in self.nodes)

    @property
    def is_consistent(self) -> bool:
        """Whether its nodes, if it has any, divide its CPUs, and its policy says which are dedicated."""
        named = sorted(cpu for node in self.nodes for cpu in node.cpus)
        owned = all(node.dedicated <= node.cpus and node.memory_mb >= 0 for node in self.nodes)
        expected = {
            CPUPolicy.SHARED: self.dedicated == 0,
            CPUPolicy.DEDICATED: self.dedicated == self.vcpus,
            CPUPolicy.MIXED: 0 < self.dedicated < self.vcpus,
        }[self.policy]
        if self.nodes and (len(named) != self.vcpus or named != list(range(self.vcpus))):
            return False
        return self.vcpus > 0 and owned and expected and all(0 <= cpu < self.vcpus for cpu in self.realtime)

    @property
    def host_cpus(self) -> int:
        """The number of host CPUs the guest needs for itself, with the one of isolated emulator threads."""
        return self.dedicated + (self.emulator is EmulatorThreads.ISOLATE)
