"""The virtual machines that the tests boot, as qemu is told about them.

Not every machine can be emulated in software: qemu has no topology extension for CPUs of AMD there (only with
KVM), so that threads count as cores, and the AMD model has one thread a core.
"""

from __future__ import annotations

from dataclasses import dataclass

from corewise.topology import CPUSet

MEBI = 1 << 20


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine whose CPUs are counted thread by thread; ``numa`` has each node's memory in MiB and CPUs.

    On one that ``runs_agent`` the agent runs as a program, which takes its time under emulation.
    """

    name: str
    qemu_model: str
    model: str
    vendor: str
    sockets: int
    cores: int
    threads: int
    numa: tuple[tuple[int, str], ...]
    caches: tuple[str, ...]
    runs_agent: bool = False
    guest: str = "node.guest"
    """The module that runs in it."""
    tells: tuple[str, ...] = ()
    """Arguments of that module, after the file of its results."""
    qemu: tuple[str, ...] = ()
    """More options of qemu."""
    longest: int = 1200
    """Seconds for one boot, from the start to power off. Undisturbed it takes about 100."""

    @property
    def cpus(self) -> int:
        return self.sockets * self.cores * self.threads

    @property
    def memory(self) -> int:
        return sum(memory for memory, _ in self.numa)

    def groups(self, size: int) -> list[str]:
        """Return all CPUs in groups of a size, as the kernel lists them."""
        return [str(CPUSet.of(range(first, first + size))) for first in range(0, self.cpus, size)]

    @property
    def arguments(self) -> list[str]:
        """The arguments of virtme-run for this machine, ``--qemu-opts`` last."""
        shape = f"{self.cpus},sockets={self.sockets},cores={self.cores},threads={self.threads}"
        nodes = (
            f"{memory}M{''.join(f',cpus={each}' for each in cpus.split(',') if each)}"
            for memory, cpus in self.numa
        )
        return [
            f"--cpus={shape}",
            f"--memory={self.memory}M",
            *(f"--numa={node}" for node in nodes),
            "--qemu-opts",
            "-cpu",
            f"{self.qemu_model},model-id={self.model}",
            *self.qemu,
        ]


MACHINES = (
    Machine(
        name="intel-2-sockets",
        qemu_model="Haswell",
        model="Intel(R) Xeon(R) CPU E5-2682 v4 @ 2.50GHz",
        vendor="GenuineIntel",
        sockets=2,
        cores=4,
        threads=2,
        numa=((1024, "0-7"), (1024, "8-15")),
        caches=("0-7", "8-15"),
    ),
    Machine(
        name="amd-2-nodes-per-socket",
        qemu_model="EPYC",
        model="AMD EPYC 9654 96-Core Processor",
        vendor="AuthenticAMD",
        sockets=1,
        cores=8,
        threads=1,
        numa=((1024, "0-3"), (1024, "4-7")),
        caches=("0-3", "4-7"),
    ),
    Machine(
        name="intel-without-smt",
        qemu_model="Skylake-Server",
        model="Intel(R) Xeon(R) Platinum 8269CY CPU @ 2.50GHz",
        vendor="GenuineIntel",
        sockets=2,
        cores=2,
        threads=1,
        numa=((1024, "0-3"), (512, "")),
        caches=("0-1", "2-3"),
        runs_agent=True,
    ),
)
