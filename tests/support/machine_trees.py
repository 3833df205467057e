"""Trees of /proc and /sys as kernels of several machines have them, written below a directory.

Each function makes one machine of its real counterpart's shape: the files that corewise reads, with the
contents that Linux gives them. ``cpu(...)`` takes what differs from CPU to CPU.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

CPUS = "sys/devices/system/cpu"
NODES = "sys/devices/system/node"


class Tree:
    """A root directory that files are put into."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def put(self, path: str, content: object) -> Tree:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{content}\n")
        return self

    def cpu(self, cpu: int, *, siblings: str, package: int, core_id: int = 0) -> Tree:
        where = f"{CPUS}/cpu{cpu}/topology"
        self.put(f"{where}/core_cpus_list", siblings)
        self.put(f"{where}/thread_siblings_list", siblings)
        self.put(f"{where}/core_id", core_id)
        return self.put(f"{where}/physical_package_id", package)

    def cache(self, cpu: int, *, shared: str, size: str, number: int | None, index: int = 3) -> Tree:
        """Add a level of data cache, with smaller private ones below it."""
        for private, (level, kind) in enumerate([(1, "Data"), (1, "Instruction")]):
            where = f"{CPUS}/cpu{cpu}/cache/index{private}"
            self.put(f"{where}/level", level).put(f"{where}/type", kind)
            self.put(f"{where}/shared_cpu_list", cpu).put(f"{where}/size", "32K").put(f"{where}/id", cpu)
        where = f"{CPUS}/cpu{cpu}/cache/index{index}"
        self.put(f"{where}/level", index).put(f"{where}/type", "Unified")
        self.put(f"{where}/shared_cpu_list", shared).put(f"{where}/size", size)
        return self if number is None else self.put(f"{where}/id", number)

    def node(self, node: int, cpus: str, *, kib: int, hugepages: Mapping[int, int] | None = None) -> Tree:
        """Add a NUMA node; ``hugepages`` maps page sizes in KiB to counts."""
        where = f"{NODES}/node{node}"
        self.put(f"{where}/cpulist", cpus)
        self.put(f"{where}/meminfo", f"Node {node} MemTotal:       {kib} kB\nNode {node} MemFree: 1024 kB")
        for size, number in (hugepages or {}).items():
            self.put(f"{where}/hugepages/hugepages-{size}kB/nr_hugepages", number)
        return self

    def links(self, node: int, cpus: Iterable[int]) -> Tree:
        """Link CPUs to their node, as the kernel does for online and offline ones."""
        for cpu in cpus:
            directory = self.root / f"{CPUS}/cpu{cpu}"
            directory.mkdir(parents=True, exist_ok=True)
            (directory / f"node{node}").symlink_to(f"../../node/node{node}")
        return self

    def cpulists(self, online: str, present: str) -> Tree:
        return self.put(f"{CPUS}/online", online).put(f"{CPUS}/present", present)

    def meminfo(self, kib: int) -> Tree:
        return self.put("proc/meminfo", f"MemTotal:       {kib} kB\nMemFree:        4096 kB")

    def x86(self, model: str, vendor: str) -> Tree:
        fields = f"processor\t: 0\nvendor_id\t: {vendor}\nmodel\t\t: 85\nmodel name\t: {model}\nflags\t\t: ht"
        return self.put("proc/cpuinfo", f"{fields}\n\n{fields.replace(model, 'Another')}\n")

    def arm(self, *parts: str, implementer: str = "0x41") -> Tree:
        blocks = [
            f"processor\t: {cpu}\nBogoMIPS\t: 50.00\nFeatures\t: fp asimd\nCPU implementer\t: {implementer}\n"
            f"CPU architecture: 8\nCPU variant\t: 0x3\nCPU part\t: {part}\nCPU revision\t: 1\n"
            for cpu, part in enumerate(parts)
        ]
        return self.put("proc/cpuinfo", "\n".join(blocks))


def intel(root: Path) -> Tree:
    """2 sockets x 4 cores x 2 threads, 2 NUMA nodes; hyper-threading and turbo on, resctrl mounted."""
    tree = Tree(root).x86("Intel(R) Xeon(R) Gold 6252 CPU @ 2.10GHz", "GenuineIntel").meminfo(395_000_000)
    tree.cpulists("0-15", "0-15").put(f"{CPUS}/smt/active", 1).put(f"{CPUS}/intel_pstate/no_turbo", 0)
    tree.put("sys/fs/resctrl/info/L3/cbm_mask", "7ff")
    for cpu in range(16):
        core, socket = cpu % 8, cpu % 8 // 4
        tree.cpu(cpu, siblings=f"{core},{core + 8}", package=socket, core_id=core % 4)
        shared = f"{socket * 4}-{socket * 4 + 3},{socket * 4 + 8}-{socket * 4 + 11}"
        tree.cache(cpu, shared=shared, size="36608K", number=socket)
    for node in range(2):
        cpus = f"{node * 4}-{node * 4 + 3},{node * 4 + 8}-{node * 4 + 11}"
        tree.node(node, cpus, kib=197_000_000, hugepages={2048: 1024 * (node + 1), 1048576: 4})
        tree.links(node, [*range(node * 4, node * 4 + 4), *range(node * 4 + 8, node * 4 + 12)])
    return tree


def epyc(root: Path) -> Tree:
    """2 sockets x 4 caches x 2 cores x 2 threads, NPS2: 2 NUMA nodes a socket; amd-pstate, boost on.

    The kernel numbers cores from 0 on every die, and leaves holes in the ids of caches.
    """
    tree = Tree(root).x86("AMD EPYC 7402 24-Core Processor", "AuthenticAMD").meminfo(263_000_000)
    tree.cpulists("0-31", "0-31").put(f"{CPUS}/smt/active", 1).put(f"{CPUS}/cpufreq/boost", 1)
    for cpu in range(32):
        core = cpu % 16
        first = core // 2 * 2
        tree.cpu(cpu, siblings=f"{core},{core + 16}", package=core // 8, core_id=core % 2)
        shared = f"{first}-{first + 1},{first + 16}-{first + 17}"
        tree.cache(cpu, shared=shared, size="16384K", number=first)
    for node in range(4):
        first = node * 4
        tree.node(node, f"{first}-{first + 3},{first + 16}-{first + 19}", kib=65_000_000)
    return tree


def smt_off(root: Path) -> Tree:
    """One socket, 4 cores whose second threads 4-7 are offline since ``nosmt``; turbo switched off."""
    tree = Tree(root).x86("Intel(R) Xeon(R) CPU E5-2682 v4 @ 2.50GHz", "GenuineIntel").meminfo(16_000_000)
    tree.cpulists("0-3", "0-7").put(f"{CPUS}/smt/active", 0).put(f"{CPUS}/intel_pstate/no_turbo", 1)
    for cpu in range(4):
        tree.cpu(cpu, siblings=str(cpu), package=0, core_id=cpu)
        tree.cache(cpu, shared="0-3", size="40960K", number=0)
    return tree.node(0, "0-3", kib=16_000_000).links(0, range(8))


def offline(root: Path) -> Tree:
    """The Intel machine with CPUs 1, 9 and 14 offline: one core is gone, one has a single thread."""
    tree = intel(root).cpulists("0,2-8,10-13,15", "0-15")
    for cpu in (1, 9, 14):
        for path in sorted((root / f"{CPUS}/cpu{cpu}").rglob("*"), reverse=True):
            if path.is_file() and not path.is_symlink():
                path.unlink()
            elif path.is_dir() and not path.is_symlink():
                path.rmdir()
    tree.cpu(6, siblings="6", package=1, core_id=2)
    tree.put(f"{NODES}/node0/cpulist", "0,2-3,8,10-11")
    return tree.put(f"{NODES}/node1/cpulist", "4-7,12-13,15")


def neoverse(root: Path) -> Tree:
    """An ARM server without model names, SMT, frequency files and ids of caches: 4 Neoverse-N1."""
    tree = Tree(root).arm(*["0xd0c"] * 4).meminfo(16_200_000).cpulists("0-3", "0-3")
    tree.put(f"{CPUS}/smt/active", 0)
    for cpu in range(4):
        tree.cpu(cpu, siblings=str(cpu), package=0, core_id=cpu)
        tree.cache(cpu, shared="0-3", size="32768K", number=None)
    return tree.node(0, "0-3", kib=16_200_000, hugepages={2048: 0, 64: 16})


def big_little(root: Path) -> Tree:
    """An ARM board: 4 Cortex-A53 and 2 Cortex-A72, no NUMA, no ACPI (package -1), one L2 a cluster."""
    tree = Tree(root).arm(*["0xd03"] * 4, *["0xd08"] * 2).meminfo(3_900_000).cpulists("0-5", "0-5")
    for cpu in range(6):
        big = cpu >= 4
        tree.cpu(cpu, siblings=str(cpu), package=-1, core_id=cpu % 4)
        tree.put(f"{CPUS}/cpu{cpu}/cpu_capacity", 1024 if big else 446)
        shared, size = ("4-5", "1024K") if big else ("0-3", "512K")
        tree.cache(cpu, shared=shared, size=size, number=None, index=2)
    return tree.put("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", 64)


def hybrid(root: Path) -> Tree:
    """A hybrid Intel processor: 2 cores with 2 threads (0-3), 4 with one (4-7), all under one L3."""
    tree = Tree(root).x86("13th Gen Intel(R) Core(TM) i5-1335U", "GenuineIntel").meminfo(16_000_000)
    tree.cpulists("0-7", "0-7").put(f"{CPUS}/smt/active", 1).put(f"{CPUS}/intel_pstate/no_turbo", 0)
    tree.put("sys/devices/cpu_core/cpus", "0-3").put("sys/devices/cpu_atom/cpus", "4-7")
    for cpu in range(8):
        siblings = f"{cpu // 2 * 2}-{cpu // 2 * 2 + 1}" if cpu < 4 else str(cpu)
        tree.cpu(cpu, siblings=siblings, package=0, core_id=cpu)
        tree.cache(cpu, shared="0-7", size="12288K", number=0)
    return tree.node(0, "0-7", kib=16_000_000)


def bare_vm(root: Path) -> Tree:
    """A virtual machine whose kernel tells no caches, no NUMA nodes and no topology."""
    tree = Tree(root).x86("QEMU Virtual CPU version 2.5+", "GenuineIntel").meminfo(4_000_000)
    for cpu in range(4):
        (root / f"{CPUS}/cpu{cpu}").mkdir(parents=True)
    return tree.cpulists("0-3", "0-3")


def sub_numa(root: Path) -> Tree:
    """One socket whose L3 spans 2 NUMA nodes (sub-NUMA clustering), and a node 2 with memory only."""
    tree = Tree(root).x86("Intel(R) Xeon(R) Platinum 8480+", "GenuineIntel").meminfo(48_000_000)
    tree.cpulists("0-7", "0-7").put(f"{CPUS}/smt/active", 0).put(f"{CPUS}/cpufreq/boost", 0)
    for cpu in range(8):
        tree.cpu(cpu, siblings=str(cpu), package=0, core_id=cpu).cache(
            cpu, shared="0-7", size="105M", number=0
        )
    tree.node(0, "0-3", kib=16_000_000).node(1, "4-7", kib=16_000_000)
    return tree.node(2, "", kib=16_000_000)


MACHINES = {
    each.__name__: each
    for each in (intel, epyc, smt_off, offline, neoverse, big_little, hybrid, bare_vm, sub_numa)
}
