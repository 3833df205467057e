"""The files of simulated machines: what their kernels would show in /proc and /sys, and cgroups (v2).

Thousands of machines of a few shapes: what machines of one shape have in common is written once, and each
machine's tree links to it; its own are only its cgroups. And only what programs read is written: of the CPUs
of a core the first one tells of its siblings, of the cores of a NUMA node the first one tells of its cache.

::

    shapes/0/proc/{cpuinfo,meminfo,sys/kernel/random/boot_id}
    shapes/0/devices/system/{cpu,node}/…
    nodes/n1/proc                -> ../../shapes/0/proc
    nodes/n1/sys/devices         -> ../../../shapes/0/devices
    nodes/n1/sys/fs/resctrl      -> ../../../../shapes/0/resctrl     (with an L3 mask)
    nodes/n1/sys/fs/cgroup/kubepods.slice/…

Hardware threads of a core are numbered as Linux numbers them on most machines: first the first threads of all
cores, then the second ones. Cores are spread evenly over NUMA nodes, and NUMA nodes over sockets.

Counters are written where an agent reads them:

=====================================  =================================================================
file                                   holds
=====================================  =================================================================
proc/stat                              ticks of 10 ms since boot, evenly over the CPUs: user and idle
proc/meminfo                           MemTotal, MemFree, MemAvailable, Inactive(file)
cpu.stat of the best-effort slice      usage_usec, throttled_usec: the time that its own quota refused it
cpu.stat of pods that own CPUs         likewise
memory.current, memory.stat            of the best-effort slice: its pods' memory and their share of cache
=====================================  =================================================================

A container's working set is ``WORKING_SET`` of the memory it requests, from its first moment to its last; a
tenth of the machine's memory is page cache that has not been used lately. ``throttled_usec`` counts CPU time
that was wanted, where a kernel counts how long threads waited.

What machines of one shape share of /proc they go on sharing; a machine whose counters are written gets files
of its own for these two.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from corewise.kernel.cpu_facts import part_name
from corewise_lab.machine_model import Moment
from corewise_lab.machines import KIBI, CPUModel, Machine
from corewise_lab.node_cgroups import (
    BEST_EFFORT,
    MOUNT,
    WORKING_SET,
    NodeTree,
    make_best_effort_slice,
    write_files,
)

_ARM, _PARTS = 0x41, range(0xC00, 0xE00)
_CONTROLLERS = "cpuset cpu io memory pids\n"
_SLICES = ("kubepods-burstable.slice", "kubepods-besteffort.slice")
_BOOT = uuid.UUID("c0de0000-0000-4000-8000-000000000000")


@dataclass(frozen=True, slots=True)
class _Place:
    """A NUMA node: its socket, CPUs by core, and memory."""

    socket: int
    cores: tuple[tuple[int, ...], ...]
    memory: int

    @property
    def cpus(self) -> str:
        return _listed(cpu for core in self.cores for cpu in core)


class MachineFiles:
    """The trees of all machines of a run, below one folder; those of an earlier run are removed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._shapes: dict[object, Path] = {}
        if folder.exists():
            shutil.rmtree(folder)

    def root(self, name: str) -> Path:
        """Return the root directory of a machine."""
        return self._folder / "nodes" / name

    def boot_id(self, name: str) -> str:
        """Return the ID of a machine's boot, as its kernel shows it."""
        return (self.root(name) / "proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()

    def make(self, machine: Machine) -> Path:
        """Make the tree of a machine; return its root."""
        shape, root = self._shape(machine), self.root(machine.name)
        cgroup = root / "sys/fs/cgroup"
        kubepods = cgroup / "kubepods.slice"
        for name in _SLICES:
            (kubepods / name).mkdir(parents=True)
        (cgroup / "cgroup.controllers").hardlink_to(shape / "cgroup.controllers")
        (root / "proc").symlink_to(shape / "proc")
        (root / "sys/devices").symlink_to(shape / "devices")
        if (shape / "resctrl").exists():
            (root / "sys/fs/resctrl").symlink_to(shape / "resctrl")
        return root

    def _shape(self, machine: Machine) -> Path:
        key = (
            *(machine.model, machine.cpus, machine.memory, machine.hyper_threading),
            *(machine.turbo, machine.sockets, machine.numa_per_socket),
        )
        shape = self._shapes.get(key)
        if shape is None:
            shape = self._shapes[key] = self._folder.absolute() / "shapes" / str(len(self._shapes))
            boot_id = str(uuid.uuid5(_BOOT, repr(key)))
            for path, content in (*_files(machine), ("proc/sys/kernel/random/boot_id", boot_id)):
                file = shape / path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(f"{content}\n", encoding="utf-8")
            (shape / "cgroup.controllers").write_text(_CONTROLLERS, encoding="ascii")
        return shape


def _files(machine: Machine) -> Iterator[tuple[str, object]]:
    """Yield paths and contents of the files that machines of this shape have in common."""
    places = _places(machine)
    yield "proc/meminfo", f"MemTotal:       {machine.memory // KIBI} kB"
    if machine.model is None:
        # This CPU is unknown: what cannot be read is reported as missing, not as a model named so.
        yield "proc/cpuinfo/unknown", ""
    else:
        yield "proc/cpuinfo", _cpuinfo(machine.model)
        if machine.model.l3_mask:
            yield "resctrl/info/L3/cbm_mask", machine.model.l3_mask
        if "Intel" in machine.model.vendor:
            yield "devices/system/cpu/intel_pstate/no_turbo", int(not machine.turbo)
        else:
            yield "devices/system/cpu/cpufreq/boost", int(machine.turbo)
    every = _listed(range(machine.cpus))
    yield from ((f"devices/system/cpu/{name}", every) for name in ("online", "present"))
    yield "devices/system/cpu/smt/active", int(machine.hyper_threading)
    for number, place in enumerate(places):
        yield from _numa_node(number, place)


def _numa_node(number: int, place: _Place) -> Iterator[tuple[str, object]]:
    node = f"devices/system/node/node{number}"
    yield f"{node}/cpulist", place.cpus
    yield f"{node}/meminfo", f"Node {number} MemTotal:       {place.memory // KIBI} kB"
    for core in place.cores:
        topology = f"devices/system/cpu/cpu{core[0]}/topology"
        yield f"{topology}/core_cpus_list", _listed(core)
        yield f"{topology}/physical_package_id", place.socket
    if place.cores:
        cache = f"devices/system/cpu/cpu{place.cores[0][0]}/cache/index3"
        contents: Mapping[str, object] = {"level": 3, "type": "Unified", "id": number}
        yield from ((f"{cache}/{name}", content) for name, content in contents.items())
        yield f"{cache}/shared_cpu_list", place.cpus


def _places(machine: Machine) -> list[_Place]:
    numa_nodes = machine.numa_nodes
    memory = machine.memory // numa_nodes // KIBI * KIBI
    threads = 2 if machine.hyper_threading else 1
    cores = -(-machine.cpus // threads)
    members = [tuple(cpu for cpu in range(core, machine.cpus, cores)) for core in range(cores)]
    bounds = [cores * number // numa_nodes for number in range(numa_nodes + 1)]
    return [
        _Place(number * machine.sockets // numa_nodes, tuple(members[first:last]), memory)
        for number, (first, last) in enumerate(pairwise(bounds))
    ]


def _cpuinfo(model: CPUModel) -> str:
    part = next((part for part in _PARTS if part_name(_ARM, part) == model.name), None)
    if part is not None:
        return f"processor\t: 0\nCPU implementer\t: {_ARM:#x}\nCPU part\t: {part:#x}"
    return f"processor\t: 0\nvendor_id\t: {model.vendor}\nmodel name\t: {model.name}"


def _listed(cpus: Iterator[int] | range | tuple[int, ...]) -> str:
    """Return CPUs as the kernel lists them, though without ranges."""
    if isinstance(cpus, range):
        return f"{cpus.start}-{cpus.stop - 1}" if len(cpus) > 1 else str(cpus.start)
    return ",".join(map(str, sorted(cpus)))


CACHE = 0.1
_TICKS = 100
_MICRO = 1_000_000


class NodeCounters:
    """The counters of one machine, from its boot on."""

    def __init__(self, root: Path, machine: Machine) -> None:
        self._root = root
        self._machine = machine
        self._uptime = 0.0
        self._busy = 0.0
        self._usage: dict[str, float] = {}
        self._throttled: dict[str, float] = {}
        own_proc(root)
        make_best_effort_slice(root)

    def add(self, seconds: float, tree: NodeTree, moment: Moment) -> None:
        """Advance the counters by seconds in which cgroups got what ``moment`` says."""
        self._uptime += seconds
        self._busy += moment.busy * seconds
        for index, cgroup in enumerate(tree.tree.cgroups):
            path = cgroup.path
            if path == BEST_EFFORT or path in tree.owners:
                self._usage[path] = self._usage.get(path, 0.0) + moment.time[index] * seconds
                self._throttled[path] = self._throttled.get(path, 0.0) + moment.refused[index] * seconds

    def write(self, tree: NodeTree) -> None:
        """Write all files; what is no longer in the tree is forgotten."""
        there = tree.tree.index
        self._usage = {path: usage for path, usage in self._usage.items() if path in there}
        self._throttled = {path: time for path, time in self._throttled.items() if path in there}
        cgroups = self._root / MOUNT
        for path, usage in self._usage.items():
            throttled = self._throttled[path]
            text = f"usage_usec {round(usage * _MICRO)}\nthrottled_usec {round(throttled * _MICRO)}"
            if (cgroups / path).is_dir():
                write_files(cgroups / path, {"cpu.stat": text})
        write_files(self._root / "proc", {"stat": self._stat()})
        self._write_memory(tree)

    def _stat(self) -> str:
        cpus = self._machine.cpus
        total, busy = int(self._uptime * _TICKS), int(self._busy / cpus * _TICKS)
        each = f"{busy} 0 0 {max(0, total - busy)} 0 0 0 0 0 0"
        every = f"{busy * cpus} 0 0 {max(0, total - busy) * cpus} 0 0 0 0 0 0"
        return "\n".join([f"cpu  {every}", *(f"cpu{cpu} {each}" for cpu in range(cpus))])

    def _write_memory(self, tree: NodeTree) -> None:
        total, cache = self._machine.memory, int(self._machine.memory * CACHE)
        offline = working_set([task.container.memory for task in tree.tasks if task.best_effort])
        used = min(total - cache, working_set([task.container.memory for task in tree.tasks]))
        theirs = cache * offline // used if used else 0
        free = total - used - cache
        lines = {"MemTotal": total, "MemFree": free, "MemAvailable": free + cache, "Inactive(file)": cache}
        meminfo = [f"{name}: {size // KIBI} kB" for name, size in lines.items()]
        write_files(self._root / "proc", {"meminfo": "\n".join(meminfo)})
        memory = {"memory.current": str(offline + theirs), "memory.stat": f"inactive_file {theirs}"}
        write_files(self._root / MOUNT / BEST_EFFORT, memory)


def own_proc(root: Path) -> None:
    """Give a machine a /proc of its own, in which everything but what it counts is still shared."""
    proc = root / "proc"
    if not proc.is_symlink():
        return
    shared = proc.resolve()
    proc.unlink()
    proc.mkdir()
    for entry in shared.iterdir():
        if entry.name != "meminfo":
            (proc / entry.name).symlink_to(entry)


def working_set(requests: Sequence[int]) -> int:
    """Return the memory in use, in bytes, given the containers' requests."""
    return sum(requests) * WORKING_SET // 100
